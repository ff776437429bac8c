/* What an owner tells of its job, whoever the owner is. */
#ifndef PULC_KEEPER_SPEC_H
#define PULC_KEEPER_SPEC_H

#include <stdint.h>
#include <sys/resource.h>

#include "job.pb-c.h"

#define SPEC_SIZE_TASK 112 /* of a task's name in the cluster, "17.3@n1" */

/* What a Spec points to, and the Spec. */
struct spec {
	Pulc__Job__Spec spec;
	Pulc__Job__Limit limits[RLIM_NLIMITS], *pointers[RLIM_NLIMITS];
	char parent[SPEC_SIZE_TASK];
};

/*
 * A Spec with arguments, environment (both ended by NULL; the caller's, as long as the Spec is
 * used), this process's limits, credit for n_tasks, and the task that this process is part of. The
 * rest is as pulc__job__spec__init leaves it.
 */
void spec_init(struct spec *s, char *const *arguments, char *const *environment, uint32_t n_tasks);

#endif
