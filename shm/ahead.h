/*
 * Lines that are asked for before what is to be read or written there is known to be.
 *
 * What does not come with the news of it has to be fetched behind that, a line's way more; and the
 * next message is written into lines that the peer has read before, one more way. So who waits for
 * an answer, after a message of some size, asks for the lines of one of that size in both rings:
 * all of them make their ways at the same time. All of it is a hint, and read without locks.
 */
#ifndef PULC_SHM_AHEAD_H
#define PULC_SHM_AHEAD_H

#include "line.h"
#include "ring.h"

/* Bytes that are asked for. */
#define SHM_AHEAD_MOST 256u

/* What was taken last: bytes in the ring, if they lay elsewhere than the news of them, else 0. */
static inline void shm_ahead_note(struct shm_stream *s, uint32_t size)
{
	atomic_store_explicit(&s->size_apart, size, memory_order_relaxed);
}

/* Where the next bytes will lie, and where those that are sent next, if they are like the last
 * ones; size 0: they need not be asked for. tx: where is sent to, which may be rx; NULL:
 * nowhere. */
struct shm_ahead {
	const char *rx, *tx;
	uint32_t size;
};
static inline struct shm_ahead shm_ahead(const struct shm_stream *rx, const struct shm_stream *tx)
{
	struct shm_ahead ahead = { .size = atomic_load_explicit(&rx->size_apart,
								memory_order_relaxed) };

	if (LIKELY(!ahead.size))
		return ahead;
	ahead.rx = (const char *)rx->rx_ring[rx->rx_cur] +
		   (shm_taken(rx) & (rx->rx_size[rx->rx_cur] - 1));
	if (LIKELY(tx))
		ahead.tx = (const char *)tx->tx_ring[tx->tx_cur] +
			   (shm_sent(tx) & (tx->tx_size[tx->tx_cur] - 1));
	return ahead;
}

static inline void shm_ahead_ask(const struct shm_ahead *ahead)
{
	for (uint32_t i = 0; i < MIN(ahead->size, SHM_AHEAD_MOST); i += RING_SIZE_LINE) {
		line_ask(ahead->rx + i);
		if (LIKELY(ahead->tx))
			line_ask_to_write(ahead->tx + i);
	}
}

#endif
