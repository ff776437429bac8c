/*
 * Type-stable memory for the shim's records.
 *
 * The shim works inside malloc, in signal handlers and without locks, so it can't use malloc. And a
 * reader that lost a race may look at a record that was just given back: here it still finds a
 * record of the same type, notices, and tries again. So memory is only ever added.
 *
 * The free list is a stack of indices. Its head carries a tag that changes with every operation:
 * without it, a taker that was interrupted between reading the head and replacing it could install
 * a stale successor (ABA).
 */
#include <sys/mman.h>

#include "pool.h"
#include "rawsys.h"

static void *chunk_of(struct pre_pool *pool, uint32_t i)
{
	void *_Atomic *slot = &pool->chunks[i / pool->n_per_chunk];
	void *chunk = atomic_load_explicit(slot, memory_order_acquire), *expected = NULL;
	long made;

	if (chunk)
		return chunk;
	made = raw_syscall(SYS_mmap, NULL, PRE_POOL_SIZE_CHUNK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (made < 0 && made > -4096)
		return NULL;
	if (atomic_compare_exchange_strong(slot, &expected, (void *)made))
		return (void *)made;
	(void)raw_syscall(SYS_munmap, made, PRE_POOL_SIZE_CHUNK);
	return expected;
}

/* Object i; its chunk is made if it has none yet. */
USUAL static struct pre_pooled *object_at(struct pre_pool *pool, uint32_t i)
{
	char *chunk;

	if (i < pool->n_near)
		return (struct pre_pooled *)((char *)pool->near + i * pool->size);
	chunk = chunk_of(pool, i - pool->n_near);
	i = (i - pool->n_near) % pool->n_per_chunk;
	return chunk ? (struct pre_pooled *)(chunk + i * pool->size) : NULL;
}

USUAL void *pre_pool_at(struct pre_pool *pool, uint32_t i)
{
	if (i >= atomic_load_explicit(&pool->n_made, memory_order_acquire))
		return NULL;
	return object_at(pool, i);
}

static void *make(struct pre_pool *pool)
{
	uint32_t i = atomic_load(&pool->n_made);
	struct pre_pooled *object;

	do {
		if (i / pool->n_per_chunk >= PRE_POOL_CHUNKS)
			return NULL;
		object = object_at(pool, i);
		if (!object)
			return NULL;
	} while (!atomic_compare_exchange_weak(&pool->n_made, &i, i + 1));
	object->index = i;
	return object;
}

USUAL void *pre_pool_get(struct pre_pool *pool)
{
	uint64_t head = atomic_load(&pool->free), next;
	struct pre_pooled *object;

	while ((uint32_t)head) {
		object = pre_pool_at(pool, (uint32_t)head - 1);
		next = ((head >> 32) + 1) << 32 | atomic_load(&object->next);
		if (atomic_compare_exchange_weak(&pool->free, &head, next))
			return object;
	}
	return make(pool);
}

USUAL void pre_pool_put(struct pre_pool *pool, void *object)
{
	struct pre_pooled *p = object;
	uint64_t head = atomic_load(&pool->free), next;

	do {
		atomic_store(&p->next, (uint32_t)head);
		next = ((head >> 32) + 1) << 32 | (p->index + 1);
	} while (!atomic_compare_exchange_weak(&pool->free, &head, next));
}
