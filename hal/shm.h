/* The HAL of two processes of one node: the rings of a connection that psid has made. */
#ifndef PULC_HAL_SHM_H
#define PULC_HAL_SHM_H

#include "hal.h"
#include "slab.h"

/* Set once by libpulc. Grants bytes to grow a ring with; takes them back; wakes whoever placed this watch. */
extern bool (*hal_shm_take_credit)(uint64_t size) __attribute__((visibility("hidden")));
extern void (*hal_shm_return_credit)(uint64_t size) __attribute__((visibility("hidden")));
extern void (*hal_shm_wake)(uint64_t watch) __attribute__((visibility("hidden")));

/*
 * A link over a connection's two slots; the maps must stay mapped until it is closed. 0; -ENOMEM; -EBADMSG: no such
 * slot, or rings too small for any frame.
 */
int hal_shm_open(const struct shm_slab_map *own, uint32_t own_slot, const struct shm_slab_map *peer,
		 uint32_t peer_slot, struct hal_link **ret_link);

#endif
