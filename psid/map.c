/*
 * The hash map behind every table of psid: clients by number, hints by token and by tuple,
 * connections by number and by cookie.
 *
 * Chained and intrusive: removal needs no memory, and no longer where many have one key; insertion
 * needs some when the map doubles, and a doubling that fails merely makes chains longer. Keys such
 * as tokens are chosen by clients; a secret drawn at start keeps them from choosing collisions.
 */
#include "map.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define N_BUCKETS_FIRST 16

static uint64_t secret[2] = { 0x9e3779b97f4a7c15ull, 0xd1b54a32d192ed03ull };

void psid_map_seed(void)
{
	uint64_t drawn[2];

	if (getrandom(drawn, sizeof(drawn), GRND_NONBLOCK) != sizeof(drawn))
		return;
	secret[0] = drawn[0];
	secret[1] = drawn[1] | 1;
}

/* Two rounds of multiply and fold. */
uint64_t psid_map_hash(uint64_t key)
{
	unsigned __int128 product;

	product = (unsigned __int128)(key ^ secret[0]) * secret[1];
	key = (uint64_t)product ^ (uint64_t)(product >> 64);
	product = (unsigned __int128)(key ^ secret[1]) * 0x9fb21c651e98df25ull;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static struct psid_map_node **bucket_of(const struct psid_map *map, uint64_t key)
{
	return &map->buckets[psid_map_hash(key) & (map->n_buckets - 1)];
}

static void push(struct psid_map *map, struct psid_map_node *node)
{
	struct psid_map_node **bucket = bucket_of(map, node->key);

	node->next = *bucket;
	if (node->next)
		node->next->at = &node->next;
	node->at = bucket;
	*bucket = node;
}

static void grow(struct psid_map *map)
{
	struct psid_map larger = { .n_buckets = map->n_buckets ? map->n_buckets * 2
							       : N_BUCKETS_FIRST };

	larger.buckets = calloc(larger.n_buckets, sizeof(struct psid_map_node *));
	if (!larger.buckets)
		return;
	for (size_t i = 0; i < map->n_buckets; i++)
		for (struct psid_map_node *node = map->buckets[i], *next; node; node = next) {
			next = node->next;
			push(&larger, node);
		}
	free(map->buckets);
	map->buckets = larger.buckets;
	map->n_buckets = larger.n_buckets;
}

int psid_map_insert(struct psid_map *map, struct psid_map_node *node, uint64_t key)
{
	if (map->n >= map->n_buckets)
		grow(map);
	if (!map->buckets)
		return -ENOMEM;
	node->key = key;
	push(map, node);
	map->n++;
	return 0;
}

void psid_map_remove(struct psid_map *map, struct psid_map_node *node)
{
	*node->at = node->next;
	if (node->next)
		node->next->at = node->at;
	map->n--;
}

struct psid_map_node *psid_map_find(const struct psid_map *map, uint64_t key)
{
	struct psid_map_node *node = map->n ? *bucket_of(map, key) : NULL;

	while (node && node->key != key)
		node = node->next;
	return node;
}

struct psid_map_node *psid_map_find_next(const struct psid_map_node *node)
{
	uint64_t key = node->key;

	do
		node = node->next;
	while (node && node->key != key);
	return (struct psid_map_node *)node;
}

struct psid_map_node *psid_map_next(const struct psid_map *map, const struct psid_map_node *after)
{
	size_t i = 0;

	if (after && after->next)
		return after->next;
	if (after)
		i = (psid_map_hash(after->key) & (map->n_buckets - 1)) + 1;
	while (i < map->n_buckets && !map->buckets[i])
		i++;
	return i < map->n_buckets ? map->buckets[i] : NULL;
}

void psid_map_deinit(struct psid_map *map)
{
	free(map->buckets);
	*map = (struct psid_map){ 0 };
}
