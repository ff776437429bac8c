/* The environment of a task: the job's, and what tells it which task it is. */
#ifndef PULC_KEEPER_ENVIRONMENT_H
#define PULC_KEEPER_ENVIRONMENT_H

#include "keeper.h"

/* Once, when the job is known: makes what all tasks have in common. */
void keeper_environment_begin(struct keeper *k);
#define ENVIRONMENT_N_OWN 16
#define ENVIRONMENT_SIZE_OWN 160

/* Of one task. All 0: empty. */
struct environment {
	char **items; /* ended by NULL; what they point to is here or the job's */
	size_t n, size;
	size_t n_own;
	char own[ENVIRONMENT_N_OWN][ENVIRONMENT_SIZE_OWN];
};

/* Fills it, over what may be in it; pmi_fd: the task's end of the PMI-1 dialogue, or negative.
 * Returns 0, -ENOMEM. */
int keeper_environment(struct environment *environment, struct task *task, int pmi_fd);

#endif
