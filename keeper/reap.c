/*
 * Reaping.
 *
 * Every process of the job ends here: the tasks are our children, and what they leave behind
 * becomes our child, because we are its subreaper. A task is not reaped before its end is recorded,
 * so that its number can't become somebody else's while we still signal it.
 *
 * The job is over here when its last task is. What it has left running then is killed; when no
 * child is left at all what stands in the pipes is the rest of the output.
 */
#include "reap.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "head.h"
#include "kill.h"
#include "macros.h"
#include "output.h"
#include "owner.h"
#include "pmi.h"
#include "task.h"

static struct task *find_task(struct keeper *k, pid_t pid)
{
	for (uint32_t i = 0; k->tasks && i < k->n_tasks; i++)
		if (k->tasks[i].pid == pid && k->tasks[i].state == TASK_RUNS)
			return &k->tasks[i];
	return NULL;
}

void keeper_all_gone(struct keeper *k)
{
	k->childless = true;
	if (k->tasks)
		keeper_output_last(k);
	keeper_look_for_end(k);
}

/* No task runs any more: the others must go, if there are any. */
static void end_leftovers(struct keeper *k, bool children)
{
	if (k->childless || (k->n_tasks > 0 && !k->tasks))
		return;
	keeper_pmi_stop(k);
	if (!children)
		keeper_all_gone(k);
	else
		keeper_kill(k);
}

void keeper_reap(struct keeper *k)
{
	struct rusage usage;
	struct task *task;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
		task = find_task(k, pid);
		if (task)
			keeper_task_ended(task, status, &usage);
		else
			keeper_pmi_child(k, pid);
	}
	if (k->n_running == 0)
		end_leftovers(k, pid == 0);
}

static void on_child(uv_signal_t *signal, int number)
{
	(void)number;
	keeper_reap(CONTAINER_OF(signal, struct keeper, sigchld));
}

static void on_term(uv_signal_t *signal, int number)
{
	(void)number;
	keeper_head_end(CONTAINER_OF(signal, struct keeper, sigterm));
}

const pid_t *keeper_helpers(struct keeper *k)
{
	static pid_t helpers[2];

	helpers[0] = keeper_pmi_helper(k);
	return helpers;
}

int keeper_reap_start(struct keeper *k)
{
	static const int ignored[] = { KEEPER_SIGNALS_IGNORED };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	r = uv_timer_init(&k->loop, &k->kill_timer);
	if (r == 0)
		r = uv_signal_init(&k->loop, &k->sigchld);
	if (r == 0)
		r = uv_signal_init(&k->loop, &k->sigterm);
	if (r == 0)
		r = uv_signal_start(&k->sigchld, on_child, SIGCHLD);
	if (r == 0)
		r = uv_signal_start(&k->sigterm, on_term, SIGTERM);
	return r;
}
