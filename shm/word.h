/*
 * A record of one word or of none, on the shortest way from one process to another: out of
 * registers into the line that both sides of a link write, and out of it into registers
 * (exchange.h).
 *
 * For links, whose sides are held by one process each, under its lock. What goes this way is a
 * record of queue.h like any other, at its turn, and whoever does not find it here finds it in the
 * ring; nothing but time is lost by going that way. In a stream all are found there, and here is a
 * shorter way for them too.
 */
#ifndef PULC_SHM_WORD_H
#define PULC_SHM_WORD_H

#include "exchange.h"
#include "ring.h"

struct shm_word {
	uint64_t stamp;
	uint32_t len; /* bytes, up to 8 */
	uint32_t flags;
	uint64_t payload; /* the first byte is the lowest one */
	/* Of one that was found: what it takes in the ring, and, if it was found in the line, what
	 * was told of it. */
	uint64_t size, mark;
};

/* What a record of so many bytes, up to 8, takes in a ring. */
static inline uint64_t shm_word_size(uint32_t len)
{
	return LIKELY(len) ? EXCHANGE_SIZE_WORD : EXCHANGE_SIZE_EMPTY;
}

/* Sends it to a peer who looks in the line, if there is room by what was seen last. False: nothing
 * is done. Built for a length that is known. */
static inline __attribute__((always_inline)) bool shm_word_put(struct shm_stream *s,
							       const struct shm_word *w)
{
	const uint64_t record[] = { w->stamp, (uint64_t)w->flags << 32 | w->len, w->payload };
	uint64_t head = ring_tx_position(s), size = shm_word_size(w->len);
	uint64_t room = ring_tx_room(s, head, size);
	uint32_t r = s->tx_cur, mask = s->tx_size[r] - 1;
	unsigned char *ring = s->tx_ring[r];

	if (UNLIKELY(room < size))
		return false;
	ring_tx_ahead(s, r, head, size, room);
	ring_store(ring, head & mask, record[0]);
	ring_store(ring, (head & mask) + 8, record[1]);
	if (w->len)
		ring_store(ring, (head + sizeof(struct shm_record)) & mask, record[2]);
	STEP(QUEUE_COPIED);
	head += size;
	/* pairs with the acquire in ring_peer_head */
	atomic_store_explicit(&s->own->head, head, memory_order_release);
	STEP(QUEUE_PUBLISHED);
	s->tx_head = head;
	exchange_tell_record(s, head, record, w->len ? SHM_TOLD : EXCHANGE_TOLD_EMPTY);
	s->has_just_told = true;
	shm_rx_answered(s);
	return true;
}

/*
 * True once behind a put, if nothing is known to be there: what was told is still on its way, so
 * there is no answer to it, and to look now would call the line back.
 */
static inline bool shm_word_is_early(struct shm_stream *s)
{
	bool is_early = s->has_just_told &&
			atomic_load_explicit(&s->head_seen, memory_order_relaxed) == shm_taken(s);

	s->has_just_told = false;
	return is_early;
}

/* The next record, if it is the only one there and came with the news of it. It is a copy, and its
 * length is checked. */
static inline bool shm_word_look(const struct shm_stream *s, struct shm_word *ret_w)
{
	uint64_t record[SHM_TOLD / 8], taken = shm_taken(s);

	/* Where more is known of, nobody looks: it would take the line from its writer. */
	if (UNLIKELY(!s->told ||
		     atomic_load_explicit(&s->head_seen, memory_order_relaxed) != taken))
		return false;
	ret_w->mark = exchange_take_record(s->told, taken, record);
	if (!ret_w->mark)
		return false;
	ret_w->stamp = record[0];
	ret_w->len = (uint32_t)record[1];
	ret_w->flags = (uint32_t)(record[1] >> 32);
	ret_w->payload = record[2];
	ret_w->size = shm_word_size(ret_w->len);
	return LIKELY(ret_w->len <= sizeof(ret_w->payload) &&
		      SHM_MARK_HEAD(ret_w->mark) ==
			      SHM_MARK_HEAD(SHM_MARK(taken + ret_w->size, 0)));
}

/* The next record, if it is known to be there whole, in the ring that is read now. It is a copy,
 * and its length is checked. */
static inline bool shm_word_next(const struct shm_stream *s, struct shm_word *ret_w)
{
	uint64_t record[2], at = shm_taken(s);
	/* pairs with the release of whoever has seen that head */
	uint64_t head = atomic_load_explicit(&s->head_seen, memory_order_acquire);
	uint32_t r = s->rx_cur, mask = s->rx_size[r] - 1;

	if (UNLIKELY(head - at < sizeof(record) || head - at > s->rx_size[r]))
		return false;
	ring_rx_ahead(s, r, at, head);
	memcpy(record, s->rx_ring[r] + (at & mask), sizeof(record));
	ret_w->stamp = record[0];
	ret_w->len = (uint32_t)record[1];
	ret_w->flags = (uint32_t)(record[1] >> 32);
	ret_w->size = shm_word_size(ret_w->len);
	if (UNLIKELY(ret_w->len > sizeof(ret_w->payload) || head - at < ret_w->size ||
		     !ring_rx_is_in(s, r, at + ret_w->size)))
		return false;
	if (LIKELY(ret_w->len))
		memcpy(&ret_w->payload, s->rx_ring[r] + ((at + sizeof(record)) & mask), 8);
	return true;
}

/* The one that was found is taken. True: the room for it was published. */
static inline bool shm_word_took(struct shm_stream *s, const struct shm_word *w)
{
	uint64_t taken = shm_taken(s) + w->size;
	uint64_t left = atomic_load_explicit(&s->head_seen, memory_order_relaxed) - taken;

	/* It came with the news of it. */
	if ((int64_t)left < 0) {
		left = 0;
		atomic_store_explicit(&s->head_seen, taken, memory_order_relaxed);
		shm_rx_found(s, w->size, 0);
	}
	return ring_rx_take(s, taken, left, RING_GIVEN);
}

/* The same of the only one there, which came with the news of it and takes EXCHANGE_SIZE_WORD from
 * `taken` on. */
static inline bool shm_word_took_only(struct shm_stream *s, uint64_t taken)
{
	taken += EXCHANGE_SIZE_WORD;
	atomic_store_explicit(&s->head_seen, taken, memory_order_relaxed);
	shm_rx_found(s, EXCHANGE_SIZE_WORD, 0);
	return ring_rx_take(s, taken, 0, RING_GIVEN);
}

#endif
