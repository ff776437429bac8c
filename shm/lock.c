/*
 * Robust locks without a robust list of our own.
 *
 * A holder may be killed at any instruction. The kernel offers recovery for futexes that a thread
 * has on its robust list, and, for the moment between taking a lock and listing it, one pending
 * entry. Our critical sections are short and never nest, so the pending entry alone serves: it is
 * set before the lock is taken and restored after it is left. A thread that dies in between has its
 * id replaced by FUTEX_OWNER_DIED, and the next one takes over.
 *
 * Taking over needs no repair: a section changes shared state by single stores in the order that
 * its reader expects (bytes before the count), so what a dead holder left half-done is not yet
 * visible.
 *
 * libc uses the same pending entry for its robust mutexes; a signal handler of ours may interrupt
 * it there, so the old value is kept and put back.
 *
 * Priority. A real-time waiter must not wait for a holder that cannot run because a third process
 * does. It lends the holder its priority: it writes the holder's id into a second word, as if the
 * holder had locked that, and waits for it with FUTEX_LOCK_PI, so that the kernel boosts the
 * holder. Who leaves a lock that somebody waits for looks at that word and unlocks it too. Whoever
 * is woken by that has it for a moment, and passes it on: so all who wait look again. As long as
 * the kernel has somebody wait for it, it is nobody's to write to, for the kernel would lose those;
 * who wants to lend meanwhile goes behind them. The second word guards nothing: it may say the
 * wrong thing for a moment, and nobody waits for it longer than before he looks again. All other
 * waiters sleep by the first word: among ordinary priorities the kernel inherits nothing.
 *
 * Namesakes. A family may extend over pid namespaces, and then threads of it may have the same id:
 * each 1 in its own. So a word that says our id is ours only if the pending entry says so too. Who
 * waits for a namesake has no pending entry meanwhile: if he died, the kernel would take the lock
 * for his.
 *
 * Left out: fairness. A holder that is stopped (SIGSTOP) stops its own family only.
 *
 * Source: futex(2); Sha, Rajkumar and Lehoczky 1990 (priority inheritance).
 */
#include "lock.h"

#include <errno.h>
#include <sched.h>

#include "clock.h"
#include "rawsys.h"

#define N_SPINS 200
/* A holder that the kernel can't see (a child made by a raw clone) is looked for again after
 * this. */
#define NSEC_RECHECK (100 * 1000 * NSEC_PER_USEC)
/* Behind those whom the kernel has wait for somebody who is to leave at once: if he was named by
 * mistake, nobody says so. */
#define NSEC_BEHIND (1000 * NSEC_PER_USEC)
/* After so many waits in vain he has no idea of it: the word is taken from him. */
#define N_BEHIND 100u
/* FUTEX_LOCK_PI with the clock that nobody sets, Linux 5.14. */
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

__thread struct shm_self shm_self;
void (*shm_on_free)(void);

/* A thread without a robust list (made by a raw clone) gets a private one that nobody walks. */
static __thread struct robust_list_head unwatched __attribute__((tls_model("initial-exec")));

USUAL void shm_self_init(void)
{
	struct robust_list_head *head = NULL;
	size_t len = 0;

	if (raw_syscall(SYS_get_robust_list, 0, &head, &len, 0, 0, 0) < 0 || !head)
		head = &unwatched;
	shm_self.robust = head;
	shm_self.tid = (uint32_t)raw_gettid();
}

void shm_self_forget(void)
{
	shm_self.tid = 0;
	shm_self.n_held = 0;
}

/* libc has told the kernel of the same list anew, and the child's only thread has the number of the
 * process. */
USUAL int shm_self_forked(void)
{
	if (!shm_self.tid || shm_self.robust == &unwatched)
		shm_self_init();
	else
		shm_self.tid = (uint32_t)raw_getpid();
	shm_self.n_held = 0;
	return (int)shm_self.tid;
}

int shm_self_cloned(void)
{
	if (shm_self.tid && shm_self.robust != &unwatched)
		(void)raw_syscall(SYS_set_robust_list, shm_self.robust, sizeof(*shm_self.robust), 0,
				  0, 0, 0);
	return shm_self_forked();
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

/* ---- priority -------------------------------------------------------------------------------- */

static bool is_realtime(void)
{
	int policy = (int)raw_syscall(SYS_sched_getscheduler, 0, 0, 0, 0, 0, 0);

	policy &= ~SCHED_RESET_ON_FORK;
	return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

/* Leaves the second word, if it is this thread's. */
static void return_priority(_Atomic uint32_t *boost)
{
	uint32_t mine = shm_self.tid;

	if (LIKELY((atomic_load(boost) & FUTEX_TID_MASK) != mine))
		return;
	if (!atomic_compare_exchange_strong(boost, &mine, 0))
		(void)raw_futex(boost, FUTEX_UNLOCK_PI, 0, NULL);
}

/* Nobody lends by it: whoever it names has gone, or does not know. */
static void clear_priority(_Atomic uint32_t *boost, uint32_t holder)
{
	uint32_t now = atomic_load(boost);

	if ((now & FUTEX_TID_MASK) == holder)
		(void)atomic_compare_exchange_strong(boost, &now, 0);
}

/* Names the holder, as the lock's word was seen to do. False: it does so no more. */
static bool name_holder(_Atomic uint32_t *word, uint32_t seen)
{
	_Atomic uint32_t *boost = shm_boost_of(word);
	uint32_t holder = seen & FUTEX_TID_MASK, before = atomic_load(boost);

	if ((before & FUTEX_TID_MASK) != holder &&
	    ((before & FUTEX_WAITERS) || !atomic_compare_exchange_strong(boost, &before, holder)))
		return false;
	if (atomic_load(word) == seen)
		return true;
	before = holder;
	(void)atomic_compare_exchange_strong(boost, &before, 0);
	return false;
}

/*
 * Waits for the holder, whom the lock's word names, and lends it this thread's priority. False:
 * that cannot be done; sleep otherwise. The word was marked with FUTEX_WAITERS before: a holder
 * that leaves it after we have looked here once more finds what we wrote.
 */
static bool lend_priority(_Atomic uint32_t *word, uint32_t seen, unsigned *n_behind)
{
	_Atomic uint32_t *boost = shm_boost_of(word);
	uint32_t holder = seen & FUTEX_TID_MASK, now;
	uint64_t most = NSEC_RECHECK;
	struct timespec until;
	int e;

	if (!name_holder(word, seen)) {
		now = atomic_load(boost);
		if (!(now & FUTEX_WAITERS) || atomic_load(word) != seen)
			return true;
		holder = now & FUTEX_TID_MASK;
		most = NSEC_BEHIND;
	}
	until = timespec_from_nsec(nsec_now() + most);
	e = raw_futex(boost, FUTEX_LOCK_PI2, 0, &until);
	if (e == 0)
		return_priority(boost);
	if (e == -ETIMEDOUT && most == NSEC_BEHIND && ++*n_behind % N_BEHIND == 0 &&
	    (atomic_load(word) & FUTEX_TID_MASK) != holder)
		clear_priority(boost, holder);
	/* It holds the lock for long, or is about to end. */
	if (e == 0 || e == -ETIMEDOUT || e == -EAGAIN || e == -EINTR)
		return true;
	clear_priority(boost, holder);
	return false;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static void sleep_until_left(_Atomic uint32_t *word, uint32_t seen, bool lends, unsigned *n_behind)
{
	struct timespec recheck = timespec_from_nsec(NSEC_RECHECK);

	if (lends && lend_priority(word, seen, n_behind))
		return;
	(void)raw_futex(word, FUTEX_WAIT, seen, &recheck);
}

static bool is_pending(const _Atomic uint32_t *word)
{
	const struct robust_list *pending = shm_self.pending;

	return pending &&
	       (const char *)pending + shm_self.robust->futex_offset == (const char *)word;
}

/* Does this thread hold it, or was it about to take it, when a signal handler came in between? */
static bool is_interrupted(const _Atomic uint32_t *word, uint32_t seen)
{
	/* FUTEX_TID_MASK itself: taken by a lone holder, which can only be ourselves. Of two that
	 * it holds the pending entry names the second one; nobody takes three but a handler. */
	return seen == FUTEX_TID_MASK ||
	       ((seen & FUTEX_TID_MASK) == shm_self.tid &&
		(shm_self.n_outer + shm_self.n_held > 2 || is_pending(word)));
}

/* Waits for one who has our id in another pid namespace. */
static void await_namesake(_Atomic uint32_t *word)
{
	struct timespec recheck = timespec_from_nsec(NSEC_RECHECK);
	struct robust_list *listed = shm_self.robust->list_op_pending;
	uint32_t seen = atomic_load(word);

	shm_self.robust->list_op_pending = shm_self.pending;
	while ((seen & FUTEX_TID_MASK) == shm_self.tid && !(seen & FUTEX_OWNER_DIED)) {
		if ((seen & FUTEX_WAITERS) ||
		    atomic_compare_exchange_strong(word, &seen, seen | FUTEX_WAITERS))
			(void)raw_futex(word, FUTEX_WAIT, seen | FUTEX_WAITERS, &recheck);
		seen = atomic_load(word);
	}
	shm_self.robust->list_op_pending = listed;
}

bool shm_lock_slow(_Atomic uint32_t *word)
{
	unsigned n_behind = 0;
	uint32_t seen;
	bool lends;

	for (unsigned i = 0; i < N_SPINS; i++) {
		if (try_take(word, &seen, 0)) {
			STEP(LOCK_TAKEN);
			return true;
		}
		if (is_interrupted(word, seen)) {
			/* The section that we interrupted keeps the pending entry that it set, and
			 * not for longer. */
			shm_self.robust->list_op_pending = shm_self.pending;
			shm_self.pending = NULL;
			shm_self.n_held--;
			return false;
		}
		if ((seen & FUTEX_TID_MASK) == shm_self.tid)
			break;
		cpu_relax();
	}
	lends = is_realtime();
	while (!try_take(word, &seen, FUTEX_WAITERS)) {
		if (!(seen & FUTEX_WAITERS) &&
		    !atomic_compare_exchange_strong(word, &seen, seen | FUTEX_WAITERS))
			continue;
		STEP(LOCK_MARKED);
		if ((seen & FUTEX_TID_MASK) == shm_self.tid)
			await_namesake(word);
		else
			sleep_until_left(word, seen | FUTEX_WAITERS, lends, &n_behind);
		STEP(LOCK_WOKEN);
	}
	STEP(LOCK_TAKEN);
	return true;
}

void shm_unlock_wake(_Atomic uint32_t *word)
{
	(void)raw_futex(word, FUTEX_WAKE, 1, NULL);
	STEP(LOCK_PASSED);
	return_priority(shm_boost_of(word));
}
