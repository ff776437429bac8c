/*
 * Binding tasks to processors.
 *
 * The processors of the machine are in the order of its topology (processors.c), read when the
 * first job wants to be bound. A task gets as many neighbours as it asked for, first of those that
 * no bound task has, then of those that the fewest have.
 */
#include <errno.h>
#include <stdlib.h>

#include "cleanup.h"
#include "job.h"
#include "macros.h"
#include "processors.h"
#include "psid.h"

/* How many bound tasks each processor has. */
static void count_use(struct psid *psid, uint32_t *use)
{
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&psid->jobs->by_id, node))) {
		const struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		for (size_t i = 0; i < job->n_bound; i++)
			if (job->cpus[i] < psid->jobs->processors->n) /* fewer since a restart? */
				use[job->cpus[i]]++;
	}
}

/* The first of the n neighbours that have least to do. */
static uint32_t find_neighbours(const struct psid_processors *processors, const uint32_t *use,
				uint32_t n)
{
	uint32_t best = 0;
	uint64_t least = UINT64_MAX;

	for (uint32_t first = 0; first + n <= processors->n; first++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < n; i++)
			sum += use[first + i];
		if (sum < least) {
			least = sum;
			best = first;
		}
	}
	return best;
}

static Pulc__Job__Processors *bind_task(struct psid_job *job, uint32_t *use, uint32_t n)
{
	const struct psid_processors *processors = job->psid->jobs->processors;
	Pulc__Job__Processors *binding = malloc(sizeof(*binding));
	uint32_t first = find_neighbours(processors, use, n);

	if (!binding)
		return NULL;
	pulc__job__processors__init(binding);
	binding->cpus = calloc(n, sizeof(*binding->cpus));
	if (!binding->cpus) {
		free(binding);
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		binding->cpus[binding->n_cpus++] = processors->cpus[first + i];
		job->cpus[job->n_bound++] = first + i;
		use[first + i]++;
	}
	return binding;
}

int psid_job_bind(struct psid_job *job, Pulc__Job__Start *start)
{
	struct psid_jobs *jobs = job->psid->jobs;
	CLEANUP_FREE uint32_t *use = NULL;
	uint32_t n;
	int r;

	if (job->n_cpus == 0 || job->n_tasks == 0 || job->reserves) /* what runs in it is bound */
		return 0;
	r = jobs->processors ? 0 : psid_processors_read(&jobs->processors);
	if (r < 0)
		return r;
	n = MIN(job->n_cpus, jobs->processors->n);
	use = calloc(jobs->processors->n, sizeof(*use));
	job->cpus = calloc((size_t)n * job->n_tasks, sizeof(*job->cpus));
	start->bindings = calloc(job->n_tasks, sizeof(*start->bindings));
	if (!use || !job->cpus || !start->bindings)
		return -ENOMEM;
	count_use(job->psid, use);
	for (uint32_t i = 0; i < job->n_tasks; i++) {
		Pulc__Job__Processors *binding = bind_task(job, use, n);

		if (!binding)
			return -ENOMEM;
		start->bindings[start->n_bindings++] = binding;
	}
	return 0;
}

void psid_bindings_free(Pulc__Job__Start *start)
{
	for (size_t i = 0; i < start->n_bindings; i++)
		pulc__job__processors__free_unpacked(start->bindings[i], NULL);
	free(start->bindings);
	start->bindings = NULL;
	start->n_bindings = 0;
}
