/* The two ends of a HAL shm link in one process, and what libpulc would do for it. */
#ifndef PULC_TESTS_SHM_LINKS_H
#define PULC_TESTS_SHM_LINKS_H

#include "shm.h"

struct shm_links {
	struct hal_link *link[2];
	struct shm_slab_map own[2], seen[2];
	int fd[2];
	struct shm_exchange line; /* for shm_links_share */
};

/* Bytes that psid would still grant; wake-ups so far. */
extern uint64_t shm_links_credit;
extern unsigned shm_links_n_wakes;

void shm_links_init(struct shm_links *p, const uint32_t size_ring[SHM_N_RINGS]);
/* The first side makes a line for both; the second one finds it when it has sent some frames. */
void shm_links_share(struct shm_links *p);
/* Lines that were returned, and of them those that may be used again. */
extern unsigned shm_links_n_returned, shm_links_n_done;
/* Closes what is still open. */
void shm_links_deinit(struct shm_links *p);

#endif
