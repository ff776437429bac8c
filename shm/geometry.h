/* The sizes and offsets within a slab. */
#ifndef PULC_SHM_GEOMETRY_H
#define PULC_SHM_GEOMETRY_H

#include "layout.h"

/* Byte offset of ring r within a slot, for rings of these sizes. */
uint64_t shm_slot_ring_offset(const uint32_t size_ring[SHM_N_RINGS], uint32_t r);
/* Size of a slot with rings of these sizes. */
uint64_t shm_slot_size(const uint32_t size_ring[SHM_N_RINGS]);
/* Byte offset of a slot within the slab. */
uint64_t shm_slot_at(uint64_t size_slot, uint32_t slot);
/* Does a copy of what a slab's header states make sense for a file of this size? Returns 0;
 * -EBADMSG. */
int shm_slab_check(const struct shm_geometry *header, uint64_t size);

#endif
