/*
 * The sending half of the tcp protocol.
 *
 * A direction is in one of three modes, kept in the side's own area and changed only under its
 * tx_lock: KERNEL, then RING from the counted byte kernel_at on, then perhaps ENDED: the kernel
 * again, after the ring's last byte. Each change is one store, made when nobody of the family is
 * inside a kernel send.
 *
 * A ring that is full grows, within the credit that psid gave; one that cannot grow hands its
 * direction back to the kernel, which has buffers of its own: programs that live off 4 MB of kernel
 * buffering must not block for our sake. Going back needs every receive to know of the ring, else
 * the bytes behind the ring could be read before those in it: SHM_RX_RING says so, and where the
 * receiver does not come to say it, a barrier on all processors and its free lock do.
 *
 * A peer that closed, or died, or asks for it, gets what follows through the kernel as well: there
 * the kernel itself makes the reset and the broken pipe that a program expects.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sys/mman.h>

#include "clock.h"
#include "macros.h"
#include "rawsys.h"
#include "tcp.h"
#include "tcp_count.h"
#include "tcp_local.h"
#include "tcp_short.h"

enum tcp_credit (*tcp_take_credit)(uint64_t size);

/* Why a ring took less than all. */
enum obstacle {
	NONE,	 /* nothing, or it is full and that is all there is to say */
	PENDING, /* it may grow in a moment */
	STUCK,	 /* it will not grow, and is smaller than what programs rely on */
};

/* What the kernel's buffers of a loopback connection hold at least, once they have grown. */
#define SIZE_RELIED_ON (2u << 20)
/* Barriers in a row after which a receiver that is still inside its lock has been preempted
 * there. */
#define N_LOOKS 3

static ssize_t kernel_send(int fd, const struct iovec *iov, size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	return raw_sendmsg(fd, &msg, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* KERNEL to RING, if all conditions of docs/upgrade.md hold now. */
static void try_switch(struct tcp *t, int fd)
{
	uint64_t written;
	int e;

	/* Who has the socket since this side has left, be it for a while, writes past us. */
	if (t->no_switch || (atomic_load(&t->ring.own->local) & TCP_LOCAL_URGENT) ||
	    (shm_own_notice(&t->ring) & (SHM_LEFT | SHM_WANT_KERNEL)) ||
	    atomic_load(&t->n_native_sends) != 0)
		return;
	tcp_push_corked(fd);
	e = tcp_count_written(fd, t->role, &written);
	if (e == -EPERM)
		t->no_switch = true;
	if (e == 0)
		shm_tx_begin(&t->ring, written);
}

/*
 * True if no receive is under way that began before the switch. One that holds its lock may have
 * looked at our mode before; one that takes the lock after the barrier sees the ring. Costs
 * milliseconds, for a few connections in a life.
 */
static bool every_receive_knows(struct tcp *t)
{
	if (t->receives_know)
		return true;
	for (unsigned i = 0; i < N_LOOKS && !t->receives_know; i++) {
		if (raw_syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0, 0, 0, 0) < 0)
			return false;
		t->receives_know = shm_peer_receives(&t->ring) == 0;
	}
	return t->receives_know;
}

/* False also if the receiver has just left (tcp_return.c, R3): then the ring is to be returned. */
bool tcp_try_end(struct tcp *t, uint64_t peer_notice)
{
	/* A peer that only seems to be gone must not get bytes past those in the ring. */
	bool gone = t->peer_gone && shm_tx_unread(&t->ring) == 0;

	if (!(peer_notice & (SHM_RX_RING | SHM_CLOSED | SHM_DEAD)) && !gone &&
	    !every_receive_knows(t))
		return false;
	shm_tx_end(&t->ring);
	if (UNLIKELY(tcp_return_instead(t)))
		return false;
	return true;
}

/* A send that goes into rings. */
struct sending {
	uint64_t done;	   /* bytes that it has written */
	enum obstacle why; /* not all of them */
	unsigned *did;
};

/* Goes on in ring r. NONE, or why not. */
static enum obstacle grow(struct tcp *t, uint32_t r, unsigned *did)
{
	enum tcp_credit credit;

	if (r >= SHM_N_RINGS)
		return STUCK;
	credit = tcp_take_credit(t->ring.tx_size[r]);
	*did |= TCP_WANTED;
	if (credit != TCP_CREDIT_GRANTED)
		return credit == TCP_CREDIT_PENDING ? PENDING : STUCK;
	t->size_credit += t->ring.tx_size[r];
	return shm_tx_grow(&t->ring, r) == 0 ? NONE : STUCK;
}

/* Full, and its final size; unless the programs have made that small, it is to be relied on. */
static bool is_full(const struct tcp *t, uint32_t next)
{
	const struct shm_stream *s = &t->ring;

	return next >= SHM_N_RINGS &&
	       (s->tx_cur + 1 < SHM_N_RINGS || s->tx_size[SHM_N_RINGS - 1] >= SIZE_RELIED_ON);
}

/* One piece into the ring. Fewer than len: it is full, and perhaps more is to be said. */
static ssize_t ring_send(struct tcp *t, const char *buf, size_t len, struct sending *now)
{
	uint32_t r, next;
	size_t done = 0;
	ssize_t n;

	for (;;) {
		n = shm_tx_write(&t->ring, buf + done, len - done);
		if (UNLIKELY(n < 0))
			return n;
		done += (size_t)n;
		now->done += (size_t)n;
		if (LIKELY(done == len))
			return (ssize_t)done;
		r = t->ring.tx_cur;
		next = shm_tx_next_ring(&t->ring, len - done, tcp_size_of_buffers(t));
		if (is_full(t, next))
			return (ssize_t)done;
		if (shm_tx_write_untold(&t->ring, buf + done, len - done, now->done)) {
			now->done += len - done;
			return (ssize_t)len;
		}
		now->why = grow(t, next, now->did);
		if (t->ring.tx_cur == r)
			return (ssize_t)done;
	}
}

static ssize_t ring_sendv(struct tcp *t, const struct iovec *iov, size_t n, struct sending *now)
{
	ssize_t sent;

	for (size_t i = 0; i < n; i++) {
		sent = ring_send(t, iov[i].iov_base, iov[i].iov_len, now);
		if (sent < 0)
			return now->done ? (ssize_t)now->done : sent;
		if ((size_t)sent < iov[i].iov_len)
			return now->done ? (ssize_t)now->done : -EAGAIN;
	}
	return (ssize_t)now->done;
}

/* A peer that left with bytes of ours unread: the error if nobody was told of it yet, then
 * EPIPE. */
static ssize_t reset_error(struct tcp *t, int fd)
{
	int e;

	if (tcp_peer_left(t))
		tcp_note_end(t);
	if (!(atomic_load(&t->ring.own->local) & (TCP_LOCAL_RESET | TCP_LOCAL_RESET_SEEN)))
		return 0;
	e = tcp_take_error(t, fd);
	return e ? -e : -EPIPE;
}

/* Before anything else goes through the kernel: what the ring still owes a peer that has left. 1:
 * nothing. The kernel may answer that by a reset. */
static int settle_debt(struct tcp *t, int fd, ssize_t *ret_n)
{
	int e = tcp_owes(t) ? tcp_return_locked(t, fd) : 1;

	if (e == 1 && !tcp_has_reset(t))
		return 1;
	*ret_n = e < 0 ? e : tcp_has_reset(t) ? reset_error(t, fd) : -EAGAIN;
	return 0;
}

/* The modes other than a plain ring send. Returns 1: the ring is to be used; else *ret_n is the
 * result. */
static int settle_mode(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags,
		       ssize_t *ret_n)
{
	uint64_t notice = shm_peer_notice(&t->ring);
	uint32_t mode = shm_tx_mode(&t->ring);
	bool leave = (notice & TCP_HEEDED) || t->peer_gone || t->no_switch || (flags & MSG_OOB);

	if (flags & MSG_OOB)
		t->no_switch = true;
	if ((flags & MSG_OOB) && mode == SHM_TX_KERNEL)
		tcp_set_local(t, TCP_LOCAL_URGENT);
	if (mode == SHM_TX_KERNEL && (notice & SHM_RX_READY) && !leave) {
		try_switch(t, fd);
		mode = shm_tx_mode(&t->ring);
	}
	if (mode == SHM_TX_RING && leave && !(notice & SHM_LEFT)) {
		if (!tcp_try_end(t, notice) && (flags & MSG_OOB) && !tcp_owes(t)) {
			*ret_n = -EAGAIN;
			return 0;
		}
	}
	if (!settle_debt(t, fd, ret_n))
		return 0;
	if (shm_tx_mode(&t->ring) == SHM_TX_RING)
		return 1;
	*ret_n = kernel_send(fd, iov, n, flags);
	return 0;
}

/* After our own end: EPIPE, unless there is an error to tell first, ours or the kernel's: reset
 * before the upgrade counts as shut. The kernel knows of our reset too, and is not asked for it
 * again; nor before it takes no bytes any more, which would come before those in the ring. */
static ssize_t broken_pipe(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags)
{
	ssize_t e;

	if (!tcp_peer_left(t))
		tcp_look_for_end(t, fd);
	e = reset_error(t, fd);
	if (e < 0)
		return e;
	return tcp_count_is_shut(fd) ? kernel_send(fd, iov, n, flags) : -EPIPE;
}

static ssize_t push_locked(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags,
			   unsigned *did)
{
	struct sending now = { .did = did };
	ssize_t sent;

	if (UNLIKELY(shm_own_notice(&t->ring) & SHM_TX_FIN))
		return broken_pipe(t, fd, iov, n, flags);
	if (UNLIKELY(!tcp_is_plain(t) || (flags & MSG_OOB))) {
		/* At the end of a process another thread, or a destructor, may still come here. */
		if (tcp_is_passed_on(t))
			return -EPIPE;
		sent = reset_error(t, fd);
		if (sent < 0)
			return sent;
		if (!settle_mode(t, fd, iov, n, flags, &sent)) {
			/* Of a ring that is left nobody waits for more. */
			if (shm_tx_mode(&t->ring) != SHM_TX_RING)
				atomic_store(&t->stuck, false);
			return sent;
		}
	}
	sent = ring_sendv(t, iov, n, &now);
	if (sent > 0)
		*did |= TCP_SENT;
	if (LIKELY(now.why == NONE && !tcp_is_stuck(t)))
		return sent;
	if (now.why == STUCK && tcp_try_end(t, shm_peer_notice(&t->ring)))
		now.why = NONE;
	atomic_store(&t->stuck, now.why != NONE);
	if (sent == -EAGAIN && shm_tx_mode(&t->ring) == SHM_TX_ENDED)
		return kernel_send(fd, iov, n, flags);
	return sent;
}

ssize_t tcp_push(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags, unsigned *did)
{
	_Atomic uint32_t *lock = &t->ring.own->tx_lock;
	enum shm_way way = shm_enter(lock, shm_is_alone(&t->ring));
	ssize_t sent;

	if (UNLIKELY(way == SHM_BUSY))
		return -EDEADLK;
	sent = push_locked(t, fd, iov, n, flags, did);
	if (UNLIKELY(sent == -ECONNRESET))
		tcp_note_told(t);
	shm_leave(lock, way);
	return sent == -EBADMSG ? -ECONNRESET : sent;
}

/* As a send does, but for what comes with an end: that is the kernel's to tell. */
static void begin_to_send(struct tcp *t, int fd)
{
	_Atomic uint32_t *lock = &t->ring.own->tx_lock;
	enum shm_way way = shm_enter(lock, shm_is_alone(&t->ring));

	if (UNLIKELY(way == SHM_BUSY))
		return;
	if (shm_tx_mode(&t->ring) == SHM_TX_KERNEL && !tcp_is_ending(t) &&
	    (shm_peer_notice(&t->ring) & (SHM_RX_READY | SHM_WANT_KERNEL)) == SHM_RX_READY)
		try_switch(t, fd);
	shm_leave(lock, way);
}

void tcp_begin(struct tcp *t, int fd)
{
	unsigned on_kernel = tcp_on_kernel(t);
	uint64_t size;

	if (on_kernel & POLLOUT)
		begin_to_send(t, fd);
	if ((on_kernel & POLLIN) && shm_peer_tx_mode(&t->ring) != SHM_TX_KERNEL)
		(void)tcp_inq(t, fd, &size);
}

void tcp_keep_on_kernel(struct tcp *t)
{
	t->no_switch = true;
	shm_notice_set(&t->ring, SHM_WANT_KERNEL);
}
