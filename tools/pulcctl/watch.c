/*
 * `--watch`: a picture is made in memory and written in one piece, so that a terminal never shows
 * half of one. A pipe gets the pictures one after the other. Pictures are due at fixed times: one
 * that took long does not delay the following; but those for which there was no time at all, as
 * while the command was stopped, are left out. One that fails is not shown: what it said of that
 * would be wiped away.
 */
#include "watch.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "macros.h"

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
	if (status != 0)
		return status;
	if (terminal)
		fputs(CURSOR_HOME CLEAR_BELOW, stdout);
	fwrite(text, 1, len, stdout);
	return 0;
}

/* Is q among what was typed? A terminal that has ended is not looked at any more. */
static bool is_quit(int *keys)
{
	char typed[64];
	ssize_t n = read(*keys, typed, sizeof(typed));

	if (n <= 0)
		*keys = -1;
	return n > 0 && memchr(typed, 'q', (size_t)n);
}

/* Until then or until a signal has come, after which the screen may be another one. True: nobody
 * wants more pictures. */
static bool wait_until(uint64_t *due, int *keys, const sigset_t *blocked)
{
	uint64_t now = nsec_now();

	do {
		struct timespec left = timespec_from_nsec(*due - MIN(now, *due));
		struct pollfd typed = { .fd = *keys, .events = POLLIN };
		int n = ppoll(&typed, 1, &left, blocked);

		if (n > 0 && is_quit(keys))
			return true;
		now = nsec_now();
		if (n < 0)
			*due = now;
	} while (now < *due);
	return false;
}

int ctl_watch(uint64_t usec, ctl_picture *picture, void *arg, int keys, const sigset_t *blocked)
{
	bool terminal = isatty(STDOUT_FILENO);
	uint64_t due = nsec_now();

	for (;;) {
		int status = show(picture, arg, terminal);

		if (status != 0)
			return status;
		if (fflush(stdout) != 0)
			return 0;
		due = MAX(due + usec * NSEC_PER_USEC, nsec_now());
		if (wait_until(&due, &keys, blocked))
			return 0;
	}
}
