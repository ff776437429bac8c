/*
 * A keeper before its job.
 *
 * Whoever has run one job is likely to run the next one soon: so when a job has ended a keeper is
 * made for the number that will come next, in a cgroup for that job: a copy of the one that waits
 * to be copied (zygote.c), and without that one there is none. It waits at the other end of a
 * socket. It is nobody's then: it has read nothing, holds nothing of any user, and is what psid is.
 * The next job that is asked for here gets the number, and what a keeper is given goes to it as one
 * packet (struct keeper_gifts); from there it is a keeper like any other.
 *
 * There is one, or none. It goes when no job has ended for some minutes, with the one that it is a
 * copy of when the program was replaced, and with psid, whose end of the socket it watches: what is
 * left of its cgroup then is swept by the next psid. Jobs whose number is given before they can
 * begin (wait.c), and those of other nodes, have theirs copied when they begin.
 */
#include "spare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "job.h"
#include "macros.h"
#include "psid.h"
#include "user.h"
#include "zygote.h"

struct psid_spare {
	uint32_t number;
	char id[JOB_SIZE_ID];
	pid_t pid;
	int pidfd;
	int socket;
	int tasks; /* the cgroup of the job's tasks; -EBADF: there is none */
	bool has_cgroup;
};

static struct psid_spare *spare_free(struct psid_spare *spare)
{
	if (spare) {
		(void)close_own(spare->socket);
		(void)close_own(spare->tasks);
		(void)close_own(spare->pidfd);
		free(spare);
	}
	return NULL;
}

void psid_spare_drop(struct psid *psid)
{
	const struct psid_spare *spare = psid->jobs->spare;

	if (!spare)
		return;
	psid_keeper_drop(psid, spare->pid, spare->pidfd);
	psid_spare_ended(psid);
}

/* ---- making ---------------------------------------------------------------------------------- */

static int copy(struct psid *psid, struct psid_spare *spare)
{
	CLEANUP_FD int cgroup = -EBADF;
	int r = psid_cgroup_make(psid, spare->id, geteuid(), &cgroup, &spare->tasks);

	if (r < 0 && r != -ENOENT)
		return r;
	spare->has_cgroup = r == 0;
	spare->pid = psid_zygote_copy(psid, false, spare->id, cgroup, &spare->pidfd,
				      &spare->socket);
	if (spare->pid < 0 && spare->has_cgroup)
		psid_cgroup_remove(psid, spare->id);
	return MIN(spare->pid, 0);
}

void psid_spare_make(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;
	struct psid_spare *spare;

	if (psid->stopping || jobs->spare || !jobs->zygote)
		return;
	spare = calloc(1, sizeof(*spare));
	if (!spare)
		return;
	spare->pidfd = spare->socket = spare->tasks = -EBADF;
	spare->number = psid_job_number(psid);
	(void)snprintf(spare->id, sizeof(spare->id), "%u@%s", spare->number, jobs->node);
	jobs->spare = copy(psid, spare) == 0 ? spare : spare_free(spare);
}

/* ---- the job --------------------------------------------------------------------------------- */

/* It says nothing before its job: where we are not its parent, its socket alone tells of its
 * end. */
static bool is_there(const struct psid_spare *spare)
{
	char byte;

	return recv(spare->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

uint32_t psid_spare_number(struct psid *psid)
{
	const struct psid_spare *spare = psid->jobs->spare;

	/* Of a program that was replaced: what belongs beside it (TLS, PMIx) it would not find any
	 * more. */
	if (spare && is_there(spare) && psid_zygote_is_current(psid))
		return spare->number;
	psid_spare_drop(psid);
	return psid_job_number(psid);
}

int psid_spare_take(struct psid_job *job, const struct psid_gifts *gifts)
{
	struct psid_gifts all = *gifts;
	struct psid *psid = job->psid;
	struct psid_spare *spare = psid->jobs->spare;
	int r = 0;

	if (!spare || !job->head || job->number != spare->number)
		return -ENOENT;
	if (spare->has_cgroup)
		r = psid_cgroup_give(psid, spare->id, job->user->uid);
	all.fds[KEEPER_FD_CGROUP - KEEPER_FD_START] = spare->tasks;
	if (r == 0)
		r = psid_keeper_give(spare->socket, &all);
	if (r < 0) {
		psid_spare_drop(psid);
		return -ENOENT;
	}
	job->has_cgroup = spare->has_cgroup;
	psid->jobs->spare = NULL;
	r = psid_job_watch(job, spare->pid, spare->pidfd, !psid->config->starter[0]);
	spare->pidfd = -EBADF;
	(void)spare_free(spare);
	return r;
}

bool psid_spare_is(const struct psid *psid, const char *id)
{
	return psid->jobs->spare && strcmp(psid->jobs->spare->id, id) == 0;
}

pid_t psid_spare_process(const struct psid *psid)
{
	return psid->jobs->spare ? psid->jobs->spare->pid : 0;
}

void psid_spare_ended(struct psid *psid)
{
	struct psid_spare *spare = psid->jobs->spare;

	if (spare->has_cgroup)
		psid_cgroup_remove(psid, spare->id);
	psid->jobs->spare = spare_free(spare);
}
