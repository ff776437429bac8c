/*
 * SA_RESTART for calls that the kernel would have restarted. We sleep in ppoll, which the kernel
 * never restarts, so the decision is ours: the handlers installed in this process tell. With
 * handlers of both kinds the call is interrupted, as it would be for one of them;
 * docs/differences.md says so.
 */
#include "restart.h"

#include <stdint.h>

#include "rawsys.h"

/* The kernel's struct sigaction, which is not libc's. */
struct kernel_sigaction {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

bool restart_wanted(void)
{
	struct kernel_sigaction action;

	for (int sig = 1; sig < 65; sig++) {
		if (raw_syscall(SYS_rt_sigaction, sig, NULL, &action, 8, 0, 0) < 0)
			continue;
		if (action.handler == (void *)SIG_DFL || action.handler == (void *)SIG_IGN)
			continue;
		if (!(action.flags & SA_RESTART))
			return false;
	}
	return true;
}
