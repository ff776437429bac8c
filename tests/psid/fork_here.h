/* Forks a test program that has libpulc linked in, as the library does it for a program. */
#ifndef PULC_TESTS_PSID_FORK_HERE_H
#define PULC_TESTS_PSID_FORK_HERE_H

#include <unistd.h>

#include "private.h"

/* With what libpulc does before and in the child. */
static inline pid_t fork_here(void)
{
	pid_t pid;

	slabs_forking();
	pid = fork();
	if (pid == 0) {
		int me = shm_self_forked();

		leave_forked(client_pid());
		client_forked(me);
	}
	return pid;
}

#endif
