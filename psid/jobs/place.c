/*
 * Placing: from what was asked for to a list of nodes with their ranks.
 *
 * A job gets no more tasks on a node than the node has cores for, unless it asks for more. What
 * other jobs do there decides which nodes are taken, not whether: nodes are shared, and the news of
 * what has just ended elsewhere is always a little late.
 *
 * Which nodes is the cluster's to say (cluster/place.h). Here names become nodes, and the tasks
 * that were dealt out become places: a node's ranks in one run, so that neighbours talk through
 * memory; but in turn, as dealt, for strategy `next`.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "cluster.h"
#include "job.h"
#include "macros.h"
#include "partitions.h"
#include "place.h"
#include "plan.h"
#include "psid.h"

static const struct psid_node *find_node(struct psid *psid, const char *name)
{
	if (strcmp(name, "localhost") == 0)
		return psid_node_self(psid->cluster);
	return psid_node_find_name(psid->cluster, name);
}

/* One that was named twice has the slots of both. */
static void add_candidate(struct psid_placement *wanted, struct psid_candidate *list, uint64_t node,
			  uint32_t slots)
{
	size_t i = 0;

	while (i < wanted->n_candidates && list[i].node != node)
		i++;
	if (i == wanted->n_candidates)
		list[wanted->n_candidates++] = (struct psid_candidate){ .node = node };
	list[i].n_max += slots;
}

/* How many tasks a job may have there if nothing else is said. */
static uint32_t room_of(const struct psid_node *node, const struct psid_placement *wanted)
{
	return node->n_cores / MAX(wanted->n_cpus, 1u);
}

/*
 * May a job of this partition ("": none) be placed there? Who may use the partition was looked at
 * before; a node outside of it is none of its business.
 */
static bool is_for(struct psid *psid, const struct psid_node *node, const char *partition)
{
	const struct psid_book *book = psid_partitions_book(psid);
	const struct psid_partition *p = psid_book_find(book, partition);

	return p ? psid_partition_has(p, node->id) : !psid_book_holder(book, node->id);
}

static void take_all(struct psid *psid, const Pulc__Wire__Submit *submit,
		     struct psid_placement *wanted, struct psid_candidate *list, size_t n_max)
{
	const struct psid_node *node = NULL;

	while ((node = psid_node_next(psid->cluster, node ? node->id : 0)) &&
	       wanted->n_candidates < n_max) {
		if (!psid_place_is_open(node, wanted) || !is_for(psid, node, submit->partition))
			continue;
		if (submit->oversubscribe)
			add_candidate(wanted, list, node->id, 0);
		else if (room_of(node, wanted) > 0)
			add_candidate(wanted, list, node->id, room_of(node, wanted));
	}
	wanted->candidates = list;
}

static bool has_kept(struct psid *psid)
{
	const struct psid_node *node = NULL;

	while ((node = psid_node_next(psid->cluster, node ? node->id : 0)))
		if (psid_node_is_up(node) && psid_book_holder(psid_partitions_book(psid), node->id))
			return true;
	return false;
}

static int refuse_node(struct psid *psid, const char *name, const struct psid_node *node,
		       const char *partition, struct job_why *why)
{
	const struct psid_partition *holder = psid_book_holder(psid_partitions_book(psid),
							       node->id);

	if (partition[0])
		return job_why(why, -EPERM, "node %.64s is not in partition %.64s", name,
			       partition);
	return job_why(why, -EPERM, "node %.64s is kept for partition %.64s (--partition)", name,
		       holder ? holder->record->partition->name : "?");
}

static int find_candidates(struct psid *psid, const Pulc__Wire__Submit *submit,
			   struct psid_placement *wanted, struct psid_candidate *list,
			   struct job_why *why)
{
	for (size_t i = 0; i < submit->n_hosts; i++) {
		const Pulc__Wire__Host *host = submit->hosts[i];
		const struct psid_node *node = find_node(psid, host->name);

		if (!node)
			return job_why(why, -EHOSTUNREACH, "no node named %.64s", host->name);
		if (!psid_node_is_up(node))
			return job_why(why, -EHOSTUNREACH, "node %.64s is %s", host->name,
				       psid_node_state_name(node->state));
		if (!is_for(psid, node, submit->partition))
			return refuse_node(psid, host->name, node, submit->partition, why);
		if (!host->slots && !submit->oversubscribe && room_of(node, wanted) == 0)
			continue;
		add_candidate(wanted, list, node->id,
			      host->slots || submit->oversubscribe ? host->slots
								   : room_of(node, wanted));
	}
	if (submit->n_hosts > 0)
		wanted->candidates = list;
	return 0;
}

/* ---- from nodes to places -------------------------------------------------------------------- */

static Pulc__Job__Place *place_of(struct psid *psid, Pulc__Job__Start *start, uint64_t *ids,
				  uint64_t id, uint32_t n_tasks)
{
	const struct psid_node *node;
	Pulc__Job__Place *place;

	for (size_t i = start->n_places; i-- > 0;)
		if (ids[i] == id)
			return start->places[i];
	node = psid_node_find(psid->cluster, id);
	place = calloc(1, sizeof(*place));
	if (!node || !place) {
		free(place);
		return NULL;
	}
	pulc__job__place__init(place);
	ids[start->n_places] = id;
	start->places[start->n_places++] = place;
	place->node = strdup(node->name);
	place->ranks = calloc(n_tasks, sizeof(*place->ranks));
	return place->node && place->ranks ? place : NULL;
}

/* Ranks in the order of places instead of in that of dealing. */
static void number_in_runs(Pulc__Job__Start *start)
{
	uint32_t rank = 0;

	for (size_t i = 0; i < start->n_places; i++) {
		Pulc__Job__Place *place = start->places[i];

		for (size_t j = 0; place && j < place->n_ranks; j++)
			place->ranks[j] = rank++;
	}
}

static int make_places(struct psid *psid, const Pulc__Wire__Submit *submit, Pulc__Job__Start *start,
		       const uint64_t *nodes)
{
	CLEANUP_FREE uint64_t *ids = calloc(submit->n_tasks, sizeof(*ids));

	start->places = calloc(submit->n_tasks, sizeof(*start->places));
	if (!ids || !start->places)
		return -ENOMEM;
	for (uint32_t i = 0; i < submit->n_tasks; i++) {
		Pulc__Job__Place *place = place_of(psid, start, ids, nodes[i], submit->n_tasks);

		if (!place)
			return -ENOMEM;
		place->ranks[place->n_ranks++] = i;
	}
	if (submit->strategy != PULC__WIRE__STRATEGY__STRATEGY_NEXT)
		number_in_runs(start);
	start->here = (uint32_t)start->n_places;
	for (size_t i = 0; i < start->n_places; i++)
		if (ids[i] == psid_node_self(psid->cluster)->id)
			start->here = (uint32_t)i;
	return 0;
}

static size_t count_nodes(struct psid *psid)
{
	const struct psid_node *node = NULL;
	size_t n = 0;

	while ((node = psid_node_next(psid->cluster, node ? node->id : 0)))
		n++;
	return n;
}

/* Returns as psid_place. */
static int choose(struct psid *psid, const Pulc__Wire__Submit *submit,
		  struct psid_placement *wanted, struct psid_candidate *list, size_t n_max,
		  uint64_t *ret_nodes)
{
	if (submit->n_hosts == 0)
		take_all(psid, submit, wanted, list, n_max);
	return psid_place(psid->cluster, wanted, ret_nodes);
}

int psid_job_may_use(struct psid *psid, const Pulc__Wire__Submit *submit,
		     const Pulc__Job__Start *start, struct job_why *why)
{
	const struct psid_partition *p = psid_book_find(psid_partitions_book(psid),
							submit->partition);

	if (!submit->partition[0])
		return 0;
	if (!p)
		return job_why(why, -ENOENT, "no partition named %.64s", submit->partition);
	if (!psid_partition_allows(p, start->identity->uid))
		return job_why(why, -EPERM, "you may not use partition %.64s", submit->partition);
	return 0;
}

int psid_job_may_name(struct psid *psid, const Pulc__Wire__Submit *submit, struct job_why *why)
{
	if (submit->n_hosts > PSID_N_PARTITION_NODES)
		return job_why(why, -E2BIG, "more than %u nodes are named", PSID_N_PARTITION_NODES);
	for (size_t i = 0; i < submit->n_hosts; i++) {
		const struct psid_node *node = find_node(psid, submit->hosts[i]->name);

		if (!node)
			return job_why(why, -EHOSTUNREACH, "no node named %.64s",
				       submit->hosts[i]->name);
		if (!is_for(psid, node, submit->partition))
			return refuse_node(psid, submit->hosts[i]->name, node, submit->partition,
					   why);
	}
	return 0;
}

/* How many tasks the candidate takes at most. With a number for each node it takes so many at once,
 * or none. */
static uint32_t capacity_of(struct psid *psid, const struct psid_placement *wanted,
			    const struct psid_candidate *c)
{
	const struct psid_node *node = psid_node_find(psid->cluster, c->node);
	uint32_t most = node ? room_of(node, wanted) : 0;

	if (wanted->oversubscribe)
		most = wanted->n_tasks;
	if (c->n_max > 0)
		most = c->n_max;
	if (wanted->n_per_node == 0)
		return most;
	return most < wanted->n_per_node ? 0 : wanted->n_per_node;
}

/* All of them: fewer than are wanted, or those would fit. */
static uint64_t capacity(struct psid *psid, const struct psid_placement *wanted)
{
	uint64_t n = 0;

	for (size_t i = 0; wanted->candidates && i < wanted->n_candidates; i++)
		n += capacity_of(psid, wanted, &wanted->candidates[i]);
	return n;
}

/* What would make more room, and was not asked for yet. */
static const char *advice(const Pulc__Wire__Submit *submit)
{
	if (!submit->oversubscribe)
		return "; --oversubscribe lets tasks share cores";
	return submit->per_node ? "; --per-node allows no more on one" : "";
}

static int refuse_number(struct psid *psid, const Pulc__Wire__Submit *submit,
			 const struct psid_placement *wanted, struct job_why *why)
{
	uint64_t n = capacity(psid, wanted);

	if (wanted->n_candidates == 0 && !submit->partition[0] && has_kept(psid))
		return job_why(why, -ENOSPC,
			       "all nodes that are up are kept for partitions (--partition)");
	if (n == 0 && wanted->n_per_node > 1)
		return job_why(why, -ENOSPC,
			       "no node has room for %u tasks (--per-node) now (pulcctl nodes "
			       "shows the nodes%s)",
			       MIN(wanted->n_per_node, wanted->n_tasks), advice(submit));
	if (n == 0)
		return job_why(why, -ENOSPC,
			       "no node that takes tasks now has %u cores for one (pulcctl nodes "
			       "shows them)",
			       MAX(submit->cpus_per_task, 1u));
	return job_why(why, -ENOSPC,
		       "there is room for %" PRIu64 " of %u tasks now (pulcctl nodes shows the "
		       "nodes%s)",
		       n, submit->n_tasks, advice(submit));
}

int psid_job_place(struct psid *psid, const Pulc__Wire__Submit *submit, Pulc__Job__Start *start,
		   struct job_why *why)
{
	size_t n_max = submit->n_hosts > 0 ? submit->n_hosts : count_nodes(psid);
	CLEANUP_FREE struct psid_candidate *list = calloc(n_max + 1, sizeof(*list));
	CLEANUP_FREE uint64_t *nodes = calloc(submit->n_tasks, sizeof(*nodes));
	struct psid_placement wanted = { .strategy = psid_strategy_of(submit),
					 .n_tasks = submit->n_tasks,
					 .n_cpus = submit->cpus_per_task,
					 .n_per_node = submit->per_node,
					 .oversubscribe = submit->oversubscribe };
	int r;

	if (!list || !nodes)
		return -ENOMEM;
	r = find_candidates(psid, submit, &wanted, list, why);
	if (r < 0)
		return r;
	r = choose(psid, submit, &wanted, list, n_max, nodes);
	if (r == -ENOSPC &&
	    submit->n_hosts == 0) { /* most that are suspected are alive, and busy */
		wanted.even_suspected = true;
		wanted.n_candidates = 0;
		r = choose(psid, submit, &wanted, list, n_max, nodes);
	}
	if (r == -ENOSPC)
		return refuse_number(psid, submit, &wanted, why);
	return r < 0 ? r : make_places(psid, submit, start, nodes);
}

int psid_job_take_shares(struct psid *psid, const Pulc__Wire__Submit *submit,
			 Pulc__Peer__Share *const *shares, size_t n_shares, Pulc__Job__Start *start,
			 struct job_why *why)
{
	CLEANUP_FREE uint64_t *nodes = calloc(submit->n_tasks, sizeof(*nodes));
	uint32_t n = 0;

	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; i < n_shares; i++) {
		if (shares[i]->n_tasks > submit->n_tasks - n ||
		    !psid_node_find(psid->cluster, shares[i]->node))
			return job_why(why, -EBADMSG, "what was granted makes no sense here");
		for (uint32_t k = 0; k < shares[i]->n_tasks; k++)
			nodes[n++] = shares[i]->node;
	}
	if (n < submit->n_tasks)
		return job_why(why, -EBADMSG, "less was granted than was asked for");
	return make_places(psid, submit, start, nodes);
}

void psid_job_unplace(struct psid *psid, const char *name, size_t n_tasks, uint32_t n_cpus)
{
	const struct psid_node *node = psid_node_find_name(psid->cluster, name);

	for (size_t i = 0; node && i < n_tasks; i++)
		psid_unplace(psid->cluster, node->id, n_cpus);
}

void psid_places_free(Pulc__Job__Start *start)
{
	for (size_t i = 0; i < start->n_places; i++)
		pulc__job__place__free_unpacked(start->places[i], NULL);
	free(start->places);
	start->places = NULL;
	start->n_places = 0;
}
