/*
 * sendmsg, recvmsg and their forms for several messages.
 *
 * A TCP socket's messages are pieces of its stream, a UDP socket's are datagrams. What matters
 * besides is what a Unix socket's message may carry: descriptors (passing.c).
 */
#include <limits.h>
#include <string.h>
#include <time.h>

#include <pulc/signals.h>

#include "clock.h"
#include "data.h"
#include "macros.h"
#include "passing.h"
#include "rawsys.h"
#include "symbols.h"

/* The kernel's UIO_MAXIOV: sendmmsg, unlike recvmmsg, ignores messages beyond. */
#define N_SENT_MAX 1024u

/* Why the kernel refuses a header before it looks at the socket; 0: it does not. */
static int check_header(const struct msghdr *msg)
{
	if (pre_is_bad(msg, sizeof(*msg)))
		return -EFAULT;
	if (msg->msg_name && (int)msg->msg_namelen < 0)
		return -EINVAL;
	if (msg->msg_iovlen > IOV_MAX)
		return -EMSGSIZE;
	return pre_is_bad(msg->msg_iov, msg->msg_iovlen) ? -EFAULT : 0;
}

static bool has_bad_name(const struct msghdr *msg)
{
	return msg->msg_name && pre_is_bad(msg->msg_name, msg->msg_namelen);
}

static ssize_t send_message(pulc_stream *s, int fd, const struct msghdr *msg, int flags)
{
	ssize_t len = check_header(msg);

	if (len == 0)
		len = has_bad_name(msg) ? -EFAULT : 0;
	if (len < 0)
		return len;
	len = pre_vector_len(msg->msg_iov, msg->msg_iovlen);
	if (len == -EFAULT)
		return pre_refuse_send(s, fd, flags);
	return len < 0 ? len : pulc_stream_sendmsg(s, fd, msg, flags);
}

/* The kernel finds a bad address for the name when the datagram is taken already. A connection's
 * messages name nobody. */
static ssize_t refuse_to_name(pulc_stream *s, int fd, const struct msghdr *msg, int flags)
{
	struct msghdr nameless = *msg;
	ssize_t n;

	nameless.msg_name = NULL;
	n = pulc_stream_recvmsg(s, fd, &nameless, flags);
	return n < 0 ? n : -EFAULT;
}

static ssize_t receive_message(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t len = check_header(msg);

	if (len < 0)
		return len;
	len = pre_vector_len(msg->msg_iov, msg->msg_iovlen);
	if (len == -EFAULT && !pre_drops(s, flags))
		return pre_refuse_receive(s, fd, flags);
	if (len < 0 && len != -EFAULT)
		return len;
	if (has_bad_name(msg) && pulc_stream_is_datagram(s))
		return refuse_to_name(s, fd, msg, flags);
	return pulc_stream_recvmsg(s, fd, msg, flags);
}

static ssize_t send_one(int fd, const struct msghdr *msg, int flags)
{
	pre_send_begins(fd, flags);
#define WENT_TO(s, fd, n) pre_sent(s, fd, n, msg->msg_name, msg->msg_namelen)
	return PRE_MOVE_(fd, send_message(s, fd, msg, flags), pre_real.sendmsg(fd, msg, flags),
			 WENT_TO,
			 PRE_AFTER_SEND_(pre_vector_len(msg->msg_iov, msg->msg_iovlen), flags));
#undef WENT_TO
}

ssize_t pre_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	enum pre_passing passing = pre_passing_begins(fd, msg, flags);
	ssize_t n = passing == PRE_PASSES_CLOSED ? -EBADF : send_one(fd, msg, flags);

	pre_send_ended(n, flags);
	pre_passing_ends(passing, msg, n);
	return n;
}

/* room: what msg_namelen was before the call. */
static void came_from(pulc_stream *s, int fd, ssize_t n, const struct msghdr *msg, socklen_t room)
{
	pre_received(s, fd, n, n >= 0 ? msg->msg_name : NULL,
		     n >= 0 && msg->msg_namelen < room ? msg->msg_namelen : room);
}

/* Before the kernel has made a call nobody knows if there is a header: only of a stream's call it
 * is read. */
static ssize_t receive_noted(pulc_stream *s, int fd, struct msghdr *msg, int flags,
			     socklen_t *ret_room)
{
	if (!pre_is_bad(msg, sizeof(*msg)))
		*ret_room = msg->msg_namelen;
	return receive_message(s, fd, msg, flags);
}

ssize_t pre_recvmsg(int fd, struct msghdr *msg, int flags)
{
	socklen_t room = 0;
	ssize_t n;

#define CAME_FROM(s, fd, n) came_from(s, fd, n, msg, room)
	n = PRE_MOVE_(fd, receive_noted(s, fd, msg, flags, &room), pre_real.recvmsg(fd, msg, flags),
		      CAME_FROM, );
#undef CAME_FROM
	if (n >= 0 && msg->msg_controllen >= CMSG_LEN(sizeof(int)))
		pre_passing_received(msg, flags);
	return n;
}

/* ---- several --------------------------------------------------------------------------------- */

/*
 * libpulc is asked with the first message. If that is the kernel's, so are all, in one call; else
 * each goes its own way.
 */

/* The answer of a call for several messages: their number, and an errno untouched by the one that
 * failed after them. */
static int several(unsigned n, int last, int saved)
{
	if (n == 0)
		return last;
	errno = saved;
	return (int)n;
}

static bool is_whole(const struct msghdr *msg, ssize_t sent)
{
	return sent == pre_vector_len(msg->msg_iov, msg->msg_iovlen);
}

static ssize_t send_next(struct pre_use *use, int fd, const struct msghdr *msg, int flags)
{
	ssize_t sent = send_message(use->stream, fd, msg, flags);

	if (sent == PULC_USE_KERNEL) {
		sent = pre_sys(pre_real.sendmsg(fd, msg, flags));
		pre_sent(use->stream, fd, sent, msg->msg_name, msg->msg_namelen);
	} else if (sent < 0 || !is_whole(msg, sent)) {
		pre_send_cut_short(use->file, sent, flags);
	}
	return sent;
}

static int send_several(struct pre_use *use, int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	ssize_t sent = send_message(use->stream, fd, &msgs[0].msg_hdr, flags);
	int saved = errno;
	unsigned i = 0;

	if (sent == PULC_USE_KERNEL || sent == PULC_BEGIN_AGAIN)
		return (int)sent;
	if (sent < 0 || !is_whole(&msgs[0].msg_hdr, sent))
		pre_send_cut_short(use->file, sent, flags);
	while (sent >= 0) {
		msgs[i].msg_len = (unsigned)sent;
		/* A message that was cut short is the last one. */
		if (!is_whole(&msgs[i].msg_hdr, sent) || ++i == n)
			return (int)(i < n ? i + 1 : n);
		sent = send_next(use, pulc_stream_fd(use->stream, fd), &msgs[i].msg_hdr, flags);
	}
	return several(i, (int)sent, saved);
}

static bool pass_on(int fd, const struct mmsghdr *msgs, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (pre_passing_concerns(fd, &msgs[i].msg_hdr))
			return true;
	return false;
}

/* Each by itself, so that it is known of each if it has gone. */
static int send_each(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	ssize_t sent = 0;
	int saved = errno;
	unsigned i;

	for (i = 0; i < n; i++) {
		sent = pre_sendmsg(fd, &msgs[i].msg_hdr, flags);
		if (sent < 0)
			break;
		msgs[i].msg_len = (unsigned)sent;
		if (!is_whole(&msgs[i].msg_hdr, sent))
			return (int)i + 1;
	}
	return several(i, (int)sent, saved);
}

static void went_to_all(pulc_stream *s, int fd, int sent, const struct mmsghdr *msgs)
{
	pulc_stream_send_end(s, fd, sent);
	for (int i = 0; i < sent; i++)
		if (msgs[i].msg_hdr.msg_name)
			pulc_stream_met(s, fd, POLLOUT, msgs[i].msg_hdr.msg_name,
					msgs[i].msg_hdr.msg_namelen);
}

static int send_all(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	struct pre_use use;
	int sent;

	pre_cancellation_point();
	n = MIN(n, N_SENT_MAX);
	if (n > 0 && !pre_is_bad(msgs, n) && pass_on(fd, msgs, n))
		return send_each(fd, msgs, n, flags);
	pre_send_begins(fd, flags);
	if (n == 0 || pre_is_bad(msgs, n) || !pre_use_stream(&use, fd)) {
		sent = (int)pre_sys(pre_real.sendmmsg(fd, msgs, n, flags));
		pre_send_ended(sent, flags);
		return sent;
	}
	sent = send_several(&use, fd, msgs, n, flags);
	if (sent == PULC_USE_KERNEL) {
		sent = (int)pre_sys(pre_real.sendmmsg(fd, msgs, n, flags));
		went_to_all(use.stream, fd, sent, msgs);
	}
	pre_use_end(&use);
	return sent;
}

int pre_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	int sent;

	do
		sent = send_all(fd, msgs, n, flags);
	while (sent == PULC_BEGIN_AGAIN);
	return sent;
}

/* When the time is over, CLOCK_MONOTONIC; as late as can be if there is too much of it. */
static void begin_timeout(const struct timespec *timeout, struct timespec *ret_end)
{
	(void)clock_gettime(CLOCK_MONOTONIC, ret_end);
	ret_end->tv_nsec += timeout->tv_nsec;
	ret_end->tv_sec += ret_end->tv_nsec / NSEC_PER_SEC;
	ret_end->tv_nsec %= NSEC_PER_SEC;
	if (__builtin_add_overflow(ret_end->tv_sec, timeout->tv_sec, &ret_end->tv_sec))
		ret_end->tv_sec = LONG_MAX;
}

/* Leaves in *timeout what there is of it still. False: nothing. */
static bool has_time(const struct timespec *end, struct timespec *timeout)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	timeout->tv_sec = end->tv_sec - now.tv_sec;
	timeout->tv_nsec = end->tv_nsec - now.tv_nsec;
	if (timeout->tv_nsec < 0) {
		timeout->tv_nsec += NSEC_PER_SEC;
		timeout->tv_sec--;
	}
	if (timeout->tv_sec < 0)
		*timeout = (struct timespec){ 0, 0 };
	return timeout->tv_sec || timeout->tv_nsec;
}

static int receive_native(int fd, struct mmsghdr *msgs, unsigned n, int flags,
			  struct timespec *timeout)
{
	int got = (int)pre_sys(pre_real.recvmmsg(fd, msgs, n, flags, timeout));

	for (int i = 0; i < got; i++)
		if (msgs[i].msg_hdr.msg_controllen >= CMSG_LEN(sizeof(int)))
			pre_passing_received(&msgs[i].msg_hdr, flags);
	return got;
}

static ssize_t receive_next(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	socklen_t room = msg->msg_namelen;
	ssize_t got = receive_message(s, fd, msg, flags);

	if (got == PULC_USE_KERNEL) {
		got = pre_sys(pre_real.recvmsg(fd, msg, flags));
		came_from(s, fd, got, msg, room);
	}
	return got;
}

/* recvmmsg tells an error of the socket before what is there; recvmsg tells it behind. The kernel
 * may know of the same reset. */
static int error_before(pulc_stream *s, int fd, int flags)
{
	int error, kernel = 0;
	socklen_t len = sizeof(kernel);

	if ((flags & MSG_ERRQUEUE) || pulc_stream_is_datagram(s) || !pulc_stream_attached(s))
		return 0;
	error = pulc_stream_take_error(s);
	(void)raw_getsockopt(fd, SOL_SOCKET, SO_ERROR, &kernel, &len);
	return error ? error : kernel;
}

/* The answer of a call that ends with a message which did not come: what is there, if anything is;
 * the socket's error is then the next call's. */
static int several_received(pulc_stream *s, unsigned n, int last, int saved)
{
	if (n > 0 && last != -EAGAIN)
		pulc_stream_keep_error(s, -last);
	return several(n, last, saved);
}

/* A message of no bytes that a handler has woken has come; the kernel lets the handler run behind
 * the call, which finds nothing of what that one sends. */
static bool was_woken(const struct msghdr *msg, ssize_t got, uint32_t n_handled)
{
	return got == 0 && pulc_signal_count() != n_handled &&
	       pre_vector_len(msg->msg_iov, msg->msg_iovlen) == 0;
}

/* The timeout is looked at between messages only: that is the kernel's own behaviour. */
static int receive_several(pulc_stream *s, int fd, struct mmsghdr *msgs, unsigned n, int flags,
			   struct timespec *timeout)
{
	uint32_t n_handled = pulc_signal_count();
	struct timespec end;
	int saved = errno;
	unsigned i = 0;
	ssize_t got = error_before(s, fd, flags);

	if (got)
		return several(0, (int)-got, saved);
	if (timeout)
		begin_timeout(timeout, &end);
	got = receive_message(s, fd, &msgs[0].msg_hdr, flags & ~MSG_WAITFORONE);
	if (got == PULC_USE_KERNEL || got == PULC_BEGIN_AGAIN)
		return (int)got;
	if (flags & MSG_WAITFORONE)
		flags |= MSG_DONTWAIT;
	/* With some there is an answer, whatever ends the next wait. */
	while (got >= 0) {
		msgs[i].msg_len = (unsigned)got;
		i++;
		if ((timeout && !has_time(&end, timeout)) || i == n ||
		    was_woken(&msgs[i - 1].msg_hdr, got, n_handled))
			return (int)i;
		n_handled = pulc_signal_count();
		got = receive_next(s, pulc_stream_fd(s, fd), &msgs[i].msg_hdr,
				   flags & ~MSG_WAITFORONE);
	}
	return several_received(s, i, (int)got, saved);
}

static void came_from_all(pulc_stream *s, int fd, int got, const struct mmsghdr *msgs)
{
	pulc_stream_recv_end(s, fd, got);
	for (int i = 0; i < got; i++)
		if (msgs[i].msg_hdr.msg_name)
			pulc_stream_met(s, fd, POLLIN, msgs[i].msg_hdr.msg_name,
					msgs[i].msg_hdr.msg_namelen);
}

static bool is_bad_timeout(const struct timespec *timeout)
{
	return timeout && (pre_is_bad(timeout, sizeof(*timeout)) || timeout->tv_sec < 0 ||
			   timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000);
}

static int receive_all(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		       struct timespec *timeout)
{
	struct pre_use use;
	int got;

	pre_cancellation_point();
	if (n == 0 || pre_is_bad(msgs, n) || !pre_use_stream(&use, fd))
		return receive_native(fd, msgs, n, flags, timeout);
	if (is_bad_timeout(timeout)) {
		pre_use_end(&use);
		return receive_native(fd, msgs, n, flags, timeout);
	}
	got = receive_several(use.stream, fd, msgs, n, flags, timeout);
	if (got == PULC_USE_KERNEL) {
		got = (int)pre_sys(pre_real.recvmmsg(fd, msgs, n, flags, timeout));
		came_from_all(use.stream, fd, got, msgs);
	}
	pre_use_end(&use);
	return got;
}

int pre_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
	int got;

	do
		got = receive_all(fd, msgs, n, flags, timeout);
	while (got == PULC_BEGIN_AGAIN);
	return got;
}
