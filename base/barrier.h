/*
 * A full fence that one process makes for all others: whoever waits seldom pays for whoever
 * publishes often.
 *
 * Two sides that each store and then load what the other one has stored need a full fence in
 * between, both, or both may load the old values. Where one side does so a thousand times as often,
 * the other makes a barrier on all processors that run a process that has joined: whatever those
 * have stored before, in program order, is seen here afterwards; what they load later sees what was
 * stored here before. They need no more than the program order (membarrier(2),
 * MEMBARRIER_CMD_GLOBAL_EXPEDITED; Linux 4.16).
 */
#ifndef PULC_BASE_BARRIER_H
#define PULC_BASE_BARRIER_H

#include <linux/membarrier.h>
#include <stdbool.h>

#include "rawsys.h"

/* This process goes without fences from now on. False: the kernel cannot do it, or does not allow
 * it. Each process for itself, after a fork too. */
static inline bool barrier_join(void)
{
	return raw_syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

/* False: not made. */
static inline bool barrier_make(void)
{
	return raw_syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

#endif
