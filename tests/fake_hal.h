/*
 * A HAL for tests: two ends in one process, with the capabilities, faults and time that a test
 * wants.
 *
 * The same seed gives the same faults. Time stands still unless the test moves it.
 */
#ifndef PULC_TESTS_FAKE_HAL_H
#define PULC_TESTS_FAKE_HAL_H

#include "hal.h"

#define FAKE_N_EXPOSED 4u

struct fake_config {
	uint32_t flags; /* HAL_; HAL_IMMEDIATE: link[0] leads to itself, there is no link[1] */
	uint32_t frame_max;
	uint32_t n_gather;  /* 0: 1 */
	uint32_t alignment; /* 0: 1 */
	uint32_t n_queue;   /* frames on their way or unread, in each direction; then -EAGAIN */
	uint64_t seed;
	/* Faults, of a thousand frames. What is late is overtaken. */
	unsigned n_lost, n_twice, n_late;
	uint64_t nsec_delay, nsec_late;
};

struct fake_frame {
	uint64_t nsec_due;
	struct hal_frame frame;
	unsigned char *data;
};

struct fake_exposed {
	char *addr;
	size_t len;
	uint64_t key;
};

struct fake_write {
	uint64_t nsec_due;
	char *to;
	struct iovec iov[16];
	unsigned n;
	struct hal_frame notify;
	bool notifies;
	bool *ret_done; /* NULL: no write is on its way */
};

struct fake_end {
	struct hal_link link;
	struct fake_pair *pair;
	struct fake_frame *queue; /* what is on its way to this end, in the order of sending */
	unsigned n_queue;
	int shown; /* what next() has shown; -1: nothing */
	struct fake_exposed exposed[FAKE_N_EXPOSED];
	struct fake_write write; /* of this end: one at a time */
	void *reserved;
	uint32_t size_reserved;
	bool closed;
	hal_watch watch;
	unsigned events;
};

struct fake_pair {
	struct fake_config config;
	uint64_t nsec_now;
	uint64_t nsec_look; /* what a look at the time takes */
	uint64_t random;
	struct hal_link *link[2];
	struct fake_end end[2];
	bool black_hole;       /* everything is lost from now on, and nobody is told */
	unsigned n_violations; /* of the contract, by the HAL's user */
	unsigned n_woken[2];   /* tell() reached a watcher of that end */
	unsigned n_lost;       /* frames so far */
};

void fake_pair_init(struct fake_pair *p, const struct fake_config *config);
/* Whatever is still open is closed. */
void fake_pair_deinit(struct fake_pair *p);
/* The pair's time, for hal_repair_config. */
uint64_t fake_pair_now(void *pair);
/* A frame from nowhere, due at once. */
void fake_pair_inject(struct fake_pair *p, int to, const struct hal_frame *f, const void *data);
/* The other end's process is dead: what is on its way still comes. */
void fake_kill_end(struct fake_pair *p, int end);

#endif
