/*
 * A transport that loses, doubles and overtakes frames, and carries only small ones, beneath
 * programs of the native suite.
 *
 * The programs are linked with the library's objects, and two of its calls come here instead
 * (--wrap, rules.mk): a link of HAL shm is opened as ever, and what libpulc gets is one over it
 * that does not promise what it cannot keep. So libpulc has to mend it, and the program must not
 * see a difference.
 *
 * Which frames suffer follows from one generator for each process. A late frame waits until some
 * others have overtaken it. At the end of the program what the peer has not acknowledged is sent
 * until it has: a process that is gone repeats nothing. Then it says on standard error how many
 * were lost, doubled and late.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "macros.h"
#include "repair.h"
#include "shm.h"

/* Of a thousand frames. */
#define N_LOST 20u
#define N_TWICE 20u
#define N_LATE 50u
#define N_OVERTAKE 5u
#define N_HELD 4u
#define SIZE_FRAME_MAX 4000u
#define N_LINKS 16u
#define NSEC_FLUSH (20 * NSEC_PER_SEC)

int __real_hal_shm_open(const struct shm_slab_map *own, uint32_t own_slot,
			const struct shm_slab_map *peer, uint32_t peer_slot,
			struct hal_link **ret_link);
int __wrap_hal_shm_open(const struct shm_slab_map *own, uint32_t own_slot,
			const struct shm_slab_map *peer, uint32_t peer_slot,
			struct hal_link **ret_link);
void __real_hal_shm_share(struct hal_link *link, const struct hal_shm_line *line);
void __wrap_hal_shm_share(struct hal_link *link, const struct hal_shm_line *line);
int __real_hal_repair_open(struct hal_link *below, const struct hal_repair_config *config,
			   struct hal_link **ret_link);
int __wrap_hal_repair_open(struct hal_link *below, const struct hal_repair_config *config,
			   struct hal_link **ret_link);

struct held {
	struct hal_frame frame;
	unsigned n_to_come; /* frames that go first; 0: free */
	unsigned char data[SIZE_FRAME_MAX];
};

struct lossy {
	struct hal_link link;
	struct hal_link *below;
	struct hal_link *mended; /* over this one */
	struct held held[N_HELD];
};

static struct lossy *links[N_LINKS];
static uint64_t state = 88172645463325252ull;
static unsigned n_lost, n_twice, n_late;

static struct lossy *of(const struct hal_link *link)
{
	return CONTAINER_OF(link, struct lossy, link);
}

static unsigned chance(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 20) % 1000;
}

static bool holds_any(const struct lossy *l)
{
	bool any = false;

	for (unsigned i = 0; i < N_HELD; i++)
		any |= l->held[i].n_to_come > 0;
	return any;
}

/* Another one has gone, or had the time to. */
static void let_go(struct lossy *l)
{
	for (unsigned i = 0; i < N_HELD; i++) {
		struct held *h = &l->held[i];
		struct iovec iov = { h->data, h->frame.len };

		if (h->n_to_come > 1)
			h->n_to_come--;
		else if (h->n_to_come == 1 &&
			 l->below->ops->send(l->below, &h->frame, &iov, 1) == 0)
			h->n_to_come = 0;
	}
}

static bool hold_back(struct lossy *l, const struct hal_frame *f, const struct iovec *iov,
		      unsigned n)
{
	size_t at = 0;

	for (unsigned i = 0; i < N_HELD; i++) {
		struct held *h = &l->held[i];

		if (h->n_to_come)
			continue;
		for (unsigned k = 0; k < n && at < f->len; k++) {
			size_t len = MIN(iov[k].iov_len, f->len - at);

			memcpy(h->data + at, iov[k].iov_base, len);
			at += len;
		}
		h->frame = *f;
		h->n_to_come = N_OVERTAKE;
		return true;
	}
	return false;
}

static int lossy_send(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		      unsigned n)
{
	struct lossy *l = of(link);
	bool lost = chance() < N_LOST, twice = chance() < N_TWICE, late = chance() < N_LATE;
	int e = 0;

	if (f->len > link->caps.frame_max || n > link->caps.n_gather)
		abort();
	let_go(l);
	if (lost)
		n_lost++;
	else if (late && hold_back(l, f, iov, n))
		n_late++;
	else
		e = l->below->ops->send(l->below, f, iov, n);
	if (e == 0 && twice && l->below->ops->send(l->below, f, iov, n) == 0)
		n_twice++;
	return e;
}

static int lossy_next(struct hal_link *link, struct hal_frame *ret_f)
{
	struct lossy *l = of(link);
	int e = l->below->ops->next(l->below, ret_f);

	link->shown = l->below->shown;
	return e;
}

static size_t lossy_copy(struct hal_link *link, const struct iovec *iov, unsigned n)
{
	return of(link)->below->ops->copy(of(link)->below, iov, n);
}

static void lossy_drop(struct hal_link *link)
{
	of(link)->below->ops->drop(of(link)->below);
}

static int lossy_progress(struct hal_link *link)
{
	let_go(of(link));
	return of(link)->below->ops->progress(of(link)->below);
}

static bool lossy_pending(const struct hal_link *link)
{
	return holds_any(of(link)) || of(link)->below->ops->pending(of(link)->below);
}

static bool lossy_room(const struct hal_link *link)
{
	return of(link)->below->ops->room(of(link)->below);
}

static int lossy_watch(struct hal_link *link, hal_watch watch, unsigned events)
{
	return of(link)->below->ops->watch(of(link)->below, watch, events);
}

static void lossy_unwatch(struct hal_link *link, hal_watch watch)
{
	of(link)->below->ops->unwatch(of(link)->below, watch);
}

static bool lossy_is_trusted(const struct hal_link *link, hal_watch watch)
{
	return of(link)->below->ops->is_trusted(of(link)->below, watch);
}

static void lossy_tell(struct hal_link *link, unsigned did)
{
	of(link)->below->ops->tell(of(link)->below, did);
}

static bool lossy_peer_here(struct hal_link *link, uint32_t cpu)
{
	return of(link)->below->ops->peer_here(of(link)->below, cpu);
}

static void release(struct lossy *l)
{
	for (unsigned i = 0; i < N_LINKS; i++)
		if (links[i] == l)
			links[i] = NULL;
	free(l);
}

static void lossy_close(struct hal_link *link)
{
	of(link)->below->ops->close(of(link)->below);
	release(of(link));
}

static void lossy_forget(struct hal_link *link)
{
	of(link)->below->ops->forget(of(link)->below);
	release(of(link));
}

static const struct hal_ops ops = {
	.name = "lossy",
	.version = HAL_VERSION,
	.send = lossy_send,
	.reserve = hal_no_reserve,
	.commit = hal_no_commit,
	.cancel = hal_no_cancel,
	.next = lossy_next,
	.copy = lossy_copy,
	.drop = lossy_drop,
	.put = hal_any_put,
	.take = hal_any_take,
	.progress = lossy_progress,
	.pending = lossy_pending,
	.room = lossy_room,
	.backlog = hal_no_backlog,
	.flush = hal_no_flush,
	.watch = lossy_watch,
	.unwatch = lossy_unwatch,
	.is_trusted = lossy_is_trusted,
	.tell = lossy_tell,
	.fd = hal_no_fd,
	.peer_here = lossy_peer_here,
	.expose = hal_no_expose,
	.conceal = hal_no_conceal,
	.write = hal_no_write,
	.close = lossy_close,
	.forget = lossy_forget,
};

/* ---- the end of the program ------------------------------------------------------------------ */

static void flush(struct hal_link *link)
{
	uint64_t nsec_end = nsec_now() + NSEC_FLUSH;

	while (hal_link_flush(link) == -EAGAIN && nsec_now() < nsec_end) {
		(void)link->ops->progress(link);
		link->ops->tell(link, HAL_DID_SEND);
	}
}

static void at_exit(void)
{
	for (unsigned i = 0; i < N_LINKS; i++)
		if (links[i] && links[i]->mended)
			flush(links[i]->mended);
	fprintf(stderr, "%u lost, %u doubled, %u late\n", n_lost, n_twice, n_late);
}

/* ---- instead of the library's ---------------------------------------------------------------- */

static bool enter(struct lossy *l)
{
	static bool begun;

	if (!begun && atexit(at_exit) == 0)
		begun = true;
	for (unsigned i = 0; i < N_LINKS; i++)
		if (!links[i]) {
			links[i] = l;
			return begun;
		}
	return false;
}

int __wrap_hal_shm_open(const struct shm_slab_map *own, uint32_t own_slot,
			const struct shm_slab_map *peer, uint32_t peer_slot,
			struct hal_link **ret_link)
{
	struct lossy *l = calloc(1, sizeof(*l));
	int e = l ? __real_hal_shm_open(own, own_slot, peer, peer_slot, &l->below) : -ENOMEM;

	if (e < 0) {
		free(l);
		return e;
	}
	if (!enter(l))
		abort();
	l->link.ops = &ops;
	l->link.costs = l->below->costs;
	l->link.caps = (struct hal_caps){
		.name = "lossy",
		.flags = l->below->caps.flags & HAL_BARRIER,
		.frame_max = SIZE_FRAME_MAX,
		.frame_good = SIZE_FRAME_MAX,
		.n_gather = 1,
		.alignment = 1,
	};
	*ret_link = &l->link;
	return 0;
}

void __wrap_hal_shm_share(struct hal_link *link, const struct hal_shm_line *line)
{
	__real_hal_shm_share(of(link)->below, line);
}

int __wrap_hal_repair_open(struct hal_link *below, const struct hal_repair_config *config,
			   struct hal_link **ret_link)
{
	int e = __real_hal_repair_open(below, config, ret_link);

	if (e == 0)
		of(below)->mended = *ret_link;
	return e;
}
