/*
 * What can be seen of jobs and tasks, and ending them.
 *
 * root and the owner of this psid see and may end everything, other users what is theirs. A job is
 * ended by its head keeper, which ends it on every node; a keeper that does not listen is ended with
 * the job.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "batch.h"
#include "client.h"
#include "clock.h"
#include "job.h"
#include "jobs.h"
#include "macros.h"
#include "peer.h"
#include "psid.h"
#include "report.h"
#include "user.h"

/* ---- jobs ---------------------------------------------------------------------------------- */

static void send_jobs(struct psid_client *client, ProtobufCMessage **entries, size_t n, bool more)
{
	Pulc__Wire__JobsReply reply = PULC__WIRE__JOBS_REPLY__INIT;
	PSID_MESSAGE(msg, JOBS, jobs) = &reply;

	reply.jobs = (Pulc__Wire__JobEntry **)entries;
	reply.n_jobs = n;
	reply.more = more;
	(void)psid_client_send(client, &msg, NULL, 0);
}

static const char *origin(const struct psid_job *job)
{
	const char *at = strchr(job->id, '@');

	return at ? at + 1 : "";
}

static void fill_job(const struct psid_job *job, Pulc__Wire__JobEntry *ret_entry)
{
	pulc__wire__job_entry__init(ret_entry);
	ret_entry->job = (char *)job->id;
	ret_entry->node = (char *)origin(job);
	ret_entry->uid = job->user->uid;
	ret_entry->program = (char *)job->program;
	ret_entry->n_tasks = job->n_ranks;
	ret_entry->n_running = psid_job_n_running(job);
	ret_entry->started_usec = nsec_now() / NSEC_PER_USEC - job->usec_started;
	ret_entry->keeper = (uint32_t)job->keeper;
}

int psid_jobs_list(struct psid_client *client)
{
	struct psid_map_node *node = NULL;
	struct psid_batch batch;

	if (!psid_outbox_is_empty(&client->outbox))
		return -EBADMSG;
	psid_batch_init(&batch, client, send_jobs);
	while ((node = psid_map_next(&client->psid->jobs->by_id, node))) {
		const struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);
		Pulc__Wire__JobEntry entry;

		if (!psid_may_see(client, job->user->uid))
			continue;
		fill_job(job, &entry);
		psid_batch_add(&batch, &entry.base, sizeof(entry));
	}
	psid_batch_end(&batch);
	return 0;
}

/* ---- tasks --------------------------------------------------------------------------------- */

static void send_tasks(struct psid_client *client, ProtobufCMessage **entries, size_t n, bool more)
{
	Pulc__Wire__TasksReply reply = PULC__WIRE__TASKS_REPLY__INIT;
	PSID_MESSAGE(msg, TASKS, tasks) = &reply;

	reply.tasks = (Pulc__Wire__TaskEntry **)entries;
	reply.n_tasks = n;
	reply.more = more;
	(void)psid_client_send(client, &msg, NULL, 0);
}

/* Is the job the one that is meant by "17@n1", or by "17" on its own node? */
static bool is_named(const struct psid_job *job, const char *name)
{
	size_t len = strlen(name);

	if (strcmp(job->id, name) == 0)
		return true;
	return job->head && strncmp(job->id, name, len) == 0 && job->id[len] == '@';
}

static void list_job(const struct psid_job *job, struct psid_batch *batch)
{
	for (uint32_t i = 0; job->tasks && i < job->n_tasks; i++) {
		const struct job_task *task = &job->tasks[i];
		Pulc__Wire__TaskEntry entry = PULC__WIRE__TASK_ENTRY__INIT;

		entry.job = (char *)job->id;
		entry.rank = task->rank;
		entry.pid = task->pid;
		entry.state = task->state;
		entry.code = task->code;
		entry.node = job->psid->jobs->node;
		entry.uid = job->user->uid;
		entry.program = (char *)job->program;
		entry.local = i;
		psid_batch_add(batch, &entry.base, sizeof(entry));
	}
}

int psid_jobs_list_tasks(struct psid_client *client, const Pulc__Wire__TasksRequest *request)
{
	struct psid_map_node *node = NULL;
	struct psid_batch batch;

	if (!psid_outbox_is_empty(&client->outbox))
		return -EBADMSG;
	psid_batch_init(&batch, client, send_tasks);
	while ((node = psid_map_next(&client->psid->jobs->by_id, node))) {
		const struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (psid_may_see(client, job->user->uid) &&
		    (!request->job[0] || is_named(job, request->job)))
			list_job(job, &batch);
	}
	psid_batch_end(&batch);
	return 0;
}

/* ---- ending -------------------------------------------------------------------------------- */

static void reply_kill(struct psid_client *client, const char *error)
{
	Pulc__Wire__KillReply reply = PULC__WIRE__KILL_REPLY__INIT;
	PSID_MESSAGE(msg, KILL, kill) = &reply;

	reply.error = (char *)error;
	(void)psid_client_send(client, &msg, NULL, 0);
}

void psid_job_signal(const struct psid_job *job, uint32_t signal)
{
	Pulc__Wire__KeeperKill keeper_kill = PULC__WIRE__KEEPER_KILL__INIT;
	PSID_MESSAGE(msg, KEEPER_KILL, keeper_kill) = &keeper_kill;

	keeper_kill.signal = signal;
	if (!job->client || psid_client_send(job->client, &msg, NULL, 0) < 0)
		(void)syscall(SYS_pidfd_send_signal, job->pidfd, signal ? (int)signal : SIGTERM,
			      NULL, 0);
}

static struct psid_job *find_named(struct psid *psid, const char *name)
{
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&psid->jobs->by_id, node))) {
		struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (is_named(job, name))
			return job;
	}
	return NULL;
}

/* The part that runs here is ended as a whole, at its origin. */
static int tell_origin(struct psid_client *client, const struct psid_job *job, uint32_t signal)
{
	struct psid_cluster *cluster = client->psid->cluster;
	const struct psid_node *node = psid_node_find_name(cluster, origin(job));
	Pulc__Peer__JobKill job_kill = PULC__PEER__JOB_KILL__INIT;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	job_kill.job = (char *)job->id;
	job_kill.signal = signal;
	job_kill.uid = client->user->uid;
	job_kill.any = client->user->uid == 0;
	msg.body_case = PULC__PEER__MESSAGE__BODY_JOB_KILL;
	msg.job_kill = &job_kill;
	return node ? psid_peer_send(cluster, node->id, &msg) : -EHOSTUNREACH;
}

int psid_jobs_kill(struct psid_client *client, const Pulc__Wire__KillRequest *request)
{
	const struct psid_job *job = find_named(client->psid, request->job);
	const char *error = "";

	if (request->signal >= NSIG)
		return -EBADMSG;
	if (!job)
		error = "no such job on this node";
	else if (!psid_may_see(client, job->user->uid))
		error = "this job is another user's";
	else if (job->head || tell_origin(client, job, request->signal) < 0)
		psid_job_signal(job, request->signal);
	reply_kill(client, error);
	return 0;
}
