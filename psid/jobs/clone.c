/*
 * The process of a keeper: what it must hold comes on descriptors of fixed numbers (keeper_fds.h),
 * and nothing else of ours does: every other descriptor is closed by exec, signals are as at a
 * login. It has our memory until then and we wait for it, as with vfork: to copy the tables of that
 * memory took longer.
 *
 * Nothing here belongs to a psid: the starter of the system's service does the same in its stead.
 */
#include "clone.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "rawclone.h"
#include "rawsys.h"

#define SIZE_STACK 8192

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

/* What the child reads; we wait until it has memory of its own. */
struct birth {
	const char *program;
	char *const *arguments;
	struct psid_gifts gifts;
	int null;
};

RAW_CLONE_CHILD static void take_gifts(struct birth *birth)
{
	int *fds = birth->gifts.fds;

	for (int i = 0; i < KEEPER_N_FDS; i++) /* out of the way of the numbers that are needed */
		if (fds[i] >= 0)
			fds[i] = raw_fcntl(fds[i], F_DUPFD_CLOEXEC, KEEPER_FD_END + 8);
	(void)raw_syscall(SYS_dup3, birth->null, STDIN_FILENO, 0);
	(void)raw_syscall(SYS_dup3, birth->null, STDOUT_FILENO, 0);
	for (int i = 0; i < KEEPER_N_FDS; i++)
		if (fds[i] < 0)
			(void)raw_close(KEEPER_FD_START + i);
		else
			(void)raw_syscall(SYS_dup3, fds[i], KEEPER_FD_START + i, 0);
}

RAW_CLONE_CHILD static void become_keeper(void *data)
{
	static const unsigned long none;
	struct birth *birth = data;

	take_gifts(birth);
	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
	(void)raw_syscall(SYS_execve, birth->program, birth->arguments, environ);
	for (;;)
		(void)raw_syscall(SYS_exit_group, 127);
}

pid_t psid_keeper_clone(const char *program, const char *id, const struct psid_gifts *gifts,
			int cgroup_fd, int *ret_pidfd)
{
	CLEANUP_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char *const arguments[] = { (char *)"keeper", (char *)id, NULL };
	struct birth birth = { program, arguments, *gifts, null };
	alignas(16) char stack[SIZE_STACK];
	int pidfd = -EBADF;
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
		.stack = (uint64_t)(uintptr_t)stack,
		.stack_size = sizeof(stack),
	};
	sigset_t all, before;
	long pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = raw_clone3(&args, become_keeper, &birth);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid > 0)
		*ret_pidfd = pidfd;
	return (pid_t)pid;
}
