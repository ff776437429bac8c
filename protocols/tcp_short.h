/*
 * The usual case of tcp_push and tcp_pull: a short message of a connection that is on its rings in
 * both directions, with nothing to heed.
 *
 * Both ask for no more than is needed to know that nothing is to be heeded; whatever is unusual is
 * left to the long way, which comes to it in its order.
 */
#ifndef PULC_PROTOCOLS_TCP_SHORT_H
#define PULC_PROTOCOLS_TCP_SHORT_H

#include "short.h"
#include "tcp_local.h"

/* What the peer has said that makes a send unusual. */
#define TCP_HEEDED (SHM_CLOSED | SHM_DEAD | SHM_WANT_KERNEL | SHM_LEFT)

/* Ring mode, and nothing to heed from the peer. Under tx_lock. */
static inline bool tcp_is_plain(const struct tcp *t)
{
	return shm_tx_mode(&t->ring) == SHM_TX_RING && !(shm_peer_notice(&t->ring) & TCP_HEEDED) &&
	       !t->peer_gone && !t->no_switch;
}

/* Sends len bytes, 1 to SHM_SHORT_MOST, all of them or none: false, then it is for tcp_push. Serve
 * shm_due_rx and tcp_owes after it. */
static inline __attribute__((always_inline)) bool tcp_push_short(struct tcp *t, const void *buf,
								 size_t len)
{
	_Atomic uint32_t *lock = &t->ring.own->tx_lock;
	enum shm_way way = shm_enter(lock, shm_is_alone(&t->ring));
	bool sent;

	if (UNLIKELY(way == SHM_BUSY))
		return false;
	sent = LIKELY(tcp_is_plain(t)) && LIKELY(!tcp_is_stuck(t)) &&
	       LIKELY(!(shm_own_notice(&t->ring) & (SHM_TX_FIN | SHM_LEFT))) &&
	       shm_tx_write_short(&t->ring, buf, len);
	shm_leave(lock, way);
	return sent;
}

/* Is the next byte in the ring, if there is one, and nothing behind it in the kernel? */
static inline bool tcp_reads_only_ring(const struct tcp *t)
{
	return atomic_load_explicit(&t->ring.own->rx_mode, memory_order_acquire) == TCP_RX_RING &&
	       shm_peer_tx_mode(&t->ring) == SHM_TX_RING;
}

/* As the two below. */
static inline __attribute__((always_inline)) size_t tcp_pull_some(struct tcp *t, void *buf,
								  size_t len, bool known,
								  unsigned *did)
{
	_Atomic uint32_t *lock = &t->ring.own->rx_lock;
	enum shm_way way = shm_enter(lock, shm_is_alone(&t->ring));
	bool published = false;
	size_t got = 0;

	if (UNLIKELY(way == SHM_BUSY))
		return 0;
	if (LIKELY(tcp_reads_only_ring(t)))
		got = known ? shm_rx_read_known(&t->ring, buf, len, &published)
			    : shm_rx_read_short(&t->ring, buf, len, &published);
	if (LIKELY(!published)) {
		shm_leave_quietly(lock, way);
		return got;
	}
	shm_leave(lock, way);
	*did |= TCP_TAKEN;
	return got;
}

/*
 * Receives all that is there, if it is one short message of at most len bytes. 0: it is for
 * tcp_pull. *did: TCP_TAKEN if there is room to be told of. likely: there is probably something, so
 * nothing looks before.
 */
static inline __attribute__((always_inline)) size_t tcp_pull_short(struct tcp *t, void *buf,
								   size_t len, bool likely,
								   unsigned *did)
{
	return likely || shm_rx_maybe(&t->ring) ? tcp_pull_some(t, buf, len, false, did) : 0;
}

/* The same with len bytes, less than COPY_LONG, of a backlog that is known to have as many. */
static inline __attribute__((always_inline)) size_t tcp_pull_known(struct tcp *t, void *buf,
								   size_t len, unsigned *did)
{
	return tcp_pull_some(t, buf, len, true, did);
}

#endif
