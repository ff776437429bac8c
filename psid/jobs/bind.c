/*
 * Binding tasks to processors.
 *
 * hwloc puts the processors of the machine in the order of its topology: neighbours in that order share
 * cores, then caches, then memory. A task gets as many neighbours as it asked for, first of those that no
 * bound task has, then of those that the fewest have. The topology is read when the first job wants to
 * be bound, and kept.
 */
#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <stdlib.h>

#include "cleanup.h"
#include "job.h"
#include "macros.h"
#include "psid.h"

struct psid_processors {
	uint32_t *cpus; /* their numbers, in order */
	uint32_t n;
};

static int read_order(hwloc_topology_t topology, struct psid_processors *processors)
{
	int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
	cpu_set_t ours;

	if (n <= 0 || sched_getaffinity(0, sizeof(ours), &ours) < 0)
		return -ENOENT;
	processors->cpus = calloc((size_t)n, sizeof(*processors->cpus));
	if (!processors->cpus)
		return -ENOMEM;
	for (int i = 0; i < n; i++) {
		hwloc_obj_t pu = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, (unsigned)i);

		if (pu && pu->os_index < CPU_SETSIZE && CPU_ISSET(pu->os_index, &ours))
			processors->cpus[processors->n++] = pu->os_index;
	}
	return processors->n > 0 ? 0 : -ENOENT;
}

static int read_processors(struct psid_jobs *jobs)
{
	struct psid_processors *processors;
	hwloc_topology_t topology;
	int r = -ENOMEM;

	if (jobs->processors)
		return 0;
	processors = calloc(1, sizeof(*processors));
	if (processors && hwloc_topology_init(&topology) == 0) {
		r = hwloc_topology_load(topology) == 0 ? read_order(topology, processors) : -EIO;
		hwloc_topology_destroy(topology);
	}
	if (r == 0)
		jobs->processors = processors;
	else
		psid_processors_free(processors);
	return r;
}

void psid_processors_free(struct psid_processors *processors)
{
	if (processors)
		free(processors->cpus);
	free(processors);
}

/* How many bound tasks each processor has. */
static void count_use(struct psid *psid, uint32_t *use)
{
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&psid->jobs->by_id, node))) {
		const struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		for (size_t i = 0; i < job->n_bound; i++)
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

	if (job->n_cpus == 0 || job->n_tasks == 0)
		return 0;
	r = read_processors(jobs);
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
