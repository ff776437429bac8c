/*
 * What a command has said on its standard output: only when that has gone there has the command
 * done what it was asked for. For commands alone; a library says nothing.
 */
#ifndef PULC_SAID_H
#define PULC_SAID_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Returns status, or `failure` after saying that something has not gone there. */
static inline int said_all(const char *command, int status, int failure)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	(void)fprintf(stderr, "%s: cannot write to standard output: %s\n", command,
		      strerror(errno));
	return failure;
}

#endif
