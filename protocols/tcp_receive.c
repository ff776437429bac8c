/*
 * The receiving half of the tcp protocol.
 *
 * A direction is read in up to three parts, in order: the first kernel_at bytes from the kernel,
 * the ring, and, once the sender has ended it and it is drained, the kernel again. rx_mode in the
 * own area says which part we are in and changes only under rx_lock. The kernel is asked how many
 * of the first part's bytes are left, so bytes read behind our back count.
 *
 * End of stream. The kernel's end of file is observed first, then the ring is read once more: a
 * sender publishes its last bytes before its FIN. An end without the peer's own word for it
 * (TX_FIN, CLOSED) is the death of its last holder; with bytes of ours unread by it, or closed with
 * such bytes, the survivor makes the reset that the kernel would have made: ECONNRESET once, then
 * end of file.
 *
 * The kernel is not asked at every empty ring: the peer's flags are memory, and without a flag a
 * look every 20 us keeps a spinning receiver from paying a system call for each try.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "clock.h"
#include "macros.h"
#include "rawsys.h"
#include "tcp.h"
#include "tcp_count.h"
#include "tcp_local.h"

#define NSEC_LOOK (20 * NSEC_PER_USEC)

static uint32_t rx_mode(const struct tcp *t)
{
	return atomic_load_explicit(&t->ring.own->rx_mode, memory_order_acquire);
}

static void set_rx_mode(struct tcp *t, uint32_t mode)
{
	atomic_store_explicit(&t->ring.own->rx_mode, mode, memory_order_release);
}

/* The first `limit` bytes of an iovec, at most n_to pieces of it. */
static size_t iov_first(const struct iovec *iov, size_t n, uint64_t limit, struct iovec *to,
			size_t n_to)
{
	size_t k;

	for (k = 0; k < MIN(n, n_to) && limit; k++) {
		to[k] = iov[k];
		to[k].iov_len = MIN((uint64_t)to[k].iov_len, limit);
		limit -= to[k].iov_len;
	}
	return k;
}

/* What an iovec has behind its first `skip` bytes, at most n_to pieces of it. */
static size_t iov_behind(const struct iovec *iov, size_t n, size_t skip, struct iovec *to,
			 size_t n_to)
{
	size_t k = 0;

	for (size_t i = 0; i < n && k < n_to; i++) {
		size_t before = MIN(skip, (size_t)iov[i].iov_len);

		skip -= before;
		if (before == iov[i].iov_len)
			continue;
		to[k].iov_base = (char *)iov[i].iov_base + before;
		to[k++].iov_len = iov[i].iov_len - before;
	}
	return k;
}

/* True where the kernel's next byte is the one behind urgent data, or is that in line. */
static bool is_at_mark(int fd)
{
	int mark = 0;

	return raw_ioctl(fd, SIOCATMARK, &mark) == 0 && mark;
}

static ssize_t kernel_receive(int fd, const struct iovec *iov, size_t n, int flags, uint64_t limit)
{
	struct iovec some[TCP_IOV];
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	if (limit != UINT64_MAX) {
		msg.msg_iov = some;
		msg.msg_iovlen = iov_first(iov, n, limit, some, TCP_IOV);
	}
	return raw_recvmsg(fd, &msg, (flags & (MSG_PEEK | MSG_TRUNC)) | MSG_DONTWAIT);
}

/* An honest sender changes its mode twice after the switch: ENDED, RETURNED. */
#define N_MODES 4

/* Bytes of the first kernel part still to be read; moves on to the ring when there are none. */
static int kernel_left(struct tcp *t, int fd, uint64_t *ret_left)
{
	uint32_t mode = shm_peer_tx_mode(&t->ring), before;
	int e;

	*ret_left = 0;
	if (rx_mode(t) != TCP_RX_KERNEL)
		return 0;
	if (mode == SHM_TX_KERNEL) {
		*ret_left = UINT64_MAX;
		return 0;
	}
	/* Where the ring has ended meanwhile the bytes behind it may be among those counted. */
	for (unsigned i = 0; i < N_MODES; i++) {
		before = mode;
		e = tcp_count_left(fd, shm_peer_kernel_at(&t->ring), mode != SHM_TX_RING, ret_left);
		mode = shm_peer_tx_mode(&t->ring);
		if (e < 0 || mode == before)
			break;
	}
	if (e == 0 && mode != before)
		return -EBADMSG;
	if (e == 0 && *ret_left == 0) {
		set_rx_mode(t, TCP_RX_RING);
		shm_notice_set(&t->ring, SHM_RX_RING);
	}
	return e;
}

/* What a receive that neither copies nor takes finds `offset` bytes beyond the last one taken. */
static ssize_t ring_count(struct tcp *t, size_t len, uint64_t offset)
{
	uint64_t n = shm_rx_waiting(&t->ring);

	n = n > offset ? n - offset : 0;
	return (ssize_t)MIN((uint64_t)len, n);
}

/* Receives from the ring into what lies behind the first `skip` bytes of the iovec. */
static ssize_t ring_receive(struct tcp *t, const struct iovec *iov, size_t n, size_t skip,
			    int flags, unsigned *did)
{
	bool published = false;
	size_t total = 0, len;
	ssize_t got = 0;
	char *to;

	for (size_t i = 0; i < n; i++) {
		if (UNLIKELY(skip >= iov[i].iov_len) && skip) {
			skip -= iov[i].iov_len;
			continue;
		}
		to = (char *)iov[i].iov_base + skip;
		len = iov[i].iov_len - skip;
		skip = 0;
		if (UNLIKELY((flags & MSG_PEEK) && (flags & MSG_TRUNC)))
			got = ring_count(t, len, total);
		else if (flags & MSG_PEEK)
			got = shm_rx_peek(&t->ring, to, len, total);
		else if (flags & MSG_TRUNC)
			got = shm_rx_skip(&t->ring, len, &published);
		else
			got = shm_rx_read(&t->ring, to, len, &published);
		if (got < 0)
			break;
		total += (size_t)got;
		if ((size_t)got < len)
			break;
	}
	if (published)
		*did |= TCP_TAKEN;
	return got < 0 && total == 0 ? got : (ssize_t)total;
}

static bool local(const struct tcp *t, uint32_t flag)
{
	return atomic_load_explicit(&t->ring.own->local, memory_order_acquire) & flag;
}

void tcp_set_local(struct tcp *t, uint32_t flag)
{
	(void)atomic_fetch_or_explicit(&t->ring.own->local, flag, memory_order_acq_rel);
}

/* The ring is empty: has the kernel connection ended? 1: yes; 0: no; negative errno: its error. Who
 * was told that it has may wait for an edge next, and hear of it no more. */
static int kernel_ended(struct tcp *t, int fd, bool look)
{
	uint64_t now = nsec_now();
	bool waits = look; /* in the kernel, next */
	char byte;
	ssize_t n;

	look |= (shm_peer_notice(&t->ring) & (SHM_TX_FIN | SHM_CLOSED | SHM_DEAD)) ||
		local(t, TCP_LOCAL_EOF);
	if (!look && now - atomic_load_explicit(&t->nsec_looked, memory_order_relaxed) < NSEC_LOOK)
		return 0;
	atomic_store_explicit(&t->nsec_looked, now, memory_order_relaxed);
	n = raw_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n == -EAGAIN && !waits && tcp_end_is_awaited(t)) {
		tcp_end_await(t, fd);
		n = raw_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	}
	if (n == 0)
		return 1;
	if (n > 0)
		return shm_peer_tx_mode(&t->ring) == SHM_TX_ENDED ? 0 : -EBADMSG;
	return n == -EAGAIN || n == -EINTR ? 0 : (int)n;
}

/*
 * A ring that its sender has ended was emptied into the first `got` bytes: what follows in the
 * kernel belongs to the same call, up to a mark.
 */
static size_t receive_behind_ring(struct tcp *t, int fd, const struct iovec *iov, size_t n,
				  size_t got, int flags)
{
	struct iovec rest[TCP_IOV];
	int queued = 0;
	ssize_t more;

	if (shm_rx_waiting(&t->ring) != (flags & MSG_PEEK ? got : 0) || is_at_mark(fd) ||
	    raw_ioctl(fd, SIOCINQ, &queued) < 0 || queued == 0)
		return 0;
	more = kernel_receive(fd, rest, iov_behind(iov, n, got, rest, TCP_IOV), flags, UINT64_MAX);
	return more > 0 ? (size_t)more : 0;
}

void tcp_settle_end(struct tcp *t)
{
	if (LIKELY(!shm_rx_ended(&t->ring)) || rx_mode(t) != TCP_RX_RING ||
	    !shm_lock(&t->ring.own->rx_lock))
		return;
	if (rx_mode(t) == TCP_RX_RING && shm_rx_ended(&t->ring))
		set_rx_mode(t, TCP_RX_KERNEL_AGAIN);
	shm_unlock(&t->ring.own->rx_lock);
}

static bool wants_bytes(const struct iovec *iov, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (iov[i].iov_len)
			return true;
	return false;
}

/* The kernel's answer: an end that it thinks orderly may be a reset to those whose bytes lie unread
 * in a ring. */
static ssize_t end_or_reset(struct tcp *t, int fd, const struct iovec *iov, size_t n, ssize_t got)
{
	if (LIKELY(got != 0) || !wants_bytes(iov, n))
		return got;
	tcp_note_end(t);
	return -tcp_take_receive_error(t, fd);
}

static ssize_t ring_or_end(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags,
			   bool look, unsigned *did)
{
	ssize_t got = ring_receive(t, iov, n, 0, flags, did);
	bool is_shut;
	int ended;

	if (got > 0 && UNLIKELY(shm_peer_tx_mode(&t->ring) == SHM_TX_ENDED))
		got += (ssize_t)receive_behind_ring(t, fd, iov, n, (size_t)got, flags);
	if (LIKELY(got != 0))
		return got;
	if (shm_rx_ended(&t->ring)) {
		set_rx_mode(t, TCP_RX_KERNEL_AGAIN);
		return end_or_reset(t, fd, iov, n, kernel_receive(fd, iov, n, flags, UINT64_MAX));
	}
	if (UNLIKELY(local(t, TCP_LOCAL_RESET)))
		return -tcp_take_receive_error(t, fd);
	if (UNLIKELY(local(t, TCP_LOCAL_RESET_SEEN)))
		return 0;
	/* Behind an own end of reading the kernel says the end always, but for a reset, which is
	 * told there too. */
	is_shut = local(t, TCP_LOCAL_SHUT_RD);
	ended = kernel_ended(t, fd, look || is_shut);
	if (ended == 0)
		return is_shut ? 0 : -EAGAIN;
	got = ring_receive(t, iov, n, 0, flags, did);
	/* The look has taken the kernel's error: it is told once the bytes before it are. */
	if (got > 0 && ended == -ECONNRESET)
		tcp_set_local(t, TCP_LOCAL_RESET);
	if (got != 0)
		return got;
	if (ended < 0)
		return ended;
	tcp_note_end(t);
	return -tcp_take_receive_error(t, fd);
}

/*
 * The last byte of the kernel's part was received, with the first `got` bytes: the ring's follow in
 * the same call, and what lies behind a ring that has ended already. Who got less than he asked for
 * takes it that there is no more until an edge tells, and all of this may have been told by the
 * last one. A second peek would see the kernel's first bytes again.
 */
static ssize_t receive_behind_kernel(struct tcp *t, int fd, const struct iovec *iov, size_t n,
				     ssize_t got, int flags, unsigned *did)
{
	ssize_t more = ring_receive(t, iov, n, (size_t)got, flags, did);
	uint64_t left;

	if (more < 0)
		return 0;
	/* The kernel's count of what is left holds until something behind the ring is taken. */
	if (UNLIKELY(shm_peer_tx_mode(&t->ring) == SHM_TX_ENDED) && !(flags & MSG_PEEK) &&
	    kernel_left(t, fd, &left) == 0 && rx_mode(t) == TCP_RX_RING)
		more += (ssize_t)receive_behind_ring(t, fd, iov, n, (size_t)(got + more), flags);
	return more;
}

/* The parts of the stream that come from the kernel. 1: go on with the ring; else *ret_n is the
 * result. */
static int kernel_parts(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags,
			unsigned *did, ssize_t *ret_n)
{
	uint64_t left;
	int e;

	for (;;) {
		e = kernel_left(t, fd, &left);
		if (e < 0) {
			*ret_n = e;
			return 0;
		}
		if (rx_mode(t) == TCP_RX_RING)
			return 1;
		*ret_n = kernel_receive(fd, iov, n, flags,
					rx_mode(t) == TCP_RX_KERNEL ? left : UINT64_MAX);
		if (*ret_n > 0 && (uint64_t)*ret_n == left && rx_mode(t) == TCP_RX_KERNEL) {
			*ret_n += receive_behind_kernel(t, fd, iov, n, *ret_n, flags, did);
			return 0;
		}
		/* An end or an error here may come after bytes that meanwhile went into the ring: a
		 * sender switches before its FIN, so one more look tells. */
		if (*ret_n > 0 || *ret_n == -EAGAIN || left != UINT64_MAX ||
		    shm_peer_tx_mode(&t->ring) == SHM_TX_KERNEL)
			return 0;
		/* That look has taken the error, which comes behind those bytes. */
		if (*ret_n == -ECONNRESET)
			tcp_set_local(t, TCP_LOCAL_RESET);
	}
}

static ssize_t pull_locked(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags,
			   bool look, unsigned *did)
{
	ssize_t got;

	if (UNLIKELY(rx_mode(t) != TCP_RX_RING) && !kernel_parts(t, fd, iov, n, flags, did, &got))
		return end_or_reset(t, fd, iov, n, got);
	return ring_or_end(t, fd, iov, n, flags, look, did);
}

ssize_t tcp_pull(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags, bool look,
		 unsigned *did)
{
	_Atomic uint32_t *lock = &t->ring.own->rx_lock;
	enum shm_way way = shm_enter(lock, shm_is_alone(&t->ring));
	ssize_t got;

	if (UNLIKELY(way == SHM_BUSY))
		return -EDEADLK;
	got = pull_locked(t, fd, iov, n, flags, look, did);
	if (UNLIKELY(got == -ECONNRESET))
		tcp_note_told(t);
	shm_leave(lock, way);
	if (UNLIKELY(got == -EBADMSG)) {
		/* A peer whose counters make no sense: the connection ends, nothing else. */
		tcp_set_local(t, TCP_LOCAL_RESET_SEEN);
		(void)raw_shutdown(fd, SHUT_RDWR);
		return -ECONNRESET;
	}
	return got;
}

bool tcp_watch(struct tcp *t)
{
	if (shm_own_notice(&t->ring) & SHM_RX_READY)
		return true;
	if (atomic_load(&t->n_native_receives) != 0)
		return false;
	shm_notice_set(&t->ring, SHM_RX_READY);
	return true;
}

/* Bytes that lie in the kernel: before the ring, behind it, or both. *ret_all: all of those before
 * the ring are there. */
static int kernel_inq(struct tcp *t, int fd, uint64_t left, uint64_t *ret_size, bool *ret_all)
{
	bool more = shm_peer_tx_mode(&t->ring) == SHM_TX_ENDED || !tcp_reads_ring(t);
	int e, queued = 0;

	*ret_size = 0;
	*ret_all = true;
	if (rx_mode(t) == TCP_RX_RING && !more)
		return 0;
	e = raw_ioctl(fd, SIOCINQ, &queued);
	if (e < 0)
		return e;
	*ret_all = rx_mode(t) != TCP_RX_KERNEL || left <= (uint64_t)queued;
	*ret_size = more ? (uint64_t)queued : MIN(left, (uint64_t)queued);
	return 0;
}

int tcp_inq(struct tcp *t, int fd, uint64_t *ret_size)
{
	uint64_t left = 0, in_kernel = 0;
	bool all = true;
	int e;

	if (!shm_lock(&t->ring.own->rx_lock))
		return -EAGAIN;
	e = kernel_left(t, fd, &left);
	if (e == 0)
		e = kernel_inq(t, fd, left, &in_kernel, &all);
	if (e == 0)
		*ret_size = in_kernel + (all && (tcp_reads_ring(t) || tcp_may_reclaim(t))
						 ? shm_rx_waiting(&t->ring)
						 : 0);
	shm_unlock(&t->ring.own->rx_lock);
	return e;
}
