/* Jobs of partitions that have been asked for here and have not begun. */
#ifndef PULC_PSID_WAIT_H
#define PULC_PSID_WAIT_H

#include "job.h"

struct psid_wait {
	LIST_ENTRY(psid_wait) link;
	struct psid_client *client; /* pulcrun's */
	int owner_fd;
	Pulc__Wire__Submit *submit;
	uint32_t number, uid;
	char id[JOB_SIZE_ID], program[JOB_SIZE_PROGRAM];
	uint64_t msec_since; /* since 1970 */
	uint64_t usec_began;
	uint64_t steward; /* who was asked last */
	char waits[JOB_SIZE_WAITS];
	uint32_t position;
};

/* Asks for it; the client is answered later. Takes *fd. Returns 0; -EBADMSG, -ENOMEM;
 * -EMFILE: no descriptor can be kept for it. */
int psid_wait_begin(struct psid_client *client, const Pulc__Wire__Submit *submit, int *fd);
/* By "17@n1", or "17". */
struct psid_wait *psid_wait_find(struct psid *psid, const char *name);
/* It will not begin: the client is told why. */
void psid_wait_end(struct psid_wait *wait, const char *error);
void psid_wait_forget(struct psid_client *client);
void psid_waits_start(struct psid *psid);

/* submit.c: starts it where it was granted. Returns 0, the client is answered; negative errno, with
 * a reason or none. */
int psid_job_start_granted(struct psid_wait *wait, const Pulc__Peer__Verdict *verdict,
			   struct job_why *why);

#endif
