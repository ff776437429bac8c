/*
 * Which job of a partition begins next.
 *
 * First come, first served, by the time of asking, then node and name of the job. Small jobs may
 * pass: one that fits begins before others that don't, as long as none of these has been passed by
 * more processors than it asks for itself. So a large job waits for at most one of its own size
 * more than its turn, without anybody having to say how long jobs run. One that can't begin before
 * nodes come back holds nobody up.
 *
 * What a node has to give is what it has told lately, and since the job in question was asked for,
 * less what was granted and is still on its way there. A node that has told nothing, as to a node
 * that has just begun to decide, has nothing to give. In an exclusive partition a node that runs
 * anything, or will, is taken as a whole.
 *
 * A partition may have limits for each user (limit.c). Who has reached one waits for his own jobs
 * and is in nobody's way. To count what somebody has, all nodes that are up must have told what
 * they do: until then nobody gets anything in such a partition.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"
#include "cluster.h"
#include "limit.h"
#include "macros.h"
#include "place.h"
#include "plan_inside.h"

#define USEC_FRESH (3 * USEC_PER_SEC) /* what a node has told is true for so long */
#define USEC_SETTLE                                                                                \
	(USEC_PER_SEC * 3 / 2) /* who does not want to wait gives the nodes so long to tell */

/* ---- what there is for a ticket -------------------------------------------------------------- */

/* One look at the partition, for one ticket. */
struct look {
	const struct psid_plan *plan;
	struct psid_cluster *cluster;
	const struct psid_partition *partition;
	uint64_t usec_now;
	const struct psid_ticket *ticket;
	struct psid_candidate *candidates;
	size_t n_candidates;
	uint32_t *rooms_up, *rooms_could; /* of each node that was looked at */
	size_t n_rooms;
	struct psid_usage usage; /* what the ticket's user has, if the partition has limits */
	bool is_cut;		 /* there would be more nodes */
	uint64_t n_free, n_up,
		n_could;	/* tasks that fit now, on an empty partition, with all nodes up */
	uint64_t n_could_uncut; /* the last without the limit of nodes */
	unsigned n_silent, n_away, n_unknown;
};

static uint32_t n_cpus_of(const Pulc__Wire__Submit *submit)
{
	return MAX(submit->cpus_per_task, 1u);
}

uint64_t psid_ticket_n_cpus(const struct psid_ticket *ticket)
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

/* What a node has told since the ticket is there, and lately; NULL: nothing. */
static const struct psid_plan_node *told_by(const struct look *look, uint64_t id)
{
	const struct psid_plan_node *known = psid_plan_find(look->plan, id);

	return known && known->usec_told >= look->ticket->usec_arrived &&
			       known->usec_told + USEC_FRESH >= look->usec_now
		       ? known
		       : NULL;
}

/* What there is on an empty partition, or in an empty reservation. */
static uint32_t cores_of(const struct look *look, const struct psid_node *node)
{
	const struct psid_plan_node *known;

	if (!look->plan->is_reservation)
		return node->n_cores;
	known = node->state == PSID_NODE_ALIVE ? told_by(look, node->id) : NULL;
	return known ? known->n_reserved : 0;
}

/* A node of a reservation that has not told yet: what was reserved there is not known. */
static bool is_unknown(const struct look *look, const struct psid_node *node)
{
	return !node || node->n_cores == 0 ||
	       (look->plan->is_reservation && node->state == PSID_NODE_ALIVE &&
		!told_by(look, node->id));
}

/* Processors of a node that is up which may be given to this ticket now. */
static uint32_t free_on(struct look *look, const struct psid_node *node)
{
	const struct psid_plan_node *known = told_by(look, node->id);

	if (!known) {
		look->n_silent++;
		return 0;
	}
	if (look->partition->record->partition->exclusive)
		return known->n_jobs > 0 ? 0 : node->n_cores;
	if (look->ticket->submit->oversubscribe)
		return cores_of(look, node);
	return cores_of(look, node) - MIN(cores_of(look, node), known->n_cpus);
}

static void look_at(struct look *look, uint64_t id, uint32_t n_max)
{
	const Pulc__Wire__Submit *submit = look->ticket->submit;
	const struct psid_node *node = psid_node_find(look->cluster, id);
	uint32_t n;

	if (is_unknown(look, node)) {
		look->n_unknown++;
		look->n_silent += look->plan->is_reservation;
		return;
	}
	n = room_of(submit, cores_of(look, node), n_max);
	look->n_could += n;
	look->rooms_could[look->n_rooms++] = n;
	if (node->state != PSID_NODE_ALIVE || (node->drained && !look->plan->is_reservation)) {
		look->n_away++;
		return;
	}
	look->n_up += n;
	look->rooms_up[look->n_rooms - 1] = n;
	n = room_of(submit, free_on(look, node), n_max);
	look->n_free += n;
	if (n > 0)
		look->candidates[look->n_candidates++] = (struct psid_candidate){ .node = id,
										  .n_max = n };
}

/* The room on as many nodes as the ticket's user may have. */
static void cut_nodes(struct look *look)
{
	uint32_t max = look->partition->record->partition->max_nodes;
	size_t n = look->n_candidates;

	look->n_could_uncut = look->n_could;
	if (max == 0)
		return;
	look->n_candidates = psid_limit_nodes(look->partition, &look->usage, look->candidates, n);
	look->is_cut = look->n_candidates < n;
	look->n_free = 0;
	for (size_t i = 0; i < look->n_candidates; i++)
		look->n_free += look->candidates[i].n_max;
	look->n_up = psid_limit_room(look->rooms_up, look->n_rooms, max);
	look->n_could = psid_limit_room(look->rooms_could, look->n_rooms, max);
}

/* In the order of the list that was given, or of the partition's nodes. */
static void look_at_all(struct look *look)
{
	const struct psid_ticket *ticket = look->ticket;

	look->n_rooms = 0;
	look->is_cut = false;
	memset(look->rooms_up, 0, PSID_N_PARTITION_NODES * sizeof(*look->rooms_up));
	look->n_candidates = look->n_free = look->n_up = look->n_could = 0;
	look->n_silent = look->n_away = look->n_unknown = 0;
	for (size_t i = 0; i < ticket->n_hosts; i++)
		if (psid_partition_has(look->partition, ticket->hosts[i].node))
			look_at(look, ticket->hosts[i].node, ticket->hosts[i].n_max);
	for (size_t i = 0; ticket->n_hosts == 0 && i < look->partition->n_nodes; i++)
		look_at(look, look->partition->nodes[i], 0);
	cut_nodes(look);
}

/* ---- granting -------------------------------------------------------------------------------- */

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
		(void)strcpy(plan->is_reservation ? holding->reservation : holding->partition,
			     plan->partition);
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

/* What was granted before is granted again: the answer may have been lost. Returns whether it was,
 * or runs. */
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

/* ---- deciding -------------------------------------------------------------------------------- */

/* One round over the queue. */
struct round {
	struct look look;
	psid_plan_verdict *verdict;
	void *data;
	uint32_t n_before;   /* tickets that wait, before the one that is looked at */
	uint64_t n_may_pass; /* processors that may still be given past them */
};

/* What is in use on each node, or in a reservation of what was reserved there. */
static void add_up(struct psid_plan *plan, const struct psid_partition *partition)
{
	const struct psid_holding *holding;

	for (size_t i = plan->n_nodes; i-- > 0;)
		if (!psid_partition_has(partition, plan->nodes[i].id))
			psid_plan_drop_node(plan, &plan->nodes[i]);
	for (size_t i = 0; i < plan->n_nodes; i++)
		plan->nodes[i].n_cpus = plan->nodes[i].n_jobs = plan->nodes[i].n_reserved = 0;
	TAILQ_FOREACH(holding, &plan->holdings, link) {
		struct psid_plan_node *node = psid_plan_find(plan, holding->node);

		if (node && plan->is_reservation && strcmp(holding->job, plan->partition) == 0)
			node->n_reserved += holding->n_cpus;
		if (node && strcmp(holding->reservation,
				   plan->is_reservation ? plan->partition : "") == 0) {
			node->n_cpus += holding->n_cpus;
			node->n_jobs++;
		}
	}
}

static void say_why(const struct look *look, const struct round *round, bool fits, char *why)
{
	const Pulc__Wire__Partition *p = look->partition->record->partition;
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
	else if (look->is_cut)
		(void)snprintf(
			why, PSID_SIZE_WHY,
			"limit nodes=%u of partition %.63s for each user: %zu are in use, and "
			"there is room for %llu of %u tasks now",
			p->max_nodes, p->name, look->usage.n_nodes,
			(unsigned long long)look->n_free, n_tasks);
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
		ticket->n_passed += psid_ticket_n_cpus(granted);
	if (round->n_may_pass != UINT64_MAX)
		round->n_may_pass -= psid_ticket_n_cpus(granted);
}

/* Nobody may be passed by more than he asks for. One that can't begin before other nodes come back
 * is in nobody's way. */
static void stand_in_line(struct round *round, const struct psid_ticket *ticket)
{
	uint64_t n_all = psid_ticket_n_cpus(ticket), n_left = n_all - MIN(n_all, ticket->n_passed);

	if (round->look.n_up >= ticket->submit->n_tasks)
		round->n_may_pass = MIN(round->n_may_pass, n_left);
}

static bool has_settled(const struct look *look)
{
	return look->usec_now >= look->ticket->usec_arrived + USEC_SETTLE;
}

/* Have all nodes of the partition that are up told what they do? */
static bool has_heard_all(const struct look *look)
{
	for (size_t i = 0; i < look->partition->n_nodes; i++) {
		const struct psid_node *node = psid_node_find(look->cluster,
							      look->partition->nodes[i]);

		if (node && node->state == PSID_NODE_ALIVE && !told_by(look, node->id))
			return false;
	}
	return true;
}

/* It waits, unless too many of its user's do so already. Returns whether the ticket is done
 * with. */
static bool keep(struct psid_plan *plan, struct round *round, struct psid_ticket *ticket,
		 const char *why)
{
	char too_many[PSID_SIZE_WHY];

	if (psid_limit_check_queue(plan, round->look.partition, ticket, too_many) !=
	    PSID_LIMIT_FREE) {
		refuse(round, ticket, too_many);
		return true;
	}
	wait_on(round, ticket, why);
	round->n_before++;
	return false;
}

/* Do the limits for its user keep the ticket from beginning? Then *ret_done: it is done with. */
static bool is_limited(struct psid_plan *plan, struct round *round, struct psid_ticket *ticket,
		       bool *ret_done)
{
	struct look *look = &round->look;
	enum psid_limit limit = PSID_LIMIT_BUSY;
	char why[PSID_SIZE_WHY] = "not all nodes have said yet what they have";

	psid_usage_deinit(&look->usage);
	if (!psid_limit_is_any(look->partition))
		return false;
	*ret_done = false;
	if (psid_usage_of(plan, ticket->uid, &look->usage) == 0 && has_heard_all(look))
		limit = psid_limit_check(look->partition, ticket, &look->usage, why);
	else if (!has_settled(look)) {
		round->n_before++;
		return true;
	}
	if (limit == PSID_LIMIT_FREE)
		return false;
	*ret_done = true;
	if (limit == PSID_LIMIT_BUSY && ticket->submit->wait)
		*ret_done = keep(plan, round, ticket, why);
	else
		refuse(round, ticket, why);
	return true;
}

/* Why it would not fit on all nodes together. */
static void say_never(const struct look *look, char *why)
{
	const Pulc__Wire__Partition *p = look->partition->record->partition;

	if (look->n_could_uncut >= look->ticket->submit->n_tasks)
		(void)snprintf(
			why, PSID_SIZE_WHY,
			"limit nodes=%u of partition %.63s for each user: so many have room for "
			"%llu tasks of this kind (ask for less)",
			p->max_nodes, p->name, (unsigned long long)look->n_could);
	else
		(void)snprintf(why, PSID_SIZE_WHY, "the %s has room for %llu tasks of this kind",
			       look->plan->is_reservation ? "reservation" : "partition",
			       (unsigned long long)look->n_could);
}

/* It does not begin now. Returns whether the ticket is done with. */
static bool put_off(struct psid_plan *plan, struct round *round, struct psid_ticket *ticket,
		    bool fits)
{
	struct look *look = &round->look;
	bool is_settled = look->n_silent == 0 || has_settled(look), is_done = false;
	char why[PSID_SIZE_WHY];

	say_why(look, round, fits, why);
	if (look->n_unknown == 0 && look->n_could < ticket->submit->n_tasks) {
		say_never(look, why);
		refuse(round, ticket, why);
		return true;
	}
	if (is_settled && !ticket->submit->wait) {
		refuse(round, ticket, why);
		return true;
	}
	ticket->is_possible = look->n_unknown == 0;
	if (is_settled)
		is_done = keep(plan, round, ticket, why);
	else
		round->n_before++;
	if (!is_done)
		stand_in_line(round, ticket);
	return is_done;
}

/* Returns whether the ticket is done with. */
static bool decide(struct psid_plan *plan, struct round *round, struct psid_ticket *ticket)
{
	uint64_t n_cpus = psid_ticket_n_cpus(ticket);
	struct look *look = &round->look;
	char why[PSID_SIZE_WHY];
	bool is_done, fits;

	look->ticket = ticket;
	if (grant_again(plan, ticket, round->verdict, round->data))
		return true;
	if (is_limited(plan, round, ticket, &is_done))
		return is_done;
	if (ticket->is_possible && ticket->submit->wait && n_cpus > round->n_may_pass) {
		say_why(look, round, true, why); /* without a look */
		return keep(plan, round, ticket, why);
	}
	look_at_all(look);
	fits = look->n_free >= ticket->submit->n_tasks;
	if (fits && n_cpus <= round->n_may_pass &&
	    grant(plan, look, round->verdict, round->data) == 0) {
		count_pass(plan, round, ticket);
		add_up(plan, look->partition);
		return true;
	}
	return put_off(plan, round, ticket, fits);
}

static bool round_init(struct round *round)
{
	struct look *look = &round->look;

	look->candidates = calloc(PSID_N_PARTITION_NODES, sizeof(*look->candidates));
	look->rooms_up = calloc(PSID_N_PARTITION_NODES, sizeof(*look->rooms_up));
	look->rooms_could = calloc(PSID_N_PARTITION_NODES, sizeof(*look->rooms_could));
	return look->candidates && look->rooms_up && look->rooms_could;
}

static void round_deinit(struct round *round)
{
	free(round->look.candidates);
	free(round->look.rooms_up);
	free(round->look.rooms_could);
	psid_usage_deinit(&round->look.usage);
}

void psid_plan_decide(struct psid_plan *plan, struct psid_cluster *cluster,
		      const struct psid_partition *partition, uint64_t usec_now,
		      psid_plan_verdict *verdict, void *data)
{
	CLEANUP(round_deinit)
	struct round round = { .look = { .plan = plan,
					 .cluster = cluster,
					 .partition = partition,
					 .usec_now = usec_now },
			       .verdict = verdict,
			       .data = data,
			       .n_may_pass = UINT64_MAX };
	struct psid_ticket *ticket, *next;

	psid_plan_expire(plan, usec_now);
	if (!round_init(&round))
		return;
	add_up(plan, partition);
	for (ticket = TAILQ_FIRST(&plan->tickets); ticket; ticket = next) {
		next = TAILQ_NEXT(ticket, link);
		if (decide(plan, &round, ticket))
			psid_plan_drop_ticket(plan, ticket);
	}
}
