/*
 * A byte stream through shared memory: one side's head, rings and switch points, the other side's
 * tail.
 *
 * Model. A direction is one unending row of bytes, numbered from 0 at the switch. Its sender owns
 * up to SHM_N_RINGS rings of growing size; ring r carries the bytes from ring_at[r] on, up to
 * ring_at[r + 1]. head and tail are free-running byte numbers. Both ends find the ring of a byte
 * from ring_at, which is written before the head that makes it matter.
 *
 * Invariants.
 *  - Only the owner's family writes a side. Positions live there, so that every process of the
 *    family sees them; bases, sizes and masks are private, so that no value found there can lead
 *    outside.
 *  - The peer's head is loaded once a step and may lie at most one ring size before the taken
 *    position, its tail at most one ring size behind the head. Anything else is -EBADMSG: the
 *    connection ends.
 *  - Bytes are copied before head is stored (release), head is loaded (acquire) before they are
 *    read; the same for space with tail.
 *  - A killed holder leaves either the old count or the new one.
 *
 * The tail is published in batches (an eighth of the ring), and whenever a read drains the ring,
 * unless all that was no more than a short message (short.h): so a stream of small messages does
 * not bounce its line; head is published each time. What was taken in all stands in rx_taken, where
 * a sender looks who would otherwise leave a ring that only seems to be full. Long pieces go into
 * the ring with the stores that cost both sides least (pace.c).
 *
 * Source: the ring of Hamlyn's one-sided channels (hamlyn-1996, 3) with PULC's message area made
 * mutually distrustful (pulc-1998, 5: "all communicating processes trust each other").
 */
#include "stream.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "rawsys.h"
#include "ring.h"
#include "step.h"

/* Published in pieces so that the receiver starts on the first while the rest is copied. */
#define SIZE_PUBLISH (16u * 1024)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

OFTEN _Atomic uint32_t shm_joined = 1;

/* Whoever shares a side for somewhat longer loses nothing by it: to look costs more than a few
 * locks. */
#define N_BETWEEN_DOUBTS 16u
void (*shm_on_return_doubted)(const struct shm_stream *s);
static uint32_t n_doubts;

/* ---- sending --------------------------------------------------------------------------------- */

uint64_t ring_tx_find(struct shm_stream *s, uint64_t head)
{
	uint64_t room = ring_room_for(s, ring_tx_now(s), head, s->tail_seen);

	if (s->tx_known)
		s->tx_until = head + room;
	return room;
}

void shm_add_holder(struct shm_stream *s)
{
	(void)atomic_fetch_add(s->own_holders, 1);
	(void)atomic_fetch_add(&shm_joined, 1);
}

static bool drop_one_of_several(struct shm_stream *s, uint32_t mark)
{
	uint32_t n = atomic_load(s->own_holders);

	while ((n & SHM_HOLDERS) > 1)
		if (atomic_compare_exchange_weak(s->own_holders, &n, (n - 1) | mark))
			return true;
	return false;
}

bool shm_drop_holder(struct shm_stream *s)
{
	return drop_one_of_several(s, 0);
}

bool shm_drop_holder_for_now(struct shm_stream *s, bool seen)
{
	return drop_one_of_several(s, seen ? SHM_MAY_RETURN : SHM_MAY_RETURN_UNSEEN);
}

bool shm_drop_holder_of(struct shm_stream *s, uint32_t n)
{
	uint32_t now = atomic_load(s->own_holders);

	while ((now & SHM_HOLDERS) == n)
		if (atomic_compare_exchange_weak(s->own_holders, &now, n > 1 ? now - 1 : now))
			return true;
	return false;
}

/* By the count n, and by what can be found out now, which may change the count. */
static bool may_return(const struct shm_stream *s, uint32_t n)
{
	const uint32_t marks = SHM_MAY_RETURN | SHM_MAY_RETURN_UNSEEN;

	if (LIKELY(!(n & marks)))
		return false;
	if (shm_on_return_doubted)
		shm_on_return_doubted(s);
	return atomic_load(s->own_holders) & marks;
}

enum shm_rest shm_close_holder(struct shm_stream *s)
{
	uint32_t n, rest;

	do {
		n = atomic_load(s->own_holders);
		rest = (n & SHM_HOLDERS) == 1 && may_return(s, n) ? n | SHM_AWAITED : n - 1;
	} while (!atomic_compare_exchange_strong(s->own_holders, &n, rest));
	if ((rest & SHM_HOLDERS) == 0)
		return SHM_REST_NONE;
	return (rest & SHM_AWAITED) && (rest & SHM_HOLDERS) == 1 ? SHM_REST_AWAITED : SHM_REST_HELD;
}

void shm_return_holder(struct shm_stream *s)
{
	uint32_t n = atomic_load(s->own_holders);

	while (!atomic_compare_exchange_weak(s->own_holders, &n,
					     n & SHM_AWAITED ? n & ~SHM_AWAITED : n + 1))
		;
	(void)atomic_fetch_add(&shm_joined, 1);
}

bool shm_drop_last_holder(struct shm_stream *s)
{
	return (atomic_fetch_sub(s->own_holders, 1) & SHM_HOLDERS) == 1;
}

void shm_drop_only_holder(struct shm_stream *s)
{
	(void)atomic_fetch_and(s->own_holders, ~SHM_HOLDERS);
}

void shm_doubt_return(const struct shm_stream *s)
{
	if (n_doubts++ % N_BETWEEN_DOUBTS == 0 && shm_on_return_doubted)
		shm_on_return_doubted(s);
}

int shm_tx_room(struct shm_stream *s, uint64_t *ret_room)
{
	uint32_t r = ring_tx_now(s);
	uint64_t head = ring_tx_position(s);
	int e;

	e = ring_tx_look(s, head);
	if (e < 0)
		return e;
	*ret_room = ring_room_for(s, r, head, s->tail_seen);
	return 0;
}

/* Copies len bytes, for which there is room, and publishes them. */
static void tx_put(struct shm_stream *s, uint64_t head, const void *buf, size_t len)
{
	uint32_t r = s->tx_cur;
	size_t done = 0, n;
	uint64_t begun;

	if (len > SHM_INLINE)
		ring_inline_none(s);
	else if (len)
		ring_inline_put(s, head, buf, len);
	STEP(RING_INLINE);
	while (done < len) {
		n = MIN(len - done, (size_t)SIZE_PUBLISH);
		begun = ring_clock(&s->pace.n, n);
		ring_put(s, r, head + done, (const char *)buf + done, n);
		if (begun)
			ring_put_timed(s, r, head + done, n, begun);
		done += n;
		STEP(RING_COPIED);
		/* pairs with the acquire in rx_available */
		atomic_store_explicit(&s->own->head, head + done, memory_order_release);
		STEP(RING_PUBLISHED);
	}
	s->tx_head = head + done;
	shm_rx_answered(s);
}

ssize_t shm_tx_write(struct shm_stream *s, const void *buf, size_t len)
{
	uint64_t head = ring_tx_position(s), room = ring_tx_room(s, head, len);

	if (room < len) {
		if (ring_tx_look(s, head) < 0)
			return -EBADMSG;
		room = ring_tx_find(s, head);
	}
	ring_tx_ahead(s, s->tx_cur, head, len, room);
	len = MIN(len, (size_t)room);
	tx_put(s, head, buf, len);
	return (ssize_t)len;
}

bool shm_tx_write_untold(struct shm_stream *s, const void *buf, size_t len, uint64_t mine)
{
	uint64_t head = ring_tx_position(s);
	/* pairs with the release in ring_rx_took */
	uint64_t taken = atomic_load_explicit(&s->peer->rx_taken, memory_order_acquire);

	/* It is believed in no more than a tail is. */
	if (head - taken > MIN(mine, head - s->tail_seen) ||
	    ring_room_for(s, ring_tx_now(s), head, taken) < len)
		return false;
	tx_put(s, head, buf, len);
	return true;
}

/* Behind ring r another one may be begun. */
static bool may_go_on(const struct shm_stream *s, uint32_t r, uint64_t enough)
{
	return r + 1 < SHM_N_RINGS && s->tx_size[r] < enough;
}

uint32_t shm_tx_next_ring(const struct shm_stream *s, uint64_t wanted, uint64_t enough)
{
	uint32_t r = s->tx_cur + 1;

	if (!may_go_on(s, s->tx_cur, enough))
		return SHM_N_RINGS;
	while (may_go_on(s, r, enough) && s->tx_size[r] < wanted + wanted / 4)
		r++;
	return r;
}

int shm_tx_grow(struct shm_stream *s, uint32_t r)
{
	uint64_t head = ring_load(&s->own->head);
	long e;

	/* Allocated politely: where memory is short this fails, a touch would kill. */
	e = raw_syscall(SYS_madvise, s->tx_ring[r], ALIGN_UP((size_t)s->tx_size[r], SHM_PAGE),
			MADV_POPULATE_WRITE, 0, 0, 0);
	if (e < 0)
		return e == -EINVAL ? -EOPNOTSUPP : -ENOMEM;
	STEP(RING_GROWING);
	for (uint32_t i = s->tx_cur + 1; i <= r; i++)
		atomic_store_explicit(&s->own->ring_at[i], head, memory_order_release);
	STEP(RING_GROWN);
	atomic_store_explicit(&s->own->growth, r, memory_order_relaxed);
	s->tx_cur = r;
	return 0;
}

void shm_tx_begin(struct shm_stream *s, uint64_t kernel_at)
{
	atomic_store_explicit(&s->own->kernel_at, kernel_at, memory_order_relaxed);
	/* pairs with the acquire in shm_peer_tx_mode */
	atomic_store_explicit(&s->own->tx_mode, SHM_TX_RING, memory_order_release);
}

void shm_tx_end(struct shm_stream *s)
{
	atomic_store_explicit(&s->own->tx_mode, SHM_TX_ENDED, memory_order_release);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* A head that is at least `wanted` bytes beyond `at`, or as far as the peer is: its line is fetched
 * only when need be. */
static inline uint64_t head_for(struct shm_stream *s, uint64_t at, uint64_t wanted)
{
	uint64_t head = atomic_load_explicit(&s->head_seen, memory_order_acquire);

	if ((int64_t)(head - at) >= (int64_t)wanted) {
		ring_rx_ahead(s, s->rx_cur, at, head);
		return head;
	}
	head = ring_peer_head(s);
	atomic_store_explicit(&s->head_seen, head, memory_order_release);
	if (head == at)
		return head;
	/* One message that is short would be in the line as well. */
	shm_rx_found(s, head - at,
		     head - at > SHM_INLINE || !ring_inline_is(s, at) ? SHM_RUN_MOST : 0);
	ring_rx_ask(s, s->rx_cur, at, head);
	return head;
}

ssize_t shm_rx_peek(struct shm_stream *s, void *buf, size_t len, uint64_t offset)
{
	uint64_t at = ring_load(&s->own->rx_taken) + offset, head = ring_peer_head(s), n;
	uint32_t r = s->rx_cur;
	size_t done = 0;

	if ((int64_t)(head - at) < 0)
		return 0;
	while (done < len) {
		if (ring_rx_available(s, head, at, &r, &n) < 0)
			return -EBADMSG;
		if (n == 0)
			break;
		n = MIN(n, (uint64_t)(len - done));
		ring_get(s, r, at, (char *)buf + done, n);
		done += n;
		at += n;
	}
	return (ssize_t)done;
}

static ssize_t rx_read_small(struct shm_stream *s, uint64_t at, void *buf, uint64_t n)
{
	if (!ring_inline_get(s, at, buf, n))
		return 0;
	ring_rx_took(s, at + n);
	atomic_store_explicit(&s->own->tail, at + n, memory_order_release);
	return (ssize_t)n;
}

bool __attribute__((noinline)) shm_rx_tell(struct shm_stream *s)
{
	if (!shm_rx_is_untold(s))
		return false;
	/* pairs with the acquire in ring_tx_look */
	atomic_store_explicit(&s->own->tail, ring_load(&s->own->rx_taken), memory_order_release);
	return true;
}

ssize_t shm_rx_read(struct shm_stream *s, void *buf, size_t len, bool *ret_published)
{
	uint64_t at = ring_load(&s->own->rx_taken), head = head_for(s, at, len), n, piece, begun;
	size_t done = 0;
	ssize_t small;

	n = head - at;
	/* Short messages have left some of it untold, or who was killed before he told. */
	if (n == 0 && shm_rx_tell(s))
		*ret_published = true;
	if (n && n <= MIN(len, (size_t)SHM_INLINE)) {
		small = rx_read_small(s, at, buf, n);
		*ret_published |= small > 0;
		if (small > 0)
			return small;
	}

	while (done < len) {
		if (UNLIKELY(ring_rx_available(s, head, at, &s->rx_cur, &n) < 0))
			return -EBADMSG;
		if (n == 0)
			break;
		/* In pieces, so that a blocked sender goes on while the rest is copied. */
		piece = MIN(n, (uint64_t)SIZE_PUBLISH);
		piece = MIN(piece, (uint64_t)(len - done));
		begun = ring_clock(&s->pace_reader.n, piece);
		ring_get(s, s->rx_cur, at, (char *)buf + done, piece);
		if (begun)
			ring_got_timed(s, s->rx_cur, at, piece, begun);
		STEP(RING_READ);
		done += piece;
		at += piece;
		*ret_published |= ring_rx_take(s, at, n - piece, UINT64_MAX);
	}
	return (ssize_t)done;
}

ssize_t shm_rx_skip(struct shm_stream *s, size_t len, bool *ret_published)
{
	uint64_t at = ring_load(&s->own->rx_taken), head = ring_peer_head(s), n;
	size_t done = 0;

	while (done < len) {
		if (ring_rx_available(s, head, at, &s->rx_cur, &n) < 0)
			return -EBADMSG;
		if (n == 0)
			break;
		n = MIN(n, (uint64_t)(len - done));
		done += n;
		at += n;
		*ret_published |= ring_rx_take(s, at, 0, UINT64_MAX);
	}
	return (ssize_t)done;
}

bool shm_rx_ended(struct shm_stream *s)
{
	return shm_peer_tx_mode(s) == SHM_TX_ENDED && !shm_rx_maybe(s);
}

/* ---- no lock --------------------------------------------------------------------------------- */

uint64_t shm_rx_waiting(struct shm_stream *s)
{
	uint64_t at = ring_load(&s->own->rx_taken), head = ring_peer_head(s), total = 0, n;
	uint32_t r = s->rx_cur;

	/* Each ring at most once: a peer that keeps moving its switch points does not keep us
	 * here. */
	for (unsigned i = 0;
	     i < SHM_N_RINGS && ring_rx_available(s, head, at, &r, &n) == 0 && n != 0; i++) {
		total += n;
		at += n;
	}
	return total;
}

uint64_t shm_tx_filled(struct shm_stream *s, uint64_t enough)
{
	uint64_t head = ring_tx_position(s);

	if (LIKELY(head - s->tail_seen <= enough) || ring_tx_look(s, head) < 0)
		return 0;
	return head - s->tail_seen;
}

uint64_t shm_tx_unread(const struct shm_stream *s)
{
	uint64_t head = ring_load(&s->own->head);
	uint64_t taken = atomic_load_explicit(&s->peer->rx_taken, memory_order_acquire);
	uint64_t tail = atomic_load_explicit(&s->peer->tail, memory_order_acquire);
	uint64_t returned = ring_load(&s->own->returned);

	/* rx_taken is the truth and tail a lower bound; believe neither beyond head. */
	if (head - taken > head - tail)
		taken = tail;
	if (head - taken > head - returned)
		taken = returned;
	return MIN(head - taken, (uint64_t)SHM_RING_SIZE_MAX * 2);
}

uint64_t shm_tx_total(const struct shm_stream *s)
{
	return ring_load(&s->own->head);
}

bool shm_tx_is_read(const struct shm_stream *s)
{
	return ring_load(&s->peer->rx_taken) == ring_load(&s->own->head);
}

uint64_t shm_tx_taken(const struct shm_stream *s)
{
	uint64_t head = ring_load(&s->own->head), taken = ring_load(&s->peer->tail);

	return MIN(taken, head);
}

bool shm_tx_writable(struct shm_stream *s, uint64_t enough)
{
	uint32_t r = s->tx_cur;
	uint64_t head = ring_load(&s->own->head);
	uint64_t tail = atomic_load_explicit(&s->peer->tail, memory_order_acquire);

	while (r + 1 < SHM_N_RINGS && ring_load(&s->own->ring_at[r + 1]) != SHM_NOT_BEGUN)
		r++;
	if (may_go_on(s, r, enough))
		return true;
	return ring_room_for(s, r, head, tail) >= s->tx_size[r] / 3;
}

uint64_t shm_peer_kernel_at(const struct shm_stream *s)
{
	return ring_load(&s->peer->kernel_at);
}

uint32_t shm_peer_rcvbuf(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->peer->size_rcvbuf, memory_order_relaxed);
}

uint32_t shm_peer_receives(const struct shm_stream *s)
{
	return atomic_load(&s->peer->rx_lock);
}

void shm_ran_on(struct shm_stream *s, uint32_t cpu)
{
	if (atomic_load_explicit(&s->own->cpu, memory_order_relaxed) != cpu + 1)
		atomic_store_explicit(&s->own->cpu, cpu + 1, memory_order_relaxed);
}

bool shm_peer_ran_on(const struct shm_stream *s, uint32_t cpu)
{
	return atomic_load_explicit(&s->peer->cpu, memory_order_relaxed) == cpu + 1;
}

/* ---- watches --------------------------------------------------------------------------------- */

/* The same watch may stand there already (armed before and not yet withdrawn): then it is
 * reused. */
static int watch_add(_Atomic uint64_t watches[SHM_N_WATCHES], uint64_t watch)
{
	uint64_t expected;

	for (unsigned i = 0; i < SHM_N_WATCHES; i++)
		if (ring_load(&watches[i]) == watch)
			return 0;
	for (unsigned i = 0; i < SHM_N_WATCHES; i++) {
		expected = 0;
		if (atomic_compare_exchange_strong(&watches[i], &expected, watch))
			return 0;
	}
	return -ENOSPC;
}

int shm_watch_rx(struct shm_stream *s, uint64_t watch)
{
	int e = watch_add(s->own->rx_watch, watch);

	if (e < 0)
		return e;
	(void)atomic_fetch_add_explicit(&s->own->notice, 1ull << 32, memory_order_seq_cst);
	return 0;
}

int shm_watch_tx(struct shm_stream *s, uint64_t watch)
{
	int e = watch_add(s->own->tx_watch, watch);

	if (e < 0)
		return e;
	(void)atomic_fetch_add_explicit(&s->own->tx_armed, 1, memory_order_seq_cst);
	return 0;
}

void shm_unwatch(struct shm_stream *s, uint64_t watch)
{
	uint64_t expected;

	for (unsigned i = 0; i < SHM_N_WATCHES; i++) {
		expected = watch;
		(void)atomic_compare_exchange_strong(&s->own->rx_watch[i], &expected, 0);
		expected = watch;
		(void)atomic_compare_exchange_strong(&s->own->tx_watch[i], &expected, 0);
	}
}

static size_t collect(const _Atomic uint64_t from[SHM_N_WATCHES], uint64_t to[SHM_N_WATCHES])
{
	size_t n = 0;

	for (unsigned i = 0; i < SHM_N_WATCHES; i++) {
		to[n] = atomic_load_explicit(&from[i], memory_order_acquire);
		n += to[n] != 0;
	}
	return n;
}

size_t shm_watches(const struct shm_stream *s, uint64_t watches[SHM_N_WATCHES])
{
	return collect(s->own->rx_watch, watches);
}

size_t shm_watches_all(const struct shm_stream *s, uint64_t watches[2 * SHM_N_WATCHES])
{
	size_t n = collect(s->own->rx_watch, watches);

	return n + collect(s->own->tx_watch, watches + n);
}

size_t shm_collect_rx(struct shm_stream *s, uint64_t watches[SHM_N_WATCHES])
{
	uint32_t arms = SHM_NOTICE_ARMS(shm_peer_notice(s));

	atomic_store_explicit(&s->rx_arms_served, arms, memory_order_relaxed);
	return collect(s->peer->rx_watch, watches);
}

size_t shm_collect_tx(struct shm_stream *s, uint64_t watches[SHM_N_WATCHES])
{
	uint64_t arms = atomic_load_explicit(&s->peer->tx_armed, memory_order_acquire);

	atomic_store_explicit(&s->tx_arms_served, (uint32_t)arms, memory_order_relaxed);
	return collect(s->peer->tx_watch, watches);
}
