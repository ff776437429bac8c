/*
 * The parent waits at a pipe: one byte, READY or TAKEN (another psid serves the socket), or its
 * end (failure; the daemon has said why on the parent's stderr, which it keeps until it is
 * ready).
 *
 * In the TAKEN case the other psid holds the lock but may not accept yet, or no more: one that was
 * killed may hold it for a moment after its end. So the parent knocks, and tries with another child
 * when nobody answers, for USEC_KNOCK at most.
 */
#include "daemonize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "log.h"
#include "paths.h"

#define USEC_KNOCK (5 * USEC_PER_SEC)
#define USEC_BETWEEN_KNOCKS 50000

#define READY 'r'
#define TAKEN 't'

static int ready_fd = -EBADF;
static int log_fd = -EBADF;
static char log_path[PSID_SIZE_PATH + 16];

static bool accepts(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static int in_parent(const struct psid_config *config, int fd, pid_t child)
{
	char byte = 0;
	ssize_t n;
	int status;

	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	(void)close_own(fd);
	if (n == 1 && byte == READY)
		return 1;
	if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
		psid_log(PSID_ERROR, "ended before it was ready: %s", strsignal(WTERMSIG(status)));
	if (n != 1 || byte != TAKEN)
		return -ECHILD;
	if (!accepts(config->socket))
		return -EAGAIN;
	psid_log(PSID_INFO, "another psid serves %s", config->socket);
	return 1;
}

/*
 * The log is opened by name in a directory that is ours alone; psid_listener_open checks that
 * again.
 */
static int open_log(const struct psid_config *config)
{
	char *slash;

	(void)wire_runtime_dir_make(config->runtime_dir, config->system);
	(void)snprintf(log_path, sizeof(log_path), "%s", config->socket);
	slash = strrchr(log_path, '/');
	(void)strcpy(slash + 1, "psid.log");
	return psid_log_open(log_path);
}

static void into_background(const struct psid_config *config)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)setsid();
	(void)!chdir("/");
	(void)umask(077);
	if (null >= 0) {
		(void)dup2(null, STDIN_FILENO);
		(void)dup2(null, STDOUT_FILENO);
	}
	(void)dup3(ready_fd, STDERR_FILENO + 1, O_CLOEXEC);
	ready_fd = STDERR_FILENO + 1;
	(void)close_range(STDERR_FILENO + 2, ~0u, 0);
	log_fd = open_log(config);
}

/* As psid_daemonize; -EAGAIN: another psid has the lock, and does not answer. */
static int try_daemonize(const struct psid_config *config)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		(void)close_own(fds[1]);
		return in_parent(config, fds[0], pid);
	}
	(void)close_own(fds[0]);
	ready_fd = fds[1];
	into_background(config);
	return 0;
}

int psid_daemonize(const struct psid_config *config)
{
	uint64_t nsec_end = nsec_now() + USEC_KNOCK * NSEC_PER_USEC;
	int r;

	while ((r = try_daemonize(config)) == -EAGAIN && nsec_now() < nsec_end)
		(void)usleep(USEC_BETWEEN_KNOCKS);
	if (r == -EAGAIN)
		psid_log(PSID_ERROR, "another psid has %s.lock, and does not answer at %s",
			 config->socket, config->socket);
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

static void tell_parent(char byte)
{
	(void)!write(ready_fd, &byte, 1);
	ready_fd = close_own(ready_fd);
}

void psid_daemon_ready(void)
{
	if (ready_fd < 0)
		return;
	(void)dup2(log_fd >= 0 ? log_fd : STDOUT_FILENO, STDERR_FILENO);
	if (log_fd >= 0)
		psid_log_file(log_path);
	log_fd = close_own(log_fd);
	tell_parent(READY);
}

int psid_daemon_status(int r)
{
	if (r == -EBUSY && ready_fd >= 0)
		tell_parent(TAKEN);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
