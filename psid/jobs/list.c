/*
 * What this node knows of jobs and tasks, told to any psid that asks, ourselves among them
 * (survey.c).
 *
 * root and the owner of a psid see everything, other users what is theirs. Who asks is what the
 * asking psid says, for both hold the cluster's key.
 */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "job.h"
#include "macros.h"
#include "peer.h"
#include "ports.h"
#include "psid.h"
#include "user.h"
#include "wait.h"

#define N_TOLD 512u /* entries of one message, of 600 bytes at most */

/* An answer in the making: entries of one of the two kinds. */
struct told {
	struct psid *psid;
	uint64_t to;
	Pulc__Peer__JobsTold message;
	Pulc__Wire__JobEntry jobs[N_TOLD], *job_pointers[N_TOLD];
	Pulc__Wire__TaskEntry tasks[N_TOLD], *task_pointers[N_TOLD];
};

static void send_told(struct told *told, bool more)
{
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	told->message.more = more;
	msg.body_case = PULC__PEER__MESSAGE__BODY_JOBS_TOLD;
	msg.jobs_told = &told->message;
	(void)psid_peer_send(told->psid->cluster, told->to, &msg);
	told->message.n_jobs = told->message.n_tasks = 0;
}

const char *psid_job_origin(const char *id)
{
	const char *at = strchr(id, '@');

	return at ? at + 1 : "";
}

static Pulc__Wire__JobEntry *next_job(struct told *told)
{
	Pulc__Wire__JobEntry *entry;

	if (told->message.n_jobs == N_TOLD)
		send_told(told, true);
	entry = told->job_pointers[told->message.n_jobs] = &told->jobs[told->message.n_jobs];
	told->message.n_jobs++;
	pulc__wire__job_entry__init(entry);
	return entry;
}

static void tell_job(struct told *told, const struct psid_job *job)
{
	Pulc__Wire__JobEntry *entry = next_job(told);

	entry->job = (char *)job->id;
	entry->node = (char *)psid_job_origin(job->id);
	entry->uid = job->user->uid;
	entry->program = (char *)job->program;
	entry->partition = (char *)job->partition;
	entry->reservation = (char *)job->reservation;
	entry->reserves = job->reserves;
	entry->n_tasks = job->n_ranks;
	entry->n_running = psid_job_n_running(job);
	entry->started_usec = nsec_now() / NSEC_PER_USEC - job->usec_started;
	entry->keeper = (uint32_t)job->keeper;
}

static void tell_wait(struct told *told, const struct psid_wait *wait)
{
	Pulc__Wire__JobEntry *entry = next_job(told);

	entry->job = (char *)wait->id;
	entry->node = told->psid->jobs->node;
	entry->uid = wait->uid;
	entry->program = (char *)wait->program;
	entry->n_tasks = wait->submit->n_tasks;
	entry->started_usec = nsec_now() / NSEC_PER_USEC - wait->usec_began;
	entry->partition = wait->submit->partition;
	entry->reservation = wait->submit->reservation;
	entry->reserves = wait->submit->reserves;
	entry->waits = wait->waits[0] ? (char *)wait->waits : (char *)"it was just asked for";
	entry->position = wait->position;
}

static void tell_task(struct told *told, const struct psid_job *job, const struct job_task *task,
		      uint32_t local)
{
	Pulc__Wire__TaskEntry *entry;

	if (told->message.n_tasks == N_TOLD)
		send_told(told, true);
	entry = told->task_pointers[told->message.n_tasks] = &told->tasks[told->message.n_tasks];
	told->message.n_tasks++;
	pulc__wire__task_entry__init(entry);
	entry->job = (char *)job->id;
	entry->rank = task->rank;
	entry->pid = task->pid;
	entry->state = task->state;
	entry->code = task->code;
	entry->node = job->psid->jobs->node;
	entry->uid = job->user->uid;
	entry->program = (char *)job->program;
	entry->local = local;
	entry->port = psid_port_find_task(job->psid, job->id, task->rank);
}

static bool is_known(const struct psid_job *job, uint32_t rank)
{
	for (uint32_t i = 0; job->tasks && i < job->n_tasks; i++)
		if (job->tasks[i].is_known && job->tasks[i].rank == rank)
			return true;
	return false;
}

/* A task may have told its port, and others about itself, before its keeper's first report is
 * here. */
static void tell_early_tasks(struct told *told, const struct psid_job *job)
{
	const struct psid_port *port = NULL;

	while ((port = psid_port_next_of_task(job->psid, port))) {
		const struct job_task task = { .rank = port->rank };

		if (strcmp(port->job, job->id) == 0 && !is_known(job, port->rank))
			tell_task(told, job, &task, 0);
	}
}

static void tell_tasks(struct told *told, const struct psid_job *job)
{
	uint32_t n_known = 0;

	for (uint32_t i = 0; job->tasks && i < job->n_tasks; i++) {
		if (!job->tasks[i].is_known)
			continue;
		tell_task(told, job, &job->tasks[i], i);
		n_known++;
	}
	if (n_known < job->n_tasks)
		tell_early_tasks(told, job);
}

bool psid_job_is_named(const struct psid_job *job, const char *name)
{
	size_t len = strlen(name);

	if (strcmp(job->id, name) == 0)
		return true;
	return job->head && strncmp(job->id, name, len) == 0 && job->id[len] == '@';
}

static int on_ask(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	static struct told told; /* large, and used from the loop only */
	const Pulc__Peer__JobsAsk *ask = msg->jobs_ask;
	struct psid_map_node *node = NULL;
	struct psid *psid = data;
	const struct psid_wait *wait;

	(void)life;
	told.psid = psid;
	told.to = from;
	pulc__peer__jobs_told__init(&told.message);
	told.message.number = ask->number;
	told.message.jobs = told.job_pointers;
	told.message.tasks = told.task_pointers;
	LIST_FOREACH(wait, &psid->jobs->waits, link)
		if (ask->queued && (ask->any || ask->uid == wait->uid))
			tell_wait(&told, wait);
	while (!ask->queued && (node = psid_map_next(&psid->jobs->by_id, node))) {
		const struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (!ask->any && ask->uid != job->user->uid)
			continue;
		if (!ask->tasks)
			tell_job(&told, job);
		else if (!ask->job[0] || psid_job_is_named(job, ask->job))
			tell_tasks(&told, job);
	}
	send_told(&told, false);
	return 0;
}

void psid_lists_join(struct psid *psid)
{
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_JOBS_ASK, on_ask, psid);
}
