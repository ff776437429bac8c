/*
 * SA_RESTART for calls that the kernel would have restarted. We sleep in ppoll, which the kernel
 * never restarts, so the decision is ours: the handlers installed in this process tell. With
 * handlers of both kinds the call is interrupted, as it would be for one of them;
 * docs/differences.md says so.
 */
#include "restart.h"

#include "rawsys.h"

bool restart_wanted(void)
{
	struct raw_sigaction action;

	for (int sig = 1; sig <= 64; sig++)
		if (raw_is_handled(sig, &action) && !(action.flags & SA_RESTART))
			return false;
	return true;
}
