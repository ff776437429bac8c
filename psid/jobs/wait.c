/*
 * The jobs of partitions, from the question until they begin.
 *
 * Where they may run, and when, the partition's steward says (partition/steward.c). We keep the
 * job: its name, which it has from the beginning, what was asked for, and pulcrun's end of the
 * channel. The steward is asked again every second, whoever it is by then, with the time of the
 * first question: so the place in the queue is the job's own, and survives the death of every other
 * node. With us, or with pulcrun, only our own job is gone.
 */
#include "wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cleanup.h"
#include "client.h"
#include "clock.h"
#include "closer.h"
#include "descriptors.h"
#include "macros.h"
#include "partitions.h"
#include "peer.h"
#include "plan.h"
#include "psid.h"
#include "user.h"
#include "utf8.h"

#define MSEC_AGAIN 1000
#define USEC_PATIENCE (5 * USEC_PER_SEC) /* of a job that does not want to wait */

static void reply(const struct psid_wait *wait, const char *error, const char *waits)
{
	Pulc__Wire__SubmitReply submit = PULC__WIRE__SUBMIT_REPLY__INIT;
	PSID_MESSAGE(msg, SUBMIT, submit) = &submit;

	submit.job = (char *)wait->id;
	submit.error = (char *)error;
	submit.waits = (char *)waits;
	(void)psid_client_send(wait->client, &msg, NULL, 0);
}

static void wait_free(struct psid_wait *wait)
{
	LIST_REMOVE(wait, link);
	psid_user_give_descriptors(wait->client->user, 1);
	psid_close_promised(wait->client->psid, wait->client->user, wait->owner_fd, NULL, NULL);
	pulc__wire__submit__free_unpacked(wait->submit, NULL);
	free(wait);
}

void psid_wait_end(struct psid_wait *wait, const char *error)
{
	struct psid *psid = wait->client->psid;
	Pulc__Peer__Unwant unwant = PULC__PEER__UNWANT__INIT;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	unwant.partition = wait->submit->reservation[0] ? wait->submit->reservation
							: wait->submit->partition;
	unwant.job = wait->id;
	msg.body_case = PULC__PEER__MESSAGE__BODY_UNWANT;
	msg.unwant = &unwant;
	if (wait->steward)
		(void)psid_peer_send(psid->cluster, wait->steward, &msg);
	if (error)
		reply(wait, error, "");
	wait_free(wait);
}

struct psid_wait *psid_wait_find(struct psid *psid, const char *name)
{
	size_t len = strlen(name);
	struct psid_wait *wait;

	LIST_FOREACH(wait, &psid->jobs->waits, link)
		if (strcmp(wait->id, name) == 0 ||
		    (strncmp(wait->id, name, len) == 0 && wait->id[len] == '@'))
			break;
	return wait;
}

void psid_wait_forget(struct psid_client *client)
{
	struct psid_wait *wait, *next;

	for (wait = LIST_FIRST(&client->psid->jobs->waits); wait; wait = next) {
		next = LIST_NEXT(wait, link);
		if (wait->client == client)
			psid_wait_end(wait, NULL);
	}
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Says so once. */
static void set_waits(struct psid_wait *wait, const char *why, uint32_t position)
{
	bool is_new = strcmp(wait->waits, why) != 0;

	(void)snprintf(wait->waits, sizeof(wait->waits), "%s", why);
	wait->position = position;
	if (is_new && wait->submit->wait)
		reply(wait, "", wait->waits);
}

static void send_want(struct psid_wait *wait)
{
	struct psid *psid = wait->client->psid;
	Pulc__Peer__Want want = PULC__PEER__WANT__INIT;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	want.job = wait->id;
	want.uid = wait->uid;
	want.since_msec = wait->msec_since;
	want.submit = wait->submit;
	msg.body_case = PULC__PEER__MESSAGE__BODY_WANT;
	msg.want = &want;
	if (psid_peer_send(psid->cluster, wait->steward, &msg) < 0)
		set_waits(wait, "the node that decides can't be reached", 0);
}

/* The node that a reservation was made from decides what runs in it: without that node it is
 * none. */
static void ask_reservation(struct psid_wait *wait)
{
	const struct psid *psid = wait->client->psid;
	const struct psid_node *node =
		psid_node_find_name(psid->cluster, psid_job_origin(wait->submit->reservation));

	if (!node || !psid_node_is_up(node)) {
		psid_wait_end(wait, "the node of the reservation is gone");
		return;
	}
	wait->steward = node->id;
	send_want(wait);
}

/* It may be gone afterwards. */
static void ask(struct psid_wait *wait)
{
	const struct psid *psid = wait->client->psid;
	const struct psid_partition *p = psid_book_find(psid_partitions_book(psid),
							wait->submit->partition);

	if (wait->submit->reservation[0]) {
		ask_reservation(wait);
		return;
	}
	if (!p) {
		psid_wait_end(wait, "the partition was deleted");
		return;
	}
	wait->steward = psid_partition_steward(psid, p);
	if (wait->steward)
		send_want(wait);
	else if (wait->submit->wait)
		set_waits(wait, "none of its nodes is up", 0);
	else
		psid_wait_end(wait, "none of the partition's nodes is up");
}

static void on_timer(uv_timer_t *timer)
{
	struct psid_jobs *jobs = CONTAINER_OF(timer, struct psid_jobs, wait_timer);
	uint64_t usec_now = nsec_now() / NSEC_PER_USEC;
	struct psid_wait *wait, *next;

	for (wait = LIST_FIRST(&jobs->waits); wait; wait = next) {
		next = LIST_NEXT(wait, link);
		if (!wait->submit->wait && usec_now > wait->usec_began + USEC_PATIENCE)
			psid_wait_end(wait, wait->waits[0] ? wait->waits
							   : "the node that decides about the "
							     "partition does not answer");
		else
			ask(wait);
	}
	if (LIST_EMPTY(&jobs->waits))
		(void)uv_timer_stop(timer);
}

static uint64_t msec_since_1970(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Names that every node understands. Returns 0, -ENOMEM. */
static int name_hosts(const struct psid *psid, Pulc__Wire__Submit *submit)
{
	for (size_t i = 0; i < submit->n_hosts; i++) {
		char *name;

		if (strcmp(submit->hosts[i]->name, "localhost") != 0)
			continue;
		name = strdup(psid->jobs->node);
		if (!name)
			return -ENOMEM;
		free(submit->hosts[i]->name);
		submit->hosts[i]->name = name;
	}
	return 0;
}

static struct psid_wait *wait_new(struct psid_client *client, const Pulc__Wire__Submit *submit)
{
	struct psid_wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return NULL;
	wait->submit = psid_submit_copy(submit);
	if (!wait->submit || name_hosts(client->psid, wait->submit) < 0) {
		pulc__wire__submit__free_unpacked(wait->submit, NULL);
		free(wait);
		return NULL;
	}
	wait->client = client;
	wait->uid = client->user->uid;
	wait->number = psid_job_number(client->psid);
	wait->msec_since = msec_since_1970();
	wait->usec_began = nsec_now() / NSEC_PER_USEC;
	(void)snprintf(wait->id, sizeof(wait->id), "%u@%s", wait->number, client->psid->jobs->node);
	(void)wire_utf8_plain(submit->program, wait->program, sizeof(wait->program));
	return wait;
}

/* One of a client at a time. */
static bool has_one(const struct psid_client *client)
{
	const struct psid_wait *wait;

	LIST_FOREACH(wait, &client->psid->jobs->waits, link)
		if (wait->client == client)
			return true;
	return false;
}

int psid_wait_begin(struct psid_client *client, const Pulc__Wire__Submit *submit, int *fd)
{
	struct psid_jobs *jobs = client->psid->jobs;
	struct psid_wait *wait;

	if (has_one(client))
		return -EBADMSG;
	if (psid_descriptor_is_reserve(*fd) || psid_user_take_descriptors(client->user, 1) != 0)
		return -EMFILE;
	wait = wait_new(client, submit);
	if (!wait || psid_closer_promise(&client->psid->closer) < 0) {
		if (wait)
			pulc__wire__submit__free_unpacked(wait->submit, NULL);
		free(wait);
		psid_user_give_descriptors(client->user, 1);
		return -ENOMEM;
	}
	wait->owner_fd = TAKE_FD(*fd);
	LIST_INSERT_HEAD(&jobs->waits, wait, link);
	if (!uv_is_active((uv_handle_t *)&jobs->wait_timer))
		(void)uv_timer_start(&jobs->wait_timer, on_timer, MSEC_AGAIN, MSEC_AGAIN);
	ask(wait);
	return 0;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void granted(struct psid_wait *wait, const Pulc__Peer__Verdict *verdict)
{
	struct job_why why = { "" };
	int r = psid_job_start_granted(wait, verdict, &why);

	if (r == 0) {
		wait_free(wait);
		return;
	}
	if (!why.text[0])
		(void)job_why(&why, r, "the job can't be started: %s", psid_job_error(r));
	psid_wait_end(wait, why.text);
}

static int on_verdict(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const Pulc__Peer__Verdict *verdict = msg->verdict;
	struct psid *psid = data;
	struct psid_wait *wait;
	struct job_why why;

	(void)life;
	LIST_FOREACH(wait, &psid->jobs->waits, link)
		if (wait->steward == from && strcmp(wait->id, verdict->job) == 0)
			break;
	if (!wait)
		return 0; /* it does not want any more, or another one decides */
	switch (verdict->answer) {
	case PULC__PEER__ANSWER__ANSWER_GRANTED:
		granted(wait, verdict);
		return 0;
	case PULC__PEER__ANSWER__ANSWER_REFUSED:
		(void)job_why(&why, 0, "%s", verdict->text);
		psid_wait_end(wait, why.text);
		return 0;
	default:
		set_waits(wait, verdict->text, verdict->position);
		return 0;
	}
}

void psid_waits_start(struct psid *psid)
{
	LIST_INIT(&psid->jobs->waits);
	(void)uv_timer_init(&psid->loop, &psid->jobs->wait_timer);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_VERDICT, on_verdict, psid);
}
