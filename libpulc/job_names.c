/*
 * Jobs and tasks by their names, from any node: each call is one question to this node's psid,
 * which asks the others (docs/jobs.md). Nothing is kept between calls.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "cleanup.h"
#include "macros.h"
#include "psid_talk.h"
#include "pulc/job.h"

static bool is_name(const char *name)
{
	return name && strlen(name) < PULC_SIZE_JOB_NAME && strchr(name, '@');
}

/* A conversation that begins with this. */
static int ask(const Pulc__Wire__FromClient *msg, int *ret_fd)
{
	CLEANUP_FD int fd = -EBADF;
	int r = psid_talk_open(PULC__WIRE__ROLE__ROLE_CONTROL, &fd);

	if (r == 0)
		r = wire_send_from_client(fd, msg, NULL, 0);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

/* ---- signals --------------------------------------------------------------------------------- */

static int ask_to_kill(const char *name, uint32_t signal)
{
	Pulc__Wire__KillRequest kill = PULC__WIRE__KILL_REQUEST__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__ToClient *reply;
	CLEANUP_FD int fd = -EBADF;
	int r;

	if (!is_name(name))
		return -EINVAL;
	kill.job = (char *)name;
	kill.signal = signal;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_KILL;
	msg.kill = &kill;
	r = ask(&msg, &fd);
	if (r == 0)
		r = psid_talk_receive(fd, NULL, &reply);
	if (r != 0)
		return r == -ECONNREFUSED ? -EPERM : r;
	if (reply->body_case != PULC__WIRE__TO_CLIENT__BODY_KILL)
		r = -EBADMSG;
	else if (reply->kill->error[0])
		r = -ESRCH;
	pulc__wire__to_client__free_unpacked(reply, NULL);
	return r;
}

PULC_EXPORT int pulc_signal(const char *name, int signal)
{
	return signal > 0 && signal < NSIG ? ask_to_kill(name, (uint32_t)signal) : -EINVAL;
}

PULC_EXPORT int pulc_kill(const char *name)
{
	return ask_to_kill(name, 0);
}

/* ---- looking up ------------------------------------------------------------------------------ */

struct found {
	struct pulc_task *tasks;
	size_t n;
	bool one; /* task, not a job: `rank` */
	unsigned rank;
};

/* "17.3@n1" is rank 3 of "17@n1". */
static void split(const char *name, struct found *found, char job[PULC_SIZE_JOB_NAME])
{
	const char *dot = strchr(name, '.'), *at = strchr(name, '@');

	found->one = dot && dot < at;
	if (!found->one) {
		(void)strcpy(job, name);
		return;
	}
	found->rank = (unsigned)strtoul(dot + 1, NULL, 10);
	(void)snprintf(job, PULC_SIZE_JOB_NAME, "%.*s%s", (int)(dot - name), name, at);
}

static void fill(struct pulc_task *task, const Pulc__Wire__TaskEntry *entry)
{
	const char *at = strchr(entry->job, '@');

	*task = (struct pulc_task){
		.rank = entry->rank,
		.pid = (int)entry->pid,
		.end = { .has_ended = entry->state == PULC__WIRE__TASK_STATE__TASK_ENDED,
			 .code = (int)entry->code },
		.port = { .node = entry->number, .port = entry->port },
	};
	(void)snprintf(task->node, sizeof(task->node), "%s", entry->node);
	(void)snprintf(task->name, sizeof(task->name), "%.*s.%u%s", at ? (int)(at - entry->job) : 0,
		       entry->job, entry->rank, at ? at : "");
}

static int add(struct found *found, const Pulc__Wire__TasksReply *reply)
{
	struct pulc_task *tasks = reallocarray(found->tasks, found->n + reply->n_tasks + 1,
					       sizeof(*tasks));

	if (!tasks)
		return -ENOMEM;
	found->tasks = tasks;
	for (size_t i = 0; i < reply->n_tasks; i++)
		if (!found->one || reply->tasks[i]->rank == found->rank)
			fill(&tasks[found->n++], reply->tasks[i]);
	return 0;
}

/* Takes all messages of the answer. */
static int collect(int fd, struct found *found)
{
	bool more = true;
	int r = 0;

	while (r == 0 && more) {
		Pulc__Wire__ToClient *reply;

		r = psid_talk_receive(fd, NULL, &reply);
		if (r < 0)
			return r == -ECONNREFUSED ? -EPERM : r;
		if (reply->body_case == PULC__WIRE__TO_CLIENT__BODY_TASKS) {
			more = reply->tasks->more;
			r = add(found, reply->tasks);
		} else {
			r = -EBADMSG;
		}
		pulc__wire__to_client__free_unpacked(reply, NULL);
	}
	return r;
}

PULC_EXPORT int pulc_lookup(const char *name, struct pulc_task **ret_tasks, size_t *ret_n)
{
	Pulc__Wire__TasksRequest request = PULC__WIRE__TASKS_REQUEST__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	char job[PULC_SIZE_JOB_NAME] = "";
	struct found found = { 0 };
	CLEANUP_FD int fd = -EBADF;
	int r;

	if (name && !is_name(name))
		return -EINVAL;
	if (name)
		split(name, &found, job);
	request.job = job;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_TASKS;
	msg.tasks = &request;
	r = ask(&msg, &fd);
	if (r == 0)
		r = collect(fd, &found);
	if (r < 0) {
		free(found.tasks);
		return r;
	}
	*ret_tasks = found.tasks;
	*ret_n = found.n;
	return 0;
}
