/*
 * How long the copies of long pieces take, at either end of a ring, and what follows from it: see
 * pace.c.
 */
#include "ring.h"

void ring_put_timed(struct shm_stream *s, uint32_t r, uint64_t at, size_t size, uint64_t begun)
{
	const struct shm_timed t = { at, size, s->tx_size[r], nsec_now() - begun };

	if (shm_pace_wrote(&s->pace, &t, ring_load(&s->peer->pace_read)))
		atomic_store_explicit(&s->own->pace_since, s->pace.since, memory_order_relaxed);
}

void ring_got_timed(struct shm_stream *s, uint32_t r, uint64_t at, size_t size, uint64_t begun)
{
	const struct shm_timed t = { at, size, s->rx_size[r], nsec_now() - begun };
	uint64_t told = shm_pace_read(&s->pace_reader, &t, ring_load(&s->peer->pace_since));

	if (told)
		atomic_store_explicit(&s->own->pace_read, told, memory_order_relaxed);
}
