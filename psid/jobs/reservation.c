/*
 * Reservations.
 *
 * A reservation is a job like any other, whose tasks do nothing: it holds processors, is decided
 * about, listed, counted and ended as jobs are, and goes on without its psids. Jobs of the same
 * user that name it run in those processors and count for nothing else. The node that it was made
 * from decides where in it they run (partition/steward.c). Each node lets them in only as long as
 * it has a part of the reservation itself, and ends them with that part.
 */
#include "reservation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "macros.h"
#include "psid.h"
#include "user.h"

#define USEC_COME_BACK                                                                             \
	(10 * USEC_PER_SEC) /* after a restart of psid its keeper calls within less */

static struct psid_job *find(struct psid *psid, const char *id)
{
	struct psid_job *job = psid_job_find(psid, id);

	return job && job->reserves ? job : NULL;
}

/* ---- where it was made from ------------------------------------------------------------------ */

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The nodes that it has a part on; all that are up where that was forgotten, as over a restart. */
static size_t collect_nodes(const struct psid_job *job, uint64_t *nodes, size_t n_max)
{
	const struct psid_node *node = NULL;
	size_t n = 0;

	for (uint32_t i = 0; i < job->n_places && n < n_max; i++)
		nodes[n++] = job->places[i];
	while (job->n_places == 0 && n < n_max &&
	       (node = psid_node_next(job->psid->cluster, node ? node->id : 0)))
		if (psid_node_is_up(node))
			nodes[n++] = node->id;
	qsort(nodes, n, sizeof(*nodes), compare_ids);
	return n;
}

const char *psid_reserved_get(struct psid *psid, const char *id, uint32_t uid,
			      struct psid_reserved **ret_reserved)
{
	const struct psid_job *job = find(psid, id);
	struct psid_reserved *reserved;

	if (!job || !job->head)
		return "there is no such reservation, or it has ended";
	if (job->user->uid != uid)
		return "the reservation is another user's";
	reserved = calloc(1, sizeof(*reserved));
	if (!reserved)
		return "no memory";
	pulc__peer__partition_record__init(&reserved->record);
	pulc__wire__partition__init(&reserved->wire);
	(void)strcpy(reserved->name, job->id);
	reserved->wire.name = reserved->name;
	reserved->record.partition = &reserved->wire;
	reserved->partition.record = &reserved->record;
	reserved->partition.nodes = calloc(PSID_N_PARTITION_NODES, sizeof(uint64_t));
	if (!reserved->partition.nodes) {
		free(reserved);
		return "no memory";
	}
	reserved->partition.n_nodes = collect_nodes(job, reserved->partition.nodes,
						    PSID_N_PARTITION_NODES);
	*ret_reserved = reserved;
	return NULL;
}

struct psid_reserved *psid_reserved_free(struct psid_reserved *reserved)
{
	if (reserved)
		free(reserved->partition.nodes);
	free(reserved);
	return NULL;
}

bool psid_reserved_is_there(struct psid *psid, const char *id)
{
	return find(psid, id) != NULL;
}

/* ---- each of its nodes ----------------------------------------------------------------------- */

const char *psid_reservation_objection(struct psid *psid, const char *id, uint32_t uid)
{
	const struct psid_job *job = find(psid, id);

	if (!job || job->n_tasks == 0)
		return "the reservation has no part on the node";
	return job->user->uid == uid ? NULL : "the reservation is another user's";
}

static void end(struct psid_job *job)
{
	psid_job_end_for(job, "its reservation has ended: it is ended");
}

void psid_reservation_ended(const struct psid_job *reservation)
{
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&reservation->psid->jobs->by_id, node))) {
		struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (job->user == reservation->user &&
		    strcmp(job->reservation, reservation->id) == 0)
			end(job);
	}
}

void psid_reservation_look(struct psid_job *job, uint64_t usec_now)
{
	if (!job->reservation[0] || job->n_tasks == 0 || find(job->psid, job->reservation)) {
		job->usec_alone = 0;
		return;
	}
	if (job->usec_alone == 0)
		job->usec_alone = usec_now;
	if (usec_now < job->usec_alone + USEC_COME_BACK)
		return;
	job->usec_alone = usec_now;
	end(job);
}
