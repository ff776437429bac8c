/*
 * What is known of a partition: who waits, in which order, and what its nodes have told that they
 * do, or will do because it was granted. What follows from it decide.c says.
 *
 * Nothing here outlives its use: a ticket that is not asked for again is dropped, a grant that no
 * node confirms lapses. So whoever has to decide next begins with nothing and knows all within a
 * second.
 */
#include "plan_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"
#include "macros.h"
#include "node.h"

#define USEC_TICKET                                                                                \
	(6 * USEC_PER_SEC) /* not asked for again for so long: nobody wants it any more */
#define USEC_GRANT (10 * USEC_PER_SEC) /* from a grant until the node has the job, at most */
#define N_TASKS_MAX 65536u
#define N_JOBS_MAX 4096u /* on one node */

/* ---- life ------------------------------------------------------------------------------------ */

struct psid_plan *psid_plan_new(const char *partition)
{
	struct psid_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	(void)snprintf(plan->partition, sizeof(plan->partition), "%s", partition);
	plan->is_reservation = strchr(partition, '@') != NULL; /* the name of a job */
	TAILQ_INIT(&plan->tickets);
	TAILQ_INIT(&plan->holdings);
	return plan;
}

void psid_plan_drop_ticket(struct psid_plan *plan, struct psid_ticket *ticket)
{
	TAILQ_REMOVE(&plan->tickets, ticket, link);
	plan->n_tickets--;
	pulc__wire__submit__free_unpacked(ticket->submit, NULL);
	free(ticket->hosts);
	free(ticket);
}

static void drop_holding(struct psid_plan *plan, struct psid_holding *holding)
{
	TAILQ_REMOVE(&plan->holdings, holding, link);
	free(holding);
}

struct psid_plan *psid_plan_free(struct psid_plan *plan)
{
	while (!TAILQ_EMPTY(&plan->tickets))
		psid_plan_drop_ticket(plan, TAILQ_FIRST(&plan->tickets));
	while (!TAILQ_EMPTY(&plan->holdings))
		drop_holding(plan, TAILQ_FIRST(&plan->holdings));
	free(plan->nodes);
	free(plan);
	return NULL;
}

bool psid_plan_is_idle(const struct psid_plan *plan)
{
	const struct psid_holding *holding;

	TAILQ_FOREACH(holding, &plan->holdings, link)
		if (!holding->is_told)
			return false;
	return plan->n_tickets == 0;
}

/* ---- tickets --------------------------------------------------------------------------------- */

static bool is_sound(const Pulc__Peer__Want *want)
{
	const Pulc__Wire__Submit *submit = want->submit;

	return submit && want->job[0] && strlen(want->job) < PSID_SIZE_JOB && submit->n_tasks > 0 &&
	       submit->n_tasks <= N_TASKS_MAX && submit->cpus_per_task <= 4096 &&
	       submit->n_hosts <= PSID_N_PARTITION_NODES;
}

static struct psid_ticket *find_ticket(struct psid_plan *plan, uint64_t asker, const char *job)
{
	struct psid_ticket *ticket;

	TAILQ_FOREACH(ticket, &plan->tickets, link)
		if (ticket->asker == asker && strcmp(ticket->job, job) == 0)
			break;
	return ticket;
}

static bool is_before(const struct psid_ticket *a, const struct psid_ticket *b)
{
	if (a->msec_since != b->msec_since)
		return a->msec_since < b->msec_since;
	return a->asker != b->asker ? a->asker < b->asker : strcmp(a->job, b->job) < 0;
}

static void enqueue(struct psid_plan *plan, struct psid_ticket *ticket)
{
	struct psid_ticket *other;

	TAILQ_FOREACH(other, &plan->tickets, link)
		if (is_before(ticket, other))
			break;
	if (other)
		TAILQ_INSERT_BEFORE(other, ticket, link);
	else
		TAILQ_INSERT_TAIL(&plan->tickets, ticket, link);
	plan->n_tickets++;
}

/* The nodes that were named, each once. */
static int take_hosts(struct psid_ticket *ticket)
{
	const Pulc__Wire__Submit *submit = ticket->submit;

	ticket->hosts = calloc(submit->n_hosts + 1, sizeof(*ticket->hosts));
	if (!ticket->hosts)
		return -ENOMEM;
	for (size_t i = 0; i < submit->n_hosts; i++) {
		uint64_t node = psid_node_id(submit->hosts[i]->name);
		size_t k = 0;

		while (k < ticket->n_hosts && ticket->hosts[k].node != node)
			k++;
		ticket->n_hosts = MAX(ticket->n_hosts, k + 1);
		ticket->hosts[k].node = node;
		ticket->hosts[k].n_max += submit->hosts[i]->slots;
	}
	return 0;
}

Pulc__Wire__Submit *psid_submit_copy(const Pulc__Wire__Submit *submit)
{
	size_t len = pulc__wire__submit__get_packed_size(submit);
	CLEANUP_FREE uint8_t *bytes = malloc(len + 1);

	if (!bytes)
		return NULL;
	(void)pulc__wire__submit__pack(submit, bytes);
	return pulc__wire__submit__unpack(NULL, len, bytes);
}

int psid_plan_want(struct psid_plan *plan, uint64_t asker, const Pulc__Peer__Want *want,
		   uint64_t usec_now)
{
	struct psid_ticket *ticket;

	if (!is_sound(want))
		return -EBADMSG;
	ticket = find_ticket(plan, asker, want->job);
	if (ticket) {
		ticket->usec_refreshed = usec_now;
		ticket->is_told = false;
		return 0;
	}
	if (plan->n_tickets == PSID_N_TICKETS_MAX)
		return -ENOSPC;
	ticket = calloc(1, sizeof(*ticket));
	if (!ticket)
		return -ENOMEM;
	ticket->submit = psid_submit_copy(want->submit);
	if (!ticket->submit || take_hosts(ticket) < 0) {
		if (ticket->submit)
			pulc__wire__submit__free_unpacked(ticket->submit, NULL);
		free(ticket);
		return -ENOMEM;
	}
	(void)strcpy(ticket->job, want->job);
	ticket->asker = asker;
	ticket->uid = want->uid;
	ticket->msec_since = want->since_msec;
	ticket->usec_arrived = ticket->usec_refreshed = usec_now;
	enqueue(plan, ticket);
	return 0;
}

void psid_plan_drop_grants(struct psid_plan *plan, uint64_t asker, const char *job)
{
	struct psid_holding *holding, *next;

	for (holding = TAILQ_FIRST(&plan->holdings); holding; holding = next) {
		next = TAILQ_NEXT(holding, link);
		if (!holding->is_told && holding->asker == asker && strcmp(holding->job, job) == 0)
			drop_holding(plan, holding);
	}
}

void psid_plan_unwant(struct psid_plan *plan, uint64_t asker, const char *job)
{
	struct psid_ticket *ticket = find_ticket(plan, asker, job);

	if (ticket)
		psid_plan_drop_ticket(plan, ticket);
	psid_plan_drop_grants(plan, asker, job);
}

/* ---- what nodes have ------------------------------------------------------------------------- */

/* The index of the first node whose id is not smaller. */
static size_t index_of(const struct psid_plan *plan, uint64_t id)
{
	size_t low = 0, high = plan->n_nodes;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (plan->nodes[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct psid_plan_node *psid_plan_find(const struct psid_plan *plan, uint64_t id)
{
	size_t i = index_of(plan, id);

	return i < plan->n_nodes && plan->nodes[i].id == id ? &plan->nodes[i] : NULL;
}

static struct psid_plan_node *get_node(struct psid_plan *plan, uint64_t id)
{
	struct psid_plan_node *node = psid_plan_find(plan, id);
	size_t i = index_of(plan, id);

	if (node || plan->n_nodes == PSID_N_PARTITION_NODES)
		return node;
	if (!plan->nodes && !(plan->nodes = calloc(PSID_N_PARTITION_NODES, sizeof(*plan->nodes))))
		return NULL;
	node = &plan->nodes[i];
	memmove(node + 1, node, (plan->n_nodes++ - i) * sizeof(*node));
	*node = (struct psid_plan_node){ .id = id };
	return node;
}

void psid_plan_drop_node(struct psid_plan *plan, struct psid_plan_node *node)
{
	size_t n_behind = (size_t)(plan->nodes + plan->n_nodes - (node + 1));

	memmove(node, node + 1, n_behind * sizeof(*node));
	plan->n_nodes--;
}

struct psid_holding *psid_plan_add_holding(struct psid_plan *plan, const char *job, uint64_t node,
					   uint32_t uid)
{
	struct psid_holding *holding = calloc(1, sizeof(*holding));

	if (!holding)
		return NULL;
	(void)snprintf(holding->job, sizeof(holding->job), "%s", job);
	holding->node = node;
	holding->uid = uid;
	TAILQ_INSERT_TAIL(&plan->holdings, holding, link);
	return holding;
}

/* Of one node: what it has told, or with a job what was granted to that. */
static void drop_holdings(struct psid_plan *plan, uint64_t node, const char *job)
{
	struct psid_holding *holding, *next;

	for (holding = TAILQ_FIRST(&plan->holdings); holding; holding = next) {
		next = TAILQ_NEXT(holding, link);
		if (holding->node == node &&
		    (job ? !holding->is_told && strcmp(holding->job, job) == 0 : holding->is_told))
			drop_holding(plan, holding);
	}
}

int psid_plan_told(struct psid_plan *plan, uint64_t id, const Pulc__Peer__Use *use,
		   uint64_t usec_now)
{
	struct psid_plan_node *node = get_node(plan, id);

	if (use->n_jobs > N_JOBS_MAX)
		return -EBADMSG;
	if (!node)
		return -ENOMEM;
	node->usec_told = usec_now;
	drop_holdings(plan, id, NULL);
	for (size_t i = 0; i < use->n_jobs; i++) {
		const Pulc__Peer__UsedBy *by = use->jobs[i];
		struct psid_holding *holding;

		drop_holdings(plan, id, by->job);
		holding = psid_plan_add_holding(plan, by->job, id, by->uid);
		if (!holding) {
			node->usec_told = 0; /* it has more than we know */
			return -ENOMEM;
		}
		holding->is_told = true;
		holding->n_tasks = by->n_tasks;
		holding->n_cpus = by->n_cpus;
		(void)snprintf(holding->partition, sizeof(holding->partition), "%s", by->partition);
		(void)snprintf(holding->reservation, sizeof(holding->reservation), "%s",
			       by->reservation);
	}
	return 0;
}

void psid_plan_forget(struct psid_plan *plan, uint64_t id)
{
	struct psid_plan_node *node = psid_plan_find(plan, id);
	struct psid_holding *holding, *next;
	struct psid_ticket *ticket, *after;

	for (ticket = TAILQ_FIRST(&plan->tickets); ticket; ticket = after) {
		after = TAILQ_NEXT(ticket, link);
		if (ticket->asker == id)
			psid_plan_drop_ticket(plan, ticket);
	}
	for (holding = TAILQ_FIRST(&plan->holdings); holding; holding = next) {
		next = TAILQ_NEXT(holding, link);
		if (holding->node == id || (!holding->is_told && holding->asker == id))
			drop_holding(plan, holding);
	}
	if (node)
		psid_plan_drop_node(plan, node);
}

void psid_plan_expire(struct psid_plan *plan, uint64_t usec_now)
{
	struct psid_ticket *ticket, *after;
	struct psid_holding *holding, *next;

	for (ticket = TAILQ_FIRST(&plan->tickets); ticket; ticket = after) {
		after = TAILQ_NEXT(ticket, link);
		if (ticket->usec_refreshed + USEC_TICKET < usec_now)
			psid_plan_drop_ticket(plan, ticket);
	}
	for (holding = TAILQ_FIRST(&plan->holdings); holding; holding = next) {
		next = TAILQ_NEXT(holding, link);
		if (!holding->is_told && holding->usec_made + USEC_GRANT < usec_now)
			drop_holding(plan, holding);
	}
}
