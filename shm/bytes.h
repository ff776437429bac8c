/*
 * A record of some bytes, on a short way from one process to another: from the sender's buffer into
 * the ring in one piece, its header out of registers, and from the ring into the receiver's buffer.
 *
 * As word.h for what does not fit into the line that both sides of a link write: there only the
 * news of it is told, and who has it fetches the ring's lines. A receiver who expects such a record
 * asks for both at once. What goes this way is a record of queue.h like any other, at its turn; one
 * that lies around a ring's end, or is longer, goes by queue.c.
 */
#ifndef PULC_SHM_BYTES_H
#define PULC_SHM_BYTES_H

#include <string.h>

#include "ahead.h"
#include "exchange.h"
#include "queue.h"
#include "ring.h"

struct shm_bytes {
	uint64_t stamp;
	uint32_t len, flags;
	/* Of one that was found: where it begins, what it takes in the ring, and its payload there;
	 * what was told of it, if it is the only one. */
	uint64_t at, size;
	const unsigned char *payload;
	uint64_t mark;
};

/* Sends it to a peer who looks in the line, if there is room by what was seen last. False: nothing
 * is done. Under tx_lock. */
static inline bool shm_bytes_put(struct shm_stream *s, uint64_t stamp, uint32_t flags,
				 const void *buf, uint32_t len)
{
	uint64_t head = ring_tx_position(s), size = shm_queue_size(len);
	uint64_t room = ring_tx_room(s, head, size);
	uint32_t r = s->tx_cur;
	uint64_t pos = head & (s->tx_size[r] - 1);
	unsigned char *to = s->tx_ring[r] + pos;

	if (UNLIKELY(room < size || pos + size > s->tx_size[r]))
		return false;
	ring_tx_ahead(s, r, head, size, room);
	ring_inline_none(s);
	ring_store(to, 0, stamp);
	ring_store(to, 8, (uint64_t)flags << 32 | len);
	if (len) /* else there may be no buffer */
		memcpy(to + sizeof(struct shm_record), buf, len);
	STEP(QUEUE_COPIED);
	head += size;
	/* pairs with the acquire in ring_peer_head */
	atomic_store_explicit(&s->own->head, head, memory_order_release);
	STEP(QUEUE_PUBLISHED);
	s->tx_head = head;
	exchange_tell(s->telling, head, NULL, 0);
	s->has_just_told = true;
	shm_rx_answered(s);
	return true;
}

/* The record at b->at, if n bytes are there and it is among them, in one piece, in the ring that is
 * read now. Its header is a copy, and its length is checked. */
static inline bool bytes_find(const struct shm_stream *s, uint64_t n, struct shm_bytes *b)
{
	uint32_t r = s->rx_cur;
	uint64_t pos = b->at & (s->rx_size[r] - 1), header[2];
	const unsigned char *from = s->rx_ring[r] + pos;

	if (UNLIKELY(n < sizeof(header) || n > s->rx_size[r]))
		return false;
	memcpy(header, from, sizeof(header));
	b->stamp = header[0];
	b->len = (uint32_t)header[1];
	b->flags = (uint32_t)(header[1] >> 32);
	b->size = shm_queue_size(b->len);
	b->payload = from + sizeof(struct shm_record);
	return LIKELY(b->len <= SHM_SHORT_MOST && b->size <= n && pos + b->size <= s->rx_size[r]) &&
	       LIKELY(ring_rx_is_in(s, r, b->at + b->size));
}

/* The next record, if it is the only one there. */
static inline bool shm_bytes_look(const struct shm_stream *s, struct shm_bytes *ret_b)
{
	uint64_t n;

	ret_b->at = shm_taken(s);
	/* pairs with the release in exchange_tell */
	ret_b->mark = atomic_load_explicit(&s->told->mark, memory_order_acquire);
	/* What came along, or begins to, is to be taken from the line, or judged. */
	if (UNLIKELY(SHM_MARK_N(ret_b->mark) != 0))
		return false;
	n = SHM_MARK_HEAD(ret_b->mark) - SHM_MARK_HEAD(SHM_MARK(ret_b->at, 0));
	return bytes_find(s, n, ret_b) && n == ret_b->size;
}

/* The next of several that are known to be there. */
static inline bool shm_bytes_next(const struct shm_stream *s, struct shm_bytes *ret_b)
{
	/* pairs with the release of whoever has seen that head */
	uint64_t head = atomic_load_explicit(&s->head_seen, memory_order_acquire);

	ret_b->at = shm_taken(s);
	ret_b->mark = SHM_MARK_NONE;
	return bytes_find(s, head - ret_b->at, ret_b);
}

/* The one that was found is taken; is_only: by shm_bytes_look. True: the room for it was
 * published. */
static inline bool shm_bytes_took(struct shm_stream *s, const struct shm_bytes *b, bool is_only)
{
	uint64_t taken = b->at + b->size;

	shm_ahead_note(s, (uint32_t)b->size);
	if (is_only) {
		atomic_store_explicit(&s->head_seen, taken, memory_order_relaxed);
		shm_rx_found(s, b->size, 0);
	}
	return ring_rx_take(s, taken,
			    atomic_load_explicit(&s->head_seen, memory_order_relaxed) - taken,
			    RING_GIVEN);
}

#endif
