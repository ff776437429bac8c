/*
 * Orphans: what a killed keeper leaves behind where there is no cgroup.
 *
 * psid is a subreaper, so they become its children; it has no other children than keepers (those
 * without a job among them). They are killed with all that descends from them, and once more
 * whenever a child has ended, until only keepers are left. A task itself dies with its keeper
 * anyway (PR_SET_PDEATHSIG).
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "descendants.h"
#include "job.h"
#include "macros.h"
#include "psid.h"
#include "spare.h"
#include "zygote.h"

/* Keepers, ended by 0. */
static pid_t *keepers(struct psid *psid)
{
	struct psid_map_node *node = NULL;
	pid_t *pids = calloc(psid->jobs->by_id.n + 3, sizeof(*pids));
	size_t n = 0;

	if (pids && psid_zygote_process(psid) > 0)
		pids[n++] = psid_zygote_process(psid);
	if (pids && psid_spare_process(psid) > 0)
		pids[n++] = psid_spare_process(psid);
	while (pids && (node = psid_map_next(&psid->jobs->by_id, node)))
		pids[n++] = CONTAINER_OF(node, struct psid_job, node)->keeper;
	return pids;
}

static struct psid_job *job_of(struct psid *psid, pid_t pid)
{
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&psid->jobs->by_id, node))) {
		struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (job->is_child && job->keeper == pid)
			return job;
	}
	return NULL;
}

void psid_orphans_kill(struct psid *psid)
{
	CLEANUP_FREE pid_t *spare = keepers(psid);

	if (spare)
		(void)descendants_kill(getpid(), spare);
}

/* A keeper's end is told by its pidfd; here it is only buried. */
static void on_child(uv_signal_t *handle, int number)
{
	struct psid *psid = handle->data;
	bool adopted = false;
	pid_t pid;

	(void)number;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		struct psid_job *job = job_of(psid, pid);

		if (job)
			job->is_child = false;
		else if (pid == psid_zygote_process(psid))
			psid_zygote_ended(psid);
		else if (pid == psid_spare_process(psid))
			psid_spare_ended(psid);
		else
			adopted = true;
	}
	if (adopted)
		psid_orphans_kill(psid);
}

int psid_orphans_start(struct psid *psid)
{
	int r = uv_signal_init(&psid->loop, &psid->jobs->sigchld);

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	psid->jobs->sigchld.data = psid;
	return r < 0 ? r : uv_signal_start(&psid->jobs->sigchld, on_child, SIGCHLD);
}
