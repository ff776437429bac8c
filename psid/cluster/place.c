/*
 * Placement: tasks are dealt out one after the other, each to the node that looks best with all
 * that was placed before counted in, so that a burst of spawns spreads evenly. The load of a node
 * is its foreign runnable processes, the processors that its tasks asked for, and those that were
 * placed there and don't show yet (placed.c), for each core.
 *
 * Nodes whose news is stale rank behind all others: it takes longer in a large cluster until
 * news arrives at all, so what counts as stale grows with it. Among equals a number mixed from both
 * nodes' ids decides, so that psids which place at the same time begin with different nodes.
 *
 * A node is never given more tasks than it has cores left, whatever runs on it that is not ours,
 * unless the caller states a number of his own or asks for oversubscription.
 */
#include "place.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "cleanup.h"
#include "clock.h"
#include "inside.h"
#include "macros.h"
#include "placed.h"

#define USEC_STALE (5 * USEC_PER_SEC)
#define USEC_STALE_NODE (USEC_PER_SEC / 5) /* for each node of the cluster */

/* One node that may be chosen. */
struct seat {
	struct psid_node *node;
	uint32_t n_room;  /* tasks */
	uint32_t n_cpus;  /* in use, as far as known */
	uint32_t n_given; /* tasks, by this placement */
	bool is_stale;
	uint64_t tie;
};

struct table {
	struct seat *seats;
	size_t n;
};

uint32_t psid_place_unseen(const struct psid_node *node)
{
	return node->placed ? psid_placed_sum(node->placed) : 0;
}

uint32_t psid_place_load(const struct psid_node *node)
{
	return (node->load.centi_foreign + 100u * (node->load.n_cpus + psid_place_unseen(node))) /
	       MAX(node->n_cores, 1u);
}

bool psid_place_is_stale(const struct psid_cluster *cluster, const struct psid_node *node)
{
	return node != cluster->self &&
	       (node->load.number == 0 ||
		psid_node_usec_age(cluster, node) >
			USEC_STALE + cluster->gossip.swim.members.n_up * USEC_STALE_NODE);
}

static uint32_t room_on(const struct psid_node *node, const struct psid_placement *wanted,
			uint32_t n_used, uint32_t n_max)
{
	uint32_t n = node->n_cores > n_used ? (node->n_cores - n_used) / MAX(wanted->n_cpus, 1u)
					    : 0;

	if (wanted->oversubscribe)
		n = wanted->n_tasks;
	if (n_max > 0)
		n = n_max;
	return n;
}

static void seat_init(struct seat *seat, const struct psid_cluster *cluster, struct psid_node *node,
		      const struct psid_placement *wanted, uint32_t n_max)
{
	uint32_t n_used = node->load.n_cpus + psid_place_unseen(node);

	*seat = (struct seat){
		.node = node,
		.n_cpus = n_used,
		.n_room = room_on(node, wanted, n_used, n_max),
		.is_stale = psid_place_is_stale(cluster, node),
		.tie = (node->id ^ cluster->self->id) * 0x9e3779b97f4a7c15ull,
	};
}

bool psid_place_is_open(const struct psid_node *node, const struct psid_placement *wanted)
{
	return !node->drained && (node->state == PSID_NODE_ALIVE ||
				  (wanted->even_suspected && psid_node_is_up(node)));
}

static int take_named(const struct psid_cluster *cluster, const struct psid_placement *wanted,
		      struct table *table)
{
	for (size_t i = 0; i < wanted->n_candidates; i++) {
		const struct psid_candidate *c = &wanted->candidates[i];
		struct psid_node *node = psid_members_find(&cluster->gossip.swim.members, c->node);

		if (!node || !psid_node_is_up(node))
			return -EHOSTUNREACH;
		seat_init(&table->seats[table->n++], cluster, node, wanted, c->n_max);
	}
	return 0;
}

static void take_all(const struct psid_cluster *cluster, const struct psid_placement *wanted,
		     struct table *table)
{
	for (size_t i = 0; i < cluster->gossip.swim.members.n; i++) {
		struct psid_node *node = cluster->gossip.swim.members.nodes[i];

		if (psid_place_is_open(node, wanted))
			seat_init(&table->seats[table->n++], cluster, node, wanted, 0);
	}
}

/* Hundredths of processes for each core, were this task added. */
static uint64_t load_of(const struct seat *seat)
{
	return (seat->node->load.centi_foreign + 100ull * seat->n_cpus) /
	       MAX(seat->node->n_cores, 1u);
}

static bool is_better(const struct seat *a, const struct seat *b)
{
	if (a->is_stale != b->is_stale)
		return b->is_stale;
	if (load_of(a) != load_of(b))
		return load_of(a) < load_of(b);
	return a->tie < b->tie;
}

/* Tasks that the seat takes at once; 0: it is full. */
static uint32_t block_of(const struct seat *seat, const struct psid_placement *wanted,
			 uint32_t n_left)
{
	uint32_t n = 1;

	if (wanted->n_per_node > 0) {
		if (seat->n_given > 0)
			return 0;
		n = MIN(wanted->n_per_node, n_left);
	}
	return n <= seat->n_room - seat->n_given ? n : 0;
}

static void give(struct seat *seat, const struct psid_placement *wanted, uint32_t n,
		 uint64_t **place)
{
	seat->n_given += n;
	seat->n_cpus += n * MAX(wanted->n_cpus, 1u);
	while (n-- > 0)
		*(*place)++ = seat->node->id;
}

/* ---- least loaded: a heap of seats, the best one on top -------------------------------------- */

static void sift_down(struct table *table, size_t i)
{
	for (;;) {
		size_t best = i, left = 2 * i + 1;
		struct seat swapped;

		for (size_t child = left; child < table->n && child <= left + 1; child++)
			if (is_better(&table->seats[child], &table->seats[best]))
				best = child;
		if (best == i)
			return;
		swapped = table->seats[i];
		table->seats[i] = table->seats[best];
		table->seats[best] = swapped;
		i = best;
	}
}

/* Seats that are full move behind the heap, and stay in the table. */
static int deal_least_loaded(struct table *table, const struct psid_placement *wanted,
			     uint64_t *place)
{
	struct table heap = *table;
	uint64_t *end = place + wanted->n_tasks;

	for (size_t i = heap.n / 2; i-- > 0;)
		sift_down(&heap, i);
	while (place < end && heap.n > 0) {
		uint32_t n = block_of(&heap.seats[0], wanted, (uint32_t)(end - place));

		if (n == 0) {
			struct seat full = heap.seats[0];

			heap.seats[0] = heap.seats[--heap.n];
			heap.seats[heap.n] = full;
		}
		give(&heap.seats[0], wanted, n, &place);
		sift_down(&heap, 0);
	}
	return place == end ? 0 : -ENOSPC;
}

/* ---- in a given order ------------------------------------------------------------------------ */

/* Each seat as much as it takes before the next gets any. */
static int deal_in_order(struct table *table, const struct psid_placement *wanted, uint64_t *place)
{
	uint64_t *end = place + wanted->n_tasks;
	uint32_t n;

	for (size_t i = 0; i < table->n; i++)
		while (place < end &&
		       (n = block_of(&table->seats[i], wanted, (uint32_t)(end - place))) > 0)
			give(&table->seats[i], wanted, n, &place);
	return place == end ? 0 : -ENOSPC;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = ((const struct seat *)a)->node->id, y = ((const struct seat *)b)->node->id;

	return (x > y) - (x < y);
}

/* Round and round, from behind the node that had the last task of the call before. */
static int deal_next(struct table *table, const struct psid_placement *wanted, uint64_t *place,
		     uint64_t *cursor)
{
	uint64_t *end = place + wanted->n_tasks;
	size_t i = 0, n_full = 0;

	qsort(table->seats, table->n, sizeof(*table->seats), compare_ids);
	while (i < table->n && table->seats[i].node->id <= *cursor)
		i++;
	for (; place < end && n_full < table->n; i++) {
		struct seat *seat = &table->seats[i % table->n];
		uint32_t n = block_of(seat, wanted, (uint32_t)(end - place));

		give(seat, wanted, n, &place);
		n_full = n > 0 ? 0 : n_full + 1;
	}
	if (place < end)
		return -ENOSPC;
	*cursor = end[-1];
	return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Returns 0, -ENOMEM. */
static int remember(const struct table *table, const struct psid_placement *wanted)
{
	uint64_t usec_now = psid_usec_now();

	for (size_t i = 0; i < table->n; i++) {
		struct psid_node *node = table->seats[i].node;

		if (table->seats[i].n_given > 0 && !node->placed &&
		    !(node->placed = calloc(1, sizeof(*node->placed))))
			return -ENOMEM;
	}
	for (size_t i = 0; i < table->n; i++)
		if (table->seats[i].n_given > 0)
			psid_placed_add(table->seats[i].node->placed, usec_now,
					table->seats[i].n_given * MAX(wanted->n_cpus, 1u));
	return 0;
}

static int deal(struct psid_cluster *cluster, struct table *table,
		const struct psid_placement *wanted, uint64_t *places)
{
	switch (wanted->strategy) {
	case PSID_PLACE_LEAST_LOADED:
		return deal_least_loaded(table, wanted, places);
	case PSID_PLACE_NEXT:
		return deal_next(table, wanted, places, &cluster->place_cursor);
	case PSID_PLACE_NODES:
		return deal_in_order(table, wanted, places);
	}
	return -EINVAL;
}

int psid_place(struct psid_cluster *cluster, const struct psid_placement *wanted,
	       uint64_t *ret_nodes)
{
	size_t n = wanted->candidates ? wanted->n_candidates : cluster->gossip.swim.members.n;
	CLEANUP_FREE struct seat *seats = calloc(MAX(n, (size_t)1), sizeof(*seats));
	struct table table = { .seats = seats };
	int r = 0;

	if (!seats)
		return -ENOMEM;
	if (wanted->n_tasks == 0)
		return -EINVAL;
	psid_cluster_sample(cluster);
	if (wanted->candidates)
		r = take_named(cluster, wanted, &table);
	else
		take_all(cluster, wanted, &table);
	if (r == 0)
		r = deal(cluster, &table, wanted, ret_nodes);
	if (r == 0)
		r = remember(&table, wanted);
	return r;
}

void psid_unplace(struct psid_cluster *cluster, uint64_t id, uint32_t n_cpus)
{
	struct psid_node *node = psid_members_find(&cluster->gossip.swim.members, id);

	if (node && node->placed)
		psid_placed_take_back(node->placed, MAX(n_cpus, 1u));
}
