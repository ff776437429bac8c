/* Hash map of intrusive nodes under 64-bit keys; several nodes may share a key. */
#ifndef PULC_PSID_MAP_H
#define PULC_PSID_MAP_H

#include <stddef.h>
#include <stdint.h>

struct psid_map_node {
	struct psid_map_node *next, **at; /* *at is this one */
	uint64_t key;
};

/* All zero is an empty map. */
struct psid_map {
	struct psid_map_node **buckets;
	size_t n_buckets;
	size_t n;
};

/* Draws the secret that keeps clients from choosing keys that collide. Once, before any insert. */
void psid_map_seed(void);
uint64_t psid_map_hash(uint64_t key);

/* Returns 0, -ENOMEM. */
int psid_map_insert(struct psid_map *map, struct psid_map_node *node, uint64_t key);
void psid_map_remove(struct psid_map *map, struct psid_map_node *node);
struct psid_map_node *psid_map_find(const struct psid_map *map, uint64_t key);
/* The next node with the same key, or NULL. */
struct psid_map_node *psid_map_find_next(const struct psid_map_node *node);
/* Any order; NULL begins and ends. `after` must still be in the map. */
struct psid_map_node *psid_map_next(const struct psid_map *map, const struct psid_map_node *after);
/* The nodes are not the map's. */
void psid_map_deinit(struct psid_map *map);

#endif
