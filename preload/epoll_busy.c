/*
 * Who polls busily gives way to a neighbour.
 *
 * A program that asks a set again and again without waiting (an MPI library's progress) keeps its
 * processor until the kernel takes it away, which is milliseconds later. Where the process that it
 * waits for shares that processor, nothing can come before. So after some calls in vain it looks
 * whether one of its peers last waited here, and if so lets it run. Who last waited where stands in
 * each side (shm_side.cpu); whoever polls in vain says so too.
 *
 * Only for a peer: to let just anybody run would cost a program that shares its processor with
 * strangers the time that is its own.
 *
 * Left out: poll and select, and receives that must not wait.
 */
#include "epoll_set.h"
#include "rawsys.h"

/* After so many calls, which are some ten microseconds, each time. */
#define N_IN_VAIN 64

/* Tells the peers which processor this is, too. Under the lock. Of a large set others are looked at
 * each time. */
static bool has_neighbour(struct pre_set *set)
{
	unsigned n = set->size_rings < PRE_N_HOT ? set->size_rings : PRE_N_HOT;
	struct pre_member *m;
	bool found = false;

	for (unsigned i = 0; i < n; i++) {
		m = set->rings[set->next_neighbour++ % set->size_rings];
		found |= m && pulc_stream_peer_here(m->stream);
	}
	return found;
}

void pre_set_in_vain(struct pre_set *set)
{
	unsigned n = atomic_load_explicit(&set->n_in_vain, memory_order_relaxed) + 1;
	bool found;

	atomic_store_explicit(&set->n_in_vain, n, memory_order_relaxed);
	if (n % N_IN_VAIN != 0)
		return;
	pre_lock(&set->lock);
	found = has_neighbour(set);
	pre_set_unlock(set);
	if (found)
		(void)raw_syscall(SYS_sched_yield);
}

void pre_set_not_in_vain(struct pre_set *set)
{
	if (atomic_load_explicit(&set->n_in_vain, memory_order_relaxed))
		atomic_store_explicit(&set->n_in_vain, 0, memory_order_relaxed);
}
