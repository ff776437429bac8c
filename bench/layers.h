/* Ways in which a message can go between two processes: bench/layers.c measures them,
 * bench/layers_hal.c has the lowest one. */
#ifndef PULC_BENCH_LAYERS_H
#define PULC_BENCH_LAYERS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/* One end of a way. fd: a TCP connection to the other end, with nothing in it. */
struct bench_end {
	int fd;
	bool server;
	void *state; /* the way's */
	char *out, *in;
	size_t size;
};

/* All return 0 or a negative errno. */
struct bench_way {
	const char *name;
	/* Where something must be there before the two processes part; NULL: nothing. */
	int (*prepare)(void);
	int (*open)(struct bench_end *end);
	/* Sends end->out, or receives into end->in, or both at the same time, end->size bytes each;
	 * blocks until that is done. */
	int (*move)(struct bench_end *end, bool send, bool receive);
	void (*close)(struct bench_end *end);
};

/* The bare HAL of two processes of one node (hal/shm.c): rings of its own, nobody else to wait for,
 * both ends spin. */
extern const struct bench_way bench_way_hal;

#endif
