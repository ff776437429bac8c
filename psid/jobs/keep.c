/*
 * What keepers report: themselves, and what has become of their tasks.
 *
 * A keeper that we have started says Keep once it runs; after a restart of psid the keepers of the
 * one before come by themselves, and a job is in the table again, as it was written down
 * (record.c): of what such a keeper says only the job's name counts, and that only from the very
 * process. Where nothing is written down, as by a psid for one user, who comes is believed if the
 * kernel shows him in the job's cgroup. Our own user is believed without: a claim is there as long
 * as its client is, and gives way to a job that begins.
 *
 * A psid of another version may have been installed meanwhile, which does not understand the
 * keepers of the one before. Their jobs go on all the same: the cgroup tells which they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "client.h"
#include "clock.h"
#include "job.h"
#include "jobs.h"
#include "log.h"
#include "macros.h"
#include "psid.h"
#include "record.h"
#include "user.h"

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f || *text == '/')
			return false;
	return true;
}

static bool is_sound(const Pulc__Wire__Keep *keep)
{
	size_t len = strlen(keep->job);

	return len > 0 && len < JOB_SIZE_ID && keep->job[0] != '.' && is_plain(keep->job) &&
	       strlen(keep->program) < JOB_SIZE_PROGRAM &&
	       strlen(keep->partition) < JOB_SIZE_NODE && is_plain(keep->partition) &&
	       strlen(keep->reservation) < JOB_SIZE_ID && is_plain(keep->reservation) &&
	       keep->n_tasks <= JOB_N_TASKS_MAX && keep->n_cpus <= JOB_N_CPUS_MAX;
}

/* Was the client put into the job's cgroup? And it was the client that we looked for, not another
 * with its number. */
static bool is_proven(const struct psid_client *client, const char *id)
{
	return psid_cgroup_has(client->psid->jobs, id, client->pid) &&
	       syscall(SYS_pidfd_send_signal, client->pidfd, 0, NULL, 0) == 0;
}

/* Where nothing is written down: nobody of another user may say what has no proof. */
static bool may_claim(const struct psid_client *client, const Pulc__Peer__Kept *kept, bool proven)
{
	if (kept)
		return kept->uid == client->user->uid && kept->keeper == (uint32_t)client->pid;
	return proven || client->user->uid == geteuid();
}

static void fill(struct psid_job *job, const Pulc__Wire__Keep *keep)
{
	job->number = keep->number;
	job->head = keep->head;
	job->n_tasks = keep->n_tasks;
	job->n_ranks = keep->n_ranks;
	job->n_cpus = keep->n_cpus;
	psid_job_set_program(job, keep->program);
	(void)strcpy(job->partition, keep->partition);
	(void)strcpy(job->reservation, keep->reservation);
	job->reserves = keep->reserves;
}

/* What is written down is ours, and says all. */
static void fill_from_record(struct psid_job *job, const Pulc__Peer__Kept *kept)
{
	fill(job, kept->keep);
	job->usec_started = kept->began_usec;
	job->has_cgroup = kept->cgroup && job->psid->jobs->cgroup_root[0];
	job->cpus = calloc(kept->n_cpus + 1, sizeof(*job->cpus));
	if (!job->cpus)
		return;
	memcpy(job->cpus, kept->cpus, kept->n_cpus * sizeof(*job->cpus));
	job->n_bound = kept->n_cpus;
}

static int begin(struct psid_job *job, const struct psid_client *client)
{
	int pidfd = fcntl(client->pidfd, F_DUPFD_CLOEXEC, 0);

	if (pidfd < 0)
		return -errno;
	return psid_job_watch(job, client->pid, pidfd, false);
}

static struct psid_job *take_back_as(struct psid_client *client, const Pulc__Wire__Keep *keep,
				     const Pulc__Peer__Kept *kept)
{
	bool proven = is_proven(client, keep->job);
	struct psid_job *job = NULL;

	if (may_claim(client, kept, proven))
		job = psid_job_new(client->psid, client->user, keep->job);
	if (!job)
		return NULL;
	if (kept) {
		fill_from_record(job, kept);
	} else {
		fill(job, keep);
		job->is_claimed = !proven;
		job->has_cgroup = proven;
		job->usec_started -= keep->started_usec;
	}
	if (begin(job, client) < 0) {
		psid_job_end(job);
		return NULL;
	}
	psid_log_of(PSID_LOG_JOB_KEPT, PSID_INFO, job->id, "job %s (%s, uid %u) goes on", job->id,
		    job->program, job->user->uid);
	return job;
}

/* A job of the psid before us. */
static struct psid_job *take_back(struct psid_client *client, const Pulc__Wire__Keep *keep)
{
	Pulc__Peer__Kept *kept = psid_record_read(client->psid, keep->job);
	struct psid_job *job = NULL;

	if (!kept || is_sound(kept->keep))
		job = take_back_as(client, keep, kept);
	if (kept)
		pulc__peer__kept__free_unpacked(kept, NULL);
	return job;
}

static struct psid_job *job_of(struct psid_client *client)
{
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&client->psid->jobs->by_id, node))) {
		struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (job->client == client)
			return job;
	}
	return NULL;
}

int psid_jobs_keep(struct psid_client *client, const Pulc__Wire__Keep *keep)
{
	struct psid_job *job;

	if (!is_sound(keep) || job_of(client))
		return -EBADMSG;
	job = psid_job_find(client->psid, keep->job);
	if (!job)
		job = take_back(client, keep);
	if (!job)
		return 0; /* it keeps its job without us */
	if (job->user != client->user || job->keeper != client->pid || job->client)
		return -EBADMSG;
	job->client = client;
	free(job->tasks);
	job->tasks = calloc(job->n_tasks + 1, sizeof(*job->tasks));
	psid_job_tell_early(job);
	psid_job_tell_signals(job);
	psid_jobs_count(client->psid);
	return 0;
}

/* Where it is says which job it keeps, and that is enough to leave the job alone, to show it and to
 * end it. */
bool psid_jobs_keep_foreign(struct psid_client *client)
{
	const struct psid_jobs *jobs = client->psid->jobs;
	Pulc__Wire__Keep keep = PULC__WIRE__KEEP__INIT;
	char id[JOB_SIZE_ID];
	struct psid_job *job;

	if (!psid_cgroup_find(jobs, client->pid, id) || psid_job_find(client->psid, id))
		return false;
	keep.job = id;
	keep.number = (uint32_t)strtoul(id, NULL, 10);
	keep.head = strcmp(psid_job_origin(id), jobs->node) == 0;
	keep.program = (char *)"?";
	job = take_back(client, &keep);
	if (job)
		job->is_foreign = true;
	return job != NULL;
}

int psid_jobs_report(struct psid_client *client, const Pulc__Wire__TaskReport *report)
{
	struct psid_job *job = job_of(client);

	if (!job || !job->tasks)
		return 0;
	for (size_t i = 0; i < report->n_tasks; i++) {
		const Pulc__Wire__TaskEntry *entry = report->tasks[i];
		struct job_task *task;

		if (entry->local >= job->n_tasks)
			return -EBADMSG;
		task = &job->tasks[entry->local];
		*task = (struct job_task){ .rank = entry->rank,
					   .pid = entry->pid,
					   .code = entry->code,
					   .state = entry->state,
					   .is_known = true };
	}
	psid_jobs_count(client->psid);
	return 0;
}

bool psid_jobs_has_task(struct psid_client *client, const char *id, uint32_t rank)
{
	const struct psid_job *job = psid_job_find(client->psid, id);

	return job && job->user == client->user && rank < job->n_ranks;
}
