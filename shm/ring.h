/*
 * The rings of one direction: where a byte number lies, how much room and how much to read there
 * is, and copying around the end. For shm/stream.c (a row of bytes) and shm/queue.c (a row of
 * datagrams), which hold the locks.
 */
#ifndef PULC_SHM_RING_H
#define PULC_SHM_RING_H

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "copy.h"
#include "line.h"
#include "step.h"
#include "stream.h"

static inline uint64_t ring_load(const _Atomic uint64_t *w)
{
	return atomic_load_explicit(w, memory_order_relaxed);
}

static inline void ring_copy(void *to, const void *from, size_t len)
{
	if (len == 8)
		memcpy(to, from, 8);
	else
		memcpy(to, from, len);
}

/* Where we write next. Only a lone process remembers it. */
static inline uint64_t ring_tx_position(struct shm_stream *s)
{
	uint32_t joined = atomic_load_explicit(&shm_joined, memory_order_acquire);

	if (UNLIKELY(s->tx_known != joined)) {
		s->tx_head = ring_load(&s->own->head);
		s->tx_known = atomic_load(s->own_holders) == 1 ? joined : 0;
		s->tx_until = s->tx_head;
	}
	return s->tx_head;
}

/* Another process of the family may have gone on to a larger ring. */
static inline uint32_t ring_tx_now(struct shm_stream *s)
{
	while (UNLIKELY(s->tx_cur + 1 < SHM_N_RINGS) &&
	       ring_load(&s->own->ring_at[s->tx_cur + 1]) != SHM_NOT_BEGUN)
		s->tx_cur++;
	return s->tx_cur;
}

/* Room in ring r, given head and a tail: what lies in earlier rings takes no room here. */
static inline uint64_t ring_room_for(const struct shm_stream *s, uint32_t r, uint64_t head,
				     uint64_t tail)
{
	uint64_t begun = ring_load(&s->own->ring_at[r]);
	uint64_t from = (int64_t)(tail - begun) > 0 ? tail : begun;
	uint64_t used = head - from;

	return used >= s->tx_size[r] ? 0 : s->tx_size[r] - used;
}

/* Room at head, the writer's position, by what was seen last; from now on in ring tx_cur. */
uint64_t ring_tx_find(struct shm_stream *s, uint64_t head) __attribute__((visibility("hidden")));
/* The same, if that is at least so much; else perhaps less. What a lone process has found stays
 * true: a tail only grows, and so does a ring. */
static inline uint64_t ring_tx_room(struct shm_stream *s, uint64_t head, uint64_t least)
{
	uint64_t room = s->tx_until - head;

	return LIKELY((int64_t)room >= (int64_t)least) ? room : ring_tx_find(s, head);
}

static inline int ring_tx_look(struct shm_stream *s, uint64_t head)
{
	/* pairs with the release in ring_rx_take */
	uint64_t tail = atomic_load_explicit(&s->peer->tail, memory_order_acquire);

	if (head - tail > head - s->tail_seen)
		return -EBADMSG;
	s->tail_seen = tail;
	return 0;
}

/* With so much known to be there, the reader is behind. */
#define RING_BACKLOG (32u << 10)

/* A long piece goes past this processor's caches, or not, whichever costs its writer and its reader
 * less (pace.c). Done before the head is stored that tells of it. */
static inline void ring_copy_out(const struct shm_stream *s, void *to, const void *from, size_t len)
{
	if (len >= COPY_LONG && s->pace.past)
		copy_past(to, from, len);
	else if (len >= COPY_LONG)
		copy_long(to, from, len);
	else
		ring_copy(to, from, len);
}

static inline void ring_copy_in(void *to, const void *from, size_t len, bool backlog)
{
	if (len >= COPY_LONG && backlog)
		copy_backlog(to, from, len);
	else if (len >= COPY_LONG)
		copy_long(to, from, len);
	else
		ring_copy(to, from, len);
}

/* An aligned word of a ring. Two of them are not to become one wide store out of memory, which
 * would wait for both to be there. */
static inline void ring_store(unsigned char *ring, uint64_t at, uint64_t word)
{
	atomic_store_explicit((_Atomic uint64_t *)(void *)(ring + at), word, memory_order_relaxed);
}

/* Copies into ring r at byte number `at`, around its end. */
static inline void ring_put(const struct shm_stream *s, uint32_t r, uint64_t at, const void *buf,
			    size_t len)
{
	uint64_t pos = at & (s->tx_size[r] - 1);
	size_t first = MIN(len, (size_t)(s->tx_size[r] - pos));

	ring_copy_out(s, s->tx_ring[r] + pos, buf, first);
	if (UNLIKELY(first < len))
		ring_copy_out(s, s->tx_ring[r], (const char *)buf + first, len - first);
}

/* When a long piece that is to be timed is begun; 0: this one is not. n: counts them. */
static inline uint64_t ring_clock(uint32_t *n, size_t len)
{
	return len >= COPY_LONG && shm_pace_is_due(n) ? nsec_now() : 0;
}

/* One that was timed, size bytes at byte number `at`, has been written into ring r: what follows
 * may go the other way. Under tx_lock. */
void ring_put_timed(struct shm_stream *s, uint32_t r, uint64_t at, size_t size, uint64_t begun)
	__attribute__((visibility("hidden")));
/* Has been read, and its writer is told what it took. Under rx_lock. */
void ring_got_timed(struct shm_stream *s, uint32_t r, uint64_t at, size_t size, uint64_t begun)
	__attribute__((visibility("hidden")));

/*
 * A small message travels once more in the head's own line, so that a receiver who is up to date
 * needs one line and not two. It may be overwritten while it is read: inline_at says so, before and
 * after. Only half of its byte number has room there, so whoever publishes what is not small says
 * that there is no copy: none stays until the numbers come round.
 */
static inline void ring_inline_none(struct shm_stream *s)
{
	uint32_t when = atomic_load_explicit(&s->when, memory_order_relaxed);

	atomic_store_explicit(&s->own->inline_at, SHM_INLINE_AT(SHM_NO_INLINE, when),
			      memory_order_relaxed);
}

static inline void ring_inline_begin(struct shm_stream *s)
{
	ring_inline_none(s);
	atomic_thread_fence(memory_order_release);
}

static inline void ring_inline_end(struct shm_stream *s, uint64_t at)
{
	uint32_t when = atomic_load_explicit(&s->when, memory_order_relaxed);

	/* pairs with the acquire in ring_inline_is */
	atomic_store_explicit(&s->own->inline_at, SHM_INLINE_AT(at, when), memory_order_release);
}

static inline __attribute__((always_inline)) void ring_inline_put_bytes(struct shm_stream *s,
									uint64_t at,
									const void *buf, size_t len)
{
	uint64_t words[SHM_INLINE / 8];

	ring_copy(words, buf, len);
	ring_inline_begin(s);
	for (size_t i = 0; i < (len + 7) / 8; i++)
		atomic_store_explicit(&s->own->inlined[i], words[i], memory_order_relaxed);
	ring_inline_end(s, at);
}

static inline void ring_inline_put(struct shm_stream *s, uint64_t at, const void *buf, size_t len)
{
	if (LIKELY(len == 8))
		ring_inline_put_bytes(s, at, buf, 8);
	else
		ring_inline_put_bytes(s, at, buf, len);
}

/* Does the copy begin at `at`? To be asked before it is read and, behind a fence, after. */
static inline bool ring_inline_is(const struct shm_stream *s, uint64_t at)
{
	/* pairs with the release in ring_inline_end */
	uint64_t word = atomic_load_explicit(&s->peer->inline_at, memory_order_acquire);

	return (uint32_t)word == (uint32_t)at && (uint32_t)at != SHM_NO_INLINE;
}

/*
 * Which ring carries byte number `at`, and up to which byte number. The peer may have skipped
 * rings: then several begin at the same byte and the last of them carries it.
 */
static inline uint32_t ring_rx_of(const struct shm_stream *s, uint32_t r, uint64_t at,
				  uint64_t *ret_end)
{
	uint64_t next;

	for (; r + 1 < SHM_N_RINGS; r++) {
		/* pairs with the release in shm_tx_grow */
		next = atomic_load_explicit(&s->peer->ring_at[r + 1], memory_order_acquire);
		if (next == SHM_NOT_BEGUN || (int64_t)(next - at) > 0) {
			*ret_end = next;
			return r;
		}
	}
	*ret_end = SHM_NOT_BEGUN;
	return r;
}

/* What lies before `end` and is not taken lies in ring r, the one that is read. */
static inline bool ring_rx_is_in(const struct shm_stream *s, uint32_t r, uint64_t end)
{
	uint64_t next;

	if (r + 1 == SHM_N_RINGS)
		return true;
	/* pairs with the release in shm_tx_grow */
	next = atomic_load_explicit(&s->peer->ring_at[r + 1], memory_order_acquire);
	return next == SHM_NOT_BEGUN || (int64_t)(next - end) >= 0;
}

/* Bytes from `at` up to `head` that lie in one ring, r; -EBADMSG if the peer claims more than it
 * can hold. */
static inline int ring_rx_available(struct shm_stream *s, uint64_t head, uint64_t at, uint32_t *r,
				    uint64_t *ret_n)
{
	uint64_t end;

	*ret_n = head - at;
	if (*ret_n == 0)
		return 0;
	*r = ring_rx_of(s, *r, at, &end);
	if (end - at < *ret_n)
		*ret_n = end - at;
	return UNLIKELY(*ret_n > s->rx_size[*r]) ? -EBADMSG : 0;
}

static inline uint64_t ring_peer_head(struct shm_stream *s)
{
	/* pairs with the release in shm_tx_write and shm_queue_put */
	return atomic_load_explicit(&s->peer->head, memory_order_acquire);
}

/*
 * Short messages that are known to be there come a line at a time, and each of their copies, or
 * where the next one begins, waits for its line. So lines are asked for this far ahead, none that
 * is still to be begun.
 */
#define RING_AHEAD 384u
#define RING_SIZE_LINE 64u
/* What is longer is copied as fast as its lines come. */
#define RING_SHORT 256u

static inline void ring_ask(const struct shm_stream *s, uint32_t r, uint64_t at)
{
	line_ask(s->rx_ring[r] + (at & (s->rx_size[r] - 1)));
}

/*
 * The same for lines to be written: the reader has them, and the stores into them would wait for
 * one at a time. size bytes are written at `at`, from where on so much is free.
 */
static inline void ring_tx_ahead(const struct shm_stream *s, uint32_t r, uint64_t at, uint64_t size,
				 uint64_t room)
{
	if (UNLIKELY(room < RING_AHEAD + size || size > RING_SHORT))
		return;
	for (uint64_t i = 0; i < size; i += RING_SIZE_LINE)
		line_ask_to_write(s->tx_ring[r] + ((at + RING_AHEAD + i) & (s->tx_size[r] - 1)));
}

/* What lies at `at` is read next, all up to `head` is there. */
static inline void ring_rx_ahead(const struct shm_stream *s, uint32_t r, uint64_t at, uint64_t head)
{
	if ((int64_t)(head - at) > (int64_t)RING_AHEAD)
		ring_ask(s, r, at + RING_AHEAD);
}

/* All up to `head` has just been found. */
static inline void ring_rx_ask(const struct shm_stream *s, uint32_t r, uint64_t at, uint64_t head)
{
	uint64_t n = MIN(head - at, (uint64_t)RING_AHEAD);

	for (uint64_t i = RING_SIZE_LINE; i < n; i += RING_SIZE_LINE)
		ring_ask(s, r, at + i);
}

/*
 * So much that was taken is given back at the latest: a sender who waits for room has it before it
 * would go to sleep, and to wake it costs the reader more than to tell often.
 */
#define RING_GIVEN (64u << 10)

static inline void ring_get(const struct shm_stream *s, uint32_t r, uint64_t at, void *buf,
			    size_t len)
{
	uint64_t pos = at & (s->rx_size[r] - 1);
	size_t first = MIN(len, (size_t)(s->rx_size[r] - pos));
	bool backlog = len >= COPY_LONG &&
		       (int64_t)(ring_load(&s->head_seen) - at) >= (int64_t)RING_BACKLOG;

	ring_copy_in(buf, s->rx_ring[r] + pos, first, backlog);
	if (UNLIKELY(first < len))
		ring_copy_in((char *)buf + first, s->rx_ring[r], len - first, backlog);
}

/* All up to `taken` has been copied out. A sender who finds too little room looks at it
 * (shm_tx_write_untold). */
static inline void ring_rx_took(struct shm_stream *s, uint64_t taken)
{
	/* pairs with the acquire in shm_tx_write_untold */
	atomic_store_explicit(&s->own->rx_taken, taken, memory_order_release);
}

/* Takes n bytes; publishes when an eighth of the ring has gathered, or `most`, or nothing is
 * left. */
static inline bool ring_rx_take(struct shm_stream *s, uint64_t taken, uint64_t n_left,
				uint64_t most)
{
	ring_rx_took(s, taken);
	STEP(RING_TAKEN);
	if (n_left != 0 && taken - ring_load(&s->own->tail) < MIN(s->rx_size[s->rx_cur] / 8, most))
		return false;
	/* pairs with the acquire in ring_tx_look */
	atomic_store_explicit(&s->own->tail, taken, memory_order_release);
	return true;
}

static inline __attribute__((always_inline)) bool ring_inline_get_bytes(const struct shm_stream *s,
									uint64_t at, void *buf,
									uint64_t n)
{
	uint64_t words[SHM_INLINE / 8];

	if (!ring_inline_is(s, at))
		return false;
	for (size_t i = 0; i < (n + 7) / 8; i++)
		words[i] = ring_load(&s->peer->inlined[i]);
	atomic_thread_fence(memory_order_acquire);
	if (!ring_inline_is(s, at))
		return false;
	ring_copy(buf, words, n);
	return true;
}

/* All n bytes from `at` on, if they are the inlined message; false: take them from the ring. */
static inline bool ring_inline_get(const struct shm_stream *s, uint64_t at, void *buf, uint64_t n)
{
	return LIKELY(n == 8) ? ring_inline_get_bytes(s, at, buf, 8)
			      : ring_inline_get_bytes(s, at, buf, n);
}

#endif
