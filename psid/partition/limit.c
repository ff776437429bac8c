/*
 * Limits: how much of a partition each user may have at once.
 *
 * They are a part of the partition's record, so everybody knows them, and its steward counts: what
 * the nodes have told of running jobs, and what was granted and is on its way. Nothing is kept for
 * it, so the next steward counts the same. A user is a number, root too; a job of another
 * partition, or of none, does not count.
 *
 * How long a job may run each node sees to itself (psid/jobs/time.c).
 */
#include "limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "macros.h"

/* ---- what a user has ------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool counts(const struct psid_plan *plan, const struct psid_holding *holding, uint32_t uid)
{
	return holding->uid == uid && strcmp(holding->partition, plan->partition) == 0;
}

static size_t keep_distinct(uint64_t *ids, size_t n)
{
	size_t n_kept = 0;

	qsort(ids, n, sizeof(*ids), compare_ids);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || ids[i] != ids[i - 1])
			ids[n_kept++] = ids[i];
	return n_kept;
}

static size_t count_distinct(const char **names, size_t n)
{
	size_t n_kept = 0;

	qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 0; i < n; i++)
		n_kept += i == 0 || strcmp(names[i], names[i - 1]) != 0;
	return n_kept;
}

int psid_usage_of(const struct psid_plan *plan, uint32_t uid, struct psid_usage *ret_usage)
{
	CLEANUP_FREE const char **names = NULL;
	struct psid_usage usage = { 0 };
	const struct psid_holding *holding;
	size_t n = 0;

	TAILQ_FOREACH(holding, &plan->holdings, link)
		n += counts(plan, holding, uid);
	names = calloc(n + 1, sizeof(*names));
	usage.nodes = calloc(n + 1, sizeof(*usage.nodes));
	if (!names || !usage.nodes) {
		free(usage.nodes);
		return -ENOMEM;
	}
	n = 0;
	TAILQ_FOREACH(holding, &plan->holdings, link) {
		if (!counts(plan, holding, uid))
			continue;
		names[n] = holding->job;
		usage.nodes[n++] = holding->node;
		usage.n_cpus += holding->n_cpus;
	}
	usage.n_jobs = count_distinct(names, n);
	usage.n_nodes = keep_distinct(usage.nodes, n);
	*ret_usage = usage;
	return 0;
}

void psid_usage_deinit(struct psid_usage *usage)
{
	free(usage->nodes);
	*usage = (struct psid_usage){ 0 };
}

/* ---- processors and jobs --------------------------------------------------------------------- */

enum psid_limit psid_limit_check(const struct psid_partition *partition,
				 const struct psid_ticket *ticket, const struct psid_usage *usage,
				 char why[PSID_SIZE_WHY])
{
	const Pulc__Wire__Partition *p = partition->record->partition;
	uint64_t n_cpus = psid_ticket_n_cpus(ticket);
	const char *hint = ticket->submit->wait ? "" : " (--wait waits for that)";

	if (p->max_cores > 0 && n_cpus > p->max_cores) {
		(void)snprintf(why, PSID_SIZE_WHY,
			       "limit cores=%u of partition %.63s for each user: %llu are asked for"
			       " (ask for less)",
			       p->max_cores, p->name, (unsigned long long)n_cpus);
		return PSID_LIMIT_NEVER;
	}
	if (p->max_cores > 0 && usage->n_cpus + n_cpus > p->max_cores) {
		(void)snprintf(why, PSID_SIZE_WHY,
			       "limit cores=%u of partition %.63s for each user: %llu are in use%s",
			       p->max_cores, p->name, (unsigned long long)usage->n_cpus, hint);
		return PSID_LIMIT_BUSY;
	}
	if (p->max_jobs > 0 && usage->n_jobs >= p->max_jobs) {
		(void)snprintf(why, PSID_SIZE_WHY,
			       "limit jobs=%u of partition %.63s for each user: %zu run%s",
			       p->max_jobs, p->name, usage->n_jobs, hint);
		return PSID_LIMIT_BUSY;
	}
	return PSID_LIMIT_FREE;
}

enum psid_limit psid_limit_check_queue(const struct psid_plan *plan,
				       const struct psid_partition *partition,
				       const struct psid_ticket *ticket, char why[PSID_SIZE_WHY])
{
	const Pulc__Wire__Partition *p = partition->record->partition;
	const struct psid_ticket *other;
	uint32_t n = 0;

	if (p->max_queued == 0)
		return PSID_LIMIT_FREE;
	for (other = TAILQ_FIRST(&plan->tickets); other && other != ticket;
	     other = TAILQ_NEXT(other, link))
		n += other->uid == ticket->uid && other->submit->wait;
	if (n < p->max_queued)
		return PSID_LIMIT_FREE;
	(void)snprintf(why, PSID_SIZE_WHY,
		       "limit queued=%u of partition %.63s for each user: %u wait (try again when "
		       "one has begun)",
		       p->max_queued, p->name, n);
	return PSID_LIMIT_NEVER;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int compare_down(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x < y) - (x > y);
}

uint64_t psid_limit_room(uint32_t *rooms, size_t n, uint32_t n_nodes)
{
	uint64_t sum = 0;

	qsort(rooms, n, sizeof(*rooms), compare_down);
	for (size_t i = 0; i < MIN(n, (size_t)n_nodes); i++)
		sum += rooms[i];
	return sum;
}

static bool has_node(const struct psid_usage *usage, uint64_t id)
{
	return bsearch(&id, usage->nodes, usage->n_nodes, sizeof(id), compare_ids) != NULL;
}

/* The smallest room among those n_allowed that have the most, and how many of just that size are
 * among them. */
static uint32_t find_threshold(uint32_t *rooms, size_t n, size_t n_allowed, size_t *ret_n_equal)
{
	uint32_t threshold;

	*ret_n_equal = 0;
	if (n_allowed == 0)
		return UINT32_MAX;
	qsort(rooms, n, sizeof(*rooms), compare_down);
	threshold = rooms[n_allowed - 1];
	for (size_t i = 0; i < n_allowed; i++)
		*ret_n_equal += rooms[i] == threshold;
	return threshold;
}

size_t psid_limit_nodes(const struct psid_partition *partition, const struct psid_usage *usage,
			struct psid_candidate *candidates, size_t n)
{
	uint32_t max = partition->record->partition->max_nodes, threshold;
	size_t n_others = 0, n_kept = 0, n_allowed, n_equal;
	CLEANUP_FREE uint32_t *rooms = calloc(n + 1, sizeof(*rooms));

	if (max == 0)
		return n;
	if (!rooms)
		return 0;
	n_allowed = max - MIN((size_t)max, usage->n_nodes);
	for (size_t i = 0; i < n; i++)
		if (!has_node(usage, candidates[i].node))
			rooms[n_others++] = candidates[i].n_max;
	if (n_others <= n_allowed)
		return n;
	threshold = find_threshold(rooms, n_others, n_allowed, &n_equal);
	for (size_t i = 0; i < n; i++) {
		bool is_equal = candidates[i].n_max == threshold && n_equal > 0;

		if (has_node(usage, candidates[i].node) || candidates[i].n_max > threshold) {
			candidates[n_kept++] = candidates[i];
		} else if (is_equal) {
			candidates[n_kept++] = candidates[i];
			n_equal--;
		}
	}
	return n_kept;
}
