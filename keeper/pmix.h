/* The keeper's side of its PMIx server. */
#ifndef PULC_KEEPER_PMIX_H
#define PULC_KEEPER_PMIX_H

#include "keeper.h"

/* Starts it. Returns 0; negative errno: the job has none. */
int pmix_start(struct keeper *k);
/* It is no longer needed. */
void pmix_stop(struct keeper *k);
/* A child has ended. */
void pmix_child(struct keeper *k, pid_t pid);
pid_t pmix_process(const struct keeper *k);
/* What a task must find in its environment; NULL: nothing. */
char *const *pmix_environment(const struct task *task);
/* Did the task come up through PMIx and not take its leave? */
bool pmix_left_open(const struct task *task);

void pmix_fence_left(struct keeper *k, const Pulc__Job__Fence *fence);
void pmix_names_answered(struct keeper *k, const Pulc__Job__Names *names);
void pmix_modex(struct keeper *k, const Pulc__Job__Modex *modex);

#endif
