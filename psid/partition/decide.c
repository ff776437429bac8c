/*
 * Which job of a partition begins next.
 *
 * First come, first served, by the time of asking, then node and name of the job. Small jobs may pass: one that fits begins
 * before others that don't, as long as none of these has been passed by more processors than it asks for itself. So a large
 * job waits for at most one of its own size more than its turn, without anybody having to say how long jobs run. One that
 * can't begin before nodes come back holds nobody up.
 *
 * What a node has to give is what it has told lately, and since the job in question was asked for, less what was granted and is
 * still on its way there. A node that has told nothing, as to a node that has just begun to decide, has nothing to give.
 * In an exclusive partition a node that runs anything, or will, is taken as a whole.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"
#include "cluster.h"
#include "macros.h"
#include "place.h"
#include "plan_inside.h"

#define USEC_FRESH (3 * USEC_PER_SEC) /* what a node has told is true for so long */
#define USEC_SETTLE                                                                                \
	(USEC_PER_SEC * 3 / 2) /* who does not want to wait gives the nodes so long to tell */

/* ---- what there is for a ticket ------------------------------------------------------------ */

/* One look at the partition, for one ticket. */
struct look {
	const struct psid_plan *plan;
	struct psid_cluster *cluster;
	const struct psid_partition *partition;
	uint64_t usec_now;
	const struct psid_ticket *ticket;
	struct psid_candidate *candidates;
	size_t n_candidates;
	uint64_t n_free, n_up,
		n_could; /* tasks that fit now, on an empty partition, with all nodes up */
	unsigned n_silent, n_away, n_unknown;
};

static uint32_t n_cpus_of(const Pulc__Wire__Submit *submit)
{
	return MAX(submit->cpus_per_task, 1u);
}

static uint64_t n_all_cpus(const struct psid_ticket *ticket)
{
	return (uint64_t)ticket->submit->n_tasks * n_cpus_of(ticket->submit);
}

/* Tasks that a node of so many processors takes, and no more than were stated for it. */
static uint32_t room_of(const Pulc__Wire__Submit *submit, uint32_t n_cores, uint32_t n_max)
{
	uint32_t n = n_cores / n_cpus_of(submit);

	if (submit->oversubscribe && n_cores > 0)
		n = n_max > 0 ? n_max : submit->n_tasks;
	else if (n_max > 0)
		n = MIN(n, n_max);
	return submit->per_node > 0 ? MIN(n, submit->per_node) : n;
}

/* Processors of a node that is up which may be given to this ticket now. */
static uint32_t free_on(struct look *look, const struct psid_node *node)
{
	const struct psid_plan_node *known = psid_plan_find(look->plan, node->id);

	if (!known || known->usec_told < look->ticket->usec_arrived ||
	    known->usec_told + USEC_FRESH < look->usec_now) {
		look->n_silent++;
		return 0;
	}
	if (look->partition->record->partition->exclusive)
		return known->n_jobs > 0 ? 0 : node->n_cores;
	if (look->ticket->submit->oversubscribe)
		return node->n_cores;
	return node->n_cores - MIN((uint32_t)node->n_cores, known->n_cpus);
}

static void look_at(struct look *look, uint64_t id, uint32_t n_max)
{
	const Pulc__Wire__Submit *submit = look->ticket->submit;
	const struct psid_node *node = psid_node_find(look->cluster, id);
	uint32_t n;

	if (!node || node->n_cores == 0) {
		look->n_unknown++;
		return;
	}
	n = room_of(submit, node->n_cores, n_max);
	look->n_could += n;
	if (node->state != PSID_NODE_ALIVE || node->drained) {
		look->n_away++;
		return;
	}
	look->n_up += n;
	n = room_of(submit, free_on(look, node), n_max);
	look->n_free += n;
	if (n > 0)
		look->candidates[look->n_candidates++] = (struct psid_candidate){ .node = id,
										  .n_max = n };
}

/* In the order of the list that was given, or of the partition's nodes. */
static void look_at_all(struct look *look)
{
	const struct psid_ticket *ticket = look->ticket;

	look->n_candidates = look->n_free = look->n_up = look->n_could = 0;
	look->n_silent = look->n_away = look->n_unknown = 0;
	for (size_t i = 0; i < ticket->n_hosts; i++)
		if (psid_partition_has(look->partition, ticket->hosts[i].node))
			look_at(look, ticket->hosts[i].node, ticket->hosts[i].n_max);
	for (size_t i = 0; ticket->n_hosts == 0 && i < look->partition->n_nodes; i++)
		look_at(look, look->partition->nodes[i], 0);
}

/* ---- granting ------------------------------------------------------------------------------ */

enum psid_strategy psid_strategy_of(const Pulc__Wire__Submit *submit)
{
	switch (submit->strategy) {
	case PULC__WIRE__STRATEGY__STRATEGY_NEXT:
		return PSID_PLACE_NEXT;
	case PULC__WIRE__STRATEGY__STRATEGY_NODE:
		return PSID_PLACE_NODES;
	default:
		return PSID_PLACE_LEAST_LOADED;
	}
}

/* Returns 0 with a node for each task; as psid_place. */
static int place(const struct look *look, uint64_t *nodes)
{
	const Pulc__Wire__Submit *submit = look->ticket->submit;
	struct psid_placement wanted = { .strategy = psid_strategy_of(submit),
					 .n_tasks = submit->n_tasks,
					 .n_cpus = submit->cpus_per_task,
					 .n_per_node = submit->per_node,
					 .oversubscribe = submit->oversubscribe,
					 .candidates = look->candidates,
					 .n_candidates = look->n_candidates };

	if (look->n_free < submit->n_tasks)
		return -ENOSPC;
	/* As few nodes as will do, where nobody else gets what is left of them. */
	if (look->partition->record->partition->exclusive &&
	    wanted.strategy == PSID_PLACE_LEAST_LOADED)
		wanted.strategy = PSID_PLACE_NODES;
	return psid_place(look->cluster, &wanted, nodes);
}

/* Equal neighbours become one share. */
static size_t make_shares(const uint64_t *nodes, uint32_t n, Pulc__Peer__Share *shares)
{
	size_t n_shares = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (n_shares == 0 || shares[n_shares - 1].node != nodes[i]) {
			pulc__peer__share__init(&shares[n_shares]);
			shares[n_shares++].node = nodes[i];
		}
		shares[n_shares - 1].n_tasks++;
	}
	return n_shares;
}

static int hold(struct psid_plan *plan, const struct psid_ticket *ticket,
		const Pulc__Peer__Share *shares, size_t n, uint64_t usec_now)
{
	for (size_t i = 0; i < n; i++) {
		struct psid_holding *holding = psid_plan_add_holding(plan, ticket->job,
								     shares[i].node, ticket->uid);

		if (!holding)
			return -ENOMEM;
		(void)strcpy(holding->partition, plan->partition);
		holding->asker = ticket->asker;
		holding->n_tasks = shares[i].n_tasks;
		holding->n_cpus = shares[i].n_tasks * n_cpus_of(ticket->submit);
		holding->usec_made = usec_now;
	}
	return 0;
}

/* Returns 0: it is granted; negative errno. */
static int grant(struct psid_plan *plan, struct look *look, psid_plan_verdict *verdict, void *data)
{
	uint32_t n = look->ticket->submit->n_tasks;
	CLEANUP_FREE uint64_t *nodes = calloc(n, sizeof(*nodes));
	CLEANUP_FREE Pulc__Peer__Share *shares = calloc(n, sizeof(*shares));
	size_t n_shares;
	int r;

	if (!nodes || !shares)
		return -ENOMEM;
	r = place(look, nodes);
	if (r < 0)
		return r;
	n_shares = make_shares(nodes, n, shares);
	r = hold(plan, look->ticket, shares, n_shares, look->usec_now);
	if (r < 0) {
		psid_plan_drop_grants(plan, look->ticket->asker, look->ticket->job);
		return r;
	}
	verdict(data, look->ticket, PULC__PEER__ANSWER__ANSWER_GRANTED, shares, n_shares);
	return 0;
}

/* What was granted before is granted again: the answer may have been lost. Returns whether it was, or runs. */
static bool grant_again(struct psid_plan *plan, const struct psid_ticket *ticket,
			psid_plan_verdict *verdict, void *data)
{
	CLEANUP_FREE Pulc__Peer__Share *shares = calloc(ticket->submit->n_tasks, sizeof(*shares));
	const struct psid_holding *holding;
	size_t n = 0;

	TAILQ_FOREACH(holding, &plan->holdings, link)
	if (holding->is_told && strcmp(holding->job, ticket->job) == 0)
		return true;
	TAILQ_FOREACH(holding, &plan->holdings, link)
	if (shares && !holding->is_told && holding->asker == ticket->asker &&
	    strcmp(holding->job, ticket->job) == 0 && n < ticket->submit->n_tasks) {
		pulc__peer__share__init(&shares[n]);
		shares[n].node = holding->node;
		shares[n++].n_tasks = holding->n_tasks;
	}
	if (n > 0)
		verdict(data, ticket, PULC__PEER__ANSWER__ANSWER_GRANTED, shares, n);
	return n > 0;
}

/* ---- deciding ------------------------------------------------------------------------------ */

/* One round over the queue. */
struct round {
	struct look look;
	psid_plan_verdict *verdict;
	void *data;
	uint32_t n_before;   /* tickets that wait, before the one that is looked at */
	uint64_t n_may_pass; /* processors that may still be given past them */
};

/* What is in use on each node. */
static void add_up(struct psid_plan *plan, const struct psid_partition *partition)
{
	const struct psid_holding *holding;

	for (size_t i = plan->n_nodes; i-- > 0;)
		if (!psid_partition_has(partition, plan->nodes[i].id))
			psid_plan_drop_node(plan, &plan->nodes[i]);
	for (size_t i = 0; i < plan->n_nodes; i++)
		plan->nodes[i].n_cpus = plan->nodes[i].n_jobs = 0;
	TAILQ_FOREACH(holding, &plan->holdings, link)
	{
		struct psid_plan_node *node = psid_plan_find(plan, holding->node);

		if (node) {
			node->n_cpus += holding->n_cpus;
			node->n_jobs++;
		}
	}
}

static void say_why(const struct look *look, const struct round *round, bool fits, char *why)
{
	uint32_t n_tasks = fits ? 0 : look->ticket->submit->n_tasks;

	if (fits)
		(void)snprintf(why, PSID_SIZE_WHY, "%u before it in the queue", round->n_before);
	else if (look->n_silent > 0)
		(void)snprintf(why, PSID_SIZE_WHY, "not all nodes have said yet what they have");
	else if (look->n_up < n_tasks)
		(void)snprintf(why, PSID_SIZE_WHY,
			       "%u nodes are down or drained: room for %llu of %u tasks is left",
			       look->n_away + look->n_unknown, (unsigned long long)look->n_up,
			       n_tasks);
	else
		(void)snprintf(why, PSID_SIZE_WHY, "there is room for %llu of %u tasks now",
			       (unsigned long long)MIN(look->n_free, (uint64_t)n_tasks), n_tasks);
}

static void wait_on(struct round *round, struct psid_ticket *ticket, const char *why)
{
	uint32_t position = round->n_before + 1;

	if (ticket->is_told && ticket->position == position && strcmp(ticket->why, why) == 0)
		return;
	(void)snprintf(ticket->why, sizeof(ticket->why), "%s", why);
	ticket->position = position;
	ticket->is_told = true;
	round->verdict(round->data, ticket, PULC__PEER__ANSWER__ANSWER_WAITS, NULL, 0);
}

static void refuse(struct round *round, struct psid_ticket *ticket, const char *why)
{
	(void)snprintf(ticket->why, sizeof(ticket->why), "%s", why);
	round->verdict(round->data, ticket, PULC__PEER__ANSWER__ANSWER_REFUSED, NULL, 0);
}

/* Those before a ticket that was granted have been passed. */
static void count_pass(struct psid_plan *plan, struct round *round,
		       const struct psid_ticket *granted)
{
	struct psid_ticket *ticket;

	for (ticket = TAILQ_FIRST(&plan->tickets); ticket != granted;
	     ticket = TAILQ_NEXT(ticket, link))
		ticket->n_passed += n_all_cpus(granted);
	if (round->n_may_pass != UINT64_MAX)
		round->n_may_pass -= n_all_cpus(granted);
}

/* Nobody may be passed by more than he asks for. One that can't begin before other nodes come back is in nobody's way. */
static void stand_in_line(struct round *round, const struct psid_ticket *ticket)
{
	uint64_t n_all = n_all_cpus(ticket), n_left = n_all - MIN(n_all, ticket->n_passed);

	if (round->look.n_up >= ticket->submit->n_tasks)
		round->n_may_pass = MIN(round->n_may_pass, n_left);
}

/* Returns whether the ticket is done with. */
static bool decide(struct psid_plan *plan, struct round *round, struct psid_ticket *ticket)
{
	struct look *look = &round->look;
	const Pulc__Wire__Submit *submit = ticket->submit;
	bool is_settled, fits;
	char why[PSID_SIZE_WHY];

	if (grant_again(plan, ticket, round->verdict, round->data))
		return true;
	if (ticket->is_possible && submit->wait && n_all_cpus(ticket) > round->n_may_pass) {
		say_why(look, round, true, why); /* without a look */
		wait_on(round, ticket, why);
		round->n_before++;
		return false;
	}
	look->ticket = ticket;
	look_at_all(look);
	fits = look->n_free >= submit->n_tasks;
	if (fits && n_all_cpus(ticket) <= round->n_may_pass &&
	    grant(plan, look, round->verdict, round->data) == 0) {
		count_pass(plan, round, ticket);
		add_up(plan, look->partition);
		return true;
	}
	is_settled = look->n_silent == 0 || look->usec_now >= ticket->usec_arrived + USEC_SETTLE;
	say_why(look, round, fits, why);
	if (look->n_unknown == 0 && look->n_could < submit->n_tasks)
		(void)snprintf(why, sizeof(why),
			       "the partition has room for %llu tasks of this kind",
			       (unsigned long long)look->n_could);
	else if (submit->wait || !is_settled) {
		ticket->is_possible = look->n_unknown == 0;
		if (is_settled)
			wait_on(round, ticket, why);
		round->n_before++;
		stand_in_line(round, ticket);
		return false;
	}
	refuse(round, ticket, why);
	return true;
}

void psid_plan_decide(struct psid_plan *plan, struct psid_cluster *cluster,
		      const struct psid_partition *partition, uint64_t usec_now,
		      psid_plan_verdict *verdict, void *data)
{
	CLEANUP_FREE struct psid_candidate *candidates = calloc(PSID_N_PARTITION_NODES,
								sizeof(*candidates));
	struct round round = { .look = { .plan = plan,
					 .cluster = cluster,
					 .partition = partition,
					 .usec_now = usec_now,
					 .candidates = candidates },
			       .verdict = verdict,
			       .data = data,
			       .n_may_pass = UINT64_MAX };
	struct psid_ticket *ticket, *next;

	psid_plan_expire(plan, usec_now);
	if (!candidates)
		return;
	add_up(plan, partition);
	for (ticket = TAILQ_FIRST(&plan->tickets); ticket; ticket = next) {
		next = TAILQ_NEXT(ticket, link);
		if (decide(plan, &round, ticket))
			psid_plan_drop_ticket(plan, ticket);
	}
}
