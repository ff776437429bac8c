/* The HAL of two processes of one node: the rings of a connection that psid has made. */
#ifndef PULC_HAL_SHM_H
#define PULC_HAL_SHM_H

#include "hal.h"
#include "slab.h"

/* The line of a link (shm/exchange.h). */
struct hal_shm_line {
	struct shm_exchange *at; /* NULL: none yet */
	uint64_t name;		 /* as both sides say it */
	uint32_t client;	 /* the peer */
	bool ours;		 /* of this process's making: the first half is ours */
};

/* Set once by libpulc. Grants bytes to grow a ring with; takes them back; wakes whoever placed this
 * watch. */
extern bool (*hal_shm_take_credit)(uint64_t size) __attribute__((visibility("hidden")));
extern void (*hal_shm_return_credit)(uint64_t size) __attribute__((visibility("hidden")));
extern void (*hal_shm_wake)(uint64_t watch) __attribute__((visibility("hidden")));
/*
 * A line that this process and that client both write, by the name that the client says (any
 * value). The same one until it is returned. NULL: no such line, or not now.
 */
extern struct shm_exchange *(*hal_shm_find_line)(uint32_t client, uint64_t name)
	__attribute__((visibility("hidden")));
extern void (*hal_shm_return_line)(const struct hal_shm_line *line, bool peer_is_done)
	__attribute__((visibility("hidden")));

/*
 * A link over a connection's two slots; the maps must stay mapped until it is closed. 0; -ENOMEM;
 * -EBADMSG: no such slot, or rings too small for any frame.
 */
int hal_shm_open(const struct shm_slab_map *own, uint32_t own_slot, const struct shm_slab_map *peer,
		 uint32_t peer_slot, struct hal_link **ret_link);
/* Tells it of a line of ours, or of whose line it is to look for (at: NULL), before anything is
 * sent. */
void hal_shm_share(struct hal_link *link, const struct hal_shm_line *line);

#endif
