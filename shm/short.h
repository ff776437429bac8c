/*
 * The usual case of streams and queues: a short message into a ring that has room for it, and out
 * of one in which nothing else is unread, or more is known to be than is wanted.
 *
 * Whoever waits for an answer of a few bytes waits for the instructions of both sides, so they
 * stand here in one piece, for the caller to be built around them. What cannot be done in this way
 * is left to stream.c and queue.c, which do all of it.
 */
#ifndef PULC_SHM_SHORT_H
#define PULC_SHM_SHORT_H

#include "ahead.h"
#include "queue.h"
#include "ring.h"

static_assert(SHM_SHORT_MOST < COPY_LONG, "what is short is not timed");

/*
 * Copies len bytes, 1 to SHM_SHORT_MOST, and publishes them. False: nothing was done, for there is
 * no room by what was seen last. Under tx_lock. The head's line comes last, all of it at once: a
 * peer that spins on it takes it away as soon as it can.
 */
static inline __attribute__((always_inline)) bool shm_tx_write_short(struct shm_stream *s,
								     const void *buf, size_t len)
{
	uint64_t head = ring_tx_position(s), room = ring_tx_room(s, head, len);
	uint32_t r = s->tx_cur;

	if (UNLIKELY(room < len))
		return false;
	ring_tx_ahead(s, r, head, len, room);
	ring_put(s, r, head, buf, len);
	STEP(RING_COPIED);
	if (LIKELY(len <= SHM_INLINE))
		ring_inline_put(s, head, buf, len);
	else
		ring_inline_none(s);
	STEP(RING_INLINE);
	/* pairs with the acquire in ring_peer_head */
	atomic_store_explicit(&s->own->head, head + len, memory_order_release);
	STEP(RING_PUBLISHED);
	s->tx_head = head + len;
	shm_rx_answered(s);
	return true;
}

/*
 * All up to `head` was taken. The sender learns of its room when an eighth of the ring has
 * gathered: of one that is empty but for less than that he knows enough not to wait for room, and
 * looks himself before he goes on elsewhere (shm_tx_write_untold). True: he does now.
 */
static inline bool short_take(struct shm_stream *s, uint64_t head)
{
	atomic_store_explicit(&s->head_seen, head, memory_order_release);
	ring_rx_took(s, head);
	STEP(RING_TAKEN);
	if (LIKELY(head - ring_load(&s->own->tail) < s->rx_size[s->rx_cur] / 8))
		return false;
	/* pairs with the acquire in ring_tx_look */
	atomic_store_explicit(&s->own->tail, head, memory_order_release);
	return true;
}

/* All that is unread, at most len bytes, out of the ring that is read now. False: it is more, or
 * lies elsewhere. */
static __attribute__((noinline)) bool short_read_ring(struct shm_stream *s, uint64_t at,
						      uint64_t head, void *buf, size_t len)
{
	uint64_t n = head - at;
	uint32_t r = s->rx_cur;

	if (n - 1 >= MIN(len, (size_t)SHM_SHORT_MOST) || n > s->rx_size[r] ||
	    !ring_rx_is_in(s, r, head))
		return false;
	ring_get(s, r, at, buf, n);
	STEP(RING_READ);
	shm_rx_found(s, n, SHM_RUN_MOST);
	shm_ahead_note(s, (uint32_t)n);
	return true;
}

/* Copies and takes all that is unread, at most len bytes. 0: nothing was done. True in
 * *ret_published as of shm_rx_read. Under rx_lock. */
static inline __attribute__((always_inline)) size_t shm_rx_read_short(struct shm_stream *s,
								      void *buf, size_t len,
								      bool *ret_published)
{
	uint64_t at = ring_load(&s->own->rx_taken), head, n;

	/* A backlog: its last message may be the one in the head's line, and that line is not
	 * needed. */
	if ((int64_t)(ring_load(&s->head_seen) - at) > 0)
		return 0;
	head = ring_peer_head(s);
	n = head - at;
	if (LIKELY(n - 1 < MIN(len, (size_t)SHM_INLINE)) &&
	    LIKELY(ring_inline_get(s, at, buf, n))) {
		shm_rx_found(s, n, 0);
		shm_ahead_note(s, 0);
	} else if (!short_read_ring(s, at, head, buf, len)) {
		return 0;
	}
	*ret_published = short_take(s, head);
	return n;
}

/*
 * Copies and takes the next len bytes, less than COPY_LONG, if they are known to be there, all of
 * them in the ring that is read now: no look is needed. 0: nothing was done. True in *ret_published
 * as of shm_rx_read. Under rx_lock.
 */
static inline __attribute__((always_inline)) size_t shm_rx_read_known(struct shm_stream *s,
								      void *buf, size_t len,
								      bool *ret_published)
{
	uint64_t at = ring_load(&s->own->rx_taken);
	/* pairs with the release of whoever has seen that head */
	uint64_t head = atomic_load_explicit(&s->head_seen, memory_order_acquire);
	uint32_t r = s->rx_cur;

	if (head - at < len || head - at > s->rx_size[r] || !ring_rx_is_in(s, r, at + len))
		return 0;
	ring_rx_ahead(s, r, at, head);
	ring_get(s, r, at, buf, len);
	STEP(RING_READ);
	*ret_published = ring_rx_take(s, at + len, head - at - len, UINT64_MAX);
	return len;
}

/* The peer has fetched the line that tells of the last message; the next one is written there. Asks
 * for it. */
static inline void shm_tx_ask(const struct shm_stream *s)
{
	line_ask_to_write(s->own);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

/* The longest payload that travels with the head, bytes. */
#define SHM_SHORT_DATAGRAM (SHM_INLINE - sizeof(struct shm_record))

/* A record of n words at the end, in the ring and then in the head's line. n is a constant, so that
 * they stay in registers. */
static inline __attribute__((always_inline)) void short_put_words(struct shm_stream *s, uint32_t r,
								  uint64_t head,
								  const uint64_t *words, size_t n)
{
	uint32_t mask = s->tx_size[r] - 1;

#pragma GCC unroll 6
	for (size_t i = 0; i < n; i++)
		memcpy(s->tx_ring[r] + ((head + 8 * i) & mask), &words[i], 8);
	ring_inline_begin(s);
	STEP(QUEUE_INLINE);
#pragma GCC unroll 6
	for (size_t i = 0; i < n; i++)
		atomic_store_explicit(&s->own->inlined[i], words[i], memory_order_relaxed);
	ring_inline_end(s, head);
	STEP(QUEUE_COPIED);
}

/* A longer one, at `to` in the ring. */
static __attribute__((noinline)) void short_put_bytes(struct shm_stream *s, unsigned char *to,
						      uint64_t stamp, uint64_t second,
						      const void *buf, size_t len)
{
	ring_inline_none(s);
	ring_store(to, 0, stamp);
	ring_store(to, 8, second);
	memcpy(to + sizeof(struct shm_record), buf, len);
	STEP(QUEUE_COPIED);
}

/*
 * Puts a datagram of len <= SHM_SHORT_MOST bytes at the end. False: nothing was done, for half of
 * the ring is filled, or it would lie around the ring's end. Under tx_lock.
 */
static inline __attribute__((always_inline)) bool shm_queue_put_short(struct shm_stream *s,
								      uint64_t stamp,
								      uint32_t flags,
								      const void *buf, size_t len)
{
	uint64_t words[SHM_INLINE / 8] = { 0 }, head = ring_tx_position(s), word;
	uint64_t second = (uint64_t)flags << 32 | len, size = shm_queue_size(len);
	uint32_t r = ring_tx_now(s);
	uint64_t least = s->tx_size[r] / 2 + size, room = ring_tx_room(s, head, least), pos;

	if (UNLIKELY(room < least)) {
		if (ring_tx_look(s, head) < 0)
			return false;
		room = ring_tx_find(s, head);
		if (room < least)
			return false;
	}
	pos = head & (s->tx_size[r] - 1);
	if (UNLIKELY(len > SHM_SHORT_DATAGRAM && pos + size > s->tx_size[r]))
		return false;
	ring_tx_ahead(s, r, head, size, room);
	if (UNLIKELY(len > SHM_SHORT_DATAGRAM)) {
		short_put_bytes(s, s->tx_ring[r] + pos, stamp, second, buf, len);
	} else if (LIKELY(len == sizeof(word))) {
		memcpy(&word, buf, sizeof(word));
		short_put_words(s, r, head, (const uint64_t[]){ stamp, second, word }, 3);
	} else {
		if (len) /* else there may be no buffer */
			memcpy(&words[2], buf, len);
		words[0] = stamp;
		words[1] = second;
		short_put_words(s, r, head, words, ARRAY_SIZE(words));
	}
	/* pairs with the acquire in ring_peer_head */
	atomic_store_explicit(&s->own->head, head + size, memory_order_release);
	STEP(QUEUE_PUBLISHED);
	s->tx_head = head + size;
	shm_rx_answered(s);
	return true;
}

/* As shm_queue_next, if all that is unread is one datagram, and it comes in the head's line: its
 * payload is in *d. False: nothing was found out. */
static inline __attribute__((always_inline)) bool shm_queue_next_short(struct shm_stream *s,
								       struct shm_datagram *d)
{
	uint64_t at = ring_load(&s->own->rx_taken), n;

	if ((int64_t)(ring_load(&s->head_seen) - at) > 0)
		return false;
	n = ring_peer_head(s) - at;
	if (n - 1 >= SHM_INLINE || !ring_inline_is(s, at))
		return false;
#pragma GCC unroll 6
	for (size_t i = 0; i < ARRAY_SIZE(d->words); i++)
		d->words[i] = ring_load(&s->peer->inlined[i]);
	atomic_thread_fence(memory_order_acquire);
	d->at = at;
	return ring_inline_is(s, at) && n >= sizeof(struct shm_record) &&
	       shm_queue_size(d->len) == n;
}

/* Takes it: d->len bytes, of which the caller has what it wants. Under rx_lock, while
 * shm_queue_holds. */
static inline void shm_queue_take_short(struct shm_stream *s, const struct shm_datagram *d)
{
	shm_rx_found(s, shm_queue_size(d->len), 0);
	(void)short_take(s, d->at + shm_queue_size(d->len));
}

#endif
