/*
 * A loopback connection whose two ends are bound to slabs that the test made itself: the tcp
 * protocol without psid and without libpulc.
 */
#ifndef PULC_TESTS_TCP_PAIR_H
#define PULC_TESTS_TCP_PAIR_H

#include "slab.h"
#include "tcp.h"

struct tcp_pair {
	int fd[2]; /* 0 connected, 1 accepted */
	struct tcp tcp[2];
	struct shm_slab_map own[2];  /* each end's own slab, writable */
	struct shm_slab_map seen[2]; /* each end's slab as the other maps it, read-only */
	int slab_fd[2];
};

/* What tcp_take_credit is set to. */
enum tcp_credit tcp_pair_grant_everything(uint64_t size);
extern const uint32_t tcp_pair_small_rings[SHM_N_RINGS];
extern const uint32_t tcp_pair_usual_rings[SHM_N_RINGS];

/* Makes a connection and its memory with rings of these sizes. Fails the test if it can't. */
void tcp_pair_init(struct tcp_pair *p, const uint32_t size_ring[SHM_N_RINGS]);
/* Lets both ends look at their rings: from then on either may switch. */
void tcp_pair_watch(struct tcp_pair *p);
void tcp_pair_deinit(struct tcp_pair *p);

/* One buffer through tcp_push and tcp_pull. */
ssize_t pair_push(struct tcp_pair *p, int end, const void *buf, size_t len);
ssize_t pair_pull(struct tcp_pair *p, int end, void *buf, size_t len, int flags);

/* The stream of every test: its bytes from position `at` on. */
void bytes_fill(unsigned char *buf, uint64_t at, size_t len);
bool bytes_match(const unsigned char *buf, uint64_t at, size_t len);

/* At most 4096 of them: through the protocol, behind its back, and received (exactly these). */
void pair_send(struct tcp_pair *p, int end, uint64_t at, size_t len);
void pair_send_kernel(struct tcp_pair *p, int end, uint64_t at, size_t len);
void pair_expect(struct tcp_pair *p, int end, uint64_t at, size_t len);
void pair_expect_kernel(struct tcp_pair *p, int end, uint64_t at, size_t len);

/* A slab as psid would make it: header filled, slot 0 ready. */
int slab_make(const uint32_t size_ring[SHM_N_RINGS], uint32_t n_slots, uint64_t *ret_size);

#endif
