/*
 * Starting a keeper, by us (clone.c) or by our starter (starter.c), unless one waits for this job
 * (spare.c), or to be copied (zygote.c).
 *
 * What the keeper must know comes in a sealed memory file, what it must hold on descriptors of
 * fixed numbers (keeper_fds.h). It starts as we are; the system's psid tells it which user to
 * become, with groups and limits that the kernel has told us about the caller, never the caller
 * himself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleanup.h"
#include "job.h"
#include "keeper_fds.h"
#include "log.h"
#include "psid.h"
#include "spare.h"
#include "starter.h"
#include "user.h"
#include "zygote.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int psid_job_find_keeper(struct psid_jobs *jobs)
{
	return jobs->keeper[0] ? 0 : psid_keeper_find(jobs->keeper, sizeof(jobs->keeper));
}

static int write_start(const Pulc__Job__Start *start, int *ret_fd)
{
	size_t len = pulc__job__start__get_packed_size(start);
	CLEANUP_FREE uint8_t *bytes = malloc(len);
	CLEANUP_FD int fd = memfd_create("pulc-job", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (!bytes)
		return -ENOMEM;
	if (fd < 0)
		return -errno;
	(void)pulc__job__start__pack(start, bytes);
	if (write(fd, bytes, len) != (ssize_t)len || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return -EIO;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Where psid is confined its starter does it, and is the keeper's parent then. */
static int spawn(struct psid_job *job, const struct psid_gifts *gifts, int cgroup_fd)
{
	const char *starter = job->psid->config->starter;
	int pidfd = -EBADF;
	pid_t pid;

	if (starter[0])
		pid = psid_starter_clone(starter, job->id, gifts, cgroup_fd, &pidfd);
	else
		pid = psid_keeper_clone(job->psid->jobs->keeper, job->id, gifts, cgroup_fd, &pidfd);
	if (pid < 0 && starter[0])
		psid_log(PSID_ERROR, "the starter at %s: %s", starter, strerror(-pid));
	return pid < 0 ? pid : psid_job_watch(job, pid, pidfd, !starter[0]);
}

const char *psid_job_error(int r)
{
	return r == -ENOPKG ? "../libexec/pulc/keeper is not beside psid's folder "
			      "(is all of PULC installed?)"
			    : strerror(-r);
}

int psid_job_spawn(struct psid_job *job, Pulc__Job__Start *start, int owner_fd, int listen_fd)
{
	CLEANUP_FD int start_fd = -EBADF, cgroup = -EBADF, tasks = -EBADF;
	struct psid_gifts gifts;
	int r;

	r = psid_job_find_keeper(job->psid->jobs);
	if (r < 0) {
		psid_log(PSID_ERROR, "no job can be started: %s", psid_job_error(-ENOPKG));
		return -ENOPKG;
	}
	r = psid_job_bind(job, start);
	if (r == 0)
		r = write_start(start, &start_fd);
	psid_bindings_free(start); /* of this node only */
	if (r < 0)
		return r;
	gifts = (struct psid_gifts){ .fds = { start_fd, owner_fd, -EBADF, listen_fd } };
	if (psid_spare_take(job, &gifts) == 0)
		return 0;
	r = psid_cgroup_make(job->psid, job->id, job->user->uid, &cgroup, &tasks);
	if (r < 0 && r != -ENOENT)
		psid_log(PSID_WARNING, "no cgroup for job %s: %s", job->id, strerror(-r));
	job->has_cgroup = r == 0;
	gifts.fds[KEEPER_FD_CGROUP - KEEPER_FD_START] = tasks;
	r = psid_zygote_spawn(job, start->key.len > 0, &gifts, cgroup);
	return r == -ENOENT ? spawn(job, &gifts, cgroup) : r;
}
