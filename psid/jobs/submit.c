/*
 * A job begins: who asks, is it sound, where do its tasks go, and then a keeper.
 *
 * The owner's end of the channel is passed on to the head keeper unseen; everything else about the
 * job (arguments, environment, output) is between those two. The answer is the job's name, or one
 * line of why not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cleanup.h"
#include "client.h"
#include "job.h"
#include "jobs.h"
#include "log.h"
#include "partitions.h"
#include "psid.h"
#include "remote.h"
#include "reservation.h"
#include "spare.h"
#include "user.h"
#include "wait.h"

static void reply(struct psid_client *client, const char *id, const char *error)
{
	Pulc__Wire__SubmitReply submit = PULC__WIRE__SUBMIT_REPLY__INIT;
	PSID_MESSAGE(msg, SUBMIT, submit) = &submit;

	submit.job = (char *)id;
	submit.error = (char *)error;
	(void)psid_client_send(client, &msg, NULL, 0);
}

static bool is_sound(const Pulc__Wire__Submit *submit)
{
	return submit->n_tasks > 0 && submit->n_tasks <= JOB_N_TASKS_MAX &&
	       submit->cpus_per_task <= JOB_N_CPUS_MAX &&
	       strlen(submit->program) < JOB_SIZE_PROGRAM &&
	       strlen(submit->partition) < JOB_SIZE_NODE &&
	       strlen(submit->reservation) < JOB_SIZE_ID &&
	       (!submit->reservation[0] || (!submit->reserves && !submit->partition[0]));
}

static struct psid_job *make_job(struct psid_client *client, const Pulc__Wire__Submit *submit,
				 uint32_t number)
{
	struct psid *psid = client->psid;
	char id[JOB_SIZE_ID];
	struct psid_job *job;

	(void)snprintf(id, sizeof(id), "%u@%s", number, psid->jobs->node);
	job = psid_job_new(psid, client->user, id);
	if (!job)
		return NULL;
	job->number = number;
	job->head = true;
	job->n_ranks = submit->n_tasks;
	job->n_cpus = submit->cpus_per_task;
	psid_job_set_program(job, submit->program);
	(void)strcpy(job->partition, submit->partition);
	(void)strcpy(job->reservation, submit->reservation);
	job->reserves = submit->reserves;
	return job;
}

/* Which nodes have a part in it: should one of them die, its head keeper is told. */
static int remember_places(struct psid_job *job, const Pulc__Job__Start *start)
{
	job->places = calloc(start->n_places, sizeof(*job->places));
	if (!job->places)
		return -ENOMEM;
	for (size_t i = 0; i < start->n_places; i++) {
		const struct psid_node *node = psid_node_find_name(job->psid->cluster,
								   start->places[i]->node);

		job->places[job->n_places++] = node ? node->id : 0;
	}
	return 0;
}

/*
 * Open MPI names files in /dev/shm by it, which psids with run directories of their own, and so
 * with jobs of the same names, share.
 */
static void name_space(const struct psid_job *job, char *space, size_t size)
{
	uint64_t drawn = job->usec_started;

	(void)getrandom(&drawn, sizeof(drawn), GRND_NONBLOCK);
	(void)snprintf(space, size, "%s.%016" PRIx64, job->id, drawn);
}

static int begin(struct psid_job *job, Pulc__Job__Start *start, int owner_fd)
{
	CLEANUP_FD int listen_fd = -EBADF;
	char space[JOB_SIZE_ID + 24];
	int r;

	name_space(job, space, sizeof(space));
	start->space = space;
	start->id = job->id;
	start->number = job->number;
	start->socket = (char *)job->psid->config->socket;
	start->partition = job->partition;
	start->origin = psid_remote_self(job->psid);
	start->reservation = job->reservation;
	start->reserves = job->reserves;
	start->head = true;
	if (start->here < start->n_places)
		job->n_tasks = (uint32_t)start->places[start->here]->n_ranks;
	r = remember_places(job, start);
	if (r == 0)
		r = psid_job_prepare_launch(job->psid, start, &listen_fd);
	if (r == 0)
		r = psid_job_spawn(job, start, owner_fd, listen_fd);
	if (r == 0)
		psid_job_launch(job, start);
	start->space = start->partition = start->reservation = (char *)"";
	return r;
}

static void take_back(struct psid *psid, const Pulc__Job__Start *start, uint32_t n_cpus)
{
	for (size_t i = 0; i < start->n_places; i++)
		psid_job_unplace(psid, start->places[i]->node, start->places[i]->n_ranks, n_cpus);
}

static int no_descriptors(struct job_why *why)
{
	return job_why(why, -EMFILE,
		       "psid has as many descriptors as it may have (LimitNOFILE), or for this "
		       "user (MaxDescriptorsPerUser)");
}

static int submit_job(struct psid_client *client, const Pulc__Wire__Submit *submit, int owner_fd,
		      struct job_why *why)
{
	Pulc__Job__Start start = PULC__JOB__START__INIT;
	struct psid_job *job;
	int r;

	if (!psid_user_has_descriptors(client->user, 1)) /* its keeper's */
		return no_descriptors(why);
	psid_jobs_count(client->psid); /* what has ended meanwhile makes room */
	r = psid_job_identity(client, &start.identity);
	if (r == 0)
		r = psid_job_place(client->psid, submit, &start, why);
	if (r == 0) {
		job = make_job(client, submit, psid_spare_number(client->psid));
		r = job ? begin(job, &start, owner_fd) : -ENOMEM;
		if (r == 0)
			reply(client, job->id, "");
		else if (job)
			psid_job_end(job);
		if (r < 0)
			take_back(client->psid, &start, submit->cpus_per_task);
		psid_jobs_count(client->psid);
	}
	psid_job_forget_launch(&start);
	psid_places_free(&start);
	psid_identity_free(start.identity);
	return r;
}

/* One of a partition, or of a reservation: it begins when there is room there. */
static int ask_for_it(struct psid_client *client, const Pulc__Wire__Submit *submit, int *owner_fd,
		      struct job_why *why)
{
	Pulc__Job__Start start = PULC__JOB__START__INIT;
	int r = psid_job_identity(client, &start.identity);

	if (r == 0)
		r = psid_job_may_use(client->psid, submit, &start, why);
	if (r == 0)
		r = submit->reservation[0] ? 0 : psid_job_may_name(client->psid, submit, why);
	psid_identity_free(start.identity);
	if (r == 0)
		r = psid_wait_begin(client, submit, owner_fd);
	return r == -EMFILE ? no_descriptors(why) : r;
}

static int start_places(struct psid_wait *wait, Pulc__Job__Start *start, struct job_why *why)
{
	struct psid_client *client = wait->client;
	const char *objection = NULL;
	struct psid_job *job;
	int r;

	if (start->here < start->n_places)
		objection = wait->submit->reservation[0]
				    ? psid_reservation_objection(client->psid,
								 wait->submit->reservation,
								 start->identity->uid)
				    : psid_job_objection(client->psid, wait->id,
							 wait->submit->partition,
							 start->identity->uid);
	if (objection)
		return job_why(why, -EPERM, "%s", objection);
	job = make_job(client, wait->submit, wait->number);
	r = job ? begin(job, start, wait->owner_fd) : -ENOMEM;
	if (r == 0)
		reply(client, job->id, "");
	else if (job)
		psid_job_end(job);
	psid_jobs_count(client->psid);
	return r;
}

int psid_job_start_granted(struct psid_wait *wait, const Pulc__Peer__Verdict *verdict,
			   struct job_why *why)
{
	struct psid_client *client = wait->client;
	Pulc__Job__Start start = PULC__JOB__START__INIT;
	int r = psid_job_identity(client, &start.identity);

	if (r == 0)
		r = psid_job_may_use(client->psid, wait->submit, &start, why);
	if (r == 0)
		r = psid_job_take_shares(client->psid, wait->submit, verdict->shares,
					 verdict->n_shares, &start, why);
	if (r == 0)
		r = start_places(wait, &start, why);
	psid_job_forget_launch(&start);
	psid_places_free(&start);
	psid_identity_free(start.identity);
	return r;
}

/* Where it names no partition: the one for such jobs, if there is one. */
static int submit_somewhere(struct psid_client *client, const Pulc__Wire__Submit *asked,
			    int *owner_fd, struct job_why *why)
{
	const struct psid_partition *p = psid_book_default(psid_partitions_book(client->psid));
	Pulc__Wire__Submit submit = *asked;

	if (!submit.partition[0] && !submit.reservation[0] && p)
		submit.partition = p->record->partition->name;
	if (submit.partition[0] || submit.reservation[0])
		return ask_for_it(client, &submit, owner_fd, why);
	if (submit.wait)
		return job_why(
			why, -EINVAL,
			"--wait is for jobs of a --partition, and there is none for jobs that "
			"name none");
	return submit_job(client, &submit, *owner_fd, why);
}

int psid_jobs_submit(struct psid_client *client, const Pulc__Wire__Submit *submit, int *fd)
{
	struct job_why why = { "" };
	int r;

	if (!is_sound(submit))
		return -EBADMSG;
	r = submit_somewhere(client, submit, fd, &why);
	if (r == 0)
		return 0;
	if (r == -EBADMSG)
		return r;
	if (!why.text[0])
		(void)job_why(&why, r, "the job can't be started: %s", psid_job_error(r));
	reply(client, "", why.text);
	return 0;
}
