/*
 * A ring given up with bytes in it.
 *
 * A side that must go on with the kernel alone leaves: it publishes the exact number of bytes that
 * it has taken and then says so (SHM_LEFT). Its peer's ring still holds what follows, and the peer
 * sends that once more, from `returned` to head, some other way. The ring itself is not written any
 * more, so the bytes stay where they are for as long as that takes, and any process of the family
 * may go on with it.
 *
 * `returned` is at least the tail that was found at the beginning: later values of the peer's tail
 * mean nothing.
 */
#include "queue.h"

#include <errno.h>

#include "macros.h"
#include "ring.h"

int shm_tx_return(struct shm_stream *s)
{
	uint64_t head = ring_load(&s->own->head);
	uint64_t tail = atomic_load_explicit(&s->peer->tail, memory_order_acquire);

	if (head - tail > head - s->tail_seen)
		return -EBADMSG;
	s->tail_seen = tail;
	atomic_store_explicit(&s->own->returned, tail, memory_order_relaxed);
	/* pairs with the acquire in shm_peer_tx_mode */
	atomic_store_explicit(&s->own->tx_mode, SHM_TX_RETURNED, memory_order_seq_cst);
	return 0;
}

/* The own ring that carries byte `at`, and the byte number at which the next one begins. */
static uint32_t ring_of(const struct shm_stream *s, uint64_t at, uint64_t *ret_end)
{
	uint32_t found = 0;

	*ret_end = ring_load(&s->own->head);
	for (uint32_t r = 1; r < SHM_N_RINGS; r++) {
		uint64_t begun = ring_load(&s->own->ring_at[r]);

		if (begun == SHM_NOT_BEGUN)
			break;
		if ((int64_t)(begun - at) > 0) {
			*ret_end = begun;
			break;
		}
		found = r;
	}
	return found;
}

size_t shm_tx_returning(const struct shm_stream *s, uint64_t skip, const void **ret_piece)
{
	uint64_t at = ring_load(&s->own->returned) + skip, end;
	uint32_t r = ring_of(s, at, &end);
	uint64_t pos = at & (s->tx_size[r] - 1);

	*ret_piece = s->tx_ring[r] + pos;
	return (size_t)MIN(end - at, (uint64_t)s->tx_size[r] - pos);
}

void shm_tx_returned(struct shm_stream *s, size_t len)
{
	(void)atomic_fetch_add_explicit(&s->own->returned, len, memory_order_relaxed);
}

size_t shm_queue_returning(const struct shm_stream *s, struct iovec payload[2])
{
	uint64_t at = ring_load(&s->own->returned), end, pos;
	uint32_t r = ring_of(s, at, &end);
	struct shm_record header;
	size_t first;

	/* A tail that lies: no record begins there. */
	if (end - at < sizeof(header) || at % sizeof(header) != 0)
		return 0;
	pos = at & (s->tx_size[r] - 1);
	memcpy(&header, s->tx_ring[r] + pos, sizeof(header));
	if (header.len > SHM_DATAGRAM_MAX || shm_queue_size(header.len) > end - at)
		return 0;
	pos += sizeof(header);
	first = MIN((size_t)header.len, (size_t)(s->tx_size[r] - pos));
	payload[0] = (struct iovec){ s->tx_ring[r] + pos, first };
	payload[1] = (struct iovec){ s->tx_ring[r], header.len - first };
	return shm_queue_size(header.len);
}

void shm_rx_leave(struct shm_stream *s)
{
	uint64_t before = ring_load(&s->own->notice);

	atomic_store_explicit(&s->own->tail, ring_load(&s->own->rx_taken), memory_order_release);
	/* One more arm, so that a sender that knows of none looks at the flags after its next
	 * bytes. */
	while (!atomic_compare_exchange_weak(&s->own->notice, &before,
					     (before | SHM_LEFT) + (1ull << 32)))
		;
}

void shm_rx_stay(struct shm_stream *s)
{
	shm_notice_take_back(s, SHM_LEFT);
}

bool shm_peer_is_sending(const struct shm_stream *s)
{
	uint32_t word = atomic_load(&s->peer->tx_lock);

	return (word & FUTEX_TID_MASK) && !(word & FUTEX_OWNER_DIED);
}
