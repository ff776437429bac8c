/*
 * Ending jobs, or sending them signals, from any node. A client is answered once before it asks
 * another node again.
 *
 * A job is ended by its head keeper, which ends it on every node; a keeper that does not listen, or
 * has not called when its end is asked for again, is ended with the job. So the node that a job was
 * started from is told, and says what has come of it; its name is a part of the job's. Should that
 * node be gone, what runs here is ended here.
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
#include "job.h"
#include "jobs.h"
#include "macros.h"
#include "peer.h"
#include "psid.h"
#include "user.h"
#include "wait.h"

/* A client that waits for what another node says. */
struct psid_kill {
	LIST_ENTRY(psid_kill) link;
	struct psid_deadline deadline;
	struct psid_client *client;
	uint64_t node;
	uint32_t number;
};

static void reply(struct psid_client *client, const char *error)
{
	Pulc__Wire__KillReply message = PULC__WIRE__KILL_REPLY__INIT;
	PSID_MESSAGE(msg, KILL, kill) = &message;

	message.error = (char *)error;
	(void)psid_client_send(client, &msg, NULL, 0);
}

static void kill_free(struct psid_kill *kill)
{
	psid_deadline_clear(&kill->client->psid->jobs->kill_answers, &kill->deadline);
	LIST_REMOVE(kill, link);
	free(kill);
}

static void answer(struct psid_kill *kill, const char *error)
{
	reply(kill->client, error);
	kill_free(kill);
}

void psid_kill_forget(struct psid_client *client)
{
	struct psid_kill *kill, *next;

	for (kill = LIST_FIRST(&client->psid->jobs->kills); kill; kill = next) {
		next = LIST_NEXT(kill, link);
		if (kill->client == client)
			kill_free(kill);
	}
}

/* ---- here ------------------------------------------------------------------------------------ */

static int tell_keeper(const struct psid_job *job, uint32_t signal, uint32_t only, const char *why)
{
	Pulc__Wire__KeeperKill keeper_kill = PULC__WIRE__KEEPER_KILL__INIT;
	PSID_MESSAGE(msg, KEEPER_KILL, keeper_kill) = &keeper_kill;

	keeper_kill.signal = signal;
	keeper_kill.only = only;
	keeper_kill.text = (char *)why;
	return psid_client_send(job->client, &msg, NULL, 0);
}

/* As the kernel keeps signals that are blocked: one that waits already waits once. */
static void keep_signal(struct psid_job *job, uint32_t number, uint32_t only)
{
	for (uint32_t i = 0; i < job->n_signals; i++)
		if (job->signals[i].number == number && job->signals[i].only == only)
			return;
	if (job->n_signals < JOB_N_SIGNALS)
		job->signals[job->n_signals++] = (struct job_signal){ number, only };
}

void psid_job_signal(struct psid_job *job, uint32_t signal, uint32_t only)
{
	bool is_end = signal == 0;

	if (job->client && (tell_keeper(job, signal, only, "") == 0 || !is_end))
		return;
	if (!job->client && !is_end) { /* it has just been started */
		keep_signal(job, signal, only);
		return;
	}
	if (!job->client && !job->end_waits && !job->is_foreign) { /* the same, or we have */
		job->end_waits = true;
		return;
	}
	(void)syscall(SYS_pidfd_send_signal, job->pidfd, SIGTERM, NULL, 0);
}

void psid_job_end_for(struct psid_job *job, const char *why)
{
	if (job->client && tell_keeper(job, 0, 0, why) == 0)
		return;
	if (!job->client && !job->end_waits && !job->is_foreign)
		(void)snprintf(job->end_why, sizeof(job->end_why), "%s", why);
	psid_job_signal(job, 0, 0);
}

void psid_job_tell_signals(struct psid_job *job)
{
	for (uint32_t i = 0; i < job->n_signals && !job->end_waits; i++)
		psid_job_signal(job, job->signals[i].number, job->signals[i].only);
	job->n_signals = 0;
	if (job->end_waits)
		psid_job_end_for(job, job->end_why);
}

/* Somebody asks, who is told what is wrong with that; "": nothing. The job's owner is told that he
 * has. */
static const char *signal_job(struct psid_job *job, uint32_t signal, uint32_t only)
{
	if (job->is_foreign && signal > 0)
		return "its keeper is of another version than psid: it can be ended as a whole "
		       "only";
	if (signal == 0)
		psid_job_end_for(job, "somebody has asked for the end of the job (pulcctl kill)");
	else
		psid_job_signal(job, signal, only);
	return "";
}

static struct psid_job *find_named(struct psid *psid, const char *name)
{
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&psid->jobs->by_id, node))) {
		struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (psid_job_is_named(job, name))
			return job;
	}
	return NULL;
}

static int on_job_kill(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const Pulc__Peer__JobKill *m = msg->job_kill;
	struct psid *psid = data;
	struct psid_job *job = psid_job_find(psid, m->job);
	struct psid_wait *wait = job ? NULL : psid_wait_find(psid, m->job);
	Pulc__Peer__JobKilled killed = PULC__PEER__JOB_KILLED__INIT;
	Pulc__Peer__Message back = PULC__PEER__MESSAGE__INIT;

	(void)life;
	if (!job && !wait)
		killed.error = (char *)"no such job";
	else if (!m->any && m->uid != (job ? job->user->uid : wait->uid))
		killed.error = (char *)"this job is another user's";
	else if (job)
		killed.error = (char *)signal_job(job, m->signal, m->only);
	else
		psid_wait_end(wait, "the job was ended before it began");
	killed.number = m->number;
	back.body_case = PULC__PEER__MESSAGE__BODY_JOB_KILLED;
	back.job_killed = &killed;
	if (m->number > 0)
		(void)psid_peer_send(psid->cluster, from, &back);
	return 0;
}

/* ---- elsewhere ------------------------------------------------------------------------------- */

/* What is to be killed. */
struct victim {
	char job[JOB_SIZE_ID]; /* "17@n1", or "17" */
	uint32_t signal, only;
};

/* "17.3@n1" is rank 3 of "17@n1"; its end is a signal, for the job goes on, or says itself that it
 * does not. */
static bool parse(const Pulc__Wire__KillRequest *request, struct victim *victim)
{
	const char *name = request->job, *at = strchrnul(name, '@');
	const char *dot = memchr(name, '.', (size_t)(at - name));
	char *end;
	int n;

	n = snprintf(victim->job, sizeof(victim->job), "%.*s%s", (int)((dot ? dot : at) - name),
		     name, at);
	if (n < 0 || n >= (int)sizeof(victim->job))
		return false;
	victim->signal = request->signal;
	if (!dot)
		return true;
	if (victim->signal == 0)
		victim->signal = SIGKILL;
	victim->only = (uint32_t)strtoul(dot + 1, &end, 10) + 1;
	return end == at && end > dot + 1 && victim->only > 0;
}

/* Whoever asks without end must not have all that he has asked kept, and looked through at each
 * answer. */
static bool has_asked(const struct psid_client *client)
{
	const struct psid_kill *kill;

	LIST_FOREACH(kill, &client->psid->jobs->kills, link)
		if (kill->client == client)
			return true;
	return false;
}

/* Has the node that the job was started from end it. Returns 0: it will be answered; negative
 * errno. */
static int tell_origin(struct psid_client *client, const struct psid_job *job,
		       const struct victim *victim)
{
	const char *id = job ? job->id : victim->job;
	struct psid_jobs *jobs = client->psid->jobs;
	struct psid_cluster *cluster = client->psid->cluster;
	const struct psid_node *node = psid_node_find_name(cluster, psid_job_origin(id));
	Pulc__Peer__JobKill job_kill = PULC__PEER__JOB_KILL__INIT;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;
	struct psid_kill *kill;
	int r;

	job_kill.job = (char *)id;
	job_kill.signal = victim->signal;
	job_kill.only = victim->only;
	job_kill.uid = client->user->uid;
	job_kill.any = client->user->uid == 0;
	job_kill.number = ++jobs->last_kill;
	msg.body_case = PULC__PEER__MESSAGE__BODY_JOB_KILL;
	msg.job_kill = &job_kill;
	if (!node)
		return -ESRCH;
	if (has_asked(client))
		return -EBUSY;
	kill = calloc(1, sizeof(*kill));
	if (!kill)
		return -ENOMEM;
	r = psid_peer_send(cluster, node->id, &msg);
	if (r < 0) {
		free(kill);
		return r;
	}
	kill->client = client;
	kill->node = node->id;
	kill->number = job_kill.number;
	LIST_INSERT_HEAD(&jobs->kills, kill, link);
	psid_deadline_set(&jobs->kill_answers, &kill->deadline);
	return 0;
}

static const char *why_not(int r)
{
	switch (r) {
	case -ESRCH:
		return "no such job, and no node of that name";
	case -EBUSY:
		return "what was asked before is not answered yet";
	case -EHOSTUNREACH:
		return "the node that it was started from is not there now";
	default:
		return strerror(-r);
	}
}

/* An operator who is not root steers the node, not other users' jobs. */
static bool may_end(const struct psid_client *client, uid_t uid)
{
	return client->user->uid == 0 || client->user->uid == geteuid() || client->user->uid == uid;
}

/* One that has not begun: it won't. */
static const char *end_wait(struct psid_client *client, struct psid_wait *wait)
{
	if (!may_end(client, wait->uid))
		return "this job is another user's";
	psid_wait_end(wait, "the job was ended before it began");
	return "";
}

static const char *not_here(const struct psid_cluster *cluster, bool named)
{
	const struct psid_node *first = psid_node_next(cluster, 0);

	if (named || !first || !psid_node_next(cluster, first->id))
		return "no such job on this node";
	return "no such job on this node; those of others are named JOB@NODE";
}

/* Returns why not; NULL: it is done, or will be answered. */
static const char *end(struct psid_client *client, const struct victim *victim)
{
	struct psid_job *job = find_named(client->psid, victim->job);
	struct psid_wait *wait = job ? NULL : psid_wait_find(client->psid, victim->job);
	const char *at = strchr(victim->job, '@');
	int r;

	if (wait)
		return end_wait(client, wait);
	if (!job && (!at || strcmp(at + 1, client->psid->jobs->node) == 0))
		return not_here(client->psid->cluster, at != NULL);
	if (job && !may_end(client, job->user->uid))
		return "this job is another user's";
	if (!job || !job->head) {
		r = tell_origin(client, job, victim);
		if (r == 0)
			return NULL;
		if (!job)
			return why_not(r);
	}
	return signal_job(job, victim->signal, victim->only);
}

int psid_jobs_kill(struct psid_client *client, const Pulc__Wire__KillRequest *request)
{
	struct victim victim = { 0 };
	const char *why;

	if (request->signal >= NSIG)
		return -EBADMSG;
	why = parse(request, &victim) ? end(client, &victim) : "no job or task has such a name";
	if (why)
		reply(client, why);
	return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

static int on_killed(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	struct psid *psid = data;
	struct psid_kill *kill;

	(void)life;
	LIST_FOREACH(kill, &psid->jobs->kills, link)
		if (kill->number == msg->job_killed->number && kill->node == from) {
			answer(kill, msg->job_killed->error);
			break;
		}
	return 0;
}

static void on_deadline(struct psid_deadline *deadline)
{
	answer(CONTAINER_OF(deadline, struct psid_kill, deadline),
	       "the node that it was started from does not answer");
}

static void on_lost(void *data, uint64_t id)
{
	struct psid *psid = data;
	struct psid_kill *kill, *next;

	for (kill = LIST_FIRST(&psid->jobs->kills); kill; kill = next) {
		next = LIST_NEXT(kill, link);
		if (kill->node == id)
			answer(kill, why_not(-EHOSTUNREACH));
	}
}

void psid_kills_start(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;

	LIST_INIT(&jobs->kills);
	psid_deadlines_init(&jobs->kill_answers, &psid->loop, JOB_MSEC_ANSWER, on_deadline);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_JOB_KILL, on_job_kill, psid);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_JOB_KILLED, on_killed, psid);
	jobs->kill_watch = (struct psid_cluster_watch){ .lost = on_lost, .data = psid };
	psid_cluster_watch(psid->cluster, &jobs->kill_watch);
}

void psid_kills_close(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;

	while (!LIST_EMPTY(&jobs->kills))
		kill_free(LIST_FIRST(&jobs->kills));
	psid_cluster_unwatch(&jobs->kill_watch);
}
