/* The sizes and offsets within a slab. */
#ifndef PULC_SHM_GEOMETRY_H
#define PULC_SHM_GEOMETRY_H

#include "layout.h"

/* Byte offset of ring r within a slot, for rings of these sizes. */
uint64_t shm_slot_ring_offset(const uint32_t size_ring[SHM_N_RINGS], uint32_t r);
/* Size of a slot with rings of these sizes. */
uint64_t shm_slot_size(const uint32_t size_ring[SHM_N_RINGS]);
/* Does a copy of a slab's header make sense for a file of this size? Returns 0; -EBADMSG. */
int shm_slab_check(const struct shm_slab *header, uint64_t size);

#endif
