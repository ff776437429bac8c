/*
 * How long a job of a partition may run, where that has a limit.
 *
 * Each node looks at its own jobs once a second, as long as there are jobs of partitions. The node
 * that a job was started from ends it, on all nodes, and tells its owner why; the others give that
 * some seconds, and then end what they have of it themselves. So a job that has lost its node, or
 * whose node has lost its psid, does not run for ever.
 */
#include <stdio.h>

#include "clock.h"
#include "job.h"
#include "log.h"
#include "macros.h"
#include "partitions.h"
#include "psid.h"
#include "reservation.h"
#include "user.h"

#define MSEC_LOOK 1000
#define USEC_OTHERS (10 * USEC_PER_SEC) /* what the first node has to end it everywhere */
#define USEC_AGAIN (10 * USEC_PER_SEC)	/* it has not ended: say it again */

/* 0: as long as it likes. */
static uint32_t n_seconds_of(const struct psid_job *job)
{
	const struct psid_partition *p =
		job->partition[0] ? psid_book_find(psid_partitions_book(job->psid), job->partition)
				  : NULL;

	return p ? p->record->partition->max_sec : 0;
}

static void look_at(struct psid_job *job, uint64_t usec_now)
{
	uint64_t n_seconds = n_seconds_of(job);
	uint64_t usec_end = job->usec_started + n_seconds * USEC_PER_SEC;
	char why[160];

	if (!job->head)
		usec_end += USEC_OTHERS;
	if (n_seconds == 0 || usec_now < usec_end ||
	    (job->usec_ended > 0 && usec_now < job->usec_ended + USEC_AGAIN))
		return;
	(void)snprintf(why, sizeof(why),
		       "limit time of partition %.63s: a job may run for %llu s: it is ended",
		       job->partition, (unsigned long long)n_seconds);
	if (job->usec_ended == 0)
		psid_log(PSID_INFO, "job %s (uid %u): %s", job->id, job->user->uid, why);
	job->usec_ended = usec_now;
	psid_job_end_for(job, why);
}

static void on_timer(uv_timer_t *timer)
{
	struct psid_jobs *jobs = timer->data;
	struct psid_map_node *node = NULL;
	bool any = false;

	while ((node = psid_map_next(&jobs->by_id, node))) {
		struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		any |= job->partition[0] || job->reservation[0];
		look_at(job, nsec_now() / NSEC_PER_USEC);
		psid_reservation_look(job, nsec_now() / NSEC_PER_USEC);
	}
	if (!any)
		(void)uv_timer_stop(timer);
}

void psid_job_time_look(struct psid_job *job)
{
	uv_timer_t *timer = &job->psid->jobs->time_timer;

	if ((job->partition[0] || job->reservation[0]) && !uv_is_active((uv_handle_t *)timer))
		(void)uv_timer_start(timer, on_timer, MSEC_LOOK, MSEC_LOOK);
}

void psid_job_times_start(struct psid *psid)
{
	(void)uv_timer_init(&psid->loop, &psid->jobs->time_timer);
	psid->jobs->time_timer.data = psid->jobs;
}
