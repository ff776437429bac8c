/*
 * `--watch`: a picture is made in memory and written in one piece, so that a terminal never
 * shows half of one. A pipe gets the pictures one after the other. Pictures are due at fixed
 * times: one that took long does not delay the following.
 */
#include "watch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"

#define CURSOR_HOME "\033[H"
#define CLEAR_BELOW "\033[J"

static int show(ctl_picture *picture, void *arg, bool terminal)
{
	CLEANUP_FREE char *text = NULL;
	size_t len = 0;
	FILE *memory = open_memstream(&text, &len);
	int status;

	if (!memory)
		return EXIT_FAILURE;
	status = picture(memory, arg);
	if (fclose(memory) != 0)
		return EXIT_FAILURE;
	if (terminal)
		fputs(CURSOR_HOME CLEAR_BELOW, stdout);
	fwrite(text, 1, len, stdout);
	return status;
}

int ctl_watch(uint64_t usec, ctl_picture *picture, void *arg)
{
	bool terminal = isatty(STDOUT_FILENO);
	uint64_t due = nsec_now();

	for (;;) {
		struct timespec at;
		int status = show(picture, arg, terminal);

		if (status != 0)
			return status;
		if (fflush(stdout) != 0)
			return 0;
		due += usec * NSEC_PER_USEC;
		at = timespec_from_nsec(due);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
			;
	}
}
