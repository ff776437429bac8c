/* What a user has in a partition, and what the limits of the partition leave him. */
#ifndef PULC_PSID_LIMIT_H
#define PULC_PSID_LIMIT_H

#include "plan.h"

/* All zero is nothing. */
struct psid_usage {
	uint64_t n_cpus;
	size_t n_jobs;
	uint64_t *nodes; /* that his jobs are on, sorted, each once */
	size_t n_nodes;
};

enum psid_limit {
	PSID_LIMIT_FREE,
	PSID_LIMIT_BUSY, /* what the user has, has to end first */
	PSID_LIMIT_NEVER
};

/* Limits that depend on what runs. */
static inline bool psid_limit_is_any(const struct psid_partition *partition)
{
	const Pulc__Wire__Partition *p = partition->record->partition;

	return p->max_cores > 0 || p->max_nodes > 0 || p->max_jobs > 0;
}

/* Returns 0, -ENOMEM. */
int psid_usage_of(const struct psid_plan *plan, uint32_t uid, struct psid_usage *ret_usage);
void psid_usage_deinit(struct psid_usage *usage);
/*
 * May a ticket of this user, who has so much, begin as far as processors and jobs go? If not, why:
 * it names the limit and its value.
 */
enum psid_limit psid_limit_check(const struct psid_partition *partition,
				 const struct psid_ticket *ticket, const struct psid_usage *usage,
				 char why[PSID_SIZE_WHY]);
/* May it join those of its user's that wait before it in the queue? */
enum psid_limit psid_limit_check_queue(const struct psid_plan *plan,
				       const struct psid_partition *partition,
				       const struct psid_ticket *ticket, char why[PSID_SIZE_WHY]);
/*
 * Leaves those candidates that the limit of nodes allows: the nodes that the user has already, and
 * of the others those with the most room. Returns how many are left, in their order.
 */
size_t psid_limit_nodes(const struct psid_partition *partition, const struct psid_usage *usage,
			struct psid_candidate *candidates, size_t n);
/* The room on the n_nodes largest of them, which are sorted in passing. */
uint64_t psid_limit_room(uint32_t *rooms, size_t n, uint32_t n_nodes);

#endif
