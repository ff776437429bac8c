/*
 * The process of a keeper: what it must hold comes on descriptors of fixed numbers (keeper_fds.h), and
 * nothing else of ours does: every other descriptor is closed by exec, signals are as at a login.
 *
 * Nothing here belongs to a psid: the starter of the system's service does the same in its stead.
 */
#include "clone.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"

int psid_keeper_find(char *buf, size_t size)
{
	char self[400], path[512];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	static const char *const places[] = { "../libexec/pulc/keeper", "keeper" };

	if (n < 0)
		return -errno;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", self, places[i]);
		if (access(path, X_OK) == 0 && (size_t)snprintf(buf, size, "%s", path) < size)
			return 0;
	}
	return -ENOENT;
}

/* In the child: system calls only. */
static _Noreturn void become_keeper(const char *program, const char *id, struct psid_gifts gifts,
				    int null)
{
	sigset_t none;

	for (int i = 0; i < KEEPER_N_FDS; i++) /* out of the way of the numbers that are needed */
		if (gifts.fds[i] >= 0)
			gifts.fds[i] = fcntl(gifts.fds[i], F_DUPFD_CLOEXEC, KEEPER_FD_END + 8);
	(void)dup2(null, STDIN_FILENO);
	(void)dup2(null, STDOUT_FILENO);
	for (int i = 0; i < KEEPER_N_FDS; i++)
		if (gifts.fds[i] < 0)
			(void)close_own(KEEPER_FD_START + i);
		else
			(void)dup2(gifts.fds[i], KEEPER_FD_START + i);
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execl(program, "keeper", id, (char *)NULL);
	_exit(127);
}

pid_t psid_keeper_clone(const char *program, const char *id, const struct psid_gifts *gifts,
			int cgroup_fd, int *ret_pidfd)
{
	CLEANUP_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int pidfd = -EBADF;
	struct clone_args args = {
		.flags = CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	sigset_t all, before;
	long pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		become_keeper(program, id, *gifts, null);
	pid = pid < 0 ? -errno : pid;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid > 0)
		*ret_pidfd = pidfd;
	return (pid_t)pid;
}
