/*
 * The library's log: off unless PULC_LOG names a file, or is "stderr". One write a line, so that
 * processes sharing a file do not tear each other's lines; no stdio, no malloc, no libc entry point
 * that somebody interposes. The descriptor of a file is moved out of the program's way.
 */
#include "log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pulc/fds.h>

#include "clock.h"
#include "macros.h"
#include "rawsys.h"

#define SIZE_LINE 512

int pulc_log_fd = -1;

void pulc_log_init(void)
{
	const char *where = secure_getenv("PULC_LOG");
	int fd;

	if (!where || !*where)
		return;
	if (strcmp(where, "stderr") == 0) {
		pulc_log_fd = 2;
		return;
	}
	fd = (int)raw_syscall(SYS_openat, AT_FDCWD, where,
			      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644, 0, 0);
	if (fd < 0)
		return;
	pulc_log_fd = fd;
	(void)pulc_fd_adopt(&pulc_log_fd);
}

void pulc_log_line(const char *format, ...)
{
	uint64_t nsec = nsec_now();
	char line[SIZE_LINE];
	va_list args;
	int n, m;

	n = snprintf(line, sizeof(line), "pulc[%d/%d] %llu.%06llu ", raw_getpid(), raw_gettid(),
		     (unsigned long long)(nsec / NSEC_PER_SEC),
		     (unsigned long long)(nsec % NSEC_PER_SEC / NSEC_PER_USEC));
	va_start(args, format);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
	va_end(args);
	n = MIN(n + MAX(m, 0), SIZE_LINE - 2);
	line[n++] = '\n';
	(void)raw_write(pulc_log_fd, line, (size_t)n);
}
