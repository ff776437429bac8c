/*
 * `pulcctl jobs` and `pulcctl tasks`: one line for each job, and for each task.
 */
#include "view.h"

#include <assert.h>
#include <string.h>

#include "macros.h"
#include "text.h"
#include "user.h"

/* ---- jobs ------------------------------------------------------------------------------------ */

static const struct ctl_column job_columns[] = {
	{ .title = "JOB" },
	{ .title = "USER", .shrinks = true },
	{ .title = "PROGRAM", .shrinks = true },
	{ .title = "TASKS", .right = true },
	{ .title = "RUN", .right = true },
	{ .title = "KEEPER", .right = true },
	{ .title = "SINCE", .right = true },
};

static bool any(const ProtobufCMessage *entry, const struct ctl_options *o)
{
	(void)entry;
	(void)o;
	return true;
}

static int add_job(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__JobEntry *e = (const Pulc__Wire__JobEntry *)entry;
	char job[128], user[CTL_SIZE_USER], program[256], tasks[16], running[16], keeper[16],
		since[24];
	const char *cells[] = {
		ctl_text_plain(e->job, job, sizeof(job)),
		ctl_user_name(e->uid, user),
		ctl_text_plain(e->program, program, sizeof(program)),
		tasks,
		running,
		keeper,
		ctl_text_duration(e->started_usec, since, sizeof(since)),
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(job_columns), "a cell for each column");
	(void)snprintf(tasks, sizeof(tasks), "%u", e->n_tasks);
	(void)snprintf(running, sizeof(running), "%u", e->n_running);
	(void)snprintf(keeper, sizeof(keeper), e->keeper ? "%u" : "-", e->keeper);
	return ctl_table_add(table, cells);
}

const struct ctl_list ctl_list_jobs = {
	.columns = job_columns,
	.n_columns = ARRAY_SIZE(job_columns),
	.is_chosen = any,
	.add_row = add_job,
};

/* ---- tasks ----------------------------------------------------------------------------------- */

static const struct ctl_column task_columns[] = {
	{ .title = "TASK" },
	{ .title = "NODE", .shrinks = true },
	{ .title = "PID", .right = true },
	{ .title = "USER", .shrinks = true },
	{ .title = "PROGRAM", .shrinks = true },
	{ .title = "STATE" },
	{ .title = "STATUS", .right = true },
};

static bool is_chosen(const ProtobufCMessage *entry, const struct ctl_options *o)
{
	return !o->pid || ((const Pulc__Wire__TaskEntry *)entry)->pid == o->pid;
}

/* "17.3@n1": rank 3 of job 17@n1. */
static void name_task(const Pulc__Wire__TaskEntry *e, char *buf, size_t size)
{
	char job[128];
	const char *at;

	(void)ctl_text_plain(e->job, job, sizeof(job));
	at = strchr(job, '@');
	(void)snprintf(buf, size, "%.*s.%u%s", at ? (int)(at - job) : (int)strlen(job), job,
		       e->rank, at ? at : "");
}

static int add_task(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__TaskEntry *e = (const Pulc__Wire__TaskEntry *)entry;
	bool ended = e->state == PULC__WIRE__TASK_STATE__TASK_ENDED;
	char task[160], node[80], pid[16], user[CTL_SIZE_USER], program[256], state[32], status[16];
	const char *cells[] = {
		task,
		ctl_text_plain(e->node, node, sizeof(node)),
		pid,
		ctl_user_name(e->uid, user),
		ctl_text_plain(e->program, program, sizeof(program)),
		ctl_text_enum(&pulc__wire__task_state__descriptor, (int)e->state, state,
			      sizeof(state)),
		ended ? status : NULL,
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(task_columns), "a cell for each column");
	name_task(e, task, sizeof(task));
	(void)snprintf(pid, sizeof(pid), "%u", e->pid);
	(void)snprintf(status, sizeof(status), "%u", e->code);
	return ctl_table_add(table, cells);
}

const struct ctl_list ctl_list_tasks = {
	.columns = task_columns,
	.n_columns = ARRAY_SIZE(task_columns),
	.is_chosen = is_chosen,
	.add_row = add_task,
};
