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

#define POOL_INIT(size_object)                                                                     \
	{                                                                                          \
		.size = ((size_object) + 63) / 64 * 64                                             \
	}

/* Not zeroed the second time. NULL: no memory. The caller serialises. */
void *pool_get(struct pool *pool);
void pool_put(struct pool *pool, void *object);

#endif
