/*
 * The log. One line a call, written with one write(2) and never waited for: stderr may be a pipe
 * that nobody reads.
 *
 * A daemon in the background has a file of its own, which nobody else cuts: when it is
 * SIZE_FILE_MAX long it becomes FILE.old, in place of the one before, and the log goes on in a new
 * one.
 *
 * When JOURNAL_STREAM names the very file that stderr is, a line becomes an entry of the journal
 * with fields: PRIORITY, and for what administrators look for MESSAGE_ID and whom it is about.
 * Where the journal doesn't take it, the line goes to stderr, beginning with <level> as journald
 * understands. What is not text becomes "?": a client's name must not end a line or begin a field.
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"

#include "macros.h"
#include "utf8.h"

#define SIZE_TEXT 480
#define SIZE_LINE (SIZE_TEXT + 320)
#define SIZE_FILE_MAX (1 << 20)
#define SIZE_PATH 256
#define JOURNAL "/run/systemd/journal/socket"

static enum psid_level shown = PSID_INFO;
static bool journal;
static char file[SIZE_PATH]; /* its name; "": it is none of ours */
static int journal_fd = -EBADF;

static const struct {
	const char *id, *field;
} occasions[] = {
	[PSID_LOG_READY] = { "40d7053c637342ad904b87f9f871ebba", NULL },
	[PSID_LOG_ENDS] = { "1ffa078e54b44cc8ad08324fc7be3ed5", NULL },
	[PSID_LOG_RELOADED] = { "6eee7f1ba89e4aebb822759f1ba43dc4", NULL },
	[PSID_LOG_NOT_RELOADED] = { "278eb4ee86644809810e6bc2b5de620d", NULL },
	[PSID_LOG_NODE_HERE] = { "8428a9b2c9374258a99d4d048adba0cd", "PULC_NODE" },
	[PSID_LOG_NODE_DEAD] = { "dc52c7286c8244058774fbc9ac23dbb3", "PULC_NODE" },
	[PSID_LOG_NODE_LEFT] = { "c9d4057f9be14e229fb74290b598e019", "PULC_NODE" },
	[PSID_LOG_GIVEN_UP] = { "cc3a9174fb34427089d5f96d72d3ff9d", NULL },
	[PSID_LOG_KEYS] = { "0bcb8f3b77b04987b8773469acb974e5", NULL },
	[PSID_LOG_JOB_KEPT] = { "57c70b99b16d4337951834b62146572e", "PULC_JOB" },
	[PSID_LOG_NONSENSE] = { "3ee192f00d8b443d812255ccf5163e1d", "PULC_UID" },
};

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
	if (journal && journal_fd < 0)
		journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int psid_log_open(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

void psid_log_file(const char *path)
{
	(void)snprintf(file, sizeof(file), "%s", path);
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

/* Returns whether the journal took it. */
static bool to_journal(enum psid_level level, const char *fields, const char *text)
{
	static const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = JOURNAL };
	char entry[SIZE_LINE];
	int n = snprintf(entry, sizeof(entry),
			 "PRIORITY=%d\nSYSLOG_IDENTIFIER=psid\n%sMESSAGE=%s\n", level, fields,
			 text);

	return journal_fd >= 0 &&
	       sendto(journal_fd, entry, (size_t)MIN(n, SIZE_LINE - 1), MSG_NOSIGNAL,
		      (const struct sockaddr *)&address, sizeof(address)) >= 0;
}

/* "2026-01-31 12:00:00 ", or nothing. */
static void date(char *buf, size_t size)
{
	time_t now = time(NULL);
	struct tm tm;

	buf[0] = '\0';
	if (file[0] && localtime_r(&now, &tm))
		(void)strftime(buf, size, "%Y-%m-%d %H:%M:%S ", &tm);
}

/* A file that is full makes room. One that can't goes on. */
static void begin_anew(void)
{
	char old[SIZE_PATH + 4];
	struct stat st;
	int fd;

	if (!file[0] || fstat(STDERR_FILENO, &st) < 0 || st.st_size < SIZE_FILE_MAX)
		return;
	(void)snprintf(old, sizeof(old), "%s.old", file);
	if (rename(file, old) < 0)
		return;
	fd = psid_log_open(file);
	if (fd < 0)
		return;
	(void)dup2(fd, STDERR_FILENO);
	(void)close_own(fd);
}

static void to_stderr(enum psid_level level, const char *text)
{
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	char line[SIZE_LINE], when[32];
	int n;

	begin_anew();
	date(when, sizeof(when));
	if (journal)
		n = snprintf(line, sizeof(line), "<%d>%s\n", level, text);
	else if (level == PSID_INFO)
		n = snprintf(line, sizeof(line), "%spsid: %s\n", when, text);
	else
		n = snprintf(line, sizeof(line), "%spsid: %s: %s\n", when, psid_level_name(level),
			     text);
	if (poll(&ready, 1, 0) == 1)
		(void)!write(STDERR_FILENO, line, (size_t)n);
}

static void __attribute__((format(printf, 3, 0)))
say(enum psid_level level, const char *fields, const char *format, va_list args)
{
	char text[SIZE_TEXT];

	(void)vsnprintf(text, sizeof(text), format, args);
	(void)wire_utf8_plain(text, text, sizeof(text));
	if (!journal || !to_journal(level, fields, text))
		to_stderr(level, text);
}

bool psid_log_shows(enum psid_level level)
{
	return level <= shown;
}

void psid_log(enum psid_level level, const char *format, ...)
{
	va_list args;

	if (!psid_log_shows(level))
		return;
	va_start(args, format);
	say(level, "", format, args);
	va_end(args);
}

void psid_log_of(enum psid_occasion occasion, enum psid_level level, const char *subject,
		 const char *format, ...)
{
	const char *field = subject ? occasions[occasion].field : NULL;
	char fields[SIZE_LINE - SIZE_TEXT - 64];
	va_list args;

	if (!psid_log_shows(level))
		return;
	(void)snprintf(fields, sizeof(fields), "MESSAGE_ID=%s\n%s%s%.100s%s",
		       occasions[occasion].id, field ? field : "", field ? "=" : "",
		       field ? subject : "", field ? "\n" : "");
	va_start(args, format);
	say(level, fields, format, args);
	va_end(args);
}
