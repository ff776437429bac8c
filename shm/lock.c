/*
 * Robust locks without a robust list of our own.
 *
 * A holder may be killed at any instruction. The kernel offers recovery for futexes that a thread
 * has on its robust list, and, for the moment between taking a lock and listing it, one pending entry.
 * Our critical sections are short and never nest, so the pending entry alone serves: it is set before the
 * lock is taken and restored after it is left. A thread that dies in between has its id
 * replaced by FUTEX_OWNER_DIED, and the next one takes over.
 *
 * Taking over needs no repair: a section changes shared state by single stores in the order that its
 * reader expects (bytes before the count), so what a dead holder left half-done is not yet visible.
 *
 * libc uses the same pending entry for its robust mutexes; a signal handler of ours may interrupt it there, so
 * the old value is kept and put back.
 *
 * Left out: priority inheritance, fairness. A holder that is stopped (SIGSTOP) stops its own family only.
 */
#include "lock.h"

#include <errno.h>

#include "clock.h"
#include "rawsys.h"

#define N_SPINS 200
/* A holder that the kernel can't see (a child made by a raw clone) is looked for again after this. */
#define NSEC_RECHECK (100 * 1000 * NSEC_PER_USEC)

__thread struct shm_self shm_self;
void (*shm_on_free)(void);

/* A thread without a robust list (made by a raw clone) gets a private one that nobody walks. */
static __thread struct robust_list_head unwatched;

USUAL void shm_self_init(void)
{
	struct robust_list_head *head = NULL;
	size_t len = 0;

	if (raw_syscall(SYS_get_robust_list, 0, &head, &len, 0, 0, 0) < 0 || !head)
		head = &unwatched;
	shm_self.robust = head;
	shm_self.tid = (uint32_t)raw_gettid();
}

USUAL void shm_self_forget(void)
{
	shm_self.tid = 0;
	shm_self.n_held = 0;
}

static bool try_take(_Atomic uint32_t *word, uint32_t *seen, uint32_t mark)
{
	*seen = atomic_load_explicit(word, memory_order_relaxed);
	while ((*seen & FUTEX_TID_MASK) == 0 || (*seen & FUTEX_OWNER_DIED)) {
		uint32_t mine = shm_self.tid | mark | (*seen & FUTEX_WAITERS);

		if (atomic_compare_exchange_weak_explicit(word, seen, mine, memory_order_acquire,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

bool shm_lock_slow(_Atomic uint32_t *word)
{
	uint32_t seen;

	for (unsigned i = 0; i < N_SPINS; i++) {
		if (try_take(word, &seen, 0))
			return true;
		/* FUTEX_TID_MASK itself: taken by a lone holder, which can only be ourselves. */
		if ((seen & FUTEX_TID_MASK) == shm_self.tid || seen == FUTEX_TID_MASK) {
			/* The section that we interrupted keeps the pending entry that it set. */
			shm_self.n_held--;
			return false;
		}
		cpu_relax();
	}
	while (!try_take(word, &seen, FUTEX_WAITERS)) {
		struct timespec recheck = timespec_from_nsec(NSEC_RECHECK);

		if (!(seen & FUTEX_WAITERS) &&
		    !atomic_compare_exchange_strong(word, &seen, seen | FUTEX_WAITERS))
			continue;
		(void)raw_futex(word, FUTEX_WAIT, seen | FUTEX_WAITERS, &recheck);
	}
	return true;
}

void shm_unlock_wake(_Atomic uint32_t *word)
{
	(void)raw_futex(word, FUTEX_WAKE, 1, NULL);
}
