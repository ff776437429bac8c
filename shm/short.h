/*
 * The usual case of shm_tx_write and shm_rx_read: a short message into a ring that has room for it, and out of one in which nothing else is unread.
 *
 * Whoever waits for an answer of a few bytes waits for the instructions of both sides, so they stand here in one piece, for the caller to be built
 * around them. What cannot be done in this way is left to those two, which do all of it.
 */
#ifndef PULC_SHM_SHORT_H
#define PULC_SHM_SHORT_H

#include "ring.h"

/*
 * Copies len bytes, 1 to SHM_INLINE, and publishes them. False: nothing was done, for there is no room by what was seen last. Under tx_lock. The
 * head's line comes last, all of it at once: a peer that spins on it takes it away as soon as it can.
 */
static inline __attribute__((always_inline)) bool shm_tx_write_short(struct shm_stream *s,
								     const void *buf, size_t len)
{
	uint32_t r = ring_tx_now(s);
	uint64_t head = ring_tx_position(s), room = ring_room_for(s, r, head, s->tail_seen);

	if (UNLIKELY(room < len))
		return false;
	ring_tx_ahead(s, r, head, len, room);
	ring_put(s, r, head, buf, len);
	STEP(RING_COPIED);
	ring_inline_put(s->own, head, buf, len);
	STEP(RING_INLINE);
	/* pairs with the acquire in ring_peer_head */
	atomic_store_explicit(&s->own->head, head + len, memory_order_release);
	STEP(RING_PUBLISHED);
	s->tx_head = head + len;
	shm_rx_answered(s);
	return true;
}

/*
 * All up to `head` was taken. The sender learns of its room when an eighth of the ring has gathered: of one that is empty but for less than that he knows
 * enough not to wait for room. True: he does now.
 */
static inline bool short_take(struct shm_stream *s, uint64_t head)
{
	atomic_store_explicit(&s->head_seen, head, memory_order_release);
	atomic_store_explicit(&s->own->rx_taken, head, memory_order_relaxed);
	STEP(RING_TAKEN);
	if (LIKELY(head - ring_load(&s->own->tail) < s->rx_size[s->rx_cur] / 8))
		return false;
	/* pairs with the acquire in ring_tx_look */
	atomic_store_explicit(&s->own->tail, head, memory_order_release);
	return true;
}

/* Copies and takes all that is unread, at most len bytes. 0: nothing was done. True in *ret_published as of shm_rx_read. Under rx_lock. */
static inline __attribute__((always_inline)) size_t shm_rx_read_short(struct shm_stream *s,
								      void *buf, size_t len,
								      bool *ret_published)
{
	uint64_t at = ring_load(&s->own->rx_taken), head, n;

	/* A backlog: its last message may be the one in the head's line, and that line is not needed. */
	if ((int64_t)(ring_load(&s->head_seen) - at) > 0)
		return 0;
	head = ring_peer_head(s);
	n = head - at;
	if (n - 1 >= MIN(len, (size_t)SHM_INLINE) || !ring_inline_get(s, at, buf, n))
		return 0;
	shm_rx_found(s, n, false);
	*ret_published = short_take(s, head);
	return n;
}

#endif
