/*
 * The table of jobs, and the end of a job on this node.
 *
 * A job is here as long as its keeper lives; the keeper's pidfd tells of its end, whether we are
 * its parent or have been restarted since. A keeper ends when all is over. When it was killed
 * instead, what it kept is killed here: through the cgroup, or, without one, as our own adopted
 * children.
 */
#include "job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "cleanup.h"
#include "client.h"
#include "clock.h"
#include "jobs.h"
#include "macros.h"
#include "paths.h"
#include "processors.h"
#include "psid.h"
#include "record.h"
#include "reservation.h"
#include "spare.h"
#include "user.h"
#include "utf8.h"
#include "wait.h"
#include "zygote.h"

/* FNV-1a; the map hashes it once more with its secret. */
static uint64_t key_of(const char *id)
{
	uint64_t key = 14695981039346656037u;

	for (; *id; id++)
		key = (key ^ (unsigned char)*id) * 1099511628211u;
	return key;
}

struct psid_job *psid_job_find(struct psid *psid, const char *id)
{
	struct psid_map_node *node = psid_map_find(&psid->jobs->by_id, key_of(id));

	for (; node; node = psid_map_find_next(node)) {
		struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (strcmp(job->id, id) == 0)
			return job;
	}
	return NULL;
}

static void release(struct psid_job *job)
{
	if (job->pidfd >= 0)
		psid_user_give_descriptors(job->user, 1);
	(void)close_own(job->pidfd);
	(void)psid_user_unref(job->user);
	free(job->tasks);
	psid_job_forget_early(job);
	free(job->places);
	free(job->cpus);
	free(job);
}

static void on_closed(uv_handle_t *handle)
{
	release(CONTAINER_OF(handle, struct psid_job, poll));
}

/* Takes it out of the table; what still runs is not touched. */
static void forget(struct psid_job *job)
{
	psid_map_remove(&job->psid->jobs->by_id, &job->node);
	if (job->has_poll)
		uv_close((uv_handle_t *)&job->poll, on_closed);
	else
		release(job);
}

/* Returns whether the name is free. */
static bool make_way(struct psid *psid, const char *id)
{
	struct psid_job *job = psid_job_find(psid, id);

	if (!job)
		return true;
	if (!job->is_claimed)
		return false;
	forget(job);
	return true;
}

struct psid_job *psid_job_new(struct psid *psid, struct psid_user *user, const char *id)
{
	struct psid_job *job;

	if (strlen(id) >= JOB_SIZE_ID || !make_way(psid, id))
		return NULL;
	job = calloc(1, sizeof(*job));
	if (!job)
		return NULL;
	(void)strcpy(job->id, id);
	if (psid_map_insert(&psid->jobs->by_id, &job->node, key_of(id)) < 0) {
		free(job);
		return NULL;
	}
	job->psid = psid;
	job->user = psid_user_ref(user);
	job->pidfd = -EBADF;
	job->usec_started = nsec_now() / NSEC_PER_USEC;
	return job;
}

static void on_keeper_exit(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	psid_job_end(CONTAINER_OF(poll, struct psid_job, poll));
}

int psid_job_watch(struct psid_job *job, pid_t keeper, int pidfd, bool is_child)
{
	int r;

	job->keeper = keeper;
	job->pidfd = pidfd;
	job->user->n_descriptors++;
	job->is_child = is_child;
	psid_job_time_look(job);
	psid_record_write(job);
	r = uv_poll_init(&job->psid->loop, &job->poll, pidfd);
	if (r < 0)
		return r;
	job->has_poll = true;
	return uv_poll_start(&job->poll, UV_READABLE, on_keeper_exit);
}

uint32_t psid_job_n_running(const struct psid_job *job)
{
	uint32_t n = 0;

	if (!job->tasks)
		return job->n_tasks;
	for (uint32_t i = 0; i < job->n_tasks; i++)
		n += job->tasks[i].state != PULC__WIRE__TASK_STATE__TASK_ENDED;
	return n;
}

void psid_job_set_program(struct psid_job *job, const char *name)
{
	(void)wire_utf8_plain(name, job->program, sizeof(job->program));
}

int job_why(struct job_why *why, int r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return r;
}

void psid_jobs_count(struct psid *psid)
{
	struct psid_map_node *node = NULL;
	uint32_t n_tasks = 0, n_cpus = 0;

	while ((node = psid_map_next(&psid->jobs->by_id, node))) {
		const struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);
		uint32_t n = psid_job_n_running(job);

		n_tasks += n;
		if (!job->reservation[0]) /* whose job has them */
			n_cpus += n * MAX(job->n_cpus, 1u);
	}
	psid_cluster_tasks(psid->cluster, n_tasks, n_cpus);
	psid_use_changed(psid);
}

void psid_job_end(struct psid_job *job)
{
	struct psid *psid = job->psid;
	bool has_begun = job->keeper > 0, is_ours = job->head;

	if (job->is_child)
		(void)waitpid(job->keeper, NULL, WNOHANG);
	if (job->has_cgroup)
		psid_cgroup_remove(psid, job->id);
	else
		psid_orphans_kill(psid);
	psid_record_remove(job);
	if (job->reserves)
		psid_reservation_ended(job);
	forget(job);
	psid_jobs_count(psid);
	if (has_begun)
		psid_zygote_make(psid);
	if (has_begun && is_ours)
		psid_spare_make(psid);
}

void psid_jobs_forget(struct psid_client *client)
{
	struct psid_map_node *node = NULL;

	psid_survey_forget(client);
	psid_kill_forget(client);
	psid_wait_forget(client);
	if (client->role != PULC__WIRE__ROLE__ROLE_KEEPER)
		return;
	while ((node = psid_map_next(&client->psid->jobs->by_id, node))) {
		struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (job->client != client)
			continue;
		job->client = NULL;
		if (job->is_claimed && !client->psid->stopping) { /* it is we who go then */
			forget(job);
			psid_jobs_count(client->psid);
		}
		return;
	}
}

/* ---- start and end of psid ------------------------------------------------------------------- */

/* The memory is libuv's until the last of them is closed. */
static void on_handle_closed(uv_handle_t *handle)
{
	struct psid_jobs *jobs = handle->data;

	if (--jobs->n_handles > 0)
		return;
	psid_map_deinit(&jobs->by_id);
	free(jobs);
}

static void close_handle(struct psid_jobs *jobs, uv_handle_t *handle)
{
	handle->data = jobs;
	jobs->n_handles++;
	uv_close(handle, on_handle_closed);
}

int psid_jobs_start(struct psid *psid)
{
	struct psid_jobs *jobs = calloc(1, sizeof(*jobs));

	if (!jobs)
		return -ENOMEM;
	psid->jobs = jobs;
	jobs->psid = psid;
	(void)snprintf(jobs->node, sizeof(jobs->node), "%s", psid_node_self(psid->cluster)->name);
	psid_jobs_join(psid);
	psid_lists_join(psid);
	psid_use_join(psid);
	psid_waits_start(psid);
	psid_job_times_start(psid);
	psid_surveys_start(psid);
	psid_kills_start(psid);
	psid_cgroups_start(psid);
	psid_records_sweep(psid);
	psid_zygotes_start(psid);
	jobs->number_fd = -EBADF;
	return psid_orphans_start(psid);
}

void psid_jobs_close(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;
	struct psid_map_node *node;

	while ((node = psid_map_next(&jobs->by_id, NULL)))
		forget(CONTAINER_OF(node, struct psid_job, node));
	(void)close_own(jobs->number_fd);
	psid_processors_free(jobs->processors);
	psid_spare_drop(psid);
	psid_zygote_drop(psid);
	psid_root_close(jobs->cgroup_root, jobs->cgroup_fd);
	psid_cluster_unwatch(&jobs->watch);
	psid_surveys_close(psid);
	psid_kills_close(psid);
	close_handle(jobs, (uv_handle_t *)&jobs->sigchld);
	close_handle(jobs, (uv_handle_t *)&jobs->sweep);
	close_handle(jobs, (uv_handle_t *)&jobs->answers.timer);
	close_handle(jobs, (uv_handle_t *)&jobs->kill_answers.timer);
	close_handle(jobs, (uv_handle_t *)&jobs->wait_timer);
	close_handle(jobs, (uv_handle_t *)&jobs->time_timer);
	close_handle(jobs, (uv_handle_t *)&jobs->idle_timer);
	psid->jobs = NULL;
}
