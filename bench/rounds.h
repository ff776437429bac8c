/* A measurement in rounds, with what the machine can do before the first one and after each. */
#ifndef PULC_BENCH_ROUNDS_H
#define PULC_BENCH_ROUNDS_H

#include "calibrate.h"

#include <stdbool.h>

#define BENCH_N_ROUNDS_MAX 100u

struct bench_rounds {
	unsigned n;	  /* how many are asked for; 0: one, and no floor */
	size_t size_copy; /* a floor is memcpy's rate for this size as well; 0: it is not */
	struct bench_line line;
	struct bench_asked *asked; /* shared */
	unsigned n_answered;
	unsigned n_floors;
	unsigned n_figures;
	double line_nsec[BENCH_N_ROUNDS_MAX + 1];
	double copy_rate[BENCH_N_ROUNDS_MAX + 1];
	double figures[BENCH_N_ROUNDS_MAX];
};

/* Before the two processes part. Returns 0 or a negative errno. */
int bench_rounds_init(struct bench_rounds *rounds);

/* Into how many the time of a measurement is to be divided. */
static inline unsigned bench_rounds_count(const struct bench_rounds *rounds)
{
	return rounds->n ? rounds->n : 1;
}

/*
 * The floor, which one process measures and the other one helps with, before the first round and
 * after each. Nothing, if no rounds were asked for. The first one returns 0 or a negative errno.
 */
int bench_rounds_floor(struct bench_rounds *rounds);
void bench_rounds_floor_of_peer(struct bench_rounds *rounds);

/*
 * For a receiver that measures, and a sender that does not know the time: who wants the floor asks,
 * and goes on receiving until the sender, who looks now and then, has said in a message that it
 * helps with the floor next.
 */
void bench_rounds_ask(struct bench_rounds *rounds);
bool bench_rounds_asked(struct bench_rounds *rounds);

void bench_rounds_add(struct bench_rounds *rounds, double figure);

/* Continues a line of figures: floors=ns:GB/s,... rounds=figure,... Nothing, if no rounds were
 * asked for. */
void bench_rounds_print(const struct bench_rounds *rounds);

#endif
