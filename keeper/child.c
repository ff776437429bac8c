/*
 * A child until it is the program.
 *
 * It is made by clone3, in the cgroup of the job from its first instruction. It shares the keeper's
 * memory until then: copying that, page by page, and throwing it away again was a third of what a
 * task cost. Unlike vfork nobody waits for it, so that the next one is made meanwhile: each has a
 * stack and everything else it needs for itself, in a struct child, which is used again when the
 * kernel has said (CLONE_CHILD_CLEARTID) that the child has memory of its own, or is no more. What
 * all of them read does not change while a job has tasks.
 *
 * Where there are many, a process between the keeper and them, a crew's, makes up to CREW_MAX of
 * them, as the keeper's children (CLONE_PARENT), while the keeper waits as with vfork. The keeper
 * has several descriptors for each task; a copy of all of them for each, and their closing by exec,
 * was a sixth of what the last of 128 tasks cost. The crew's process is in the cgroup already,
 * which spares the kernel to ask whether each may be, and it has only the descriptors that its own
 * tasks get.
 *
 * The child makes raw system calls only: errno is the keeper's. From its first instruction signals
 * do to it what they do to a program: it has no handler of the keeper's (CLONE_CLEAR_SIGHAND), the
 * keeper blocks none, and ignores none while it makes children. Why a program could not be started
 * comes back as an errno in memory that both share: no pipe for each task, and nothing to wait for.
 * It is a leader of a session of its own, so that signals reach it with what it starts and no
 * terminal's do by accident.
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
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "identity.h"
#include "macros.h"
#include "program.h"
#include "rawclone.h"
#include "rawsys.h"
#include "reap.h"

struct children {
	TAILQ_HEAD(, child) all; /* the oldest first */
	pid_t crew;		 /* the last crew's process, not buried; 0: there is none */
	struct program program;
	struct limits limits;
};

/* ---- in the child ---------------------------------------------------------------------------- */

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

/* As the keeper's child: whoever calls this is the keeper, or a child of its. */
RAW_CLONE_CHILD static struct clone_args args_of(struct child *child)
{
	return (struct clone_args){
		.flags = CLONE_VM | CLONE_CLEAR_SIGHAND | CLONE_CHILD_CLEARTID,
		.child_tid = (uint64_t)(uintptr_t)&child->busy,
		.stack = (uint64_t)(uintptr_t)child->stack,
		.stack_size = sizeof(child->stack),
	};
}

/* ---- in the process between ------------------------------------------------------------------ */

struct crew {
	struct child **members;
	size_t n;
	int fds[CREW_MAX * 4]; /* the ends of all of them, ordered; some twice */
	size_t n_fds;
};

RAW_CLONE_CHILD static void keep_only(const struct crew *crew)
{
	int next = 0;

	for (size_t i = 0; i < crew->n_fds; i++) {
		if (crew->fds[i] > next)
			(void)raw_syscall(SYS_close_range, next, crew->fds[i] - 1, 0);
		next = crew->fds[i] + 1;
	}
	(void)raw_syscall(SYS_close_range, next, ~0U, 0);
}

/* An empty input is everybody's. */
RAW_CLONE_CHILD static void let_go(const struct child *child)
{
	const struct ends *ends = &child->ends;

	if (ends->std[0] != child->task->keeper->null_fd)
		(void)raw_close(ends->std[0]);
	if (ends->std[0] != ends->std[1]) {
		(void)raw_close(ends->std[1]);
		(void)raw_close(ends->std[2]);
	}
	(void)raw_close(ends->pmi);
}

RAW_CLONE_CHILD static void start_crew(void *data)
{
	const struct crew *crew = data;

	keep_only(crew);
	for (size_t i = 0; i < crew->n; i++) {
		struct child *child = crew->members[i];
		struct clone_args args = args_of(child);

		long r;

		args.flags |= CLONE_PARENT | CLONE_PARENT_SETTID;
		args.parent_tid = (uint64_t)(uintptr_t)&child->pid;
		r = raw_clone3(&args, become_program, child);
		if (r < 0) {
			child->pid = (pid_t)r;
			child->busy = 0;
		}
		let_go(child);
	}
	for (;;)
		(void)raw_syscall(SYS_exit_group, 0);
}

/* ---- in the keeper --------------------------------------------------------------------------- */

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
	child->pid = -ECANCELED;
	child->busy = 1;
	bind_to_processors(child);
	return child;
}

/* Returns the number of a process that begins in run, in the job's cgroup; negative errno. */
static long clone_in_cgroup(struct keeper *k, struct clone_args *args, void (*run)(void *),
			    void *data)
{
	long pid;

	if (k->cgroup_fd < 0)
		return raw_clone3(args, run, data);
	args->flags |= CLONE_INTO_CGROUP;
	args->cgroup = (uint64_t)k->cgroup_fd;
	pid = raw_clone3(args, run, data);
	if (pid != -EACCES && pid != -EPERM && pid != -EBUSY)
		return pid;
	args->flags &= ~(uint64_t)CLONE_INTO_CGROUP;
	pid = raw_clone3(args, run, data);
	if (pid > 0) { /* no longer everything is in it: the tree is what counts */
		k->cgroup_fd = close_own(k->cgroup_fd);
		k->kill_fd = close_own(k->kill_fd);
	}
	return pid;
}

void keeper_child_free(struct child *child)
{
	child->busy = 0;
}

static void clone_alone(struct keeper *k, struct child *child)
{
	struct clone_args args = args_of(child);

	args.exit_signal = SIGCHLD;
	child->pid = (pid_t)clone_in_cgroup(k, &args, become_program, child);
	if (child->pid < 0)
		child->busy = 0;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* What the members need, in the order of their numbers. */
static void list_ends(struct crew *crew)
{
	crew->n_fds = 0;
	for (size_t i = 0; i < crew->n; i++) {
		const struct ends *ends = &crew->members[i]->ends;
		const int fds[] = { ends->std[0], ends->std[1], ends->std[2], ends->pmi };

		for (size_t j = 0; j < ARRAY_SIZE(fds); j++)
			if (fds[j] >= 0)
				crew->fds[crew->n_fds++] = fds[j];
	}
	qsort(crew->fds, crew->n_fds, sizeof(crew->fds[0]), compare);
}

/* Returns a negative errno: nobody was started. */
static long clone_crew(struct keeper *k, struct child **children, size_t n)
{
	alignas(16) unsigned char stack[CHILD_SIZE_STACK];
	struct crew crew = { .members = children, .n = n };
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND,
		.exit_signal = SIGCHLD,
		.stack = (uint64_t)(uintptr_t)stack,
		.stack_size = sizeof(stack),
	};

	list_ends(&crew);
	return clone_in_cgroup(k, &args, start_crew, &crew);
}

/* A dead process counts as one until then, where there is a limit of them. */
static void bury_crew(struct children *all)
{
	if (all->crew > 0)
		(void)waitpid(all->crew, NULL, 0);
	all->crew = 0;
}

/* The crew's process may have been the one too many. */
static void make_up(struct keeper *k, struct child **children, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (children[i]->pid != -EAGAIN)
			continue;
		bury_crew(k->children);
		children[i]->busy = 1;
		clone_alone(k, children[i]);
	}
}

static void clone_all(struct keeper *k, struct child **children, size_t n)
{
	long crew;

	for (size_t i = 0; i < n; i++)
		children[i]->keeper = getpid();
	bury_crew(k->children);
	crew = n > 1 ? clone_crew(k, children, n) : 0;
	if (crew > 0) {
		k->children->crew = (pid_t)crew;
		make_up(k, children, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		clone_alone(k, children[i]);
}

static void do_nothing(int number)
{
	(void)number;
}

static void handle_ignored(void (*handler)(int))
{
	static const int ignored[] = { KEEPER_SIGNALS_IGNORED };

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)signal(ignored[i], handler);
}

/* Who is born ignoring a signal loses one that comes before it could put that right. */
void keeper_children_clone(struct keeper *k, struct child **children, size_t n)
{
	handle_ignored(do_nothing);
	clone_all(k, children, n);
	handle_ignored(SIG_IGN);
}
