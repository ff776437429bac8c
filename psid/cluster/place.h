/* Which node runs the next task. */
#ifndef PULC_PSID_PLACE_H
#define PULC_PSID_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psid_cluster;
struct psid_node;

enum psid_strategy {
	PSID_PLACE_LEAST_LOADED, /* one task after the other to the node with most room left */
	PSID_PLACE_NEXT,	 /* round robin, from where this psid's last call ended */
	PSID_PLACE_NODES,	 /* fills the candidates in the order given */
};

struct psid_candidate {
	uint64_t node;
	uint32_t n_max; /* tasks at most; 0: what its cores allow */
};

struct psid_placement {
	enum psid_strategy strategy;
	uint32_t n_tasks;
	uint32_t n_cpus;     /* each task's; 0 counts as 1 */
	uint32_t n_per_node; /* tasks on each node used: exactly so many but on the last; 0: any */
	bool oversubscribe;  /* more tasks than cores, if need be */
	bool even_suspected; /* nodes that do not answer just now are chosen from, too */
	/* each node once; NULL: all alive and not drained */
	const struct psid_candidate *candidates;
	size_t n_candidates;
};

/*
 * Chooses a node for each task, n_tasks ids, and counts them as placed there until the nodes' own
 * news shows them. Drained nodes are taken only when they are named as candidates, suspected ones
 * also with even_suspected; dead ones never. Returns 0; -ENOSPC: not so many tasks fit;
 * -EHOSTUNREACH: a named candidate is not there; -EINVAL.
 */
int psid_place(struct psid_cluster *cluster, const struct psid_placement *wanted,
	       uint64_t *ret_nodes);
/* May tasks be placed on it without its being named? */
bool psid_place_is_open(const struct psid_node *node, const struct psid_placement *wanted);
/* A task that was placed there has not started after all. */
void psid_unplace(struct psid_cluster *cluster, uint64_t node, uint32_t n_cpus);

struct psid_node;
/* Hundredths of processes for each core: what placement goes by, with what was placed and not
 * seen. */
uint32_t psid_place_load(const struct psid_node *node);
/* Processors that were given to tasks there, and its news does not show yet. */
uint32_t psid_place_unseen(const struct psid_node *node);
/* Is the news of its load so old, or absent, that it ranks last? */
bool psid_place_is_stale(const struct psid_cluster *cluster, const struct psid_node *node);

#endif
