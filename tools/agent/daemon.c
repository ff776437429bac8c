/*
 * The psid, a child of ours in the foreground. Whatever it or a job leaves behind becomes our child
 * (we are a subreaper), so that it can be found and killed at the end.
 *
 * It may die as any psid may: connections and jobs go on, and the next one is started in its place.
 * One that dies at once, again and again, is given up.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "cleanup.h"
#include "clock.h"
#include "keeper_fds.h"
#include "macros.h"
#include "library.h"
#include "talk.h"

#define SEC_START 30
#define SEC_JOBS 10
/* Keepers: the one that others are copies of, and the one that waits for the next job. */
#define N_WITHOUT_JOB 2
#define SEC_STOP 5
#define USEC_LOOK 5000
#define N_STARTS_MAX 20
#define SEC_LIFE 1 /* of a psid that may be started again */

static _Noreturn void become_psid(const char *program, pid_t parent)
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
	if (getppid() != parent || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDOUT_FILENO) < 0)
		_exit(EXIT_FAILURE);
	(void)close_range(STDERR_FILENO + 1, ~0u, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execl(program, "psid", "--config", "/dev/null", (char *)NULL);
	_exit(EXIT_FAILURE);
}

int daemon_start(struct daemon *daemon)
{
	pid_t parent = getpid();
	char program[PATH_MAX];
	int r = run_beside("../../bin/psid", program, sizeof(program));

	if (r < 0)
		return r;
	daemon->n_starts++;
	daemon->nsec_started = nsec_now();
	daemon->pid = fork();
	if (daemon->pid == 0)
		become_psid(program, parent);
	return daemon->pid < 0 ? -errno : 0;
}

int daemon_await(struct daemon *daemon)
{
	uint64_t end = nsec_now() + SEC_START * NSEC_PER_SEC;

	while (nsec_now() < end) {
		CLEANUP_FD int fd = -EBADF;

		if (wire_talk_call(1, NULL, 0, &fd) == 0)
			return 0;
		if (waitpid(daemon->pid, NULL, WNOHANG) == daemon->pid) {
			daemon->pid = 0;
			return -ECHILD;
		}
		(void)usleep(USEC_LOOK);
	}
	return -ETIMEDOUT;
}

int daemon_reap(struct daemon *daemon)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		if (pid == daemon->pid)
			daemon->pid = 0;
	if (daemon->pid != 0 || daemon->unwanted)
		return 0;
	if (daemon->n_starts >= N_STARTS_MAX ||
	    nsec_now() - daemon->nsec_started < SEC_LIFE * NSEC_PER_SEC) {
		daemon->unwanted = true;
		return -ECHILD;
	}
	return daemon_start(daemon);
}

/* The first n children of a process. Returns how many there are of them. */
static size_t children_of(pid_t pid, pid_t *children, size_t n)
{
	char path[64];
	FILE *file;
	size_t i = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	file = fopen(path, "re");
	while (file && i < n && fscanf(file, "%d", &children[i]) == 1)
		i++;
	if (file)
		(void)fclose(file);
	return i;
}

/* Is it a keeper without a job? */
static bool waits_for_job(pid_t pid)
{
	char path[64], name[32] = "";
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	(void)fscanf(file, "%31s", name);
	(void)fclose(file);
	return strcmp(name, KEEPER_NAME_WAITS) == 0 || strcmp(name, KEEPER_NAME_ZYGOTE) == 0;
}

/* A psid has no other children than keepers, and no more than two of them without a job. */
static bool has_jobs(pid_t psid)
{
	pid_t children[N_WITHOUT_JOB + 1];
	size_t n = children_of(psid, children, ARRAY_SIZE(children));

	for (size_t i = 0; i < n; i++)
		if (!waits_for_job(children[i]))
			return true;
	return n > N_WITHOUT_JOB;
}

void daemon_await_jobs(const struct daemon *daemon)
{
	uint64_t end = nsec_now() + SEC_JOBS * NSEC_PER_SEC;

	while (daemon->pid > 0 && has_jobs(daemon->pid) && nsec_now() < end)
		(void)usleep(USEC_LOOK);
}

void daemon_stop(struct daemon *daemon)
{
	uint64_t end = nsec_now() + SEC_STOP * NSEC_PER_SEC;
	bool killed = false;

	daemon->unwanted = true;
	if (daemon->pid == 0)
		return;
	(void)kill(daemon->pid, SIGTERM);
	while (waitpid(daemon->pid, NULL, WNOHANG) == 0) {
		if (!killed && nsec_now() > end) {
			(void)kill(daemon->pid, SIGKILL);
			killed = true;
		}
		(void)usleep(USEC_LOOK / 5);
	}
	daemon->pid = 0;
}

void daemon_kill_all(void)
{
	uint64_t end = nsec_now() + SEC_JOBS * NSEC_PER_SEC;
	pid_t children[64];
	size_t n;

	while ((n = children_of(getpid(), children, 64)) > 0 && nsec_now() < end) {
		for (size_t i = 0; i < n; i++)
			(void)kill(children[i], SIGKILL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		(void)usleep(USEC_LOOK / 5);
	}
}
