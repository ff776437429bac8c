/*
 * What runs on this node, told to those who decide about partitions (partition/steward.c): when
 * they ask, and for some seconds afterwards whenever it changes.
 */
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"
#include "job.h"
#include "macros.h"
#include "peer.h"
#include "psid.h"
#include "user.h"

#define USEC_INTEREST (5 * USEC_PER_SEC)

static struct psid_use_asker *remember(struct psid_jobs *jobs, uint64_t node)
{
	struct psid_use_asker *oldest = &jobs->use_askers[0];

	for (size_t i = 0; i < JOB_N_USE_ASKERS; i++) {
		struct psid_use_asker *asker = &jobs->use_askers[i];

		if (asker->node == node)
			return asker;
		if (asker->usec < oldest->usec)
			oldest = asker;
	}
	oldest->node = node;
	return oldest;
}

static void fill(Pulc__Peer__UsedBy *by, const struct psid_job *job)
{
	pulc__peer__used_by__init(by);
	by->job = (char *)job->id;
	by->uid = job->user->uid;
	by->n_tasks = psid_job_n_running(job);
	by->n_cpus = by->n_tasks * MAX(job->n_cpus, 1u);
	by->partition = (char *)job->partition;
	by->reservation = (char *)job->reservation;
}

static uint64_t sum_of(uint64_t sum, const Pulc__Peer__UsedBy *by)
{
	uint8_t bytes[sizeof(by->n_tasks)];

	memcpy(bytes, &by->n_tasks, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		sum = (sum ^ bytes[i]) * 1099511628211u;
	for (const char *p = by->job; *p; p++)
		sum = (sum ^ (unsigned char)*p) * 1099511628211u;
	return sum;
}

/* Tells the one who has asked; or, if it is not what was told last, all who asked lately. */
static void tell(struct psid *psid, const struct psid_use_asker *one)
{
	size_t n_max = psid->jobs->by_id.n;
	CLEANUP_FREE Pulc__Peer__UsedBy *list = calloc(n_max + 1, sizeof(*list));
	CLEANUP_FREE Pulc__Peer__UsedBy **pointers = calloc(n_max + 1, sizeof(*pointers));
	Pulc__Peer__Use use = PULC__PEER__USE__INIT;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;
	uint64_t sum = 14695981039346656037u, now = nsec_now() / NSEC_PER_USEC;
	struct psid_map_node *node = NULL;

	while (list && pointers && (node = psid_map_next(&psid->jobs->by_id, node))) {
		const struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (job->n_tasks == 0)
			continue; /* only its head keeper is here */
		pointers[use.n_jobs] = &list[use.n_jobs];
		fill(&list[use.n_jobs], job);
		sum = sum_of(sum, &list[use.n_jobs++]);
	}
	if (!list || !pointers || (!one && sum == psid->jobs->use_sum))
		return;
	psid->jobs->use_sum = sum;
	use.jobs = pointers;
	msg.body_case = PULC__PEER__MESSAGE__BODY_USE;
	msg.use = &use;
	for (size_t i = 0; i < JOB_N_USE_ASKERS; i++) {
		const struct psid_use_asker *asker = &psid->jobs->use_askers[i];

		if (one ? asker == one : asker->usec > 0 && asker->usec + USEC_INTEREST > now)
			(void)psid_peer_send(psid->cluster, asker->node, &msg);
	}
}

void psid_use_changed(struct psid *psid)
{
	uint64_t now = nsec_now() / NSEC_PER_USEC;
	bool any = false;

	for (size_t i = 0; i < JOB_N_USE_ASKERS; i++)
		any |= psid->jobs->use_askers[i].usec > 0 &&
		       psid->jobs->use_askers[i].usec + USEC_INTEREST > now;
	if (any)
		tell(psid, NULL);
}

static int on_use_ask(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	struct psid *psid = data;
	struct psid_use_asker *asker = remember(psid->jobs, from);

	(void)life;
	(void)msg;
	asker->usec = nsec_now() / NSEC_PER_USEC;
	tell(psid, asker);
	return 0;
}

void psid_use_join(struct psid *psid)
{
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_USE_ASK, on_use_ask, psid);
}
