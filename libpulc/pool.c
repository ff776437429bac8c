/*
 * A free list over chunks from mmap, the first of which may be a static array. The link lies in an
 * object's last word, where a stale reader of the first fields finds them as they were.
 */
#include "pool.h"

#include <sys/mman.h>

#include "macros.h"
#include "rawsys.h"

#define SIZE_CHUNK (128u * 1024)

USUAL static void **link_of(const struct pool *pool, void *object)
{
	return (void **)((char *)object + pool->size - sizeof(void *));
}

USUAL void *pool_get(struct pool *pool)
{
	void *object = pool->free;
	long p;

	if (object) {
		pool->free = *link_of(pool, object);
		return object;
	}
	if (pool->n_fresh == 0) {
		p = raw_syscall(SYS_mmap, NULL, SIZE_CHUNK, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p < 0 && p > -4096)
			return NULL;
		pool->fresh = (char *)p;
		pool->n_fresh = SIZE_CHUNK / pool->size;
	}
	object = pool->fresh;
	pool->fresh += pool->size;
	pool->n_fresh--;
	return object;
}

USUAL void pool_put(struct pool *pool, void *object)
{
	*link_of(pool, object) = pool->free;
	pool->free = object;
}
