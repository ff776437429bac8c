/*
 * Deciding about partitions, where we are the node that does: the first of a partition's nodes, by
 * id, that is up.
 *
 * Who wants to run something there asks us, again every second. We ask the partition's nodes what
 * runs on them; they tell, and for some seconds at each change too. From that and from nothing else
 * the plan is made (plan.c, decide.c): when we die, the next node is asked, asks, and knows all
 * that we knew. While nobody wants anything nothing is said.
 *
 * A reservation (psid/jobs/reservation.c) is a small partition of one user, of the processors that
 * a job holds. The node that it was made from decides about it, for it ends with that node.
 *
 * Two nodes that do not agree about who is up may both decide for a moment. Then the node that gets
 * a job has the last word: it refuses what does not fit (psid/jobs/launch.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "client.h"
#include "clock.h"
#include "cluster.h"
#include "macros.h"
#include "partitions.h"
#include "peer.h"
#include "plan.h"
#include "psid.h"
#include "reservation.h"

#define MSEC_SOON 2 /* what comes in a burst is decided together */
#define MSEC_TICK 1000
#define USEC_COME_BACK (5 * USEC_PER_SEC) /* until all keepers have called after a restart */

struct steward {
	LIST_ENTRY(steward) link;
	struct psid_stewards *all;
	struct psid_plan *plan;
	struct psid_reserved *reserved; /* NULL: it is a partition */
	bool asks;			/* its nodes, the next time */
};

struct psid_stewards {
	struct psid *psid;
	LIST_HEAD(, steward) list;
	uv_timer_t soon, tick;
	struct psid_cluster_watch watch;
	uint64_t usec_started;
	unsigned n_busy;
};

uint64_t psid_partition_steward(const struct psid *psid, const struct psid_partition *partition)
{
	for (size_t i = 0; i < partition->n_nodes; i++) {
		const struct psid_node *node = psid_node_find(psid->cluster, partition->nodes[i]);

		if (node && psid_node_is_up(node))
			return node->id;
	}
	return 0;
}

static uint64_t usec_now(void)
{
	return nsec_now() / NSEC_PER_USEC;
}

static struct steward *find(struct psid_stewards *all, const char *partition)
{
	struct steward *s;

	LIST_FOREACH(s, &all->list, link)
		if (strcmp(s->plan->partition, partition) == 0)
			break;
	return s;
}

static void steward_free(struct steward *s)
{
	LIST_REMOVE(s, link);
	(void)psid_plan_free(s->plan);
	(void)psid_reserved_free(s->reserved);
	free(s);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void answer(struct psid_stewards *all, uint64_t asker, Pulc__Peer__Verdict *verdict)
{
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	msg.body_case = PULC__PEER__MESSAGE__BODY_VERDICT;
	msg.verdict = verdict;
	(void)psid_peer_send(all->psid->cluster, asker, &msg);
}

static void say(struct psid_stewards *all, uint64_t asker, const char *job, Pulc__Peer__Answer what,
		const char *text)
{
	Pulc__Peer__Verdict verdict = PULC__PEER__VERDICT__INIT;

	verdict.job = (char *)job;
	verdict.answer = what;
	verdict.text = (char *)text;
	answer(all, asker, &verdict);
}

static void on_decided(void *data, const struct psid_ticket *ticket, Pulc__Peer__Answer what,
		       const Pulc__Peer__Share *shares, size_t n_shares)
{
	Pulc__Peer__Verdict verdict = PULC__PEER__VERDICT__INIT;
	Pulc__Peer__Share **pointers = calloc(n_shares + 1, sizeof(*pointers));

	for (size_t i = 0; pointers && i < n_shares; i++)
		pointers[i] = (Pulc__Peer__Share *)&shares[i];
	verdict.job = (char *)ticket->job;
	verdict.answer = what;
	verdict.text = (char *)ticket->why;
	verdict.position = ticket->position;
	verdict.shares = pointers;
	verdict.n_shares = n_shares;
	if (pointers)
		answer(data, ticket->asker, &verdict);
	free(pointers);
}

static void ask_nodes(struct steward *s, const struct psid_partition *p)
{
	struct psid_cluster *cluster = s->all->psid->cluster;
	Pulc__Peer__UseAsk ask = PULC__PEER__USE_ASK__INIT;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	msg.body_case = PULC__PEER__MESSAGE__BODY_USE_ASK;
	msg.use_ask = &ask;
	for (size_t i = 0; i < p->n_nodes; i++) {
		const struct psid_node *node = psid_node_find(cluster, p->nodes[i]);

		if (node && psid_node_is_up(node))
			(void)psid_peer_send(cluster, node->id, &msg);
	}
	s->asks = false;
}

/* ---- when ------------------------------------------------------------------------------------ */

/* What is decided about; NULL: there is none any more. */
static const struct psid_partition *partition_of(const struct steward *s)
{
	if (!s->reserved)
		return psid_book_find(psid_partitions_book(s->all->psid), s->plan->partition);
	return psid_reserved_is_there(s->all->psid, s->plan->partition) ? &s->reserved->partition
									: NULL;
}

static void decide_all(struct psid_stewards *all, bool is_tick)
{
	const struct psid *psid = all->psid;
	struct steward *s, *next;

	for (s = LIST_FIRST(&all->list); s; s = next) {
		const struct psid_partition *p = partition_of(s);

		next = LIST_NEXT(s, link);
		if (!p || (!s->reserved &&
			   psid_partition_steward(psid, p) != psid_node_self(psid->cluster)->id)) {
			steward_free(s); /* who asks again finds out */
			continue;
		}
		if (s->asks || (is_tick && s->plan->n_tickets > 0))
			ask_nodes(s, p);
		psid_plan_decide(s->plan, psid->cluster, p, usec_now(), on_decided, all);
		if (psid_plan_is_idle(s->plan))
			steward_free(s);
	}
	if (LIST_EMPTY(&all->list))
		(void)uv_timer_stop(&all->tick);
}

static void on_soon(uv_timer_t *timer)
{
	decide_all(timer->data, false);
}

static void on_tick(uv_timer_t *timer)
{
	decide_all(timer->data, true);
}

static void decide_soon(struct psid_stewards *all)
{
	if (LIST_EMPTY(&all->list))
		return;
	if (!uv_is_active((uv_handle_t *)&all->soon))
		(void)uv_timer_start(&all->soon, on_soon, MSEC_SOON, 0);
	if (!uv_is_active((uv_handle_t *)&all->tick))
		(void)uv_timer_start(&all->tick, on_tick, MSEC_TICK, MSEC_TICK);
}

/* ---- what is heard --------------------------------------------------------------------------- */

/* Takes reserved. */
static struct steward *get(struct psid_stewards *all, const char *partition,
			   struct psid_reserved *reserved)
{
	struct steward *s = find(all, partition);

	if (s) {
		(void)psid_reserved_free(reserved);
		return s;
	}
	s = calloc(1, sizeof(*s));
	if (!s || !(s->plan = psid_plan_new(partition))) {
		(void)psid_reserved_free(reserved);
		free(s);
		return NULL;
	}
	s->all = all;
	s->reserved = reserved;
	LIST_INSERT_HEAD(&all->list, s, link);
	return s;
}

/* Why a wish can't be taken; NULL: it can. */
static const char *objection(struct psid_stewards *all, const struct psid_partition *p,
			     const Pulc__Peer__Want *want, Pulc__Peer__Answer *ret_answer)
{
	*ret_answer = PULC__PEER__ANSWER__ANSWER_WAITS;
	if (!p)
		return "the node that decides has not heard of the partition yet";
	if (psid_partition_steward(all->psid, p) != psid_node_self(all->psid->cluster)->id)
		return "it is not clear yet which node decides";
	*ret_answer = PULC__PEER__ANSWER__ANSWER_REFUSED;
	if (!psid_partition_allows(p, want->uid))
		return "the user may not use that partition";
	return NULL;
}

/* A wish for processors of a reservation that was made here. Returns NULL after an answer. */
static struct steward *get_reserved(struct psid_stewards *all, uint64_t from,
				    const Pulc__Peer__Want *want)
{
	Pulc__Peer__Answer what = PULC__PEER__ANSWER__ANSWER_REFUSED;
	struct psid_reserved *reserved = NULL;
	const char *why = psid_reserved_get(all->psid, want->submit->reservation, want->uid,
					    &reserved);
	struct steward *s = why ? NULL : get(all, want->submit->reservation, reserved);

	if (why && usec_now() < all->usec_started + USEC_COME_BACK)
		what = PULC__PEER__ANSWER__ANSWER_WAITS; /* its keeper may not have called yet */
	if (!s)
		say(all, from, want->job, what, why ? why : "no memory");
	return s;
}

/* The same for a partition. */
static struct steward *get_partition(struct psid_stewards *all, uint64_t from,
				     const Pulc__Peer__Want *want)
{
	const struct psid_partition *p = psid_book_find(psid_partitions_book(all->psid),
							want->submit->partition);
	Pulc__Peer__Answer what;
	const char *why = objection(all, p, want, &what);
	struct steward *s = why ? NULL : get(all, want->submit->partition, NULL);

	if (!s)
		say(all, from, want->job, what, why ? why : "no memory");
	return s;
}

static int on_want(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const Pulc__Peer__Want *want = msg->want;
	struct psid_stewards *all = ((struct psid *)data)->stewards;
	struct steward *s;
	size_t n;
	int r;

	(void)life;
	if (!want->submit || strlen(want->job) >= PSID_SIZE_JOB)
		return -EBADMSG;
	s = (want->submit->reservation[0] ? get_reserved : get_partition)(all, from, want);
	if (!s)
		return 0;
	n = s->plan->n_tickets;
	r = psid_plan_want(s->plan, from, want, usec_now());
	s->asks |= s->plan->n_tickets > n;
	if (r == -ENOSPC || r == -ENOMEM)
		say(all, from, want->job, PULC__PEER__ANSWER__ANSWER_REFUSED,
		    r == -ENOSPC ? "the queue is full" : "no memory");
	decide_soon(all);
	return r == -EBADMSG ? r : 0;
}

static int on_unwant(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	struct psid_stewards *all = ((struct psid *)data)->stewards;
	struct steward *s = find(all, msg->unwant->partition);

	(void)life;
	if (s)
		psid_plan_unwant(s->plan, from, msg->unwant->job);
	decide_soon(all);
	return 0;
}

static int on_use(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	struct psid_stewards *all = ((struct psid *)data)->stewards;
	struct steward *s;
	int r = 0;

	(void)life;
	LIST_FOREACH(s, &all->list, link) {
		const struct psid_partition *p = partition_of(s);

		if (p && psid_partition_has(p, from) && r != -EBADMSG)
			r = psid_plan_told(s->plan, from, msg->use, usec_now());
	}
	decide_soon(all);
	return r == -EBADMSG ? r : 0;
}

static void on_changed(void *data, const struct psid_node *node)
{
	struct psid_stewards *all = data;
	struct steward *s;

	LIST_FOREACH(s, &all->list, link)
		if (!psid_node_is_up(node))
			psid_plan_forget(s->plan, node->id);
	decide_soon(all);
}

/* ---- the whole ------------------------------------------------------------------------------- */

int psid_stewards_start(struct psid *psid)
{
	struct psid_stewards *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	psid->stewards = all;
	all->psid = psid;
	all->usec_started = usec_now();
	all->n_busy = 2;
	LIST_INIT(&all->list);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_WANT, on_want, psid);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_UNWANT, on_unwant, psid);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_USE, on_use, psid);
	all->watch = (struct psid_cluster_watch){ .changed = on_changed, .data = all };
	psid_cluster_watch(psid->cluster, &all->watch);
	(void)uv_timer_init(&psid->loop, &all->soon);
	(void)uv_timer_init(&psid->loop, &all->tick);
	all->soon.data = all->tick.data = all;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct psid_stewards *all = handle->data;

	if (--all->n_busy == 0)
		free(all);
}

void psid_stewards_close(struct psid *psid)
{
	struct psid_stewards *all = psid->stewards;

	psid_cluster_unwatch(&all->watch);
	while (!LIST_EMPTY(&all->list))
		steward_free(LIST_FIRST(&all->list));
	uv_close((uv_handle_t *)&all->soon, on_closed);
	uv_close((uv_handle_t *)&all->tick, on_closed);
}
