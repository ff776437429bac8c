/*
 * A queue of datagrams: one direction of a flow between two sockets. It lies in the rings of a
 * shm_stream (bind, grow, watch and notice are that one's); what runs through them are records,
 * each written whole before it is published.
 *
 * The caller holds the own side's tx_lock around shm_queue_put, rx_lock around shm_queue_copy and
 * shm_queue_drop.
 */
#ifndef PULC_SHM_QUEUE_H
#define PULC_SHM_QUEUE_H

#include <sys/uio.h>

#include "stream.h"

#define SHM_DATAGRAM_MAX 65535u /* bytes of payload */

struct shm_datagram {
	uint64_t at; /* its place: bytes of the queue before it */
	uint32_t ring;
	bool inlined; /* the payload is here already */
	union {
		struct {
			uint64_t stamp; /* the sender's word for when; any value */
			uint32_t len;	/* at most SHM_DATAGRAM_MAX */
			uint32_t flags; /* the sender's, any value */
			uint8_t payload[SHM_INLINE - sizeof(struct shm_record)];
		};
		struct shm_record header;
		uint64_t words[SHM_INLINE / 8];
	};
};
static_assert(offsetof(struct shm_datagram, stamp) == offsetof(struct shm_datagram, words) &&
		      offsetof(struct shm_datagram, len) ==
			      offsetof(struct shm_datagram, words) +
				      offsetof(struct shm_record, len) &&
		      offsetof(struct shm_datagram, payload) ==
			      offsetof(struct shm_datagram, words) + sizeof(struct shm_record),
	      "a short record is read as it lies");

/* Bytes that a datagram takes in a ring. */
static inline uint64_t shm_queue_size(size_t len)
{
	return ALIGN_UP(sizeof(struct shm_record) + len, sizeof(struct shm_record));
}

/* Puts a datagram of len bytes, gathered from the iovec, at the end; d says its stamp and flags.
 * Returns 0; -EAGAIN: no room in the present ring; -EMSGSIZE: it is larger than that; -EBADMSG: the
 * peer's tail makes no sense. */
int shm_queue_put(struct shm_stream *s, const struct shm_datagram *d, const struct iovec *iov,
		  size_t n, size_t len);

/* The datagram to be taken next, checked. No lock. Returns 1; 0: none there; -EBADMSG: what is
 * there makes no sense. */
int shm_queue_next(struct shm_stream *s, struct shm_datagram *ret_d);
/* True unless somebody has taken it meanwhile. */
static inline bool shm_queue_holds(const struct shm_stream *s, const struct shm_datagram *d)
{
	return atomic_load_explicit(&s->own->rx_taken, memory_order_relaxed) == d->at;
}
/* The header of the record behind d, unchecked; false: there is none yet. No lock, holds while
 * shm_queue_holds. */
bool shm_queue_next_header(struct shm_stream *s, const struct shm_datagram *d,
			   struct shm_record *ret_header);

/*
 * Beside a queue stands when one of its records was sent: a time that is read once the record is on
 * its way, which the receiver looks for where it matters. One record at a time: the one that ends
 * at byte `end`.
 */
/* Under tx_lock. */
static inline void shm_queue_date(struct shm_stream *s, uint64_t end, uint64_t date)
{
	atomic_store_explicit(&s->own->dated, SHM_UNDATED, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&s->own->date, date, memory_order_relaxed);
	/* pairs with the acquire in shm_queue_date_of */
	atomic_store_explicit(&s->own->dated, end, memory_order_release);
}
/* False: the time that stands there is another one's. No lock. */
static inline bool shm_queue_date_of(const struct shm_stream *s, uint64_t end, uint64_t *ret_date)
{
	/* pairs with the release in shm_queue_date */
	if (atomic_load_explicit(&s->peer->dated, memory_order_acquire) != end)
		return false;
	*ret_date = atomic_load_explicit(&s->peer->date, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&s->peer->dated, memory_order_relaxed) == end;
}

/* Copies as much of it as fits. Returns the bytes copied. */
size_t shm_queue_copy(struct shm_stream *s, const struct shm_datagram *d, const struct iovec *iov,
		      size_t n);
/* A queue whose receiver has left it (shm_tx_return, shm_tx_returned): the payload of the datagram
 * to be sent some other way next. Returns the bytes that it takes in the ring; 0: there is none.
 * Under tx_lock. */
size_t shm_queue_returning(const struct shm_stream *s, struct iovec payload[2]);
/* Takes it out. True: the space was published, serve shm_due_tx. */
bool shm_queue_drop(struct shm_stream *s, const struct shm_datagram *d);

#endif
