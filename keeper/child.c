/*
 * A child until it is the program.
 *
 * It is made by clone3, in the cgroup of the job from its first instruction and with its pidfd before it may
 * run anything. It shares the keeper's memory until then: copying that, page by page, and throwing
 * it away again was a third of what a task cost. Unlike vfork nobody waits for it, so that the next one
 * is made meanwhile: each has a stack and everything else it needs for itself, in a struct child, which
 * is used again when the kernel has said (CLONE_CHILD_CLEARTID) that the child has memory of its own, or is
 * no more. What all of them read does not change while a job has tasks.
 *
 * The child makes raw system calls only: errno is the keeper's. It has no handler of the keeper's from its first
 * instruction (CLONE_CLEAR_SIGHAND), and the keeper blocks no signals. Why a program could not be started comes
 * back as an errno in memory that both share: no pipe for each task, and nothing to wait for. It is a
 * leader of a session of its own, so that signals reach it with what it starts and no terminal's do by
 * accident.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cleanup.h"
#include "identity.h"
#include "macros.h"
#include "program.h"
#include "rawclone.h"
#include "rawsys.h"
#include "reap.h"

#define SIZE_SIGSET 8u /* the kernel's */

struct children {
	TAILQ_HEAD(, child) all; /* the oldest first */
	struct program program;
	struct limits limits;
};

/* ---- in the child -------------------------------------------------------------------------- */

/* Nothing is handled any more; what the keeper ignores would be ignored by the program too. */
RAW_CLONE_CHILD static void default_signals(void)
{
	static const int ignored[] = { KEEPER_SIGNALS_IGNORED };
	static const unsigned long default_action[4]; /* SIG_DFL, no flags */

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)raw_syscall(SYS_rt_sigaction, ignored[i], default_action, NULL, SIZE_SIGSET);
}

/* Returns whether the standard streams are as they should be. */
RAW_CLONE_CHILD static bool take_ends(const struct ends *ends)
{
	if (ends->std[0] == ends->std[1]) /* a terminal, of our session */
		(void)raw_ioctl(ends->std[0], TIOCSCTTY, NULL);
	for (int i = 0; i < 3; i++)
		if (raw_syscall(SYS_dup3, ends->std[i], i, 0) < 0)
			return false;
	return ends->pmi < 0 || raw_fcntl(ends->pmi, F_SETFD, 0) == 0;
}

RAW_CLONE_CHILD static void become_program(void *data)
{
	struct child *child = data;
	struct task *task = child->task;
	const struct children *all = task->keeper->children;
	int error = EBADF;

	default_signals();
	(void)raw_syscall(SYS_setsid);
	if (take_ends(&child->ends)) {
		keeper_limit(&all->limits);
		if (child->is_bound)
			(void)raw_syscall(SYS_sched_setaffinity, 0, sizeof(child->cpus),
					  &child->cpus);
		(void)raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (raw_syscall(SYS_getppid) == child->keeper)
			error = program_run(&all->program, child->environment.items);
	}
	task->error = error;
	for (;;)
		(void)raw_syscall(SYS_exit_group, 127);
}

/* ---- in the keeper ------------------------------------------------------------------------- */

int keeper_children_start(struct keeper *k)
{
	struct children *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	TAILQ_INIT(&all->all);
	k->children = all;
	keeper_limits_prepare(&all->limits, k->spec->limits, k->spec->n_limits);
	return program_find(&all->program, k->spec->arguments, k->spec->n_arguments);
}

static void bind_to_processors(struct child *child)
{
	const Pulc__Job__Start *start = child->task->keeper->start;
	const Pulc__Job__Processors *binding;

	child->is_bound = child->task->local < start->n_bindings;
	if (!child->is_bound)
		return;
	binding = start->bindings[child->task->local];
	CPU_ZERO(&child->cpus);
	for (size_t i = 0; i < binding->n_cpus; i++)
		CPU_SET(binding->cpus[i], &child->cpus);
}

struct child *keeper_child_new(struct task *task)
{
	struct children *all = task->keeper->children;
	struct child *child = TAILQ_FIRST(&all->all);

	if (child && atomic_load_explicit(&child->busy, memory_order_acquire) == 0) {
		TAILQ_REMOVE(&all->all, child, link);
	} else {
		child = aligned_alloc(alignof(struct child), sizeof(*child));
		if (!child)
			return NULL;
		child->environment = (struct environment){ .items = NULL };
	}
	TAILQ_INSERT_TAIL(&all->all, child, link);
	child->task = task;
	child->ends = (struct ends){ { -EBADF, -EBADF, -EBADF }, -EBADF };
	child->busy = 0;
	bind_to_processors(child);
	return child;
}

pid_t keeper_child_clone(struct child *child, int *ret_pidfd)
{
	struct keeper *k = child->task->keeper;
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_PIDFD | CLONE_CLEAR_SIGHAND | CLONE_CHILD_CLEARTID,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.child_tid = (uint64_t)(uintptr_t)&child->busy,
		.exit_signal = SIGCHLD,
		.stack = (uint64_t)(uintptr_t)child->stack,
		.stack_size = sizeof(child->stack),
	};
	long pid;

	child->keeper = getpid();
	child->busy = 1;
	if (k->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)k->cgroup_fd;
	}
	pid = raw_clone3(&args, become_program, child);
	if (k->cgroup_fd >= 0 && (pid == -EACCES || pid == -EPERM || pid == -EBUSY)) {
		args.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
		pid = raw_clone3(&args, become_program, child);
		if (pid > 0) { /* no longer everything is in it: the tree is what counts */
			k->cgroup_fd = close_own(k->cgroup_fd);
			k->kill_fd = close_own(k->kill_fd);
		}
	}
	if (pid < 0)
		child->busy = 0;
	return (pid_t)pid;
}
