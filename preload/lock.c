/* See lock.h. */
#include <linux/futex.h>
#include <stddef.h>

#include "lock.h"
#include "rawsys.h"
#include "thread.h"

/* The count is raised first: a signal handler in between must take the lock for held. */
USUAL void pre_lock(struct pre_lock *lock)
{
	uint32_t free = 0;

	pre_self()->n_locked++;
	if (__libc_single_threaded ||
	    atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
						    memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		(void)raw_syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL);
}

USUAL void pre_unlock(struct pre_lock *lock)
{
	if (!__libc_single_threaded &&
	    atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		(void)raw_syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1);
	pre_self()->n_locked--;
}

USUAL void pre_lock_reset(struct pre_lock *lock)
{
	/* Each record has one: to write to all would copy their pages. */
	if (atomic_load(&lock->word))
		atomic_store(&lock->word, 0);
}
