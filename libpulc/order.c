/*
 * The times of sends that are no answers, as the stream's own state knows it: see order.h.
 *
 * A message that was too long for the short way leaves no trace in turn.h, so its answer is told by
 * what the peer has read as well. To look at that fetches a line that the peer writes with each
 * receive: who serves many connections in turn, and hears nothing of them, pays for it.
 */
#include "order.h"

__thread const struct pulc_stream *order_last;

PULC_EXPORT uint32_t pulc_when(void)
{
	uint64_t ticks = pulse_ticks();

	return ticks ? order_when(ticks) : 0;
}

void __attribute__((noinline)) order_note(struct pulc_stream *s)
{
	struct shm_stream *ring = &s->tcp.ring;
	uint64_t ticks = pulse_ticks();

	if (ticks && (!shm_tx_noted(ring) || shm_tx_is_read(ring)))
		shm_tx_note(ring, order_when(ticks));
}
