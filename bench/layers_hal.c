/*
 * The lowest layer: HAL shm by itself, without libpulc, ports or psid.
 *
 * What psid does for a link is done before the two processes part: each end's slab, which the other
 * one sees, and the line that both write. A message goes in one frame as long as the HAL prefers
 * that, or in pieces of the length that its model says; a short one by the HAL's way for messages
 * at once. Nobody sleeps, so nobody is told.
 */
#include "layers.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "macros.h"
#include "shm.h"

#define CLIENT(i) (7u + (i))
#define LINE_OF_FIRST SHM_LINE_NAME(CLIENT(0), 11)

/* As psid's configuration has them. */
static const uint32_t size_rings[SHM_N_RINGS] = { 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20 };

static struct {
	int fd[2];
	uint64_t size[2];
	struct shm_exchange *line;
} both;

static struct hal_end {
	struct shm_slab_map own, seen;
	struct hal_link *link;
} here;

static bool grant(uint64_t size)
{
	(void)size;
	return true;
}

static void take_back(uint64_t size)
{
	(void)size;
}

static void wake_nobody(uint64_t watch)
{
	(void)watch;
}

static struct shm_exchange *find_line(uint32_t client, uint64_t name)
{
	return client == CLIENT(0) && name == LINE_OF_FIRST ? both.line : NULL;
}

static void return_line(const struct hal_shm_line *line, bool peer_is_done)
{
	(void)line, (void)peer_is_done;
}

static int prepare(void)
{
	for (int i = 0; i < 2; i++) {
		both.fd[i] = shm_slab_new(size_rings, 1, &both.size[i]);
		if (both.fd[i] < 0)
			return both.fd[i];
	}
	both.line = mmap(NULL, sizeof(*both.line), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return both.line == MAP_FAILED ? -errno : 0;
}

static int open_hal(struct bench_end *end)
{
	int own = end->server ? 0 : 1, r;
	const struct hal_shm_line line = own == 0 ? (struct hal_shm_line){ both.line, LINE_OF_FIRST,
									   CLIENT(1), true }
						  : (struct hal_shm_line){ .client = CLIENT(0) };

	hal_shm_take_credit = grant;
	hal_shm_return_credit = take_back;
	hal_shm_wake = wake_nobody;
	hal_shm_find_line = find_line;
	hal_shm_return_line = return_line;
	r = shm_slab_map(both.fd[own], both.size[own], true, &here.own);
	if (r == 0)
		r = shm_slab_map(both.fd[!own], both.size[!own], false, &here.seen);
	if (r == 0)
		r = hal_shm_open(&here.own, 0, &here.seen, 0, &here.link);
	if (r == 0)
		hal_shm_share(here.link, &line);
	return r;
}

static uint32_t piece_of(const struct hal_link *link, size_t size)
{
	return size <= link->caps.frame_good ? (uint32_t)size
					     : hal_piece(&link->costs, size, link->caps.frame_max);
}

static int send_piece(struct hal_link *link, const char *from, uint32_t len)
{
	const struct hal_frame f = { .protocol = 1, .len = len };
	struct iovec iov = { (char *)from, len };

	return len && len <= link->caps.inline_max ? link->ops->put(link, f, from)
						   : link->ops->send(link, &f, &iov, 1);
}

/* One frame, if one is there; *done grows by its payload. 1: there was one. */
static int take_piece(struct hal_link *link, char *to, size_t room, size_t *done)
{
	struct iovec iov = { to, room };
	struct hal_frame f;
	int r = link->ops->next(link, &f);

	if (r > 0) {
		*done += link->ops->copy(link, &iov, 1);
		link->ops->drop(link);
	}
	return r;
}

/* A message that may be one frame of the shortest kind. */
static int take_short(struct hal_link *link, char *to, size_t size)
{
	const struct hal_wanted w = {
		.protocol = 1, .len_max = (uint32_t)size, .buf = to, .size = size
	};
	struct hal_frame f;
	size_t done = 0;
	int r;

	do {
		r = link->ops->take(link, &w, &f);
		if (r == 0)
			r = take_piece(link, to, size, &done);
	} while (r == 0);
	return r < 0 ? r : 0;
}

static int move(struct bench_end *end, bool send, bool receive)
{
	struct hal_link *link = here.link;
	uint32_t piece = piece_of(link, end->size);
	size_t sent = 0, come = 0;
	int r;

	if (receive && !send && end->size && end->size <= link->caps.inline_max)
		return take_short(link, end->in, end->size);
	while (send || receive) {
		uint32_t len = (uint32_t)MIN(piece, end->size - sent);

		r = send ? send_piece(link, end->out + sent, len) : -EAGAIN;
		if (r < 0 && r != -EAGAIN)
			return r;
		sent += r >= 0 ? len : 0;
		send = send && (r < 0 || sent < end->size);
		r = receive ? take_piece(link, end->in + come, end->size - come, &come) : 0;
		if (r < 0)
			return r;
		receive = receive && (r == 0 || come < end->size);
	}
	return 0;
}

static void close_hal(struct bench_end *end)
{
	(void)end;
	if (here.link)
		here.link->ops->close(here.link);
}

const struct bench_way bench_way_hal = { "hal", prepare, open_hal, move, close_hal };
