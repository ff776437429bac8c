/* Objects that stay objects of their type for ever: free ones are used again, never unmapped. */
#ifndef PULC_PRELOAD_POOL_H
#define PULC_PRELOAD_POOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "macros.h"

#define PRE_POOL_CHUNKS 4096

/* The first member of every pooled object. */
struct pre_pooled {
	uint32_t index;
	_Atomic uint32_t next;
};

struct pre_pool {
	const size_t size;	    /* of one object, bytes */
	const uint32_t n_per_chunk; /* objects */
	_Atomic uint64_t free;	    /* tag << 32 | index + 1 of the first free object */
	_Atomic uint32_t n_made;
	void *_Atomic *const chunks; /* PRE_POOL_CHUNKS */
	void *const near;	     /* the first objects: most processes need no more */
	const uint32_t n_near;
};

/* Bytes mapped at a time; untouched pages of it cost nothing. */
#define PRE_POOL_SIZE_CHUNK (64u << 10)
#define PRE_POOL(type, table)                                                                      \
	{                                                                                          \
		.size = sizeof(type), .n_per_chunk = PRE_POOL_SIZE_CHUNK / sizeof(type),           \
		.chunks = (table)                                                                  \
	}
/* The same, its first objects in an array among the small variables, with which they share a page:
 * fewer are copied by a forked child. */
#define PRE_POOL_NEAR(type, table, array)                                                          \
	{                                                                                          \
		.size = sizeof(type), .n_per_chunk = PRE_POOL_SIZE_CHUNK / sizeof(type),           \
		.chunks = (table), .near = (array), .n_near = sizeof(array) / sizeof(type)         \
	}

/* An object as it was left, zeroed the first time; NULL: no memory. Any thread, signal handlers
 * too. */
void *pre_pool_get(struct pre_pool *pool);
void pre_pool_put(struct pre_pool *pool, void *object);
/* Object number i, free or not; NULL: not made yet. */
void *pre_pool_at(struct pre_pool *pool, uint32_t i);

#endif
