/* A lying peer; see the header. */
#include "liar.h"

#include <stdatomic.h>

#include "harness.h"

const uint64_t liar_values[LIAR_N_VALUES] = {
	0,	    1,		15,    16,	   17,	       63,	   64,
	65,	    4095,	4096,  4097,	   UINT32_MAX, 1ull << 31, ~15ull,
	1ull << 32, 1ull << 62, ~0ull, ~0ull - 64, 1ull << 63, 5440,	   ~0ull >> 1,
};

static void *scribble(void *arg)
{
	struct liar *liar = arg;
	uint64_t x = 88172645463325252ull;

	while (!liar->stop) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		atomic_store_explicit(liar->words[x >> 60 & 1] + x % liar->n_words,
				      x & 1 ? x >> (x & 63) : liar_values[x % LIAR_N_VALUES],
				      memory_order_relaxed);
	}
	return NULL;
}

void liar_start(struct liar *liar)
{
	liar->stop = false;
	REQUIRE_INT(pthread_create(&liar->thread, NULL, scribble, liar), ==, 0);
}

void liar_stop(struct liar *liar)
{
	liar->stop = true;
	(void)pthread_join(liar->thread, NULL);
}
