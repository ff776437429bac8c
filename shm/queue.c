/*
 * Datagrams in the rings of a stream.
 *
 * A record is a header of 16 bytes, the payload, and padding to the next 16; so no header lies
 * around a ring's end. The head is stored once, behind the whole record: a sender that dies
 * half-way has sent nothing. A record lies in one ring; a queue that grows does so between two.
 *
 * A short record that is the last one comes also in the head's own line, as a stream's short
 * message does: a receiver that is up to date then needs one line for all of it. Of a link between
 * two processes it comes, if it is short enough, in a line that both sides write, where the reader
 * waits for it then (exchange.h).
 *
 * The receiver looks without a lock, because it has to compare several queues before it chooses
 * one. What it has copied counts only if nobody has taken the record meanwhile; until then its
 * place in the ring is not given back. Header and bounds are checked on the copy, and the payload
 * is copied by the checked length.
 */
#include "queue.h"

#include "exchange.h"
#include "macros.h"
#include "ring.h"
#include "step.h"

#define SIZE_HEADER sizeof(struct shm_record)
#define SIZE_SHORT (SHM_INLINE - SIZE_HEADER)
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words of a short record");

/* ---- sending --------------------------------------------------------------------------------- */

/* A short record, in registers: what is stored in one size and loaded in another at once costs a
 * wait of its own. */
struct short_record {
	uint64_t words[SHM_INLINE / 8];
	unsigned n; /* of them; the padding behind is whatever was there */
};

static inline void publish(struct shm_stream *s, uint64_t head)
{
	STEP(QUEUE_COPIED);
	/* pairs with the acquire in ring_peer_head */
	atomic_store_explicit(&s->own->head, head, memory_order_release);
	STEP(QUEUE_PUBLISHED);
	s->tx_head = head;
	shm_rx_answered(s);
}

/* Publishes, and tells of it, with n bytes of the record, or 0. */
static inline void publish_told(struct shm_stream *s, uint64_t head, const uint64_t *record,
				unsigned n)
{
	publish(s, head);
	if (s->telling)
		exchange_tell_record(s, head, record, n);
}

static inline uint64_t header_word(uint32_t len, uint32_t flags)
{
	return (uint64_t)flags << 32 | len;
}

/* The last bytes of a payload, fewer than 8. */
static inline uint64_t load_rest(const unsigned char *from, size_t len)
{
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++)
		word |= (uint64_t)from[i] << 8 * i;
	return word;
}

static inline void load_payload(struct short_record *record, const unsigned char *from, size_t len)
{
	for (; len >= 8; from += 8, len -= 8)
		memcpy(&record->words[record->n++], from, 8);
	if (len)
		record->words[record->n++] = load_rest(from, len);
}

static void gather_payload(struct short_record *record, const struct iovec *iov, size_t n)
{
	unsigned char bytes[SIZE_SHORT];
	size_t done = 0;

	for (size_t i = 0; i < n; i++) {
		memcpy(bytes + done, iov[i].iov_base, iov[i].iov_len);
		done += iov[i].iov_len;
	}
	load_payload(record, bytes, done);
}

/* The head's line comes last, all of it at once: the peer that spins on it takes it away as soon as
 * it can. */
static inline void put_short(struct shm_stream *s, uint32_t r, uint64_t at,
			     const struct short_record *record)
{
	for (unsigned i = 0; i < record->n; i++)
		memcpy(s->tx_ring[r] + ((at + 8 * i) & (s->tx_size[r] - 1)), &record->words[i], 8);
	if (s->told) /* then it is there that the peer looks */
		return;
	ring_inline_begin(s);
	STEP(QUEUE_INLINE);
	for (unsigned i = 0; i < record->n; i++)
		atomic_store_explicit(&s->own->inlined[i], record->words[i], memory_order_relaxed);
	ring_inline_end(s, at);
}

static void put_long(const struct shm_stream *s, uint32_t r, uint64_t at,
		     const struct shm_record *header, const struct iovec *iov, size_t n)
{
	ring_put(s, r, at, header, SIZE_HEADER);
	at += SIZE_HEADER;
	for (size_t i = 0; i < n; i++) {
		ring_put(s, r, at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
}

/* What most messages are that have to be quick: one word of payload, and room for it by what was
 * seen last. */
static inline bool put_word(struct shm_stream *s, const struct shm_datagram *d, uint64_t word)
{
	const uint64_t size = SIZE_HEADER + SIZE_HEADER;
	uint64_t head = ring_tx_position(s), second = header_word(sizeof(word), d->flags);
	uint64_t room = ring_tx_room(s, head, size);
	uint32_t r = s->tx_cur, mask = s->tx_size[r] - 1;
	struct shm_side *own = s->own;

	if (UNLIKELY(room < size))
		return false;
	ring_tx_ahead(s, r, head, size, room);
	memcpy(s->tx_ring[r] + (head & mask), &d->stamp, 8);
	memcpy(s->tx_ring[r] + (head & mask) + 8, &second, 8);
	memcpy(s->tx_ring[r] + ((head + SIZE_HEADER) & mask), &word, 8);
	if (s->told) {
		const uint64_t record[] = { d->stamp, second, word };

		publish_told(s, head + size, record, SHM_TOLD);
		return true;
	}
	ring_inline_begin(s);
	STEP(QUEUE_INLINE);
	atomic_store_explicit(&own->inlined[0], d->stamp, memory_order_relaxed);
	atomic_store_explicit(&own->inlined[1], second, memory_order_relaxed);
	atomic_store_explicit(&own->inlined[2], word, memory_order_relaxed);
	ring_inline_end(s, head);
	publish_told(s, head + size, NULL, 0);
	return true;
}

/* One that comes also in the line that tells of it. */
static void put_any_short(struct shm_stream *s, uint32_t r, const struct shm_datagram *d,
			  const struct iovec *iov, size_t n, size_t len)
{
	uint64_t head = ring_tx_position(s);
	struct short_record record = {
		.words = { d->stamp, header_word((uint32_t)len, d->flags) },
		.n = 2,
	};

	if (LIKELY(n == 1))
		load_payload(&record, iov->iov_base, len);
	else
		gather_payload(&record, iov, n);
	put_short(s, r, head, &record);
	publish_told(s, head + shm_queue_size(len), record.words,
		     record.n <= SHM_TOLD / 8 ? 8 * record.n : 0);
}

static void put_any_long(struct shm_stream *s, uint32_t r, const struct shm_datagram *d,
			 const struct iovec *iov, size_t n, size_t len)
{
	uint64_t head = ring_tx_position(s);
	const struct shm_record header = {
		.stamp = d->stamp,
		.len = (uint32_t)len,
		.flags = d->flags,
	};
	uint64_t begun = ring_clock(&s->pace.n, len);

	ring_inline_none(s);
	put_long(s, r, head, &header, iov, n);
	if (begun)
		ring_put_timed(s, r, head, len, begun);
	publish_told(s, head + shm_queue_size(len), NULL, 0);
}

static __attribute__((noinline)) int put_any(struct shm_stream *s, const struct shm_datagram *d,
					     const struct iovec *iov, size_t n, size_t len)
{
	uint64_t head = ring_tx_position(s), size = shm_queue_size(len);
	uint64_t room = ring_tx_room(s, head, size);
	uint32_t r = s->tx_cur;

	if (size > s->tx_size[r])
		return -EMSGSIZE;
	if (room < size) {
		if (ring_tx_look(s, head) < 0)
			return -EBADMSG;
		room = ring_tx_find(s, head);
		if (room < size)
			return -EAGAIN;
	}
	ring_tx_ahead(s, r, head, size, room);
	if (LIKELY(len <= SIZE_SHORT))
		put_any_short(s, r, d, iov, n, len);
	else
		put_any_long(s, r, d, iov, n, len);
	return 0;
}

int shm_queue_put(struct shm_stream *s, const struct shm_datagram *d, const struct iovec *iov,
		  size_t n, size_t len)
{
	uint64_t word;

	if (LIKELY(n == 1 && len == sizeof(word))) {
		memcpy(&word, iov->iov_base, sizeof(word));
		if (LIKELY(put_word(s, d, word)))
			return 0;
	}
	return put_any(s, d, iov, n, len);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static inline bool is_known(const struct shm_stream *s, uint64_t at)
{
	uint64_t head = atomic_load_explicit(&s->head_seen, memory_order_acquire);

	return (int64_t)(head - at) > 0;
}

static inline uint64_t look(struct shm_stream *s)
{
	uint64_t head = s->told ? shm_told_head(s) : ring_peer_head(s);

	atomic_store_explicit(&s->head_seen, head, memory_order_release);
	return head;
}

/* The head, or an older one that is far enough: its line is fetched only when need be. */
static uint64_t head_beyond(struct shm_stream *s, uint64_t at)
{
	return is_known(s, at) ? atomic_load_explicit(&s->head_seen, memory_order_acquire)
			       : look(s);
}

/* The record at d->at, if it is the one in the head's line. */
static inline bool get_short(const struct shm_stream *s, struct shm_datagram *d)
{
	if (s->told)
		return exchange_take_record(s->told, d->at, d->words);
	if (!ring_inline_is(s, d->at))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(d->words); i++)
		d->words[i] = ring_load(&s->peer->inlined[i]);
	atomic_thread_fence(memory_order_acquire);
	return ring_inline_is(s, d->at);
}

/* A header lies in one piece. */
static inline void get_header(const struct shm_stream *s, struct shm_datagram *d)
{
	memcpy(&d->header, s->rx_ring[d->ring] + (d->at & (s->rx_size[d->ring] - SIZE_HEADER)),
	       SIZE_HEADER);
}

/* 1; -EBADMSG: with n bytes there it makes no sense. */
static inline int judge(const struct shm_datagram *d, uint64_t n)
{
	return LIKELY(d->len <= SHM_DATAGRAM_MAX && shm_queue_size(d->len) <= n) ? 1 : -EBADMSG;
}

/* All that is there is one short record, and comes in the head's line: whatever ring it lies in,
 * too, has room for that. 0: that is not so. */
static inline int next_short(struct shm_stream *s, struct shm_datagram *d, uint64_t head)
{
	uint64_t n = head - d->at;

	if (n > SHM_INLINE || !get_short(s, d) || !shm_queue_holds(s, d))
		return 0;
	d->ring = s->rx_cur;
	d->inlined = true;
	return judge(d, n);
}

static __attribute__((noinline)) int next_any(struct shm_stream *s, struct shm_datagram *d)
{
	uint64_t n;
	int e;

	do {
		d->at = ring_load(&s->own->rx_taken);
		d->ring = s->rx_cur;
		e = ring_rx_available(s, head_beyond(s, d->at), d->at, &d->ring, &n);
		if (e == 0 && n == 0)
			return 0;
		if (LIKELY(e == 0 && n >= SIZE_HEADER))
			get_header(s, d);
		atomic_thread_fence(memory_order_acquire);
	} while (UNLIKELY(!shm_queue_holds(s, d)));
	d->inlined = false;
	return UNLIKELY(e < 0 || n < SIZE_HEADER) ? -EBADMSG : judge(d, n);
}

int shm_queue_next(struct shm_stream *s, struct shm_datagram *d)
{
	uint64_t head;
	int e;

	d->at = ring_load(&s->own->rx_taken);
	/* Of several in a stream the last one too is taken from the ring: its sender is writing the
	 * line that it came in again. */
	if (is_known(s, d->at)) {
		head = ring_load(&s->head_seen);
		ring_rx_ahead(s, s->rx_cur, d->at, head);
		e = shm_rx_is_run(s) ? 0 : next_short(s, d, head);
		return e != 0 ? e : next_any(s, d);
	}
	head = look(s);
	if (head == d->at)
		return 0;
	ring_rx_ask(s, s->rx_cur, d->at, head);
	e = next_short(s, d, head);
	if (UNLIKELY(e == 0))
		e = next_any(s, d);
	if (e > 0)
		shm_rx_found(s, head - d->at,
			     head - d->at > shm_queue_size(d->len) ? SHM_RUN_MOST_RECORDS : 0);
	return e;
}

bool shm_queue_next_header(struct shm_stream *s, const struct shm_datagram *d,
			   struct shm_record *ret_header)
{
	struct shm_datagram next = { .at = d->at + shm_queue_size(d->len), .ring = d->ring };
	uint64_t n;

	if (ring_rx_available(s, look(s), next.at, &next.ring, &n) < 0 || n < SIZE_HEADER)
		return false;
	get_header(s, &next);
	*ret_header = next.header;
	return true;
}

static size_t copy(const struct shm_stream *s, const struct shm_datagram *d,
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

size_t shm_queue_copy(struct shm_stream *s, const struct shm_datagram *d, const struct iovec *iov,
		      size_t n)
{
	uint64_t begun = ring_clock(&s->pace_reader.n, d->len);
	size_t size = copy(s, d, iov, n);

	if (begun && size >= COPY_LONG)
		ring_got_timed(s, d->ring, d->at, size, begun);
	return size;
}

bool shm_queue_drop(struct shm_stream *s, const struct shm_datagram *d)
{
	uint64_t next = d->at + shm_queue_size(d->len);

	s->rx_cur = d->ring;
	return ring_rx_take(s, next,
			    atomic_load_explicit(&s->head_seen, memory_order_relaxed) - next,
			    RING_GIVEN);
}
