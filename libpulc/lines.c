/*
 * Which lines of this process's board area its links have, and those of other processes' areas that
 * they use.
 *
 * Of two processes the one with the lower number makes the line. Should they not agree on that,
 * because psid has just ended, both make one or none: no side hears the other one say its line's
 * name, and the link does without.
 *
 * A line is given to another link only if the peer has closed before or its process has ended,
 * which psid says (SHM_EXITED): one that was stopped in the middle of a send may go on with it at
 * any time. Psid calls dead (SHM_DEAD) also who does not read what it sends, or has not come back
 * to a new psid. Links that end so, or that one side alone gives up, are few, and theirs stay
 * taken.
 *
 * Left out: processes of different users (native_news.c). Neither maps the other one's boards.
 */
#include "lines.h"

#include <string.h>
#include <sys/mman.h>

#include "board.h"
#include "client.h"
#include "macros.h"
#include "peers.h"
#include "rawsys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Of the present area. Under the client lock. */
static LARGE struct {
	struct shm_boards *area;
	uint64_t taken[SHM_N_LINES / 64];
	unsigned next; /* behind the one that was given last */
} lines;

/* Allocated politely: where memory is short this fails, a touch would kill. */
static bool has_page(struct shm_exchange *line)
{
	void *page = (void *)((uintptr_t)line & ~(uintptr_t)(SHM_PAGE - 1));

	return raw_syscall(SYS_madvise, page, SHM_PAGE, MADV_POPULATE_WRITE, 0, 0, 0) == 0;
}

static int find_free(void)
{
	unsigned i;

	for (unsigned n = 0; n < SHM_N_LINES; n++) {
		i = (lines.next + n) % SHM_N_LINES;
		if (!(lines.taken[i / 64] >> i % 64 & 1))
			return (int)i;
	}
	return -1;
}

/* A line of ours. Under the client lock. */
static struct shm_exchange *take(uint32_t *ret_index)
{
	struct shm_boards *area = client_boards();
	struct shm_exchange *line;
	int i;

	if (!area)
		return NULL;
	if (lines.area != area) {
		memset(&lines, 0, sizeof(lines));
		lines.area = area;
	}
	i = find_free();
	line = i < 0 ? NULL : shm_line_of(area, (uint32_t)i);
	if (!line || !has_page(line))
		return NULL;
	lines.taken[i / 64] |= 1ull << i % 64;
	lines.next = (unsigned)i + 1;
	memset(line, 0, sizeof(*line));
	*ret_index = (uint32_t)i;
	return line;
}

struct hal_shm_line lines_for(uint32_t client)
{
	struct hal_shm_line line = { .client = client };
	uint32_t index;

	if (!client_lock())
		return line;
	line.ours = client_id() < client;
	line.at = line.ours ? take(&index) : NULL;
	if (line.at)
		line.name = SHM_LINE_NAME(client_id(), index);
	client_unlock();
	return line;
}

struct shm_exchange *lines_find(uint32_t client, uint64_t name)
{
	struct shm_exchange *line;

	if (SHM_LINE_CLIENT(name) != client || SHM_LINE_INDEX(name) >= SHM_N_LINES ||
	    !client_lock())
		return NULL;
	line = peers_hold_line(client, SHM_LINE_INDEX(name));
	client_unlock();
	return line;
}

void lines_return(const struct hal_shm_line *line, bool peer_is_done)
{
	uint32_t i = SHM_LINE_INDEX(line->name);

	if (!client_lock())
		return;
	if (!line->ours)
		peers_let_line_go(line->client, line->at);
	else if (peer_is_done && lines.area && line->at == shm_line_of(lines.area, i))
		lines.taken[i / 64] &= ~(1ull << i % 64);
	client_unlock();
}
