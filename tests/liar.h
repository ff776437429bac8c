/* What a lying peer writes into the memory that it shares with us. */
#ifndef PULC_TESTS_LIAR_H
#define PULC_TESTS_LIAR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Values that could hurt, wherever they are believed. */
#define LIAR_N_VALUES 21u
extern const uint64_t liar_values[LIAR_N_VALUES];

/* A thread that scribbles over two places, which may be one, as fast as it can. */
struct liar {
	_Atomic uint64_t *words[2];
	uint64_t n_words; /* of each */
	_Atomic bool stop;
	pthread_t thread;
};
void liar_start(struct liar *liar);
void liar_stop(struct liar *liar);

#endif
