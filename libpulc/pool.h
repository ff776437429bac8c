/*
 * Objects of one size that are never given back to the system: memory stays what it was, so that a
 * thread with an old pointer reads an object of the same kind, never something else. No malloc: the
 * program's may be the caller.
 */
#ifndef PULC_LIB_POOL_H
#define PULC_LIB_POOL_H

#include <stddef.h>

struct pool {
	size_t size;
	void *free;
	char *fresh;
	size_t n_fresh;
};

#define POOL_SIZE(size_object) (((size_object) + 63) / 64 * 64)
#define POOL_INIT(size_object)                                                                     \
	{                                                                                          \
		.size = POOL_SIZE(size_object)                                                     \
	}
/* The first objects lie in `near`, an array of n * POOL_SIZE bytes among the small variables: most
 * processes have a few only. */
#define POOL_INIT_NEAR(size_object, near)                                                          \
	{                                                                                          \
		.size = POOL_SIZE(size_object), .fresh = (near),                                   \
		.n_fresh = sizeof(near) / POOL_SIZE(size_object)                                   \
	}

/* Not zeroed the second time. NULL: no memory. The caller serialises. */
void *pool_get(struct pool *pool);
void pool_put(struct pool *pool, void *object);

#endif
