/*
 * Slabs: one memfd, one mapping, many connections.
 *
 * A connection costs two slots, not two mappings: a process may have 65,530 mappings and shares
 * that budget with its malloc, and every mapping is work at fork. The file is sparse; psid
 * allocates the first two pages of a slot when it hands it out, the owner the larger rings when it
 * needs them.
 *
 * The header is written by psid before anybody maps the slab, but the owner can write it later: its
 * values are copied once, checked against the file's real size, and never read again. All addresses
 * are computed from the copies.
 */
#include "slab.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "geometry.h"
#include "rawsys.h"
#include "sparse.h"

/* Copies the geometry out of the header and checks that it fits the file. */
static int read_geometry(const struct shm_slab *slab, struct shm_slab_map *map)
{
	struct shm_geometry copy;
	int e;

	memcpy(&copy, &slab->geometry, sizeof(copy));
	e = shm_slab_check(&copy, map->size);
	if (e < 0)
		return e;
	memcpy(map->size_ring, copy.size_ring, sizeof(map->size_ring));
	map->n_slots = copy.n_slots;
	map->size_slot = copy.size_slot;
	return 0;
}

int shm_slab_map(int fd, uint64_t size, bool writable, struct shm_slab_map *ret_map)
{
	struct shm_slab_map map = { .size = size };
	struct stat st;
	void *at;
	int e;

	e = (int)raw_syscall(SYS_fstat, fd, &st, 0, 0, 0, 0);
	if (e < 0)
		return e;
	if ((uint64_t)st.st_size != size || size < SHM_SIZE_HEADER)
		return -EBADMSG;
	map.ino = st.st_ino;
	e = shm_sparse_map(fd, size, writable, &at);
	if (e < 0)
		return e;
	map.slab = at;
	e = read_geometry(map.slab, &map);
	if (e < 0) {
		shm_slab_unmap(&map);
		return e;
	}
	*ret_map = map;
	return 0;
}

void shm_slab_unmap(struct shm_slab_map *map)
{
	if (map->slab)
		shm_sparse_unmap(map->slab, map->size);
	map->slab = NULL;
}

struct shm_side *shm_slab_side(const struct shm_slab_map *map, uint32_t slot)
{
	return (struct shm_side *)((char *)map->slab + shm_slot_at(map->size_slot, slot));
}

int shm_stream_bind(struct shm_stream *s, const struct shm_slab_map *own, uint32_t own_slot,
		    const struct shm_slab_map *peer, uint32_t peer_slot)
{
	if (own_slot >= own->n_slots || peer_slot >= peer->n_slots)
		return -EBADMSG;
	*s = (struct shm_stream){
		.own = shm_slab_side(own, own_slot),
		.peer = shm_slab_side(peer, peer_slot),
		.own_holders = &own->slab->n_holders[own_slot],
		.peer_holders = &peer->slab->n_holders[peer_slot],
	};
	for (uint32_t i = 0; i < SHM_N_RINGS; i++) {
		s->tx_ring[i] = (unsigned char *)s->own + shm_slot_ring_offset(own->size_ring, i);
		s->rx_ring[i] = (const unsigned char *)s->peer +
				shm_slot_ring_offset(peer->size_ring, i);
		s->tx_size[i] = own->size_ring[i];
		s->rx_size[i] = peer->size_ring[i];
	}
	return 0;
}

bool shm_slab_holds(const struct shm_slab_map *own, const struct shm_stream *s)
{
	return s->own_holders >= own->slab->n_holders &&
	       s->own_holders < own->slab->n_holders + SHM_SLOTS_MAX;
}

void shm_slab_none_returns(struct shm_slab_map *own)
{
	_Atomic uint32_t *n_holders = own->slab->n_holders;

	for (uint32_t i = 0; i < own->n_slots; i++)
		if (atomic_load(&n_holders[i]) & SHM_MAY_RETURN)
			(void)atomic_fetch_and(&n_holders[i], ~SHM_MAY_RETURN);
}

/* The entry of this client, or a free one claimed for it, or NULL. */
static struct shm_acquaintance *entry_for(struct shm_slab *slab, uint32_t client, bool claim)
{
	uint32_t expected;

	for (unsigned i = 0; i < SHM_N_ACQUAINTED; i++)
		if (atomic_load_explicit(&slab->acquainted[i].client, memory_order_acquire) ==
		    client)
			return &slab->acquainted[i];
	for (unsigned i = 0; claim && i < SHM_N_ACQUAINTED; i++) {
		expected = 0;
		if (atomic_compare_exchange_strong(&slab->acquainted[i].client, &expected, client))
			return &slab->acquainted[i];
	}
	return NULL;
}

void shm_slab_acquaint(struct shm_slab_map *own, uint32_t client, uint32_t board)
{
	struct shm_acquaintance *a = entry_for(own->slab, client, true);

	if (a && board < SHM_N_BOARDS)
		(void)atomic_fetch_or_explicit(&a->boards[board / 64], 1ull << board % 64,
					       memory_order_release);
}

void shm_slab_forget(struct shm_slab_map *own, uint32_t client)
{
	struct shm_acquaintance *a = entry_for(own->slab, client, false);

	if (!a)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(a->boards); i++)
		atomic_store_explicit(&a->boards[i], 0, memory_order_relaxed);
	atomic_store_explicit(&a->client, 0, memory_order_release);
}

bool shm_slab_is_acquainted(const struct shm_slab_map *peer, uint32_t client, uint32_t board)
{
	const struct shm_acquaintance *a = entry_for(peer->slab, client, false);

	return a && board < SHM_N_BOARDS &&
	       (atomic_load_explicit(&a->boards[board / 64], memory_order_acquire) >> board % 64 &
		1);
}

/* Pairs with no load of its own: the head of a ring, published later, carries it. */
void shm_slab_count_connect(struct shm_slab_map *own)
{
	(void)atomic_fetch_add_explicit(&own->slab->n_connects, 1, memory_order_relaxed);
}

uint64_t shm_slab_connects(const struct shm_slab_map *peer)
{
	return atomic_load_explicit(&peer->slab->n_connects, memory_order_relaxed);
}
