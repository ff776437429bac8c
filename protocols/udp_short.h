/*
 * The usual case of udp_push: a short datagram into a queue that its receiver looks at, as the only
 * one it has, with room and nothing to heed.
 *
 * Asks for no more than is needed to know that; whatever is unusual is left to udp_push, as if this
 * had not been tried.
 */
#ifndef PULC_PROTOCOLS_UDP_SHORT_H
#define PULC_PROTOCOLS_UDP_SHORT_H

#include "clock.h"
#include "short.h"
#include "udp.h"

/* What the receiver says, and what of it is the usual case. */
#define UDP_HEEDED (SHM_CLOSED | SHM_DEAD | SHM_WANT_KERNEL | SHM_LEFT | UDP_USUAL)
#define UDP_USUAL (SHM_RX_READY | SHM_RX_LONE)
/* A receiver at work takes a datagram within this. */
#define UDP_NSEC_STALLED (50 * 1000 * NSEC_PER_USEC)

void udp_look_at_progress(struct udp_flow *f, uint64_t stamp);

/* Looks at the receiver's progress now and then. Times that are about right go back by a little now
 * and then, and a second look at once after the first would find no progress. Under tx_lock. */
static inline bool udp_is_stalled(struct udp_flow *f, uint64_t stamp)
{
	if (UNLIKELY(stamp - f->stamp_looked + UDP_NSEC_STALLED >= 2 * UDP_NSEC_STALLED))
		udp_look_at_progress(f, stamp);
	return f->stalled;
}

/*
 * To read a clock takes a tenth of a short datagram's way, so it is done when the record is on its
 * way. The next one carries that time: of the last record a process knows it if it has sent it.
 * Under tx_lock.
 */
static inline bool udp_may_date_behind(struct udp_flow *f)
{
	return ring_tx_position(&f->ring) == f->dated_at;
}

/* The last record was sent just now: says so where the receiver looks for it. Who is stalled takes
 * the long way, where he is looked after before each datagram. Under tx_lock. */
static inline void udp_date(struct udp_flow *f, uint64_t stamp)
{
	uint64_t end = ring_tx_position(&f->ring);

	shm_queue_date(&f->ring, end, stamp);
	f->stamp = stamp;
	f->dated_at = LIKELY(!udp_is_stalled(f, stamp)) ? end : SHM_UNDATED;
}

/* Under tx_lock. */
static inline __attribute__((always_inline)) bool udp_put_short(struct udp_flow *f, const void *buf,
								size_t len, uint64_t *ret_ticks)
{
	if (UNLIKELY(udp_kernel_sends(f->port) != f->kernel_seen) ||
	    UNLIKELY(shm_tx_mode(&f->ring) != SHM_TX_RING) || UNLIKELY(!udp_may_date_behind(f)))
		return false;
	if (UNLIKELY(!shm_queue_put_short(&f->ring, f->stamp, UDP_DATED_BEHIND, buf, len)))
		return false;
	*ret_ticks = pulse_ticks();
	udp_date(f, pulse_at(&f->pulse, *ret_ticks));
	return true;
}

/* Sends len bytes, at most SHM_SHORT_MOST. False: nothing was done, it is for udp_push. When it was
 * sent: udp_is_awaited, and the processor's counter, then, is in *ret_ticks. */
static inline __attribute__((always_inline)) bool udp_push_short(struct udp_flow *f,
								 const void *buf, size_t len,
								 uint64_t *ret_ticks)
{
	_Atomic uint32_t *lock = &f->ring.own->tx_lock;
	enum shm_way way;
	bool sent;

	if (UNLIKELY((shm_peer_notice(&f->ring) & UDP_HEEDED) != UDP_USUAL) ||
	    UNLIKELY(len > f->size_max))
		return false;
	way = shm_enter(lock, shm_is_alone(&f->ring));
	if (UNLIKELY(way == SHM_BUSY)) /* a handler amid a send: the two have no order */
		return false;
	sent = udp_put_short(f, buf, len, ret_ticks);
	shm_leave(lock, way);
	return sent;
}

#endif
