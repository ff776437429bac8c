/*
 * The processors of this machine in the order of its topology, from hwloc: neighbours in that order
 * share cores, then caches, then memory.
 *
 * hwloc is asked once, by the first job that wants to be bound. It brings two more libraries along,
 * half a megabyte of a psid that is idle, so it is loaded then, and dropped when it has answered.
 */
#include "processors.h"

#include <dlfcn.h>
#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <stdlib.h>

#include "library.h"
#include "macros.h"

#define LIBRARY "libhwloc.so.15"
_Static_assert(HWLOC_API_VERSION >> 16 == 2, "the interface of LIBRARY");

struct hwloc {
	void *library;
	int (*init)(hwloc_topology_t *ret_topology);
	int (*load)(hwloc_topology_t topology);
	void (*destroy)(hwloc_topology_t topology);
	int (*depth_of)(hwloc_topology_t topology, hwloc_obj_type_t type);
	unsigned (*n_at_depth)(hwloc_topology_t topology, int depth);
	hwloc_obj_t (*at_depth)(hwloc_topology_t topology, int depth, unsigned i);
};

static int open_library(struct hwloc *hwloc)
{
	const struct psid_symbol symbols[] = {
		{ (void **)&hwloc->init, "hwloc_topology_init" },
		{ (void **)&hwloc->load, "hwloc_topology_load" },
		{ (void **)&hwloc->destroy, "hwloc_topology_destroy" },
		{ (void **)&hwloc->depth_of, "hwloc_get_type_depth" },
		{ (void **)&hwloc->n_at_depth, "hwloc_get_nbobjs_by_depth" },
		{ (void **)&hwloc->at_depth, "hwloc_get_obj_by_depth" },
	};

	hwloc->library = psid_library_load(LIBRARY, symbols, ARRAY_SIZE(symbols));
	return hwloc->library ? 0 : -ENOENT;
}

static int read_order(const struct hwloc *hwloc, hwloc_topology_t topology,
		      struct psid_processors *processors)
{
	int depth = hwloc->depth_of(topology, HWLOC_OBJ_PU);
	unsigned n = depth < 0 ? 0 : hwloc->n_at_depth(topology, depth);
	cpu_set_t ours;

	if (n == 0 || sched_getaffinity(0, sizeof(ours), &ours) < 0)
		return -ENOENT;
	processors->cpus = calloc(n, sizeof(*processors->cpus));
	if (!processors->cpus)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		hwloc_obj_t pu = hwloc->at_depth(topology, depth, i);

		if (pu && pu->os_index < CPU_SETSIZE && CPU_ISSET(pu->os_index, &ours))
			processors->cpus[processors->n++] = pu->os_index;
	}
	return processors->n > 0 ? 0 : -ENOENT;
}

static int read_all(const struct hwloc *hwloc, struct psid_processors *processors)
{
	hwloc_topology_t topology;
	int r;

	if (hwloc->init(&topology) != 0)
		return -ENOMEM;
	r = hwloc->load(topology) == 0 ? read_order(hwloc, topology, processors) : -EIO;
	hwloc->destroy(topology);
	return r;
}

int psid_processors_read(struct psid_processors **ret_processors)
{
	struct psid_processors *processors = calloc(1, sizeof(*processors));
	struct hwloc hwloc = { 0 };
	int r = -ENOMEM;

	if (processors)
		r = open_library(&hwloc);
	if (r == 0)
		r = read_all(&hwloc, processors);
	if (hwloc.library)
		(void)dlclose(hwloc.library);
	if (r == 0)
		*ret_processors = processors;
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
