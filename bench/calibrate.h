/* What the machine can do: the way of a cache line between two processes, and memcpy's rate. */
#ifndef PULC_BENCH_CALIBRATE_H
#define PULC_BENCH_CALIBRATE_H

#include <stddef.h>
#include <stdint.h>

struct bench_line_shared;

/* Made before the two processes part. From then on each has its own, and they share what `shared`
 * points to. */
struct bench_line {
	struct bench_line_shared *shared;
	uint64_t turn;
	uint64_t n_ended;
};

/* Returns 0 or a negative errno. */
int bench_line_init(struct bench_line *line);

/*
 * One process takes turns for so long while the other one answers, which returns when the first one
 * has enough. *ret_nsec: the median time of a cache line one way. Returns 0 or a negative errno.
 */
int bench_line_take_turns(struct bench_line *line, unsigned usec, double *ret_nsec);
void bench_line_answer(struct bench_line *line);

/* GB/s of copying `size` warm bytes from one buffer to another, for so long. Returns 0 or a
 * negative errno. */
int bench_copy(size_t size, unsigned usec, double *ret_rate);

#endif
