/*
 * The life of a task: WAITS (for its PMI service) -> RUNS -> ENDED. What happens between its
 * beginning and its program is in child.c.
 */
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cleanup.h"
#include "clock.h"
#include "head.h"
#include "input.h"
#include "link.h"
#include "macros.h"
#include "output.h"
#include "owner.h"
#include "pmi.h"
#include "pty.h"
#include "reap.h"
#include "signals.h"

struct task *keeper_task(struct keeper *k, uint32_t rank)
{
	for (uint32_t i = 0; k->tasks && i < k->n_tasks; i++)
		if (k->tasks[i].rank == rank)
			return &k->tasks[i];
	return NULL;
}

/* ---- starting -------------------------------------------------------------------------------- */

static int open_output(struct task *task, int i, int *ret_theirs)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	keeper_output_open(&task->out[i], fds[0]);
	*ret_theirs = fds[1];
	return 0;
}

static int open_input(struct task *task, int *ret_theirs)
{
	struct keeper *k = task->keeper;
	int fds[2];

	if (!keeper_input_wanted(k, task)) {
		if (k->null_fd < 0)
			k->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		*ret_theirs = k->null_fd;
		return k->null_fd < 0 ? -errno : 0;
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	keeper_input_open(task, fds[1]);
	*ret_theirs = fds[0];
	return 0;
}

static int open_ends(struct task *task, struct ends *ends)
{
	int r;

	if (keeper_is_pty(task)) {
		r = keeper_pty_open(task, ends->std);
	} else {
		r = open_input(task, &ends->std[0]);
		for (int i = 0; r == 0 && i < 2; i++)
			r = open_output(task, i, &ends->std[1 + i]);
	}
	if (r == 0)
		r = keeper_pmi_open(task, &ends->pmi);
	return r;
}

static void close_ends(const struct keeper *k, struct ends ends)
{
	bool terminal = ends.std[0] == ends.std[1];

	if (ends.std[0] != k->null_fd)
		(void)close_own(ends.std[0]);
	if (!terminal) {
		(void)close_own(ends.std[1]);
		(void)close_own(ends.std[2]);
	}
	(void)close_own(ends.pmi);
}

static void ended(struct task *task, const struct rusage *usage);

/* A task that never was: it has ended with an errno; ECANCELED: by the kill that kept it from
 * beginning. */
static void failed(struct task *task, int error)
{
	static const struct rusage none;

	if (error == ECANCELED)
		task->status = SIGKILL;
	else
		task->error = error;
	task->state = TASK_ENDED;
	ended(task, &none);
}

/* What it needs to be started. NULL: it has failed. */
static struct child *prepare(struct task *task)
{
	struct child *child = keeper_child_new(task);
	int r;

	if (!child) {
		failed(task, ENOMEM);
		return NULL;
	}
	r = open_ends(task, &child->ends);
	if (r == 0)
		r = keeper_environment(&child->environment, task, child->ends.pmi);
	if (r == 0)
		return child;
	close_ends(task->keeper, child->ends);
	keeper_child_free(child);
	failed(task, -r);
	return NULL;
}

static void started(struct child *child)
{
	struct task *task = child->task;

	close_ends(task->keeper, child->ends);
	if (child->pid > 0) {
		task->pid = child->pid;
		task->state = TASK_RUNS;
		task->keeper->n_running++;
	} else {
		failed(task, -child->pid);
	}
}

/* Returns how many. */
static uint32_t start_some(struct keeper *k, struct task *tasks, uint32_t n)
{
	struct child *children[CREW_MAX];
	uint64_t nsec;
	size_t n_children = 0;

	n = MIN(n, CREW_MAX);
	for (uint32_t i = 0; i < n; i++) {
		children[n_children] = prepare(&tasks[i]);
		n_children += children[n_children] != NULL;
	}
	nsec = nsec_now();
	for (size_t i = 0; i < n_children; i++)
		children[i]->task->nsec_started = nsec;
	if (!k->killing)
		keeper_children_clone(k, children, n_children);
	for (size_t i = 0; i < n_children; i++)
		started(children[i]);
	return n;
}

/* The first one alone: while it becomes its program the others are prepared. */
static void start_all(struct keeper *k)
{
	for (uint32_t i = 0, n = 1; i < k->n_tasks && !k->killing; n = k->n_tasks - i)
		i += start_some(k, &k->tasks[i], n);
}

static void tell_started(struct keeper *k)
{
	Pulc__Job__Started started = PULC__JOB__STARTED__INIT;
	JOB_MESSAGE(msg, STARTED, started) = &started;

	started.n = k->n_running;
	channel_put(&k->owner, &msg);
}

static int go_there(struct keeper *k)
{
	int r;

	(void)umask(k->spec->umask & 0777);
	if (!k->spec->directory[0] || chdir(k->spec->directory) == 0)
		return 0;
	r = -errno;
	keeper_say(k, "directory %s on %s: %s", k->spec->directory, k->place->node, strerror(-r));
	for (uint32_t i = 0; i < k->n_tasks; i++)
		k->tasks[i].no_directory = true;
	return r;
}

void keeper_tasks_launch(struct keeper *k)
{
	int r = go_there(k);

	if (r == 0 && keeper_children_start(k) < 0)
		keeper_fail("tasks", -ENOMEM);
	k->n_running++; /* nobody may find the job over while it begins */
	if (r == 0)
		start_all(k);
	for (uint32_t i = 0; r < 0 && i < k->n_tasks; i++)
		failed(&k->tasks[i], -r);
	for (uint32_t i = 0; i < k->n_tasks; i++)
		if (k->tasks[i].state == TASK_WAITS)
			failed(&k->tasks[i], ECANCELED);
	k->launched = true;
	k->n_running--;
	keeper_signals_begin(k);
	tell_started(k);
	keeper_input_begin(k);
	keeper_link_tasks(k);
	keeper_reap(k); /* before they are polled */
	keeper_output_begin(k);
	keeper_pmi_begin(k);
}

void keeper_tasks_start(struct keeper *k)
{
	if (k->n_tasks == 0) {
		keeper_look_for_end(k);
		return;
	}
	k->null_fd = -EBADF;
	k->tasks = calloc(k->n_tasks, sizeof(*k->tasks));
	if (!k->tasks)
		keeper_fail("tasks", -ENOMEM);
	for (uint32_t i = 0; i < k->n_tasks; i++) {
		struct task *task = &k->tasks[i];

		*task = (struct task){ .keeper = k, .rank = k->place->ranks[i], .local = i };
		task->in.fd = task->pmi.fd = -EBADF;
		for (int s = 0; s < 2; s++)
			task->out[s] = (struct output){ .task = task,
							.stream = FRAME_STDOUT + s,
							.fd = -EBADF };
	}
	keeper_environment_begin(k);
	if (k->killing || keeper_pmi_start(k) == 0)
		keeper_tasks_launch(k);
}

void keeper_tasks_cancel(struct keeper *k)
{
	if (!k->tasks || k->launched || k->n_running > 0)
		return;
	keeper_pmi_stop(k);
	keeper_tasks_launch(k);
}

/* ---- the end --------------------------------------------------------------------------------- */

static uint64_t usec(struct timeval t)
{
	return (uint64_t)t.tv_sec * USEC_PER_SEC + (uint64_t)t.tv_usec;
}

static void ended(struct task *task, const struct rusage *usage)
{
	Pulc__Job__Exited exited = PULC__JOB__EXITED__INIT;
	JOB_MESSAGE(msg, EXITED, exited) = &exited;

	exited.rank = task->rank;
	exited.pid = (uint32_t)task->pid;
	exited.error = (uint32_t)task->error;
	exited.no_directory = task->no_directory;
	exited.aborted = task->aborted;
	if (task->aborted)
		exited.code = task->abort_code;
	else if (WIFEXITED(task->status))
		exited.code = (uint32_t)WEXITSTATUS(task->status);
	if (WIFSIGNALED(task->status))
		exited.signal = (uint32_t)WTERMSIG(task->status);
	exited.usec_user = usec(usage->ru_utime);
	exited.usec_system = usec(usage->ru_stime);
	exited.size_memory = (uint64_t)usage->ru_maxrss * 1024;
	exited.usec = task->nsec_started ? (nsec_now() - task->nsec_started) / NSEC_PER_USEC : 0;
	keeper_head_report(task->keeper, &msg);
}

void keeper_tasks_leave(struct keeper *k)
{
	static const struct rusage unknown;

	for (uint32_t i = 0; k->tasks && i < k->n_tasks; i++)
		if (k->tasks[i].state == TASK_RUNS)
			keeper_task_ended(&k->tasks[i], SIGKILL, &unknown);
}

void keeper_task_ended(struct task *task, int status, const struct rusage *usage)
{
	struct keeper *k = task->keeper;

	task->state = TASK_ENDED;
	task->status = status;
	k->n_running--;
	keeper_output_drain(task);
	keeper_input_close(task);
	keeper_pmi_close(task);
	ended(task, usage);
	keeper_link_tasks(k);
}
