/*
 * Message areas that this process has mapped: its own, which it writes, and those of other
 * processes, which it reads.
 *
 * psid sends them (MessageArea) and whoever looks at the channel keeps them here, under the client
 * lock; all others look here with the native lock held, which comes first. An area is held by its
 * place in the list and by each message that lies in it: so a message outlives its sender. The list
 * lets go when psid says that the owner is gone and everything that it sent has been taken off its
 * link; or, if psid has gone before, with the link.
 *
 * A forked child reads what its parent had received, and keeps no other area of a peer's: who sends
 * to it has it shown anew. It has no area of its own until it asks for one; its parent's it can
 * read.
 */
#include <stdlib.h>

#include "macros.h"
#include "native.h"
#include "pool.h"

struct area {
	struct area *next;
	struct shm_area map;
	uint32_t client;
	uint32_t generation; /* of the channel that it came over */
	uint32_t n_refs;
	bool gone, closed; /* its owner; the link to it */
};

/* All under the client lock. */
static struct pool pool = POOL_INIT(sizeof(struct area));
static struct area *areas;
static struct shm_area own;

static void unref(struct area *area)
{
	if (--area->n_refs > 0)
		return;
	shm_area_unmap(&area->map);
	pool_put(&pool, area);
}

static struct area **find(uint32_t client)
{
	struct area **p = &areas;

	while (*p && (*p)->client != client)
		p = &(*p)->next;
	return p;
}

static void drop_if_done(uint32_t client)
{
	struct area **p = find(client), *area = *p;

	if (!area || !area->closed || (!area->gone && area->generation == client_generation()))
		return;
	*p = area->next;
	unref(area);
}

void native_area_came(uint32_t client, bool is_own, struct shm_area *map)
{
	struct area **old = find(client), *area;

	if (!map->at)
		return;
	if (is_own) {
		if (own.at)
			return;
		own = *map;
		map->at = NULL;
		return;
	}
	area = pool_get(&pool);
	if (!area)
		return;
	if (*old) {
		/* Another psid has given that number again. */
		struct area *previous = *old;

		*old = previous->next;
		unref(previous);
	}
	*area = (struct area){ .next = areas,
			       .map = *map,
			       .client = client,
			       .generation = client_generation(),
			       .n_refs = 1 };
	map->at = NULL;
	areas = area;
}

void native_area_gone(uint32_t client)
{
	struct area *area = *find(client);

	if (!area)
		return;
	area->gone = true;
	drop_if_done(client);
}

void native_area_closed(uint32_t client)
{
	struct area *area;

	if (!client_lock())
		return;
	area = *find(client);
	/* It may have been shown to us for a message that never left. */
	if (!area) {
		client_look();
		area = *find(client);
	}
	if (area)
		area->closed = true;
	drop_if_done(client);
	client_unlock();
}

struct shm_area native_area_own(void)
{
	struct shm_area map = { .at = NULL };

	if (!client_lock())
		return map;
	map = own;
	client_unlock();
	return map;
}

/* ---- for the protocol ------------------------------------------------------------------------ */

static int bytes_of(struct peer *peer, uint64_t offset, uint64_t size, struct tag_bytes *ret_bytes)
{
	struct area *area = *find(peer->client);

	/* psid has sent it before the sender could say where its message lies. */
	if (!area) {
		client_look();
		area = *find(peer->client);
	}
	if (!area)
		return -ENOENT;
	area->closed = false;
	ret_bytes->at = shm_area_bytes(&area->map, offset, size);
	if (!ret_bytes->at)
		return -EBADMSG;
	ret_bytes->holder = area;
	area->n_refs++;
	return 0;
}

int native_area_bytes(struct peer *peer, uint64_t offset, uint64_t size,
		      struct tag_bytes *ret_bytes)
{
	struct shm_area map;
	int e;

	if (peer->link->caps.flags & HAL_IMMEDIATE) {
		map = native_area_own();
		*ret_bytes = (struct tag_bytes){ .at = shm_area_bytes(&map, offset, size) };
		return ret_bytes->at ? 0 : -ENOENT;
	}
	if (!peer->pid || !client_lock())
		return -ENOENT;
	e = bytes_of(peer, offset, size, ret_bytes);
	client_unlock();
	return e;
}

void native_area_unref(void *holder)
{
	if (!holder || !client_lock())
		return;
	unref(holder);
	client_unlock();
}

void native_area_forked(void)
{
	struct area *area;

	/* What lies there is the parent's to write, and of what it had taken of itself ours to
	 * read. */
	if (own.at)
		shm_area_only_read(&own);
	own.at = NULL;
	while ((area = areas)) {
		areas = area->next;
		unref(area);
	}
}
