/* The plan, for the two files that it is in. */
#ifndef PULC_PSID_PLAN_INSIDE_H
#define PULC_PSID_PLAN_INSIDE_H

#include "plan.h"

void psid_plan_drop_ticket(struct psid_plan *plan, struct psid_ticket *ticket);
/* What was granted to a job and no node has confirmed. */
void psid_plan_drop_grants(struct psid_plan *plan, uint64_t asker, const char *job);
/* Returns NULL: no memory. */
struct psid_holding *psid_plan_add_holding(struct psid_plan *plan, const char *job, uint64_t node,
					   uint32_t uid);
/* Returns NULL: it has told nothing. */
struct psid_plan_node *psid_plan_find(const struct psid_plan *plan, uint64_t id);
void psid_plan_drop_node(struct psid_plan *plan, struct psid_plan_node *node);
/* Tickets and grants that are too old. */
void psid_plan_expire(struct psid_plan *plan, uint64_t usec_now);

#endif
