/*
 * Programs that work for us at the other end of a socket, their standard input and output. Its end
 * is how they learn that we are gone, so nobody else may have ours. They are in sessions of their
 * own: what a terminal sends is for us alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "lodging.h"
#include "macros.h"
#include "talk.h"

#define SEC_WAIT 40 /* more than agents need at worst */
#define USEC_LOOK 2000

static _Noreturn void become(char *const *words, int fd)
{
	sigset_t none;

	(void)setsid();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(fd, STDIN_FILENO) >= 0 && dup2(fd, STDOUT_FILENO) >= 0) {
		(void)execvp(words[0], words);
		dprintf(STDERR_FILENO, "pulcrun: %s: %s\n", words[0], strerror(errno));
	}
	_exit(EXIT_FAILURE);
}

int helper_start(struct helper *helper, char *const *words)
{
	CLEANUP_FD int ours = -EBADF, theirs = -EBADF;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	ours = ends[0];
	theirs = ends[1];
	helper->pid = fork();
	if (helper->pid < 0) {
		helper->pid = 0;
		return -errno;
	}
	if (helper->pid == 0)
		become(words, theirs);
	helper->fd = TAKE_FD(ours);
	return 0;
}

/* A line of what has come. Returns its length with the end, 0: there is none yet. */
static size_t line_in(const struct helper *helper)
{
	const char *end = memchr(helper->line, '\n', helper->n_line);

	return end ? (size_t)(end - helper->line) + 1 : 0;
}

int helper_hear(struct helper *helper, uint64_t nsec_end, char *buf, size_t size)
{
	size_t n;
	ssize_t got;
	int r;

	while ((n = line_in(helper)) == 0) {
		if (helper->n_line == sizeof(helper->line))
			return -EMSGSIZE;
		r = wire_talk_await(helper->fd, nsec_end);
		if (r < 0)
			return r;
		got = recv(helper->fd, helper->line + helper->n_line,
			   sizeof(helper->line) - helper->n_line, MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
			return -EPIPE;
		helper->n_line += (size_t)MAX(got, 0);
	}
	if (n > size)
		return -EMSGSIZE;
	(void)snprintf(buf, size, "%.*s", (int)n - 1, helper->line);
	memmove(helper->line, helper->line + n, helper->n_line - n);
	helper->n_line -= n;
	return 0;
}

int helper_tell(struct helper *helper, const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t n = send(helper->fd, text, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

bool helper_ignore(struct helper *helper)
{
	char rest[4096];
	ssize_t n;

	do
		n = recv(helper->fd, rest, sizeof(rest), MSG_DONTWAIT);
	while (n > 0);
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

void helper_hang_up(struct helper *helper)
{
	if (helper->pid > 0)
		(void)shutdown(helper->fd, SHUT_WR);
}

void helper_wait(struct helper *helper)
{
	uint64_t end = nsec_now() + SEC_WAIT * NSEC_PER_SEC;
	bool killed = false;

	if (helper->pid <= 0)
		return;
	while (waitpid(helper->pid, NULL, WNOHANG) == 0) {
		(void)helper_ignore(helper);
		if (!killed && nsec_now() > end) {
			(void)kill(helper->pid, SIGKILL);
			killed = true;
		}
		(void)usleep(USEC_LOOK);
	}
	helper->fd = close_own(helper->fd);
	helper->pid = 0;
}
