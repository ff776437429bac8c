/* One message from psid, its descriptors already turned into what they are for. */
#ifndef PULC_LIB_RECEIVE_H
#define PULC_LIB_RECEIVE_H

#include "area.h"
#include "channel.h"
#include "slab.h"

struct received {
	const Pulc__Wire__ToClient *msg;
	bool keeps;   /* the descriptor of an own slab */
	bool is_seen; /* other threads see which numbers are free */
	/* What came and could be mapped: */
	struct shm_boards *boards;     /* Welcome, Introduce */
	struct shm_slab_map own, peer; /* Upgrade; else .slab is NULL */
	struct shm_area area;	       /* MessageArea; else .at is NULL */
	/* and what is kept as it is: */
	int bell;   /* Introduce; -1 */
	int socket; /* Joined, PortReply (a semaphore); -1 */
	int own_fd; /* Upgrade: of the own slab; -1: none came, or it can't be kept */
};

/* What a handler keeps it takes; the rest is undone by receive_done. */
#define TAKE_BOARDS(r)                                                                             \
	({                                                                                         \
		struct shm_boards *taken_ = (r)->boards;                                           \
		(r)->boards = NULL;                                                                \
		taken_;                                                                            \
	})
#define TAKE_SLAB(map)                                                                             \
	({                                                                                         \
		struct shm_slab_map taken_ = (map);                                                \
		(map).slab = NULL;                                                                 \
		taken_;                                                                            \
	})

/* Under the client lock. Returns 0; -EAGAIN: nothing there; -EPIPE: psid is gone; -EBADMSG: makes
 * no sense, skipped. */
int receive_message(int fd, struct received *ret);
void receive_done(struct received *r);

#endif
