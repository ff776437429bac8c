/*
 * What all commands say. Only when what was said on standard output has gone there has a command
 * done what it was asked for. For commands alone; a library says nothing.
 */
#ifndef PULC_SAID_H
#define PULC_SAID_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "variables.h"

/* Returns status, or `failure` after saying that something has not gone there. */
static inline int said_all(const char *command, int status, int failure)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	(void)fprintf(stderr, "%s: cannot write to standard output: %s\n", command,
		      strerror(errno));
	return failure;
}

static inline void said_variable(void *command, const char *name, const char *meant)
{
	if (meant)
		(void)fprintf(stderr, "%s: warning: %s: unknown variable (%s?): passed over\n",
			      (const char *)command, name, meant);
}

/* Returns 0, after saying which variables of the environment may be misspelt; negative errno, after
 * saying which names no place of a psid. */
static inline int said_environment(const char *command)
{
	const char *name;
	int r = wire_places_check(&name);

	wire_variables_check(said_variable, (void *)command);
	if (r < 0)
		(void)fprintf(stderr, "%s: %s=%s: %s (or unset it)\n", command, name, getenv(name),
			      r == -EINVAL ? "expected an absolute path"
					   : "too long for the path of a socket");
	return r;
}

#endif
