/*
 * The lock of the epoll records: a word, three states (Drepper, "Futexes Are Tricky", section 6).
 * Made for short holds; in a process of one thread it is only counted. A thread counts the locks
 * that it holds: a signal handler that interrupts a holder must not wait for it and leaves its work
 * to the holder instead (pre_file_later).
 */
#ifndef PULC_PRELOAD_LOCK_H
#define PULC_PRELOAD_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pre_lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and waited for */
};

void pre_lock(struct pre_lock *lock);
void pre_unlock(struct pre_lock *lock);
/* In a forked child: whoever held it is not here. */
void pre_lock_reset(struct pre_lock *lock);

#endif
