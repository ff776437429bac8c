/*
 * Locks of one family: the processes and threads that hold the same side of a connection. The word
 * lies in the side's own area and holds the thread id of its owner. Never shared between sides.
 *
 * Behind the word, at a fixed distance, is another one, by which real-time waiters lend their
 * priority (lock.c).
 */
#ifndef PULC_SHM_LOCK_H
#define PULC_SHM_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "macros.h"
#include "step.h"

/* A lock of a process's own. */
struct shm_lock {
	_Atomic uint32_t word;
	uint32_t unused[3];
	_Atomic uint32_t boost;
};
#define SHM_BOOST_AT offsetof(struct shm_lock, boost)
static_assert(offsetof(struct shm_side, tx_boost) - offsetof(struct shm_side, tx_lock) ==
			      SHM_BOOST_AT &&
		      offsetof(struct shm_side, rx_boost) - offsetof(struct shm_side, rx_lock) ==
			      SHM_BOOST_AT,
	      "shm_boost_of");

static inline _Atomic uint32_t *shm_boost_of(_Atomic uint32_t *word)
{
	return (_Atomic uint32_t *)((char *)word + SHM_BOOST_AT);
}

/* What a thread must know of itself to take a lock; made at first use, void in a forked child. */
struct shm_self {
	uint32_t tid;
	struct robust_list_head *robust; /* the kernel's list of what to recover when we die */
	void *pending; /* what libc had in list_op_pending when we took the lock */
	/* Locks that this thread holds or is about to take; a signal handler that finds some sets
	 * `called`, and shm_on_free runs when the last one is left. */
	uint32_t n_held;
	/* Those that sections hold which a running handler has interrupted. */
	uint32_t n_outer;
	uint32_t called;
};
extern __thread struct shm_self shm_self
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

extern void (*shm_on_free)(void) __attribute__((visibility("hidden")));

void shm_self_init(void);
/* All of it is void, as in a child that was made past libc. */
void shm_self_forget(void);
/* In a child that libc has forked: its thread id is another one. Returns it, which is its process
 * id too. */
int shm_self_forked(void);
/* The same in one that libc knows nothing of: nobody has told the kernel of the list. */
int shm_self_cloned(void);

static inline void shm_hold(void)
{
	shm_self.n_held++;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void shm_free(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	shm_self.n_held--;
	atomic_signal_fence(memory_order_seq_cst);
	if (UNLIKELY(shm_self.called) && shm_self.n_held == 0)
		shm_on_free();
}

bool shm_lock_slow(_Atomic uint32_t *word);
void shm_unlock_wake(_Atomic uint32_t *word);

/* Takes the lock; blocks. False: this thread holds it already (a signal handler came in
 * between). */
static inline bool shm_lock(_Atomic uint32_t *word)
{
	uint32_t nobody = 0;

	if (UNLIKELY(!shm_self.tid))
		shm_self_init();
	shm_hold();
	shm_self.pending = shm_self.robust->list_op_pending;
	shm_self.robust->list_op_pending =
		(struct robust_list *)((char *)word - shm_self.robust->futex_offset);
	atomic_signal_fence(memory_order_seq_cst);
	STEP(LOCK_LISTED);
	if (LIKELY(atomic_compare_exchange_strong_explicit(
		    word, &nobody, shm_self.tid, memory_order_acquire, memory_order_relaxed))) {
		STEP(LOCK_TAKEN);
		return true;
	}
	return shm_lock_slow(word);
}

/* Leaves the lock. Also a full fence: what was published inside is visible before anything read
 * after it. */
static inline void shm_unlock(_Atomic uint32_t *word)
{
	uint32_t old = atomic_exchange_explicit(word, 0, memory_order_seq_cst);

#if !defined(__x86_64__)
	atomic_thread_fence(memory_order_seq_cst);
#endif
	atomic_signal_fence(memory_order_seq_cst);
	STEP(LOCK_LEFT);
	shm_self.robust->list_op_pending = shm_self.pending;
	STEP(LOCK_UNLISTED);
	if (UNLIKELY(old & FUTEX_WAITERS))
		shm_unlock_wake(word);
	shm_free();
}

/*
 * The same for a holder who may be alone: one process, one thread. Then only a signal handler can
 * come in between, and two plain stores and one fence do. Returned: how it was taken, for
 * shm_leave; SHM_BUSY as shm_lock's false.
 */
enum shm_way { SHM_BUSY, SHM_ALONE, SHM_SHARED };

static inline enum shm_way shm_enter(_Atomic uint32_t *word, bool alone)
{
	if (LIKELY(alone && atomic_load_explicit(word, memory_order_relaxed) == 0)) {
		shm_hold();
		atomic_store_explicit(word, FUTEX_TID_MASK, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
		return SHM_ALONE;
	}
	return shm_lock(word) ? SHM_SHARED : SHM_BUSY;
}

static inline void shm_leave(_Atomic uint32_t *word, enum shm_way way)
{
	if (UNLIKELY(way != SHM_ALONE)) {
		shm_unlock(word);
		return;
	}
	(void)atomic_exchange_explicit(word, 0, memory_order_seq_cst);
#if !defined(__x86_64__)
	atomic_thread_fence(memory_order_seq_cst);
#endif
	shm_free();
}

/* The same where nothing was published that anybody waits for: no fence. */
static inline void shm_leave_quietly(_Atomic uint32_t *word, enum shm_way way)
{
	if (UNLIKELY(way != SHM_ALONE)) {
		shm_unlock(word);
		return;
	}
	atomic_store_explicit(word, 0, memory_order_release);
	shm_free();
}

#endif
