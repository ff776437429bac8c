/*
 * The data calls of a UDP socket.
 *
 * A send goes through the flow that leads to its destination, if there is one and the call asks for
 * nothing that only the kernel can do; else the caller makes it on the kernel. It never waits: a
 * datagram that finds no room is the kernel's to take or to drop.
 *
 * A receive is the kernel's as long as the socket is not attached. After that the udp protocol
 * takes the oldest datagram, from wherever it is, and this file adds waiting, time-outs and
 * signals.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>

#include "clock.h"
#include "datagram.h"
#include "macros.h"
#include "rawsys.h"
#include "udp_short.h"

/* Nothing is ever mapped below: the kernel's to refuse. */
#define SIZE_NO_ADDRESS 4096u
/* Family, port and address; for IPv6 flow label as well, which is 0 in ours. */
#define N_BYTES_NAME4 8u
#define N_BYTES_NAME6 24u
/* Flags that make no difference to a queue. */
#define PLAIN_SEND (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CONFIRM)
/* One call of so many looks at its sender. */
#define N_NAMELESS 8u
/* Who asks again and again whether there is something is not faster than this to learn of it by
 * other means. */
#define NSEC_TRUST (5 * NSEC_PER_USEC)
#define KERNEL_ONLY MSG_ERRQUEUE
#define PLAIN_RECEIVE (MSG_DONTWAIT | MSG_NOSIGNAL)

/* ---- sending --------------------------------------------------------------------------------- */

/* Bytes of the message; -1: something for the kernel to judge. */
static inline ssize_t length_of(const struct iovec *iov, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if ((uintptr_t)iov[i].iov_base < SIZE_NO_ADDRESS && iov[i].iov_len)
			return -1;
		if (iov[i].iov_len > SHM_DATAGRAM_MAX)
			return -1;
		len += iov[i].iov_len;
	}
	return len > SHM_DATAGRAM_MAX ? -1 : (ssize_t)len;
}

/* Whoever ends a flow first says so and then clears this: one of the two sees the other. */
static void note_sent(struct datagram *d, struct flow *f)
{
	struct flow *noted = f;

	atomic_store(&d->last_sent, f);
	if (atomic_load(&f->state) != FLOW_ATTACHED)
		(void)atomic_compare_exchange_strong(&d->last_sent, &noted, NULL);
}

/* Whom the receiver waits with is told, and what it has left is sent again. */
static void __attribute__((noinline)) tell(pulc_stream *s, struct flow *f, int fd)
{
	datagram_tell(&f->queue);
	(void)datagram_send_again(s, f, fd);
}

static inline void note_destination(struct datagram *d, struct flow *f)
{
	if (UNLIKELY(atomic_load_explicit(&d->last_sent, memory_order_relaxed) != f))
		note_sent(d, f);
}

static inline ssize_t send_by(pulc_stream *s, struct flow *f, int fd, const struct iovec *iov,
			      size_t n)
{
	ssize_t len = length_of(iov, n), sent;
	uint64_t ticks;

	if (UNLIKELY(len < 0) || UNLIKELY(datagram_is_shared(s)))
		return -EAGAIN;
	if (n == 1 && len <= (ssize_t)SHM_SHORT_MOST &&
	    LIKELY(udp_push_short(&f->queue, iov->iov_base, (size_t)len, &ticks))) {
		sent = len;
		turn_sent_then(&s->turn, ticks);
	} else {
		sent = udp_push(&f->queue, iov, n, (size_t)len);
		turn_sent(&s->turn);
	}
	udp_answered(&s->datagram->rx);
	note_destination(s->datagram, f);
	if (LIKELY(sent >= 0) ? UNLIKELY(udp_is_awaited(&f->queue)) : sent == -ESHUTDOWN) {
		if (sent >= 0)
			datagram_tell(&f->queue);
		(void)datagram_send_again(s, f, fd);
	}
	return sent;
}

/* Is the name that of the flow's other end, written as it would be given? Otherwise it may be so
 * all the same. */
static inline bool is_name_of(const struct flow *f, const struct msghdr *msg)
{
	if (f->queue.name.in4.sin_family == AF_INET)
		return msg->msg_namelen >= sizeof(f->queue.name.in4) &&
		       memcmp(msg->msg_name, &f->queue.name, N_BYTES_NAME4) == 0;
	return msg->msg_namelen >= sizeof(f->queue.name.in6) &&
	       memcmp(msg->msg_name, &f->queue.name, N_BYTES_NAME6) == 0;
}

static inline struct flow *destination(struct datagram *d, const struct msghdr *msg)
{
	struct datagram_address to;
	struct flow *last;

	if (!msg->msg_name)
		return atomic_load_explicit(&d->to_peer, memory_order_acquire);
	if (!atomic_load_explicit(&d->has_destinations, memory_order_relaxed) ||
	    (uintptr_t)msg->msg_name < SIZE_NO_ADDRESS)
		return NULL;
	last = atomic_load_explicit(&d->last_sent, memory_order_acquire);
	if (LIKELY(last != NULL) && LIKELY(is_name_of(last, msg)) &&
	    LIKELY(atomic_load_explicit(&last->state, memory_order_acquire) == FLOW_ATTACHED))
		return last;
	return datagram_read_address(msg->msg_name, msg->msg_namelen, &to)
		       ? datagram_flow_to(d, &to)
		       : NULL;
}

static inline ssize_t send_message(pulc_stream *s, int fd, const struct msghdr *msg, int flags)
{
	struct datagram *d = s->datagram;
	struct flow *f;
	ssize_t n = -EAGAIN;

	if (UNLIKELY(flags & MSG_MORE)) {
		s->handler->keep_on_kernel(s, fd, PULC_REASON_UNSUPPORTED);
		return PULC_USE_KERNEL;
	}
	if (UNLIKELY(flags & ~PLAIN_SEND) || UNLIKELY(msg->msg_controllen != 0))
		return PULC_USE_KERNEL;
	datagram_enter(d);
	f = destination(d, msg);
	if (LIKELY(f != NULL))
		n = send_by(s, f, fd, msg->msg_iov, msg->msg_iovlen);
	if (UNLIKELY(n == -ESHUTDOWN))
		datagram_flow_over(s, f);
	datagram_leave(d);
	if (LIKELY(n >= 0))
		return n;
	if (UNLIKELY(n == -ESHUTDOWN))
		datagram_reap(s);
	if (f)
		(void)client_credit_ask(); /* the queue may have found no room to grow */
	return PULC_USE_KERNEL;
}

static inline int take_refusal(pulc_stream *s)
{
	return datagram_loss(s) == LOSS_REFUSED ? datagram_take_loss(s) : 0;
}

static inline ssize_t transmit(pulc_stream *s, int fd, const struct msghdr *msg, int flags)
{
	ssize_t n = take_refusal(s);

	if (UNLIKELY(n < 0))
		return n;
	n = send_message(s, fd, msg, flags);
	if (LIKELY(n != PULC_USE_KERNEL))
		return n;
	/* The kernel's, had it not been taken meanwhile. */
	n = take_refusal(s);
	if (UNLIKELY(n < 0))
		return n;
	datagram_kernel_enters();
	return PULC_USE_KERNEL;
}

ssize_t datagram_sendmsg(pulc_stream *s, int fd, const struct msghdr *msg, int flags)
{
	return transmit(s, fd, msg, flags);
}

/* The usual case, in few steps: short, and to the peer of a connected socket. False: nothing was
 * done. */
static inline bool send_short(pulc_stream *s, int fd, const void *buf, size_t len, int flags)
{
	struct datagram *d = s->datagram;
	uint64_t ticks;
	struct flow *f;
	bool sent;

	if (UNLIKELY(flags & ~PLAIN_SEND) || len > SHM_SHORT_MOST ||
	    UNLIKELY((uintptr_t)buf < SIZE_NO_ADDRESS) ||
	    UNLIKELY(atomic_load_explicit(&d->rx.shared, memory_order_relaxed)) ||
	    UNLIKELY(datagram_seems_refused(d)))
		return false;
	datagram_enter(d);
	f = atomic_load_explicit(&d->to_peer, memory_order_acquire);
	sent = LIKELY(f != NULL) && LIKELY(udp_push_short(&f->queue, buf, len, &ticks));
	if (LIKELY(sent)) {
		turn_sent_then(&s->turn, ticks);
		udp_answered(&d->rx);
		note_destination(d, f);
		if (UNLIKELY(udp_is_awaited(&f->queue)))
			tell(s, f, fd);
	}
	datagram_leave(d);
	return sent;
}

ssize_t datagram_send(pulc_stream *s, int fd, const void *buf, size_t len, int flags)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	const struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (LIKELY(send_short(s, fd, buf, len, flags)))
		return (ssize_t)len;
	return transmit(s, fd, &msg, flags);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* What only the kernel knows of a socket that others have as well. */
static void learn(pulc_stream *s, int fd)
{
	struct datagram *d = s->datagram;
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);
	int flags = raw_fcntl(fd, F_GETFL, 0);

	if (raw_getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len) == 0)
		atomic_store(&d->usec_rcvtimeo,
			     (uint64_t)tv.tv_sec * 1000000 + (uint64_t)tv.tv_usec);
	atomic_store(&d->nonblock, flags >= 0 && (flags & O_NONBLOCK));
	atomic_store(&d->known, true);
}

static bool must_not_block(pulc_stream *s, int fd, int flags)
{
	struct datagram *d = s->datagram;

	if (flags & MSG_DONTWAIT)
		return true;
	if (UNLIKELY(!atomic_load_explicit(&d->known, memory_order_relaxed)) ||
	    UNLIKELY(datagram_is_shared(s)))
		learn(s, fd);
	return atomic_load_explicit(&d->nonblock, memory_order_relaxed);
}

/* Counts the caller as inside the kernel. False: the call is to be made here, either because the
 * socket was attached meanwhile, or because the caller does not ask where datagrams come from,
 * which we want to know now and then. */
static bool native_begin(struct pulc_stream *s, bool nameless)
{
	struct datagram *d = s->datagram;

	if (nameless && !d->connected && !d->over_for_good && d->n_nameless++ % N_NAMELESS == 0)
		return false;
	(void)atomic_fetch_add(&d->n_native_receives, 1);
	if (atomic_load(&s->state) != STREAM_ATTACHED)
		return true;
	(void)atomic_fetch_sub(&d->n_native_receives, 1);
	return false;
}

static ssize_t pull(pulc_stream *s, int fd, struct msghdr *msg, int flags, uint64_t nsec_trust)
{
	struct datagram *d = s->datagram;
	struct udp_got got = { .nsec_trust = nsec_trust };
	struct datagram_address from;
	ssize_t n;

	datagram_enter(d);
	n = udp_pull(&d->rx, fd, msg, flags, &got);
	datagram_leave(d);
	if (LIKELY(!got.by_kernel))
		return n;
	if (datagram_read_address((struct sockaddr *)&got.from, got.len_from, &from) &&
	    !(flags & MSG_PEEK))
		datagram_met(s, fd, false, &from);
	return n;
}

static inline bool is_plain(int flags)
{
	return !(flags & ~PLAIN_RECEIVE);
}

static ssize_t wait_and_pull(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	struct wait w = datagram_wait_begin(atomic_load(&s->datagram->usec_rcvtimeo));
	ssize_t n;
	int e;

	for (;;) {
		n = pull(s, fd, msg, flags, 0);
		if (LIKELY(n != -EAGAIN))
			return n;
		datagram_reap(s);
		e = datagram_take_loss(s);
		if (e < 0)
			return e;
		/* The kernel's own answer to who would wait. */
		if (UNLIKELY(atomic_load(&s->datagram->shut_rd)))
			return 0;
		datagram_step(s, fd);
		e = datagram_wait(s, fd, &w);
		fd = stream_fd(s, fd);
		if (e < 0)
			return e == -ERESTART ? PULC_BEGIN_AGAIN : e;
		e = datagram_take_loss(s);
		if (e < 0)
			return e;
	}
}

static ssize_t pull_or_refuse(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t n = pull(s, fd, msg, flags, NSEC_TRUST);

	if (LIKELY(n != -EAGAIN))
		return n;
	datagram_reap(s);
	n = datagram_take_loss(s);
	if (UNLIKELY(n < 0))
		return n;
	datagram_step(s, fd);
	return -EAGAIN;
}

static ssize_t receive_any(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t n = flags & KERNEL_ONLY ? 0 : take_refusal(s);

	if (UNLIKELY(n < 0))
		return n;
	if (UNLIKELY(!pulc_stream_attached(s)) && native_begin(s, !msg->msg_name))
		return PULC_USE_KERNEL;
	if (UNLIKELY(flags & KERNEL_ONLY)) {
		(void)atomic_fetch_add(&s->datagram->n_native_receives, 1);
		return PULC_USE_KERNEL;
	}
	n = must_not_block(s, fd, flags) ? pull_or_refuse(s, fd, msg, flags)
					 : wait_and_pull(s, fd, msg, flags);
	return UNLIKELY(n == -EDEADLK) ? -ENOBUFS : n;
}

/* What is known of the socket says that this call may wait. */
static inline bool may_wait(const struct datagram *d, int flags)
{
	return !(flags & MSG_DONTWAIT) &&
	       !atomic_load_explicit(&d->nonblock, memory_order_relaxed) &&
	       LIKELY(atomic_load_explicit(&d->known, memory_order_relaxed));
}

/* 0: this call may wait, and the kernel has nothing; -EAGAIN: it is not known; the error that the
 * socket had pending. */
static inline int is_quiet(pulc_stream *s, int fd, int flags, uint64_t now)
{
	return may_wait(s->datagram, flags) ? udp_quiet(&s->datagram->rx, fd, now) : -EAGAIN;
}

/* Nothing was there at the first look. */
static inline ssize_t look_on(pulc_stream *s, int fd, struct msghdr *msg, int flags,
			      bool has_waited, uint64_t now)
{
	int e = has_waited ? 0 : is_quiet(s, fd, flags, now);

	if (LIKELY(e == 0) && !datagram_wait_briefly(s, has_waited))
		e = -EAGAIN;
	return e == 0 ? udp_pull_plain(&s->datagram->rx, msg, now) : e;
}

/*
 * The usual case, in few steps: a datagram that is in the only queue, or will be at once. -EAGAIN:
 * nothing was found out. All that can be asked before the look is asked before it, and the look is
 * the taking (stream_short.c).
 */
static inline ssize_t receive_at_once(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	struct udp *rx = &s->datagram->rx;
	uint64_t ticks = pulse_ticks(), now = pulse_about(ticks);
	bool has_waited = false;
	ssize_t n;
	int e;

	if (UNLIKELY(datagram_seems_refused(s->datagram)))
		return -EAGAIN;
	if (UNLIKELY(udp_gathers(rx)) && !must_not_block(s, fd, flags))
		wait_gather(wait_budget(s));
	if (turn_is_peers(&s->turn)) {
		e = is_quiet(s, fd, flags, now);
		if (UNLIKELY(e < 0 && e != -EAGAIN))
			return e;
		has_waited = LIKELY(e == 0) && datagram_wait_turn(s, ticks);
	}
	n = udp_pull_plain(rx, msg, now);
	if (n == -EAGAIN)
		n = look_on(s, fd, msg, flags, has_waited, now);
	if (LIKELY(n >= 0))
		turn_received(&s->turn);
	return n;
}

static inline ssize_t receive(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t n;

	if (LIKELY(pulc_stream_attached(s)) && LIKELY(is_plain(flags))) {
		datagram_enter(s->datagram);
		n = receive_at_once(s, fd, msg, flags);
		datagram_leave(s->datagram);
		if (LIKELY(n != -EAGAIN))
			return n;
	}
	return receive_any(s, fd, msg, flags);
}

ssize_t datagram_recvmsg(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	return receive(s, fd, msg, flags);
}

ssize_t datagram_recv(pulc_stream *s, int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return receive(s, fd, &msg, flags);
}
