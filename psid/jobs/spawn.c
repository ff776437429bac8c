/*
 * Starting a keeper: one clone into the cgroup of the job, one exec.
 *
 * What the keeper must know comes in a sealed memory file, what it must hold on descriptors of fixed
 * numbers (keeper_fds.h). It starts as we are; the system's psid tells it which user to become, with groups
 * and limits that the kernel has told us about the caller, never the caller himself.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "job.h"
#include "keeper_fds.h"
#include "log.h"
#include "psid.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* The program: beside us as it is installed or built, found once. */
static int find_keeper(struct psid_jobs *jobs)
{
	char self[400];
	ssize_t n;
	char *slash;

	if (jobs->keeper[0])
		return 0;
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return -errno;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	(void)snprintf(jobs->keeper, sizeof(jobs->keeper), "%s/../libexec/pulc/keeper", self);
	if (access(jobs->keeper, X_OK) == 0)
		return 0;
	jobs->keeper[0] = '\0';
	return -ENOENT;
}

static int write_start(const Pulc__Job__Start *start, int *ret_fd)
{
	size_t len = pulc__job__start__get_packed_size(start);
	CLEANUP_FREE uint8_t *bytes = malloc(len);
	CLEANUP_FD int fd = memfd_create("pulc-job", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (!bytes)
		return -ENOMEM;
	if (fd < 0)
		return -errno;
	(void)pulc__job__start__pack(start, bytes);
	if (write(fd, bytes, len) != (ssize_t)len || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return -EIO;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* What the keeper finds at KEEPER_FD_START and after. */
struct gifts {
	int fds[KEEPER_FD_END - KEEPER_FD_START];
	int null;
};

/* In the child: system calls only. Everything else of ours is closed by exec. */
static _Noreturn void become_keeper(const struct psid_jobs *jobs, const char *id,
				    struct gifts *gifts)
{
	const int n = KEEPER_FD_END - KEEPER_FD_START;
	sigset_t none;

	for (int i = 0; i < n; i++) /* out of the way of the numbers that are needed */
		if (gifts->fds[i] >= 0)
			gifts->fds[i] = fcntl(gifts->fds[i], F_DUPFD_CLOEXEC, KEEPER_FD_END + 8);
	(void)dup2(gifts->null, STDIN_FILENO);
	(void)dup2(gifts->null, STDOUT_FILENO);
	for (int i = 0; i < n; i++)
		if (gifts->fds[i] < 0)
			(void)close_own(KEEPER_FD_START + i);
		else
			(void)dup2(gifts->fds[i], KEEPER_FD_START + i);
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execl(jobs->keeper, "keeper", id, (char *)NULL);
	_exit(127);
}

static pid_t clone_keeper(int cgroup_fd, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
	};
	long pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = syscall(SYS_clone3, &args, sizeof(args));
	return pid < 0 ? -errno : (pid_t)pid;
}

static int spawn(struct psid_job *job, struct gifts *gifts, int cgroup_fd)
{
	sigset_t all, before;
	int pidfd = -EBADF;
	pid_t pid;

	gifts->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = clone_keeper(cgroup_fd, &pidfd);
	if (pid == 0)
		become_keeper(job->psid->jobs, job->id, gifts);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)close_own(gifts->null);
	return pid < 0 ? pid : psid_job_watch(job, pid, pidfd, true);
}

int psid_job_spawn(struct psid_job *job, Pulc__Job__Start *start, int owner_fd, int listen_fd)
{
	CLEANUP_FD int start_fd = -EBADF, cgroup = -EBADF, tasks = -EBADF;
	struct gifts gifts;
	int r;

	r = find_keeper(job->psid->jobs);
	if (r < 0) {
		psid_log(PSID_ERROR, "../libexec/pulc/keeper is not there: no job can be started");
		return r;
	}
	r = psid_job_bind(job, start);
	if (r == 0)
		r = write_start(start, &start_fd);
	psid_bindings_free(start); /* of this node only */
	if (r < 0)
		return r;
	r = psid_cgroup_make(job, &cgroup, &tasks);
	if (r < 0 && r != -ENOENT)
		psid_log(PSID_WARNING, "no cgroup for job %s: %s", job->id, strerror(-r));
	gifts = (struct gifts){ .fds = { start_fd, owner_fd, tasks, listen_fd } };
	return spawn(job, &gifts, cgroup);
}
