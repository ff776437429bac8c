/*
 * A keeper before its job.
 *
 * A third of what a short job costs is the start of its keeper. Whoever has run one job is likely to
 * run the next one soon: so when a job has ended a keeper is made for the number that will come next, in the
 * cgroup of that job, and waits at the other end of a socket. It is nobody's then: it has read nothing, holds
 * nothing of any user, and is what psid is. The next job that is asked for here gets the number, and
 * what a keeper is given goes to it as one packet (struct keeper_gifts); from there it is a keeper like any other.
 *
 * There is one, or none. It goes when nobody has asked for MSEC_WAITS, and with psid, whose end of the socket it
 * watches: what is left of its cgroup then is swept by the next psid. Jobs whose number is given before they can
 * begin (wait.c), those of other nodes, and all where a starter makes the keepers, have theirs made when
 * they begin.
 */
#include "spare.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "job.h"
#include "macros.h"
#include "psid.h"
#include "starter.h"
#include "user.h"

#define MSEC_WAITS 300000

struct psid_spare {
	uint32_t number;
	char id[JOB_SIZE_ID];
	pid_t pid;
	int pidfd;
	int socket; /* -EBADF: it is not wanted any more, and ends */
	bool has_cgroup;
};

static struct psid_spare *spare_free(struct psid_spare *spare)
{
	if (spare) {
		(void)close_own(spare->socket);
		(void)close_own(spare->pidfd);
		free(spare);
	}
	return NULL;
}

static void on_old(uv_timer_t *timer)
{
	struct psid_jobs *jobs = CONTAINER_OF(timer, struct psid_jobs, spare_timer);

	if (jobs->spare)
		jobs->spare->socket = close_own(jobs->spare->socket);
}

void psid_spares_start(struct psid *psid)
{
	(void)uv_timer_init(&psid->loop, &psid->jobs->spare_timer);
}

/* Ends it now. */
static void drop(struct psid *psid)
{
	const struct psid_spare *spare = psid->jobs->spare;

	if (!spare)
		return;
	(void)syscall(SYS_pidfd_send_signal, spare->pidfd, SIGKILL, NULL, 0);
	(void)waitpid(spare->pid, NULL, 0);
	psid_spare_ended(psid);
}

void psid_spares_close(struct psid *psid)
{
	drop(psid);
}

/* ---- making -------------------------------------------------------------------------------- */

static int spawn(struct psid *psid, struct psid_spare *spare)
{
	CLEANUP_FD int cgroup = -EBADF, tasks = -EBADF, theirs = -EBADF;
	struct psid_gifts gifts;
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	spare->socket = ends[0];
	theirs = ends[1];
	r = psid_cgroup_make(psid, spare->id, geteuid(), &cgroup, &tasks);
	if (r < 0 && r != -ENOENT)
		return r;
	spare->has_cgroup = r == 0;
	gifts = (struct psid_gifts){ .fds = { theirs, -EBADF, tasks, -EBADF } };
	r = psid_keeper_clone(psid->jobs->keeper, spare->id, &gifts, cgroup, &spare->pidfd);
	if (r < 0 && spare->has_cgroup)
		psid_cgroup_remove(psid, spare->id);
	spare->pid = r;
	return MIN(r, 0);
}

void psid_spare_make(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;
	struct psid_spare *spare;

	if (psid->config->starter[0] || psid->stopping || psid_job_find_keeper(jobs) < 0)
		return;
	(void)uv_timer_start(&jobs->spare_timer, on_old, MSEC_WAITS, 0);
	if (jobs->spare)
		return;
	spare = calloc(1, sizeof(*spare));
	if (!spare)
		return;
	spare->pidfd = spare->socket = -EBADF;
	spare->number = psid_job_number(psid);
	(void)snprintf(spare->id, sizeof(spare->id), "%u@%s", spare->number, jobs->node);
	jobs->spare = spawn(psid, spare) == 0 ? spare : spare_free(spare);
}

/* ---- the job ------------------------------------------------------------------------------- */

uint32_t psid_spare_number(struct psid *psid)
{
	const struct psid_spare *spare = psid->jobs->spare;

	return spare && spare->socket >= 0 ? spare->number : psid_job_number(psid);
}

static int give(const struct psid_spare *spare, const struct psid_gifts *gifts)
{
	struct keeper_gifts message = { 0 };
	int fds[KEEPER_N_FDS];
	size_t n = 0;

	for (unsigned i = 0; i < KEEPER_N_FDS; i++)
		if (gifts->fds[i] >= 0) {
			message.has |= 1u << i;
			fds[n++] = gifts->fds[i];
		}
	return psid_starter_send(spare->socket, &message, sizeof(message), fds, n);
}

int psid_spare_take(struct psid_job *job, const struct psid_gifts *gifts)
{
	struct psid *psid = job->psid;
	struct psid_spare *spare = psid->jobs->spare;
	int r = 0;

	if (!spare || !job->head || job->number != spare->number)
		return -ENOENT;
	if (spare->has_cgroup)
		r = psid_cgroup_give(psid, spare->id, job->user->uid);
	if (r == 0)
		r = give(spare, gifts);
	if (r < 0) {
		drop(psid);
		return -ENOENT;
	}
	job->has_cgroup = spare->has_cgroup;
	psid->jobs->spare = NULL;
	r = psid_job_watch(job, spare->pid, spare->pidfd, true);
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
