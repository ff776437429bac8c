/*
 * Guests at a port (docs/native.md, "A port that parent and children share"), for tests of the
 * native interface: children of a role, and what the role does as the port's owner.
 */
#ifndef PULC_TESTS_NATIVE_GUESTS_H
#define PULC_TESTS_NATIVE_GUESTS_H

#include <errno.h>
#include <sys/wait.h>

#include <pulc/process.h>

#include "psid/native_case.h"

#define SEC_GUESTS_PATIENCE 50

typedef void guest(pulc_port *p);

static inline pid_t start(guest *f, pulc_port *p)
{
	pid_t pid;

	/* The library's handlers of a fork are linked with this. */
	pulc_process_threads();
	pid = fork();
	if (pid != 0)
		return pid;
	(void)alarm(SEC_GUESTS_PATIENCE);
	f(p);
	_exit(0);
}

static inline void serve(void)
{
	uint64_t seen = 0;

	(void)pulc_progress(&seen, 1);
}

static inline void serve_until(unsigned point)
{
	while (!native_is_reached(point))
		serve();
}

/* Serves until it has ended. */
static inline int end_of(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, WNOHANG) != pid)
		serve();
	return status;
}

/* In a guest: everything that it has asked for is with the owner, which has begun to do it. */
static inline void know_that_all_is_asked(pulc_port *p)
{
	char byte;

	MUST_IS(pulc_receive(p, &byte, 1, NULL, PULC_PEEK | PULC_DONTWAIT), -EAGAIN);
}

#endif
