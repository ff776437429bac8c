/* Slabs: the memory of many connections between two processes, mapped once. */
#ifndef PULC_SHM_SLAB_H
#define PULC_SHM_SLAB_H

#include <stdbool.h>

#include "stream.h"

/* A slab as this process maps it; the geometry is a private copy, checked against the file's
 * size. */
struct shm_slab_map {
	struct shm_slab *slab;
	uint64_t ino; /* of the memfd: what both sides and psid know the slab by */
	uint64_t size;
	uint64_t size_slot;
	uint32_t n_slots;
	uint32_t size_ring[SHM_N_RINGS];
};

/* Maps the memfd; size is what psid said. Returns 0; -EBADMSG: header, size and file disagree;
 * other negative errno. */
int shm_slab_map(int fd, uint64_t size, bool writable, struct shm_slab_map *ret_map);
void shm_slab_unmap(struct shm_slab_map *map);

/* A slab that no psid has made, all its slots ready. Returns a memfd that is the caller's, or a
 * negative errno. */
int shm_slab_new(const uint32_t size_ring[SHM_N_RINGS], uint32_t n_slots, uint64_t *ret_size);

struct shm_side *shm_slab_side(const struct shm_slab_map *map, uint32_t slot);

/* Binds a connection's two slots. Returns 0; -EBADMSG: no such slot. */
int shm_stream_bind(struct shm_stream *s, const struct shm_slab_map *own, uint32_t own_slot,
		    const struct shm_slab_map *peer, uint32_t peer_slot);

/* Is it a slot of this slab, which is the stream's own? */
bool shm_slab_holds(const struct shm_slab_map *own, const struct shm_stream *s);
/* Of all who have let go of slots of the own slab, and could be seen to come back, none does any
 * more. */
void shm_slab_none_returns(struct shm_slab_map *own);

/* Says in the own slab that this process can ring that board by itself, or no longer can. Not found
 * room: nothing is said. */
void shm_slab_acquaint(struct shm_slab_map *own, uint32_t client, uint32_t board);
void shm_slab_forget(struct shm_slab_map *own, uint32_t client);
/* Does the owner of the peer's slab say so of a board of ours? */
bool shm_slab_is_acquainted(const struct shm_slab_map *peer, uint32_t client, uint32_t board);

/* The owner has begun a connection; how many the owner of the peer's slab has begun, which is only
 * good to be compared. What it publishes in a ring afterwards is seen later than this. */
void shm_slab_count_connect(struct shm_slab_map *own);
uint64_t shm_slab_connects(const struct shm_slab_map *peer);

#endif
