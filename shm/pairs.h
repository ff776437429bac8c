/*
 * What a process shows of its peers: for each pair of ports, and for each process, how much credit
 * is used and who waits. In the last pages of its board area, which psid reads for `pulcctl ports
 * --peers`. As shm/state.h: written where it changes, with plain stores to lines that no peer
 * reads, and read by nobody else.
 */
#ifndef PULC_SHM_PAIRS_H
#define PULC_SHM_PAIRS_H

#include "layout.h"

static inline struct shm_pairs *shm_pairs_of(struct shm_boards *boards)
{
	return (struct shm_pairs *)((char *)boards + SHM_PAIRS_AT);
}

/* Where they are; before there is a board area, and in a forked child, in memory that nobody
 * sees. */
extern struct shm_pairs *_Atomic shm_pairs __attribute__((visibility("hidden")));

/* From now on they are shown there, as far as there is memory. The area stays mapped. */
void shm_pairs_show(struct shm_boards *boards);
/* In a forked child: what is shown is the parent's. Entries from before are nobody's. */
void shm_pairs_forget(void);

/* An entry for it, of counts 0; when none is left, the one that nobody is shown. ports: own << 32 |
 * other, or 0. */
uint32_t shm_pair_add(unsigned kind, uint32_t client, uint64_t ports);
void shm_pair_remove(uint32_t entry);
/* The same entry tells of another process from now on, with counts 0. */
void shm_pair_rebind(uint32_t entry, uint32_t client);

/* entry: what shm_pair_add has returned, or any number: nothing else is written to. */
static inline void shm_pair_set(uint32_t entry, unsigned what, uint64_t value)
{
	struct shm_pairs *shown = atomic_load_explicit(&shm_pairs, memory_order_relaxed);

	atomic_store_explicit(&shown->pairs[entry % SHM_N_PAIRS].counts[what], value,
			      memory_order_relaxed);
}

#endif
