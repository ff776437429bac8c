/*
 * The sending half of the udp protocol.
 *
 * Each datagram goes its own way: through the queue if the receiver looks at it and there is room,
 * else through the kernel. So the kernel alone ever drops one, as it would without us. What order
 * the receiver sees is its affair (udp_receive.c) and needs three things of us:
 *  - of every record it is known when it was sent, in the clock in which the kernel notes arrivals.
 *    Where no other flow's times are compared with it (SHM_RX_LONE) about right will do, and that
 *    it is said a moment later: beside the queue, and in the next record (UDP_DATED_BEHIND);
 *  - a record says if this process has used the kernel towards that port since the record before:
 *    only then need the receiver ask the kernel before it takes it;
 *  - what was sent through the kernel before must have arrived. Usually it has when the call
 *    returns; but a busy machine may leave it in a processor's backlog. Before the first record
 *    after that we wait until a datagram of our own has come back by the same backlog, which the
 *    kernel works off in order; a thread that has changed processors meanwhile goes on with the
 *    kernel for a while. That costs several sends, so it is done once in a millisecond at most; in
 *    between the kernel is used.
 *
 * A receiver that does not take what is waiting for it may be gone without anybody knowing: then
 * the kernel is used, which does.
 *
 * A full queue grows, within the credit that psid gave. Where it can't, a sender slows down from
 * the middle of the queue on, to what the kernel's way would have cost it at its end: a receiver
 * that is somewhat slower keeps up then, and nothing takes the kernel's way, after which both are
 * slow for a millisecond.
 */
#include <errno.h>
#include <sched.h>

#include "clock.h"
#include "macros.h"
#include "rawsys.h"
#include "udp_short.h"

#define NSEC_SETTLE (1000 * NSEC_PER_USEC)
/* What a small datagram costs through the kernel. */
#define NSEC_ROOM (2 * NSEC_PER_USEC)
#define N_TURNS 16

bool (*udp_take_credit)(uint64_t size);
bool (*udp_settle_kernel)(const struct udp_entry *entry);

LARGE _Atomic uint64_t udp_n_kernel_sends[UDP_N_PORTS];

void udp_note_kernel_send(uint16_t port)
{
	(void)atomic_fetch_add_explicit(&udp_n_kernel_sends[port % UDP_N_PORTS], 1,
					memory_order_release);
}

static uint64_t stamp_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Is what went through the kernel there by now? */
static bool settle(struct udp_flow *f)
{
	uint64_t now = nsec_now();

	if (now - f->nsec_settled < NSEC_SETTLE)
		return false;
	f->nsec_settled = now;
	return udp_settle_kernel && udp_settle_kernel(f->entry);
}

void udp_look_at_progress(struct udp_flow *f, uint64_t stamp)
{
	uint64_t head = shm_sent(&f->ring);

	f->stalled = shm_tx_unread(&f->ring) > head - f->head_looked;
	f->stamp_looked = stamp;
	f->head_looked = head;
}

static bool may_grow(const struct udp_flow *f, uint32_t r, uint64_t size)
{
	return !f->no_growth && r < SHM_N_RINGS && f->ring.tx_size[r] <= UDP_RING_MAX &&
	       f->ring.tx_size[r] >= size;
}

/* Goes on in a ring with room for two such records, if there is one. */
static bool grow(struct udp_flow *f, uint64_t size)
{
	uint32_t r = shm_tx_next_ring(&f->ring, 2 * size, UINT64_MAX);

	if (!may_grow(f, r, size))
		return false;
	if (!udp_take_credit || !udp_take_credit(f->ring.tx_size[r]))
		return false;
	f->size_credit += f->ring.tx_size[r];
	f->no_growth = shm_tx_grow(&f->ring, r) < 0;
	return !f->no_growth;
}

/* Before the next one, in a queue that is half full or more. */
static void slow_down(struct udp_flow *f, uint64_t size)
{
	uint64_t half = f->ring.tx_size[f->ring.tx_cur] / 2;
	uint64_t filled = shm_tx_filled(&f->ring, half), end;

	if (LIKELY(filled <= half) ||
	    may_grow(f, shm_tx_next_ring(&f->ring, 2 * size, UINT64_MAX), size))
		return;
	end = nsec_now() + MIN(filled - half, half) * NSEC_ROOM / half;
	do
		cpu_relax();
	while (nsec_now() < end);
}

static int put_patiently(struct udp_flow *f, const struct shm_datagram *d, const struct iovec *iov,
			 size_t n, size_t len)
{
	uint64_t end = nsec_now() + NSEC_ROOM;
	int e;

	do {
		for (unsigned i = 0; i < N_TURNS; i++)
			cpu_relax();
		e = shm_queue_put(&f->ring, d, iov, n, len);
	} while (e == -EAGAIN && nsec_now() < end);
	return e;
}

static int put(struct udp_flow *f, const struct shm_datagram *d, const struct iovec *iov, size_t n,
	       size_t len)
{
	int e;

	slow_down(f, shm_queue_size(len));
	e = shm_queue_put(&f->ring, d, iov, n, len);
	if (LIKELY(e == 0))
		return 0;
	while ((e == -EAGAIN || e == -EMSGSIZE) && grow(f, shm_queue_size(len)))
		e = shm_queue_put(&f->ring, d, iov, n, len);
	return e == -EAGAIN ? put_patiently(f, d, iov, n, len) : e;
}

/*
 * May the next record be dated behind, if this one tells its own time? What stands beside the queue
 * then is lost, and with it the time of the record that it is of, if that one is followed by one
 * which tells its own.
 */
static bool is_date_needless(struct udp_flow *f)
{
	uint64_t dated = atomic_load_explicit(&f->ring.own->dated, memory_order_relaxed);
	uint64_t unread = shm_tx_unread(&f->ring);

	return unread == 0 ||
	       (dated != SHM_UNDATED && unread <= ring_tx_position(&f->ring) - dated);
}

/* A receiver of several flows compares them; the kernel's queue is asked too seldom for the last
 * microsecond to matter. */
static inline uint64_t stamp_for(struct udp_flow *f, uint64_t notice, uint32_t flags)
{
	return LIKELY(notice & SHM_RX_LONE) && LIKELY(!flags) ? pulse_now(&f->pulse) : stamp_now();
}

static ssize_t push_locked(struct udp_flow *f, uint64_t notice, const struct iovec *iov, size_t n,
			   size_t len)
{
	uint64_t sends = udp_kernel_sends(f->port), stamp;
	bool behind = false, needless = false;
	struct shm_datagram d;
	int e;

	d.flags = 0;

	if (UNLIKELY(sends != f->kernel_seen)) {
		if (!settle(f))
			return -EAGAIN;
		d.flags = UDP_AFTER_KERNEL;
	}
	stamp = stamp_for(f, notice, d.flags);
	if (UNLIKELY(udp_is_stalled(f, stamp)))
		return -EAGAIN;
	if (LIKELY(notice & SHM_RX_LONE) && LIKELY(!d.flags))
		behind = udp_may_date_behind(f);
	if (UNLIKELY(!behind) && (notice & SHM_RX_LONE))
		needless = is_date_needless(f);
	d.stamp = LIKELY(behind) ? f->stamp : stamp;
	d.flags |= behind ? UDP_DATED_BEHIND : 0;
	e = put(f, &d, iov, n, len);
	if (UNLIKELY(e < 0))
		return e == -EBADMSG ? -ESHUTDOWN : -EAGAIN;
	f->kernel_seen = sends;
	if (LIKELY(behind)) {
		udp_date(f, stamp);
	} else if (needless) {
		f->stamp = stamp;
		f->dated_at = ring_tx_position(&f->ring);
	}
	if (UNLIKELY(shm_tx_mode(&f->ring) != SHM_TX_RING))
		shm_tx_begin(&f->ring, 0);
	return (ssize_t)len;
}

ssize_t udp_push(struct udp_flow *f, const struct iovec *iov, size_t n, size_t len)
{
	uint64_t notice = shm_peer_notice(&f->ring);
	_Atomic uint32_t *lock = &f->ring.own->tx_lock;
	enum shm_way way;
	ssize_t sent;

	if (UNLIKELY(notice & (SHM_CLOSED | SHM_DEAD | SHM_WANT_KERNEL)))
		return -ESHUTDOWN;
	if (UNLIKELY(!(notice & SHM_RX_READY) || len > f->size_max))
		return -EAGAIN;
	way = shm_enter(lock, shm_is_alone(&f->ring));
	if (UNLIKELY(way == SHM_BUSY)) /* a handler amid a send: the two have no order */
		return -EAGAIN;
	sent = push_locked(f, notice, iov, n, len);
	shm_leave(lock, way);
	return sent;
}
