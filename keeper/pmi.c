/*
 * The two start-up services of a job, side by side: PMI-1 is served here (pmi1.c), PMIx by a
 * process of its own (pmix.c). Both meet the other nodes in fence.c.
 *
 * A task that began PMI-1 and ended without the end of it has left the others in the lurch: the job
 * is over, as it would be after MPI_Abort.
 */
#include "pmi.h"

#include <errno.h>
#include <string.h>

#include "head.h"
#include "owner.h"
#include "pmix.h"

int keeper_pmi_start(struct keeper *k)
{
	int r;

	if (k->spec->mpi != PULC__JOB__MPI__MPI_PMIX)
		return 0;
	r = pmix_start(k);
	if (r < 0)
		keeper_say(k, "no PMIx server: %s", strerror(-r));
	return r < 0 ? 0 : 1;
}

int keeper_pmi_open(struct task *task, int *ret_theirs)
{
	*ret_theirs = -EBADF;
	if (task->keeper->spec->mpi == PULC__JOB__MPI__MPI_NONE)
		return 0;
	return pmi1_open(task, ret_theirs);
}

void keeper_pmi_begin(struct keeper *k)
{
	for (uint32_t i = 0; i < k->n_tasks; i++)
		pmi1_begin(&k->tasks[i]);
}

void keeper_pmi_close(struct task *task)
{
	struct pmi1 *pmi = &task->pmi;
	bool left_open;

	pmi1_close(task);
	left_open = (pmi->initialised && !pmi->finalised) || pmix_left_open(task);
	if (left_open && !task->aborted && task->status == 0 && !task->keeper->killing)
		keeper_abort(task, 1, "ended without MPI_Finalize");
}

char *const *keeper_pmi_environment(const struct task *task)
{
	return pmix_environment(task);
}

void keeper_pmi_stop(struct keeper *k)
{
	pmix_stop(k);
}

void keeper_pmi_child(struct keeper *k, pid_t pid)
{
	pmix_child(k, pid);
}

pid_t keeper_pmi_helper(const struct keeper *k)
{
	return pmix_process(k);
}

void keeper_modex(struct keeper *k, const Pulc__Job__Modex *modex)
{
	pmix_modex(k, modex);
}

void keeper_unserved(struct keeper *k, const char *text)
{
	if (!k->said_unserved)
		keeper_say(k, "%s", text);
	k->said_unserved = true;
}

void keeper_abort(struct task *task, uint32_t code, const char *text)
{
	Pulc__Job__Abort abort = PULC__JOB__ABORT__INIT;
	JOB_MESSAGE(msg, ABORT, abort) = &abort;

	task->aborted = true;
	task->abort_code = code;
	abort.rank = task->rank;
	abort.code = code;
	abort.text = (char *)text;
	keeper_head_report(task->keeper, &msg);
}
