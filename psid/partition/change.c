/*
 * A partition that is changed: parts of it become what is wanted, the others stay. What came of it
 * is one new version of the whole record, so two changes at once, on nodes that can't hear each
 * other, are not mixed: one of them counts.
 */
#include <stdlib.h>

#include "book.h"
#include "cleanup.h"

#define PART(name) (PULC__WIRE__PARTITION_PART__PART_##name)

/* Through its packed form, for parts of it are other people's memory. */
static Pulc__Wire__Partition *copy(const Pulc__Wire__Partition *p)
{
	size_t len = pulc__wire__partition__get_packed_size(p);
	CLEANUP_FREE uint8_t *bytes = malloc(len + 1);

	if (!bytes)
		return NULL;
	(void)pulc__wire__partition__pack(p, bytes);
	return pulc__wire__partition__unpack(NULL, len, bytes);
}

Pulc__Wire__Partition *psid_partition_change(const Pulc__Wire__Partition *partition,
					     const Pulc__Wire__Partition *wanted, uint32_t change)
{
	Pulc__Wire__Partition p = *partition;

	if (change & PART(NODES)) {
		p.nodes = wanted->nodes;
		p.n_nodes = wanted->n_nodes;
	}
	if (change & PART(USERS)) {
		p.users = wanted->users;
		p.n_users = wanted->n_users;
	}
	if (change & PART(EXCLUSIVE))
		p.exclusive = wanted->exclusive;
	if (change & PART(DEFAULT))
		p.is_default = wanted->is_default;
	if (change & PART(OWNER))
		p.owner = wanted->owner;
	if (change & PART(CORES))
		p.max_cores = wanted->max_cores;
	if (change & PART(MAX_NODES))
		p.max_nodes = wanted->max_nodes;
	if (change & PART(JOBS))
		p.max_jobs = wanted->max_jobs;
	if (change & PART(QUEUED))
		p.max_queued = wanted->max_queued;
	if (change & PART(SEC))
		p.max_sec = wanted->max_sec;
	return copy(&p);
}
