/* Reservations: jobs that hold processors for other jobs of their user. */
#ifndef PULC_PSID_RESERVATION_H
#define PULC_PSID_RESERVATION_H

#include "book.h"
#include "job.h"

/* What the node that decides about a reservation goes by: the nodes that are a part of it, as a
 * partition of them. */
struct psid_reserved {
	struct psid_partition partition;
	Pulc__Peer__PartitionRecord record;
	Pulc__Wire__Partition wire;
	char name[JOB_SIZE_ID];
};

/* Of a reservation of this user that was made from this node. Returns NULL, or why there is
 * none. */
const char *psid_reserved_get(struct psid *psid, const char *id, uint32_t uid,
			      struct psid_reserved **ret_reserved);
struct psid_reserved *psid_reserved_free(struct psid_reserved *reserved);
bool psid_reserved_is_there(struct psid *psid, const char *id);

/* Why a job of this user may not run here in that reservation; NULL: it may. */
const char *psid_reservation_objection(struct psid *psid, const char *id, uint32_t uid);
/* It is over here: so is what runs in it. */
void psid_reservation_ended(const struct psid_job *job);
/* Once a second: does this job's reservation still have a part here? Else it is ended. */
void psid_reservation_look(struct psid_job *job, uint64_t usec_now);

#endif
