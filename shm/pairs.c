/*
 * Which entry tells of whom, and where they are shown.
 *
 * What an entry says is kept here too, for peers of the same user could change what is shown: who
 * takes or leaves an entry looks at this copy, and who goes to another area copies from the old one
 * only counts, which nobody decides by. An entry's number carries a generation: a forked child
 * begins anew, and what it still frees of its parent's is nothing of its own. Entry 0 is nobody's:
 * whoever has none writes there. When another psid is come to, what another thread changes at that
 * very moment may be shown as it was (state.c).
 *
 * Pages are allocated, politely, when the first entry of theirs is taken: most processes have no
 * ports at all.
 */
#include "pairs.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "board.h"
#include "macros.h"
#include "rawsys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define N_PER_PAGE (SHM_PAGE / sizeof(struct shm_pair))

static LARGE struct shm_pairs unseen;
struct shm_pairs *_Atomic shm_pairs = &unseen;
static struct shm_boards *_Atomic area; /* where they are to be shown */
static LARGE struct {
	uint64_t who, ports;
} own[SHM_N_PAIRS];
static uint32_t n_used = 1; /* entries from here on were never taken */
static uint32_t generation; /* a multiple of SHM_N_PAIRS */

static void show(struct shm_pair *p, uint64_t who, uint64_t ports, uint64_t count0, uint64_t count1)
{
	atomic_store(&p->who, 0);
	atomic_store(&p->ports, ports);
	atomic_store(&p->counts[0], count0);
	atomic_store(&p->counts[1], count1);
	atomic_store(&p->who, who);
}

/* Allocates the pages of the first n entries. */
static bool populate(struct shm_pairs *pairs, uint32_t n)
{
	size_t len = ALIGN_UP(n * sizeof(struct shm_pair), (size_t)SHM_PAGE);

	return raw_syscall(SYS_madvise, pairs, (long)len, MADV_POPULATE_WRITE, 0, 0, 0) == 0;
}

/* To the present area, with all that is in use. */
static void move_there(void)
{
	struct shm_boards *boards = atomic_load(&area);
	struct shm_pairs *to = boards ? shm_pairs_of(boards) : NULL;
	struct shm_pairs *from = atomic_load(&shm_pairs);

	if (!to || from == to || !populate(to, n_used))
		return;
	for (uint32_t i = 1; i < n_used; i++)
		show(&to->pairs[i], own[i].who, own[i].ports,
		     atomic_load_explicit(&from->pairs[i].counts[0], memory_order_relaxed),
		     atomic_load_explicit(&from->pairs[i].counts[1], memory_order_relaxed));
	atomic_store(&shm_pairs, to);
}

void shm_pairs_show(struct shm_boards *boards)
{
	atomic_store(&area, boards);
	if (n_used > 1)
		move_there();
}

void shm_pairs_forget(void)
{
	memset((void *)unseen.pairs, 0, n_used * sizeof(unseen.pairs[0]));
	memset(own, 0, n_used * sizeof(own[0]));
	n_used = 1;
	generation += SHM_N_PAIRS;
	atomic_store(&area, NULL);
	atomic_store(&shm_pairs, &unseen);
}

/* 0: none is free. */
static uint32_t find_free(void)
{
	uint32_t i = 1;

	while (i < n_used && own[i].who)
		i++;
	if (i < n_used || i == SHM_N_PAIRS)
		return i % SHM_N_PAIRS;
	n_used++;
	if (i % N_PER_PAGE == 0 && atomic_load(&shm_pairs) != &unseen &&
	    !populate(atomic_load(&shm_pairs), n_used)) {
		n_used--;
		return 0;
	}
	return i;
}

uint32_t shm_pair_add(unsigned kind, uint32_t client, uint64_t ports)
{
	uint32_t i = find_free();

	if (i == 0)
		return generation;
	own[i].who = SHM_PAIR_WHO(kind, client);
	own[i].ports = ports;
	move_there();
	show(&atomic_load(&shm_pairs)->pairs[i], own[i].who, ports, 0, 0);
	return generation + i;
}

/* 0: it is nobody's, or was of another process. */
static uint32_t index_of(uint32_t entry)
{
	return entry - entry % SHM_N_PAIRS == generation ? entry % SHM_N_PAIRS : 0;
}

void shm_pair_remove(uint32_t entry)
{
	uint32_t i = index_of(entry);

	if (i == 0)
		return;
	own[i].who = 0;
	atomic_store(&atomic_load(&shm_pairs)->pairs[i].who, 0);
}

void shm_pair_rebind(uint32_t entry, uint32_t client)
{
	uint32_t i = index_of(entry);

	if (i == 0)
		return;
	own[i].who = SHM_PAIR_WHO(SHM_PAIR_KIND(own[i].who), client);
	show(&atomic_load(&shm_pairs)->pairs[i], own[i].who, own[i].ports, 0, 0);
}
