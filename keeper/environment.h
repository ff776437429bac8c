/* The environment of a task: the job's, and what tells it which task it is. */
#ifndef PULC_KEEPER_ENVIRONMENT_H
#define PULC_KEEPER_ENVIRONMENT_H

#include "keeper.h"

/* Once, when the job is known: makes what all tasks have in common. */
void keeper_environment_begin(struct keeper *k);
/*
 * The environment of one task; pmi_fd: its end of the PMI-1 dialogue, or negative. Returns 0 with a vector
 * to free (what it points to stays until the next call), -ENOMEM.
 */
int keeper_environment(struct task *task, int pmi_fd, char ***ret_environment);

#endif
