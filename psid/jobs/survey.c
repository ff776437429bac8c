/*
 * A client's question about jobs, put to every node that is up, ourselves among them; what they
 * tell is collected, sorted, and sent as one list. Of a job that runs on several nodes there is one
 * line.
 *
 * A node may hang or die meanwhile: the answer waits no longer than MSEC_ANSWER, and names those
 * that were silent. A client asks one question at a time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "cleanup.h"
#include "client.h"
#include "job.h"
#include "jobs.h"
#include "macros.h"
#include "peer.h"
#include "psid.h"
#include "remote.h"
#include "user.h"

#define N_SILENT 40u /* names of nodes, of 65 bytes at most, in a message with a batch of entries */
#define N_LINES_MAX (1u << 20)

/* A job or a task, as a node told it. */
struct line {
	char job[JOB_SIZE_ID], node[JOB_SIZE_NODE], program[JOB_SIZE_PROGRAM];
	char partition[JOB_SIZE_NODE], reservation[JOB_SIZE_ID], waits[JOB_SIZE_WAITS];
	uint32_t rank;
	union {
		Pulc__Wire__JobEntry of_job;
		Pulc__Wire__TaskEntry of_task;
	};
};

struct psid_survey {
	LIST_ENTRY(psid_survey) link;
	struct psid_deadline deadline;
	struct psid_client *client;
	uint32_t number;
	bool tasks;
	bool is_over;	   /* what comes now comes too late */
	uint64_t *waiting; /* nodes that have not answered */
	size_t n_waiting;
	struct line *lines;
	size_t n_lines, n_room;
};

static void survey_free(struct psid_survey *survey)
{
	psid_deadline_clear(&survey->client->psid->jobs->answers, &survey->deadline);
	LIST_REMOVE(survey, link);
	free(survey->waiting);
	free(survey->lines);
	free(survey);
}

static struct psid_survey *survey_of(const struct psid_client *client)
{
	struct psid_survey *survey;

	LIST_FOREACH(survey, &client->psid->jobs->surveys, link)
		if (survey->client == client)
			return survey;
	return NULL;
}

void psid_survey_forget(struct psid_client *client)
{
	struct psid_survey *survey = survey_of(client);

	if (survey)
		survey_free(survey);
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Those that wait: by their partition, and their place in its queue; one that does not know it yet
 * is the last. */
static int compare_waiting(const struct line *x, const struct line *y)
{
	uint32_t m = x->of_job.position - 1, n = y->of_job.position - 1;
	int r = strcmp(x->partition, y->partition);

	return r != 0 ? r : (m > n) - (m < n);
}

/* By the node that it was started from, its number, and its rank. */
static int compare(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	unsigned long m = strtoul(x->job, NULL, 10), n = strtoul(y->job, NULL, 10);
	int r = x->waits[0] && y->waits[0] ? compare_waiting(x, y) : 0;

	if (r == 0)
		r = strcmp(psid_job_origin(x->job), psid_job_origin(y->job));
	if (r == 0)
		r = (m > n) - (m < n);
	return r != 0 ? r : (x->rank > y->rank) - (x->rank < y->rank);
}

/* What several nodes have told of one job becomes one line. */
static void merge_jobs(struct psid_survey *survey)
{
	struct line *last = survey->lines;

	for (size_t i = 1; i < survey->n_lines; i++) {
		const struct line *line = &survey->lines[i];

		if (strcmp(line->job, last->job) != 0) {
			*++last = *line;
			continue;
		}
		last->of_job.n_running += line->of_job.n_running;
		last->of_job.keeper |=
			line->of_job.keeper; /* ours is there once, the others' are 0 */
		last->of_job.started_usec = MAX(last->of_job.started_usec,
						line->of_job.started_usec);
	}
	survey->n_lines = (size_t)(last - survey->lines) + 1;
}

/* Its names, for its entry: only now, for lines move while they are collected and sorted. */
static void name(struct line *line, char **job, char **node, char **program)
{
	*job = line->job;
	*node = line->node;
	*program = line->program;
}

static void send_jobs(struct psid_survey *survey, struct psid_listing *listing, char **silent,
		      size_t n_silent)
{
	Pulc__Wire__JobsReply reply = PULC__WIRE__JOBS_REPLY__INIT;
	const struct psid_item *item;
	struct psid_batch batch;
	PSID_MESSAGE(msg, JOBS, jobs) = &reply;

	psid_batch_init(&batch, survey->client, &msg, &reply.n_jobs, &reply.more);
	reply.jobs = (Pulc__Wire__JobEntry **)batch.pointers;
	while ((item = psid_listing_next(listing))) {
		struct line *line = &survey->lines[item->key];
		Pulc__Wire__JobEntry *e = &line->of_job;

		name(line, &e->job, &e->node, &e->program);
		e->partition = line->partition;
		e->reservation = line->reservation;
		e->waits = line->waits;
		psid_batch_add(&batch, &e->base, sizeof(*e));
	}
	reply.silent = silent;
	reply.n_silent = n_silent;
	psid_batch_end(&batch, psid_listing_has_more(listing));
}

static void send_tasks(struct psid_survey *survey, struct psid_listing *listing, char **silent,
		       size_t n_silent)
{
	Pulc__Wire__TasksReply reply = PULC__WIRE__TASKS_REPLY__INIT;
	const struct psid_item *item;
	struct psid_batch batch;
	PSID_MESSAGE(msg, TASKS, tasks) = &reply;

	psid_batch_init(&batch, survey->client, &msg, &reply.n_tasks, &reply.more);
	reply.tasks = (Pulc__Wire__TaskEntry **)batch.pointers;
	while ((item = psid_listing_next(listing))) {
		Pulc__Wire__TaskEntry *e = &survey->lines[item->key].of_task;

		name(&survey->lines[item->key], &e->job, &e->node, &e->program);
		psid_batch_add(&batch, &e->base, sizeof(*e));
	}
	reply.silent = silent;
	reply.n_silent = n_silent;
	psid_batch_end(&batch, psid_listing_has_more(listing));
}

static size_t name_silent(const struct psid_survey *survey, char *names[N_SILENT])
{
	size_t n = 0;

	for (size_t i = 0; i < survey->n_waiting && n < N_SILENT; i++) {
		const struct psid_node *node = psid_node_find(survey->client->psid->cluster,
							      survey->waiting[i]);

		if (node)
			names[n++] = (char *)node->name;
	}
	return n;
}

/* The survey lasts as long as its list does. */
static void list_lines(struct psid_listing *listing)
{
	struct psid_survey *survey = survey_of(listing->client);
	char *silent[N_SILENT];
	size_t n_silent;

	if (!survey) { /* psid is about to end */
		listing->at = listing->n;
		return;
	}
	n_silent = name_silent(survey, silent);
	(survey->tasks ? send_tasks : send_jobs)(survey, listing, silent, n_silent);
	if (!psid_listing_has_more(listing))
		survey_free(survey);
}

static void finish(struct psid_survey *survey)
{
	struct psid_listing *listing;

	survey->is_over = true;
	if (survey->n_lines > 0)
		qsort(survey->lines, survey->n_lines, sizeof(*survey->lines), compare);
	if (!survey->tasks && survey->n_lines > 0)
		merge_jobs(survey);
	listing = psid_listing_new(survey->client, survey->n_lines, list_lines);
	if (!listing) {
		survey_free(survey);
		return;
	}
	for (size_t i = 0; i < survey->n_lines; i++)
		psid_listing_add(listing, i, 0);
	psid_listing_start(listing);
}

static void on_deadline(struct psid_deadline *deadline)
{
	finish(CONTAINER_OF(deadline, struct psid_survey, deadline));
}

/* ---- what nodes tell ------------------------------------------------------------------------- */

static struct line *add_line(struct psid_survey *survey, const char *job, const char *node,
			     const char *program)
{
	struct line *line;

	if (survey->n_lines == survey->n_room) {
		size_t n_room = MAX(2 * survey->n_room, (size_t)64);
		struct line *lines = n_room <= N_LINES_MAX
					     ? reallocarray(survey->lines, n_room, sizeof(*line))
					     : NULL;

		if (!lines)
			return NULL;
		survey->lines = lines;
		survey->n_room = n_room;
	}
	line = &survey->lines[survey->n_lines++];
	line->rank = 0;
	line->partition[0] = line->reservation[0] = line->waits[0] = '\0';
	(void)snprintf(line->job, sizeof(line->job), "%s", job);
	(void)snprintf(line->node, sizeof(line->node), "%s", node);
	(void)snprintf(line->program, sizeof(line->program), "%s", program);
	return line;
}

static void take_jobs(struct psid_survey *survey, const Pulc__Peer__JobsTold *told, bool is_ours)
{
	for (size_t i = 0; i < told->n_jobs; i++) {
		const Pulc__Wire__JobEntry *entry = told->jobs[i];
		struct line *line = add_line(survey, entry->job, entry->node, entry->program);

		if (!line)
			return;
		line->of_job = *entry;
		line->of_job.base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(
			&pulc__wire__job_entry__descriptor);
		(void)snprintf(line->partition, sizeof(line->partition), "%s", entry->partition);
		(void)snprintf(line->reservation, sizeof(line->reservation), "%s",
			       entry->reservation);
		(void)snprintf(line->waits, sizeof(line->waits), "%s", entry->waits);
		if (!is_ours)
			line->of_job.keeper = 0;
	}
}

static void take_tasks(struct psid_survey *survey, const Pulc__Peer__JobsTold *told, bool is_ours)
{
	for (size_t i = 0; i < told->n_tasks; i++) {
		const Pulc__Wire__TaskEntry *entry = told->tasks[i];
		struct line *line = add_line(survey, entry->job, entry->node, entry->program);

		if (!line)
			return;
		line->of_task = *entry;
		line->of_task.base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(
			&pulc__wire__task_entry__descriptor);
		line->of_task.number = is_ours ? 0 : psid_remote_number(psid_node_id(entry->node));
		line->rank = entry->rank;
	}
}

/* Returns whether the node was waited for. */
static bool is_waiting_for(const struct psid_survey *survey, uint64_t node)
{
	for (size_t i = 0; i < survey->n_waiting && !survey->is_over; i++)
		if (survey->waiting[i] == node)
			return true;
	return false;
}

static void has_answered(struct psid_survey *survey, uint64_t node)
{
	for (size_t i = 0; i < survey->n_waiting; i++)
		if (survey->waiting[i] == node)
			survey->waiting[i] = survey->waiting[--survey->n_waiting];
	if (survey->n_waiting == 0)
		finish(survey);
}

static int on_told(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const Pulc__Peer__JobsTold *told = msg->jobs_told;
	struct psid *psid = data;
	bool is_ours = from == psid_node_self(psid->cluster)->id;
	struct psid_survey *survey;

	(void)life;
	LIST_FOREACH(survey, &psid->jobs->surveys, link)
		if (survey->number == told->number)
			break;
	if (!survey || !is_waiting_for(survey, from))
		return 0; /* too late, or nobody wants to know any more */
	if (survey->tasks)
		take_tasks(survey, told, is_ours);
	else
		take_jobs(survey, told, is_ours);
	if (!told->more)
		has_answered(survey, from);
	return 0;
}

/* What it was asked, or has answered, is lost. */
static void on_lost(void *data, uint64_t id)
{
	struct psid *psid = data;
	struct psid_survey *survey, *next;

	for (survey = LIST_FIRST(&psid->jobs->surveys); survey; survey = next) {
		next = LIST_NEXT(survey, link);
		if (is_waiting_for(survey, id))
			has_answered(survey, id);
	}
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int add_node(struct psid_survey *survey, const struct psid_node *node,
		    const Pulc__Peer__Message *msg)
{
	uint64_t *waiting = reallocarray(survey->waiting, survey->n_waiting + 1, sizeof(*waiting));

	if (!waiting)
		return -ENOMEM;
	survey->waiting = waiting;
	if (psid_peer_send(survey->client->psid->cluster, node->id, msg) == 0)
		waiting[survey->n_waiting++] = node->id;
	return 0;
}

static int ask_all(struct psid_survey *survey, Pulc__Peer__JobsAsk *ask, bool here)
{
	struct psid_cluster *cluster = survey->client->psid->cluster;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;
	const struct psid_node *node = NULL;
	int r = 0;

	ask->number = survey->number;
	ask->tasks = survey->tasks;
	ask->uid = survey->client->user->uid;
	ask->any = ask->uid == 0 || survey->client->in_group;
	msg.body_case = PULC__PEER__MESSAGE__BODY_JOBS_ASK;
	msg.jobs_ask = ask;
	while (r == 0 && (node = psid_node_next(cluster, node ? node->id : 0)))
		if (here ? node == psid_node_self(cluster) : psid_node_is_up(node))
			r = add_node(survey, node, &msg);
	return r;
}

static int begin(struct psid_client *client, Pulc__Peer__JobsAsk *ask, bool tasks, bool here)
{
	struct psid_jobs *jobs = client->psid->jobs;
	struct psid_survey *survey;

	if (!psid_listing_may(client) || survey_of(client))
		return -EBADMSG;
	survey = calloc(1, sizeof(*survey));
	if (!survey)
		return 0; /* as if nobody had answered, the client included */
	survey->client = client;
	survey->number = ++jobs->last_survey;
	survey->tasks = tasks;
	LIST_INSERT_HEAD(&jobs->surveys, survey, link);
	if (ask_all(survey, ask, here) < 0 || survey->n_waiting == 0)
		finish(survey);
	else
		psid_deadline_set(&jobs->answers, &survey->deadline);
	return 0;
}

int psid_jobs_list(struct psid_client *client, const Pulc__Wire__JobsRequest *request)
{
	Pulc__Peer__JobsAsk ask = PULC__PEER__JOBS_ASK__INIT;

	ask.queued = request->queued;
	return begin(client, &ask, false, request->here);
}

int psid_jobs_list_tasks(struct psid_client *client, const Pulc__Wire__TasksRequest *request)
{
	Pulc__Peer__JobsAsk ask = PULC__PEER__JOBS_ASK__INIT;
	char id[JOB_SIZE_ID];
	int n;

	/* A number alone is that of a job of this node. */
	n = snprintf(id, sizeof(id), request->job[0] && !strchr(request->job, '@') ? "%s@%s" : "%s",
		     request->job, client->psid->jobs->node);
	ask.job = n < (int)sizeof(id) ? id : request->job;
	return begin(client, &ask, true, request->here);
}

void psid_surveys_start(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;

	LIST_INIT(&jobs->surveys);
	psid_deadlines_init(&jobs->answers, &psid->loop, JOB_MSEC_ANSWER, on_deadline);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_JOBS_TOLD, on_told, psid);
	jobs->survey_watch = (struct psid_cluster_watch){ .lost = on_lost, .data = psid };
	psid_cluster_watch(psid->cluster, &jobs->survey_watch);
}

void psid_surveys_close(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;

	while (!LIST_EMPTY(&jobs->surveys))
		survey_free(LIST_FIRST(&jobs->surveys));
	psid_cluster_unwatch(&jobs->survey_watch);
}
