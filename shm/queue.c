/*
 * Datagrams in the rings of a stream.
 *
 * A record is a header of 16 bytes, the payload, and padding to the next 16; so no header lies around a ring's
 * end. The head is stored once, behind the whole record: a sender that dies half-way has sent nothing. A record lies in one
 * ring; a queue that grows does so between two.
 *
 * A short record that is the last one comes also in the head's own line, as a stream's short message does: a
 * receiver that is up to date then needs one line for all of it.
 *
 * The receiver looks without a lock, because it has to compare several queues before it chooses one. What it has copied counts
 * only if nobody has taken the record meanwhile; until then its place in the ring is not given back. Header and
 * bounds are checked on the copy, and the payload is copied by the checked length.
 */
#include "queue.h"

#include "macros.h"
#include "ring.h"

#define SIZE_HEADER sizeof(struct shm_record)
#define SIZE_SHORT (SHM_INLINE - SIZE_HEADER)

/* ---- sending ------------------------------------------------------------------------------------ */

/* A short record, for the ring and for the head's line. */
union short_record {
	struct shm_record header;
	uint64_t words[SHM_INLINE / 8];
	uint8_t bytes[SHM_INLINE];
};

/* Every piece of 16 bytes lies in one piece in the ring. The head's line comes last, all of it at once: who looks at it meanwhile
 * takes it away from us. */
static inline void put_short(struct shm_stream *s, uint32_t r, uint64_t at,
			     const union short_record *record, uint64_t size)
{
	struct shm_side *own = s->own;

	for (uint64_t i = 0; i < size; i += SIZE_HEADER)
		memcpy(s->tx_ring[r] + ((at + i) & (s->tx_size[r] - 1)), record->bytes + i,
		       SIZE_HEADER);
	atomic_store_explicit(&own->inline_at, SHM_NO_INLINE, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (uint64_t i = 0; i < size / 8; i++)
		atomic_store_explicit(&own->inlined[i], record->words[i], memory_order_relaxed);
	/* pairs with the acquire in get_short */
	atomic_store_explicit(&own->inline_at, at, memory_order_release);
}

static inline void gather_short(union short_record *record, const struct iovec *iov, size_t n)
{
	size_t done = SIZE_HEADER;

	for (size_t i = 0; i < n; i++) {
		ring_copy(record->bytes + done, iov[i].iov_base, iov[i].iov_len);
		done += iov[i].iov_len;
	}
}

static void put_piece(const struct shm_stream *s, uint32_t r, uint64_t at, const char *buf,
		      size_t len)
{
	uint64_t pos = at & (s->tx_size[r] - 1);
	size_t first = MIN(len, (size_t)(s->tx_size[r] - pos));

	ring_copy_out(s, s->tx_ring[r] + pos, buf, first);
	if (UNLIKELY(first < len))
		ring_copy_out(s, s->tx_ring[r], buf + first, len - first);
}

static void put_long(const struct shm_stream *s, uint32_t r, uint64_t at,
		     const struct shm_record *header, const struct iovec *iov, size_t n)
{
	ring_put(s, r, at, header, SIZE_HEADER);
	at += SIZE_HEADER;
	for (size_t i = 0; i < n; i++) {
		put_piece(s, r, at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
}

int shm_queue_put(struct shm_stream *s, const struct shm_datagram *d, const struct iovec *iov,
		  size_t n, size_t len)
{
	union short_record record;
	uint32_t r = ring_tx_now(s);
	uint64_t head = ring_tx_position(s), size = shm_queue_size(len);

	if (size > s->tx_size[r])
		return -EMSGSIZE;
	if (ring_room_for(s, r, head, s->tail_seen) < size) {
		if (ring_tx_look(s, head) < 0)
			return -EBADMSG;
		if (ring_room_for(s, r, head, s->tail_seen) < size)
			return -EAGAIN;
	}
	if (len >= RING_LONG && ring_look_how_far(s, head) < 0)
		return -EBADMSG;
	record.header =
		(struct shm_record){ .stamp = d->stamp, .len = (uint32_t)len, .flags = d->flags };
	if (LIKELY(len <= SIZE_SHORT)) {
		gather_short(&record, iov, n);
		put_short(s, r, head, &record, size);
	} else {
		put_long(s, r, head, &record.header, iov, n);
	}
	/* pairs with the acquire in ring_peer_head */
	atomic_store_explicit(&s->own->head, head + size, memory_order_release);
	s->tx_head = head + size;
	return 0;
}

/* ---- receiving ---------------------------------------------------------------------------------- */

/* The head, or an older one that is far enough: its line is fetched only when need be. */
static uint64_t head_beyond(struct shm_stream *s, uint64_t at)
{
	uint64_t head = atomic_load_explicit(&s->head_seen, memory_order_acquire);

	if ((int64_t)(head - at) <= 0) {
		head = ring_peer_head(s);
		atomic_store_explicit(&s->head_seen, head, memory_order_release);
	}
	return head;
}

/* The record at d->at, if it is the one in the head's line. */
static inline bool get_short(const struct shm_stream *s, struct shm_datagram *d)
{
	/* pairs with the release in put_short */
	if (atomic_load_explicit(&s->peer->inline_at, memory_order_acquire) != d->at)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(d->words); i++)
		d->words[i] = ring_load(&s->peer->inlined[i]);
	atomic_thread_fence(memory_order_acquire);
	return ring_load(&s->peer->inline_at) == d->at;
}

/* A header lies in one piece. */
static inline void get_header(const struct shm_stream *s, struct shm_datagram *d)
{
	memcpy(&d->header, s->rx_ring[d->ring] + (d->at & (s->rx_size[d->ring] - SIZE_HEADER)),
	       SIZE_HEADER);
}

int shm_queue_next(struct shm_stream *s, struct shm_datagram *d)
{
	uint64_t n;
	int e;

	do {
		d->at = ring_load(&s->own->rx_taken);
		d->ring = s->rx_cur;
		e = ring_rx_available(s, head_beyond(s, d->at), d->at, &d->ring, &n);
		if (e == 0 && n == 0)
			return 0;
		d->inlined = n <= SHM_INLINE && get_short(s, d);
		if (e == 0 && n >= SIZE_HEADER && !d->inlined)
			get_header(s, d);
		atomic_thread_fence(memory_order_acquire);
	} while (UNLIKELY(!shm_queue_holds(s, d)));
	if (UNLIKELY(e < 0 || n < SIZE_HEADER || d->len > SHM_DATAGRAM_MAX ||
		     shm_queue_size(d->len) > n))
		return -EBADMSG;
	d->inlined &= d->len <= SIZE_SHORT;
	return 1;
}

size_t shm_queue_copy(const struct shm_stream *s, const struct shm_datagram *d,
		      const struct iovec *iov, size_t n)
{
	size_t done = 0, len;

	for (size_t i = 0; i < n && done < d->len; i++) {
		len = MIN(iov[i].iov_len, (size_t)(d->len - done));
		if (d->inlined)
			ring_copy(iov[i].iov_base, d->payload + done, len);
		else
			ring_get(s, d->ring, d->at + SIZE_HEADER + done, iov[i].iov_base, len);
		done += len;
	}
	return done;
}

bool shm_queue_drop(struct shm_stream *s, const struct shm_datagram *d)
{
	uint64_t next = d->at + shm_queue_size(d->len);

	s->rx_cur = d->ring;
	return ring_rx_take(s, next,
			    atomic_load_explicit(&s->head_seen, memory_order_relaxed) - next);
}
