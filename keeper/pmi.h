/* The service that MPI libraries start up with: PMI-1, and PMIx through a process of its own. */
#ifndef PULC_KEEPER_PMI_H
#define PULC_KEEPER_PMI_H

#include "keeper.h"

/* Before any task. Returns 0: tasks may start; 1: keeper_tasks_launch is called when they may. */
int keeper_pmi_start(struct keeper *k);
/* The task's end of its PMI-1 dialogue, or -EBADF if the job has none. Returns 0, negative
 * errno. */
int keeper_pmi_open(struct task *task, int *ret_theirs);
/* Every task of this node has begun: those that run are served. */
void keeper_pmi_begin(struct keeper *k);
/* The task has ended. */
void keeper_pmi_close(struct task *task);
/* What the task must find in its environment besides; ends with NULL. NULL: nothing. */
char *const *keeper_pmi_environment(const struct task *task);
/* No task is left: the helper may go. */
void keeper_pmi_stop(struct keeper *k);
/* A child that is no task has ended. */
void keeper_pmi_child(struct keeper *k, pid_t pid);
/* The helper's process; 0: none. */
pid_t keeper_pmi_helper(const struct keeper *k);
/* PMIx asks for, or brings, what a rank elsewhere has published. */
void keeper_modex(struct keeper *k, const Pulc__Job__Modex *modex);

/* What a collective is for: the barrier of PMI-1, and three of PMIx. */
enum fence_kind { FENCE_PMI1, FENCE_PMIX, FENCE_CONNECT, FENCE_DISCONNECT };

/* pmi1.c */
int pmi1_open(struct task *task, int *ret_theirs);
void pmi1_begin(struct task *task);
void pmi1_close(struct task *task);
void pmi1_fence_left(struct keeper *k, const Pulc__Job__Fence *fence);
void pmi1_names_answered(struct keeper *k, const Pulc__Job__Names *names);

/* What a rank may ask for and is refused. The owner is told once for a node, as "rank 1: " and
 * this. */
#define UNSERVED_SPAWN "MPI_Comm_spawn is not served: start all ranks at once"
void keeper_unserved(struct keeper *k, const char *text);

/* A rank wants the end of the job. */
void keeper_abort(struct task *task, uint32_t code, const char *text);

#endif
