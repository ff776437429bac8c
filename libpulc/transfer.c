/*
 * The data calls of a stream, with the semantics of the calls they are named for.
 *
 * A call asks where the stream stands. Not attached: the caller makes the very call it was asked
 * for on the kernel. Attached: the tcp protocol moves what can be moved, then this file adds what
 * blocking, time-outs, MSG_WAITALL, SO_RCVLOWAT and signals ask for, in the kernel's order: bytes
 * already moved win over any error, which is then told by the next call. Short messages have a
 * shorter way before this one (stream_short.c).
 */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include <pulc/process.h>

#include "clock.h"
#include "macros.h"
#include "kernel_wait.h"
#include "order.h"
#include "private.h"
#include "rawsys.h"

/* ---- sending --------------------------------------------------------------------------------- */

static bool must_not_block(const struct pulc_stream *s, int flags)
{
	return (flags & MSG_DONTWAIT) ||
	       atomic_load_explicit(&s->tcp.ring.own->nonblock, memory_order_relaxed);
}

/* What is left of an iovec after `skip` bytes; at most n pieces into `rest`. */
static size_t iov_rest(const struct iovec *iov, size_t n, size_t skip, struct iovec *rest,
		       size_t n_rest)
{
	size_t k = 0;

	for (size_t i = 0; i < n && k < n_rest; i++) {
		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		rest[k].iov_base = (char *)iov[i].iov_base + skip;
		rest[k++].iov_len = iov[i].iov_len - skip;
		skip = 0;
	}
	return k;
}

static size_t iov_total(const struct iovec *iov, size_t n)
{
	size_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += iov[i].iov_len;
	return total;
}

#define N_PIECES 64
#define NSEC_HANDOVER_PAUSE (200 * 1000)

/*
 * A send found no room and psid is about to grant more, or to say no: then the kernel has room. A
 * call that may not block waits for that too, for programs take "no room" for a receiver that does
 * not read.
 */
static ssize_t push_again(struct pulc_stream *s, int fd, const struct iovec *iov, size_t n,
			  int flags)
{
	unsigned did = 0;
	ssize_t sent;

	client_credit_await();
	sent = tcp_push(&s->tcp, fd, iov, n, flags, &did);
	if (did)
		stream_tell(s, did);
	return sent;
}

static ssize_t push(struct pulc_stream *s, int fd, const struct iovec *iov, size_t n, int flags)
{
	unsigned did = 0;
	ssize_t sent;

	if (order_sending(s))
		turn_passed(&s->turn);
	sent = tcp_push(&s->tcp, fd, iov, n, flags, &did);
	if (LIKELY(did))
		stream_tell(s, did);
	if (UNLIKELY(did & TCP_WANTED) && client_credit_ask() && sent == -EAGAIN)
		sent = push_again(s, fd, iov, n, flags);
	if (UNLIKELY(tcp_owes(&s->tcp)))
		(void)tcp_return(&s->tcp, fd);
	/* A handler inside our own critical section can't go on, and must not wait for it. */
	return UNLIKELY(sent == -EDEADLK) ? -ENOBUFS : sent;
}

/* Urgent data, and what a ring that cannot grow has no room for, must wait until the receiver has
 * left the kernel's part of the stream; nothing tells of that. */
static int wait_for_room(struct pulc_stream *s, int fd, int flags, struct wait *w)
{
	struct timespec pause = { .tv_nsec = NSEC_HANDOVER_PAUSE };

	if (LIKELY(!(flags & MSG_OOB) && !tcp_is_stuck(&s->tcp)))
		return stream_wait(s, fd, w);
	if (raw_ppoll(NULL, 0, &pause) < 0)
		return wait_verdict(w, signals_verdict(w->signals));
	return nsec_now() < w->nsec_deadline ? 0 : -EAGAIN;
}

/* The part of a blocking send that could not be sent at once. */
static ssize_t send_rest(struct pulc_stream *s, int fd, const struct iovec *iov, size_t n,
			 int flags, size_t done)
{
	struct wait w = stream_wait_begin(POLLOUT, atomic_load(&s->tcp.ring.own->usec_sndtimeo));
	size_t total = iov_total(iov, n), n_rest;
	struct iovec rest[N_PIECES];
	ssize_t sent;
	int e;

	while (done < total) {
		e = wait_for_room(s, fd, flags, &w);
		if (e == -ERESTART && !done)
			return PULC_BEGIN_AGAIN;
		if (e < 0)
			return done ? (ssize_t)done : e;
		fd = stream_fd(s, fd);
		n_rest = iov_rest(iov, n, done, rest, N_PIECES);
		sent = push(s, fd, rest, n_rest, flags);
		if (sent < 0 && sent != -EAGAIN) {
			if (done)
				tcp_keep_error(&s->tcp, (int)-sent);
			return done ? (ssize_t)done : sent;
		}
		done += sent > 0 ? (size_t)sent : 0;
	}
	return (ssize_t)done;
}

/* A send of a side that has left: the kernel's, unless there is a reset to tell that the kernel
 * does not know of. */
static ssize_t send_on_kernel(struct pulc_stream *s, int fd)
{
	int e = tcp_finds_reset(&s->tcp, fd) ? stream_told(s, fd, tcp_take_error(&s->tcp, fd)) : 0;

	return e ? -e : stream_on_kernel(&s->tcp.n_native_sends);
}

/* Urgent data in the kernel part would upset the receiver's count of it. On the kernel nothing but
 * this process's own stream knows of it: where others hold the socket, one of whom may be left with
 * it, it is not upgraded. */
static void urgent_begins(struct pulc_stream *s)
{
	if (s->tcp.no_switch)
		return;
	s->tcp.no_switch = true;
	if (!pulc_stream_attached(s) && !nursery_alone(s->nursery))
		nursery_share(s->nursery, PULC_ANYBODY);
}

USUAL ssize_t stream_send_pieces(struct pulc_stream *s, int fd, const struct iovec *iov, size_t n,
				 size_t total, int flags)
{
	ssize_t sent;

	if (UNLIKELY(flags & MSG_OOB))
		urgent_begins(s);
	if (UNLIKELY(!pulc_stream_attached(s)) &&
	    stream_native_begin(s, fd, &s->tcp.n_native_sends)) {
		turn_passed(&s->turn);
		return PULC_USE_KERNEL;
	}
	if (UNLIKELY(flags & MSG_FASTOPEN) || UNLIKELY(tcp_has_left(&s->tcp) && !tcp_owes(&s->tcp)))
		return send_on_kernel(s, fd);
	sent = push(s, fd, iov, n, flags);
	if (LIKELY(sent == (ssize_t)total))
		return sent;
	if ((sent < 0 && sent != -EAGAIN) || must_not_block(s, flags))
		return sent;
	return send_rest(s, fd, iov, n, flags, sent > 0 ? (size_t)sent : 0);
}

/* Control messages that are wrong are refused by the kernel, those that are right mean nothing to a
 * ring. */
static ssize_t check_control(int fd, const struct msghdr *msg, int flags)
{
	struct msghdr empty = { .msg_control = msg->msg_control,
				.msg_controllen = msg->msg_controllen };

	return raw_sendmsg(fd, &empty, (flags & ~MSG_OOB) | MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t stream_sendmsg(pulc_stream *s, int fd, const struct msghdr *msg, int flags)
{
	ssize_t e;

	if (UNLIKELY(msg->msg_controllen != 0)) {
		if (!pulc_stream_attached(s) && stream_native_begin(s, fd, &s->tcp.n_native_sends))
			return PULC_USE_KERNEL;
		/* A reset that only we know of comes first, and is told below. */
		e = tcp_finds_reset(&s->tcp, fd) || tcp_is_reset(&s->tcp)
			    ? 0
			    : check_control(fd, msg, flags);
		if (e < 0)
			return e;
	}
	if (msg->msg_iovlen == 1 &&
	    stream_send_short(s, fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags))
		return (ssize_t)msg->msg_iov->iov_len;
	return stream_send_pieces(s, fd, msg->msg_iov, msg->msg_iovlen,
				  iov_total(msg->msg_iov, msg->msg_iovlen), flags);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static ssize_t pull(struct pulc_stream *s, int fd, const struct iovec *iov, size_t n, int flags,
		    bool look)
{
	unsigned did = 0;
	ssize_t got = tcp_pull(&s->tcp, fd, iov, n, flags, look, &did);

	if (got > 0)
		order_heard();
	if (did)
		stream_tell(s, did);
	if (got == -EAGAIN)
		(void)tcp_return(&s->tcp, fd);
	return UNLIKELY(got == -EDEADLK) ? -ENOBUFS : got;
}

/* Bytes that a blocking receive waits for (tcp(7): SO_RCVLOWAT, MSG_WAITALL). */
static size_t receive_target(const struct pulc_stream *s, size_t total, int flags)
{
	size_t low = atomic_load_explicit(&s->tcp.ring.own->rcvlowat, memory_order_relaxed);

	if (flags & MSG_WAITALL)
		return total;
	return MAX(MIN(low, total), (size_t)1);
}

/* Nothing will follow what is there already. */
static bool is_at_end(struct pulc_stream *s, int fd)
{
	return tcp_poll(&s->tcp, fd, POLLRDHUP) & (POLLRDHUP | POLLERR | POLLHUP);
}

/* The `got` bytes that were looked at are all that this call can have. */
static bool is_all(struct pulc_stream *s, int fd, size_t got)
{
	return is_at_end(s, fd) || tcp_mark_is_behind(&s->tcp, fd, got);
}

/* What must come so that `target` bytes are there. Those that the kernel holds already are no
 * news. */
static void wait_for_more(struct pulc_stream *s, int fd, size_t target, struct wait *w)
{
	uint64_t in_ring = shm_rx_waiting(&s->tcp.ring), there;

	if (tcp_inq(&s->tcp, fd, &there) < 0)
		there = in_ring;
	/* While some of the kernel's are under way those of the ring are not among `there`. */
	w->need = there < target ? MIN(in_ring + (target - there), (uint64_t)target) : 1;
	w->total = MAX(target, (size_t)1);
	w->kernel_has_part = there > (tcp_is_split(&s->tcp) ? 0 : in_ring);
}

/* A receive that slept: the connection was dissolved meanwhile. As one that sleeps in the kernel it
 * leaves the reset to the next. */
static bool was_dissolved(struct pulc_stream *s, int fd)
{
	return UNLIKELY(!shm_rx_maybe(&s->tcp.ring)) && tcp_is_dissolved(&s->tcp, fd);
}

/* What a look ends with that had seen bytes before, which another reader has taken since: these
 * count, and what there is instead is told by the next call. */
static ssize_t end_of_peek(struct pulc_stream *s, ssize_t seen, ssize_t got)
{
	if (LIKELY(seen <= 0))
		return got;
	if (got < 0)
		tcp_keep_error(&s->tcp, (int)-got);
	return seen;
}

/* MSG_PEEK of `target` bytes, `got` (or -EAGAIN) at first: what was peeked is peeked again until it
 * is enough or nothing more will come. */
static ssize_t peek_rest(struct pulc_stream *s, int fd, const struct iovec *iov, size_t n,
			 int flags, size_t target, ssize_t got)
{
	struct wait w = stream_wait_begin(POLLIN, atomic_load(&s->tcp.ring.own->usec_rcvtimeo));
	ssize_t seen = got;
	bool end;
	int e;

	while (got < (ssize_t)target) {
		end = got > 0 && is_all(s, fd, (size_t)got);
		wait_for_more(s, fd, target, &w);
		/* Bytes of the kernel's behind a mark are not counted, and were seen. Beside those
		 * that it holds a look is taken each millisecond, for an urgent byte that stands
		 * before them would end each sleep. */
		w.kernel_has_part |= got > 0 && (uint64_t)got > shm_rx_waiting(&s->tcp.ring);
		w.heeds_mark = got > 0 && !w.kernel_has_part;
		e = end ? 0 : stream_wait(s, fd, &w);
		fd = stream_fd(s, fd);
		if (e == -ERESTART && seen <= 0)
			return PULC_BEGIN_AGAIN;
		if (e == 0 && !end && was_dissolved(s, fd))
			return seen > 0 ? seen : -EPIPE;
		got = pull(s, fd, iov, n, flags, true);
		if (got == -EAGAIN && e == 0)
			continue;
		if (got <= 0)
			return end_of_peek(s, seen, got == -EAGAIN ? e : got);
		if (e < 0 || end)
			return got;
		seen = got;
	}
	return got;
}

static ssize_t receive_rest(struct pulc_stream *s, int fd, const struct iovec *iov, size_t n,
			    int flags, size_t target, size_t done)
{
	struct wait w = stream_wait_begin(POLLIN, atomic_load(&s->tcp.ring.own->usec_rcvtimeo));
	struct iovec rest[N_PIECES];
	size_t n_rest;
	ssize_t got;
	int e;

	while (done < target) {
		w.heeds_mark = done > 0;
		e = stream_wait(s, fd, &w);
		fd = stream_fd(s, fd);
		if (e == -ERESTART && !done)
			return PULC_BEGIN_AGAIN;
		if (e == 0 && was_dissolved(s, fd))
			e = -EPIPE;
		if (e < 0)
			return done ? (ssize_t)done : e;
		/* What was received before urgent data stands alone. */
		if (done && UNLIKELY(tcp_at_mark(&s->tcp, fd)))
			return (ssize_t)done;
		n_rest = iov_rest(iov, n, done, rest, N_PIECES);
		got = pull(s, fd, rest, n_rest, flags, true);
		if (got == -EAGAIN)
			continue;
		if (got < 0 && done)
			tcp_keep_error(&s->tcp, (int)-got);
		if (got <= 0)
			return done ? (ssize_t)done : got;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

static bool has_bytes(struct pulc_stream *s, int fd)
{
	uint64_t size;

	return tcp_inq(&s->tcp, fd, &size) == 0 && size > 0;
}

/* Who asks for no bytes at the end is told the error, of which the kernel alone may know. */
static ssize_t end_of_nothing(struct pulc_stream *s, int fd)
{
	int e = -tcp_take_receive_error(&s->tcp, fd);

	if (!e)
		e = (int)raw_recv(fd, NULL, 0, MSG_DONTWAIT);
	return e == -EAGAIN ? 0 : e;
}

static bool is_shut_for_sending(const struct pulc_stream *s)
{
	return shm_own_notice(&s->tcp.ring) & SHM_TX_FIN;
}

/* A receive of no bytes waits for some to be there and takes none (recv(2); read(2) of none does
 * not come here). One that has slept has what it wanted, which was nothing: whatever wakes it in
 * the kernel, it answers 0. There another holder's shutdown does so, of either direction. */
static ssize_t receive_nothing(struct pulc_stream *s, int fd, bool dont_wait)
{
	struct wait w = stream_wait_begin(POLLIN, atomic_load(&s->tcp.ring.own->usec_rcvtimeo));
	bool has_slept = false, was_shut = is_shut_for_sending(s);

	for (;; has_slept = true) {
		if (stream_poll(s, fd, POLLIN) & (POLLIN | POLLHUP | POLLERR))
			return has_slept || has_bytes(s, fd) ? 0 : end_of_nothing(s, fd);
		/* Fewer than SO_RCVLOWAT. */
		if (has_bytes(s, fd))
			return 0;
		/* An urgent byte is something to wait for that poll does not tell. */
		if ((tcp_on_kernel(&s->tcp) & POLLIN) && raw_recv(fd, NULL, 0, MSG_DONTWAIT) == 0)
			return 0;
		if (dont_wait)
			return -EAGAIN;
		if (stream_wait(s, fd, &w) < 0 || is_shut_for_sending(s) != was_shut)
			return 0;
		fd = stream_fd(s, fd);
	}
}

/* The urgent byte is the kernel's, but behind a reset that only we know of there is no connection
 * to take it from. */
static ssize_t receive_urgent(struct pulc_stream *s, int fd)
{
	char byte;

	if (LIKELY(!tcp_urgent_is_gone(&s->tcp, fd)))
		return stream_on_kernel(&s->tcp.n_native_receives);
	return raw_recv(fd, &byte, 1, MSG_OOB | MSG_PEEK | MSG_DONTWAIT) == -EINVAL ? -EINVAL
										    : -ENOTCONN;
}

/* A blocking call with nothing in the ring waits at once instead of trying first. */
static bool surely_empty(struct pulc_stream *s)
{
	return !shm_rx_maybe(&s->tcp.ring) && (shm_own_notice(&s->tcp.ring) & SHM_RX_RING) &&
	       !(shm_peer_notice(&s->tcp.ring) & (SHM_TX_FIN | SHM_CLOSED | SHM_DEAD)) &&
	       shm_peer_tx_mode(&s->tcp.ring) == SHM_TX_RING &&
	       !atomic_load_explicit(&s->tcp.ring.own->local, memory_order_relaxed);
}

/* The kernel counts no bytes behind a mark at which it stands. The look may take its error: the one
 * that is told instead is the same. */
static bool has_bytes_behind_mark(struct pulc_stream *s, int fd)
{
	char byte;

	return tcp_at_mark(&s->tcp, fd) && raw_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Whoever sleeps in the kernel is told of an end in order if the peer is killed now. */
static bool may_be_reset_unheard(struct pulc_stream *s, int fd)
{
	const unsigned something = POLLIN | POLLERR | POLLHUP;

	return tcp_may_be_reset(&s->tcp) && !(tcp_poll(&s->tcp, fd, POLLIN) & something) &&
	       !has_bytes(s, fd) && !has_bytes_behind_mark(s, fd);
}

/* As send_on_kernel; bytes come before an error. One that may sleep while some of its own bytes are
 * unread in the ring sleeps here: of a reset for their sake the kernel does not know. */
static ssize_t receive_on_kernel(struct pulc_stream *s, int fd, const struct kernel_call *call,
				 bool may_sleep)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)call->iov, .msg_iovlen = call->n };
	struct wait w = stream_wait_begin(POLLIN, atomic_load(&s->tcp.ring.own->usec_rcvtimeo));
	int own = fd, e = 0;

	while (may_sleep && may_be_reset_unheard(s, own)) {
		e = stream_wait(s, own, &w);
		own = stream_fd(s, own);
		if (e < 0)
			return e == -ERESTART ? PULC_BEGIN_AGAIN : e;
		if (tcp_is_dissolved(&s->tcp, own))
			return -EPIPE;
	}
	if (tcp_finds_reset(&s->tcp, own) && !has_bytes(s, own) && !has_bytes_behind_mark(s, own))
		e = stream_told(s, own, tcp_take_receive_error(&s->tcp, own));
	if (e)
		return -e;
	return own == fd ? stream_on_kernel(&s->tcp.n_native_receives)
			 : raw_recvmsg(own, &msg, call->flags);
}

/* Does the stream of a side that had left go on in its ring? 1; 0: in the kernel; -EAGAIN: not to
 * be known yet; -EINTR or PULC_BEGIN_AGAIN: a handler has run. */
static int go_back(struct pulc_stream *s, int flags)
{
	struct wait w = stream_wait_begin(POLLIN, atomic_load(&s->tcp.ring.own->usec_rcvtimeo));
	int e;

	while ((e = tcp_reclaim(&s->tcp)) == -EAGAIN && !must_not_block(s, flags)) {
		e = wait_verdict(&w, signals_since(w.signals));
		if (e < 0)
			return e == -ERESTART ? PULC_BEGIN_AGAIN : e;
		if (nsec_now() >= w.nsec_deadline)
			return -EAGAIN;
	}
	return e;
}

/* The kernel's, unless the call has ended before it was made. */
static ssize_t receive_native(struct pulc_stream *s, int fd, const struct kernel_call *call)
{
	ssize_t n = kernel_wait(s, fd, call);

	if (UNLIKELY(n != PULC_USE_KERNEL))
		pulc_stream_recv_end(s, fd, n);
	return n;
}

USUAL ssize_t stream_receive_pieces(struct pulc_stream *s, int fd, const struct iovec *iov,
				    size_t n, size_t total, int flags)
{
	bool dont_wait;
	size_t target;
	ssize_t got;

	if (UNLIKELY(!pulc_stream_attached(s)) &&
	    stream_native_begin(s, fd, &s->tcp.n_native_receives))
		return receive_native(s, fd, &(struct kernel_call){ iov, n, flags });
	/* While another thread is still inside the kernel the ring stays empty; no new one goes
	 * there. */
	(void)tcp_watch(&s->tcp);
	if (UNLIKELY(flags & (MSG_ERRQUEUE | MSG_OOB)))
		return flags & MSG_ERRQUEUE ? stream_on_kernel(&s->tcp.n_native_receives)
					    : receive_urgent(s, fd);
	dont_wait = must_not_block(s, flags);
	if (UNLIKELY(tcp_has_left(&s->tcp))) {
		int e = go_back(s, flags);

		if (e <= 0)
			return e < 0 ? e
				     : receive_on_kernel(s, fd,
							 &(struct kernel_call){ iov, n, flags },
							 !dont_wait && total > 0);
	}
	if (UNLIKELY(total == 0))
		return receive_nothing(s, fd, dont_wait);
	target = receive_target(s, total, flags);
	if (!dont_wait && surely_empty(s) && !(flags & MSG_PEEK))
		return receive_rest(s, fd, iov, n, flags, target, 0);
	got = pull(s, fd, iov, n, flags, !dont_wait);
	if (LIKELY(got >= (ssize_t)target) || got == 0)
		return got;
	if (dont_wait || (got < 0 && got != -EAGAIN))
		return got;
	if (flags & MSG_PEEK)
		return peek_rest(s, fd, iov, n, flags, target, got);
	return receive_rest(s, fd, iov, n, flags, target, got > 0 ? (size_t)got : 0);
}

/* The peer may have shut down before it was upgraded: then the kernel alone knows of the end. */
static bool end_is_known(struct pulc_stream *s, int fd)
{
	return (tcp_is_ending(&s->tcp) || (tcp_on_kernel(&s->tcp) & POLLIN)) && is_at_end(s, fd) &&
	       tcp_end_counts(&s->tcp, fd);
}

/* TCP_INQ: how much is left, the end of the stream counted like a byte; there is `room` for it. */
static void tell_left(struct pulc_stream *s, int fd, struct msghdr *msg, size_t room)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct cmsghdr *c = (struct cmsghdr *)control;
	size_t len = msg->msg_control ? MIN(room, sizeof(control)) : 0;
	uint64_t size = 0;
	int left;

	(void)tcp_inq(&s->tcp, fd, &size);
	left = (int)MIN(size, (uint64_t)INT32_MAX - 1) + end_is_known(s, fd);
	*c = (struct cmsghdr){ .cmsg_level = IPPROTO_TCP, .cmsg_type = TCP_CM_INQ };
	c->cmsg_len = MIN(len, CMSG_LEN(sizeof(left)));
	memcpy(CMSG_DATA(c), &left, sizeof(left));
	if (len < CMSG_LEN(sizeof(left)))
		msg->msg_flags |= MSG_CTRUNC;
	if (len < sizeof(*c))
		return;
	memcpy(msg->msg_control, control, len);
	msg->msg_controllen = len;
}

static ssize_t receive_message(pulc_stream *s, int fd, const struct msghdr *msg, int flags)
{
	size_t got = msg->msg_iovlen != 1 ? 0
					  : stream_receive_short(s, msg->msg_iov->iov_base,
								 msg->msg_iov->iov_len, flags);

	return got ? (ssize_t)got
		   : stream_receive_pieces(s, fd, msg->msg_iov, msg->msg_iovlen,
					   iov_total(msg->msg_iov, msg->msg_iovlen), flags);
}

ssize_t stream_recvmsg(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	size_t room = msg->msg_controllen;
	ssize_t got = receive_message(s, fd, msg, flags);
	bool attached = stream_is_attached(s);

	/* One that failed says nothing but that. */
	if (got < 0)
		return got;
	if (msg->msg_name)
		msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
	if (attached && UNLIKELY(atomic_load(&s->tcp.ring.own->inq)))
		tell_left(s, fd, msg, room);
	return got;
}
