/*
 * Rounds: a measurement in pieces of some milliseconds, with the machine's floor between them.
 *
 * The host of a virtual machine moves its processors about, and the way of a cache line between two
 * of them becomes several times as long, or as short, for milliseconds or minutes. A figure can be
 * compared only with the floor of its own moment. So the two processes that exchange messages
 * measure the floor themselves, between the messages and without a sleep, for a processor that
 * sleeps may wake up elsewhere. Who reads the lines takes the rounds with the same floor on both
 * sides (bench/rounds.py).
 */
#include "rounds.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#define USEC_LINE 500u
#define USEC_COPY 500u

#define SIZE_PAGE 4096u

/* Written once a round: to look at it costs no line's way. */
struct bench_asked {
	_Atomic unsigned n;
};

int bench_rounds_init(struct bench_rounds *rounds)
{
	void *at;

	if (rounds->n > BENCH_N_ROUNDS_MAX)
		return -EINVAL;
	if (!rounds->n)
		return 0;
	at = mmap(NULL, SIZE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	rounds->asked = at;
	return bench_line_init(&rounds->line);
}

void bench_rounds_ask(struct bench_rounds *rounds)
{
	if (rounds->n)
		atomic_fetch_add_explicit(&rounds->asked->n, 1, memory_order_relaxed);
}

bool bench_rounds_asked(struct bench_rounds *rounds)
{
	if (!rounds->n ||
	    atomic_load_explicit(&rounds->asked->n, memory_order_relaxed) == rounds->n_answered)
		return false;
	rounds->n_answered++;
	return true;
}

int bench_rounds_floor(struct bench_rounds *rounds)
{
	unsigned at = rounds->n_floors;
	int r;

	if (!rounds->n)
		return 0;
	if (at > BENCH_N_ROUNDS_MAX)
		return -ENOSPC;
	if (rounds->size_copy) {
		r = bench_copy(rounds->size_copy, USEC_COPY, &rounds->copy_rate[at]);
		if (r < 0)
			return r;
	}
	rounds->n_floors++;
	return bench_line_take_turns(&rounds->line, USEC_LINE, &rounds->line_nsec[at]);
}

void bench_rounds_floor_of_peer(struct bench_rounds *rounds)
{
	if (rounds->n)
		bench_line_answer(&rounds->line);
}

void bench_rounds_add(struct bench_rounds *rounds, double figure)
{
	if (rounds->n_figures < BENCH_N_ROUNDS_MAX)
		rounds->figures[rounds->n_figures++] = figure;
}

void bench_rounds_print(const struct bench_rounds *rounds)
{
	if (!rounds->n)
		return;
	for (unsigned i = 0; i < rounds->n_floors; i++)
		printf("%s%.1f:%.2f", i ? "," : " floors=", rounds->line_nsec[i],
		       rounds->copy_rate[i]);
	for (unsigned i = 0; i < rounds->n_figures; i++)
		printf("%s%.3f", i ? "," : " rounds=", rounds->figures[i]);
}
