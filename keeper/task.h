/* One task: its start and its end. */
#ifndef PULC_KEEPER_TASK_H
#define PULC_KEEPER_TASK_H

#include "keeper.h"

/* The job is known: starts every task of this node, now or when their PMI service is ready. */
void keeper_tasks_start(struct keeper *k);
/* The same, once nothing is missing any more. */
void keeper_tasks_launch(struct keeper *k);
/* The job is being killed: tasks that still wait for their PMI service end unstarted. */
void keeper_tasks_cancel(struct keeper *k);
/* A task was reaped. */
void keeper_task_ended(struct task *task, int status, const struct rusage *usage);
/* Those that run can't be killed: they count as killed. */
void keeper_tasks_leave(struct keeper *k);
/* The task of that rank here; NULL: it is elsewhere. */
struct task *keeper_task(struct keeper *k, uint32_t rank);

#endif
