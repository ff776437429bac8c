/*
 * The log. One line a call, written with one write(2) and never waited for: stderr may be a pipe
 * that nobody reads.
 *
 * When JOURNAL_STREAM names the very file that stderr is, lines begin with <level> as journald
 * understands; otherwise with a word.
 */
#include "log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "macros.h"

#define SIZE_LINE 512

static enum psid_level shown = PSID_INFO;
static bool journal;

static bool stderr_is_journal(void)
{
	const char *value = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return value && sscanf(value, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void psid_log_init(enum psid_level level)
{
	shown = level;
	journal = stderr_is_journal();
}

const char *psid_level_name(enum psid_level level)
{
	switch (level) {
	case PSID_ERROR:
		return "error";
	case PSID_WARNING:
		return "warning";
	case PSID_INFO:
		return "info";
	case PSID_DEBUG:
		return "debug";
	}
	return "?";
}

void psid_log(enum psid_level level, const char *format, ...)
{
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	char line[SIZE_LINE];
	va_list args;
	int n;

	if (level > shown)
		return;
	if (journal)
		n = snprintf(line, sizeof(line), "<%d>", level);
	else if (level == PSID_INFO)
		n = snprintf(line, sizeof(line), "psid: ");
	else
		n = snprintf(line, sizeof(line), "psid: %s: ", psid_level_name(level));
	va_start(args, format);
	n += MAX(0, vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args));
	va_end(args);
	n = MIN(n, SIZE_LINE - 2);
	line[n++] = '\n';
	if (poll(&ready, 1, 0) == 1)
		(void)!write(STDERR_FILENO, line, (size_t)n);
}
