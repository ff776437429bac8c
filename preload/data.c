/*
 * The read and write family.
 *
 * Each function is its own kernel call or libpulc's, decided by libpulc for each call: see
 * PRE_MOVE_. What is done here is only the difference between the calls: their parameters, flags,
 * and SIGPIPE, which libpulc never raises.
 */
#include <limits.h>
#include <signal.h>

#include "data.h"
#include "epoll.h"
#include "rawsys.h"
#include "symbols.h"

/* SIGPIPE to this very thread, as the kernel does it. */
static void pipe_signal(void)
{
	long pid = raw_syscall(SYS_getpid), tid = raw_syscall(SYS_gettid);

	(void)raw_syscall(SYS_tgkill, pid, tid, SIGPIPE);
}

void pre_send_cut_short(struct pre_file *f, ssize_t n, int flags)
{
	if (n >= 0 || n == -EAGAIN)
		pre_members_full(f);
	else if (n == -EPIPE && !(flags & MSG_NOSIGNAL))
		pipe_signal();
}

void pre_received(pulc_stream *s, int fd, ssize_t n, const void *addr, socklen_t len)
{
	pulc_stream_recv_end(s, fd, n);
	if (n >= 0 && addr)
		pulc_stream_met(s, fd, POLLIN, addr, len);
}

void pre_sent(pulc_stream *s, int fd, ssize_t n, const void *addr, socklen_t len)
{
	pulc_stream_send_end(s, fd, n);
	if (n >= 0 && addr)
		pulc_stream_met(s, fd, POLLOUT, addr, len);
}

ssize_t pre_vector_len(const struct iovec *iov, size_t n)
{
	size_t len = 0;

	if (n > IOV_MAX)
		return -EINVAL;
	if (pre_is_bad(iov, n))
		return -EFAULT;
	for (size_t i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - len)
			return -EINVAL;
		if (pre_is_bad(iov[i].iov_base, iov[i].iov_len))
			return -EFAULT;
		len += iov[i].iov_len;
	}
	return (ssize_t)len;
}

/* The kernel finds a bad address when it has bytes for it, not before. The datagram that they
 * belong to is lost. */
ssize_t pre_refuse_receive(pulc_stream *s, int fd, int flags)
{
	bool is_datagram = pulc_stream_is_datagram(s);
	ssize_t n = pulc_stream_recv(s, fd, NULL, 0, flags | (is_datagram ? MSG_TRUNC : 0));
	int size;

	if (is_datagram)
		return n > 0 ? -EFAULT : n;
	if (n != 0)
		return n;
	if (pulc_stream_inq(s, fd, &size) < 0 || size > 0)
		return -EFAULT;
	/* An urgent byte, which is all that nothing was received of, is passed over before. */
	return pulc_stream_at_mark(s, fd) ? pulc_stream_recv(s, fd, NULL, 1, flags) : 0;
}

ssize_t pre_refuse_send(pulc_stream *s, int fd, int flags)
{
	ssize_t n;

	if (pulc_stream_is_datagram(s))
		return PULC_USE_KERNEL;
	n = pulc_stream_send(s, fd, NULL, 0, flags);
	return n != 0 ? n : -EFAULT;
}

/* The most that the kernel moves in one call. A length beyond that may be more than a vector can
 * have. */
static size_t at_most(size_t len)
{
	const size_t most = INT_MAX / 4096 * 4096;

	return __builtin_expect(len > most, 0) ? most : len;
}

static ssize_t receive(pulc_stream *s, int fd, void *buf, size_t len, int flags)
{
	if (pre_is_bad(buf, len) && !pre_drops(s, flags))
		return pre_refuse_receive(s, fd, flags);
	return pulc_stream_recv(s, fd, buf, at_most(len), flags);
}

static ssize_t transmit(pulc_stream *s, int fd, const void *buf, size_t len, int flags)
{
	if (pre_is_bad(buf, len))
		return pre_refuse_send(s, fd, flags);
	return pulc_stream_send(s, fd, buf, at_most(len), flags);
}

USUAL ssize_t pre_read(int fd, void *buf, size_t len)
{
	/* read(2) of nothing returns at once where recv(2) waits for something not to take. */
	return PRE_RECEIVE(fd, len ? receive(s, fd, buf, len, 0) : 0,
			   pre_real.read(fd, buf, len), );
}

USUAL ssize_t pre_recv(int fd, void *buf, size_t len, int flags)
{
	return PRE_RECEIVE(fd, receive(s, fd, buf, len, flags),
			   pre_real.recv(fd, buf, len, flags), );
}

/* Where a receive is to say who has sent; room: what *len was before. */
struct from {
	struct sockaddr *addr;
	socklen_t *len, room;
};

/* With a name: a message, for libpulc. The room for it is looked at behind the bytes, as the kernel
 * does it. */
static ssize_t receive_from(pulc_stream *s, int fd, struct iovec *iov, int flags, struct from *from)
{
	bool has_len = !pre_is_bad(from->len, sizeof(*from->len)), is_bad;
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 1 };
	ssize_t n;

	from->room = has_len ? *from->len : 0;
	is_bad = pre_is_bad(from->addr, from->room);
	if (!is_bad && (int)from->room >= 0) {
		msg.msg_name = from->addr;
		msg.msg_namelen = from->room;
	}
	if (pre_is_bad(iov->iov_base, iov->iov_len) && !pre_drops(s, flags))
		n = pre_refuse_receive(s, fd, flags);
	else
		n = pulc_stream_recvmsg(s, fd, &msg, flags);
	if (n < 0)
		return n;
	if (!has_len || (is_bad && pulc_stream_is_datagram(s)))
		return -EFAULT;
	if ((int)from->room < 0)
		return -EINVAL;
	*from->len = msg.msg_namelen;
	return n;
}

/* The kernel's answer is n; whom it has named libpulc is told. */
static void came_from(pulc_stream *s, int fd, ssize_t n, const struct from *from)
{
	socklen_t len = n < 0 ? 0 : *from->len < from->room ? *from->len : from->room;

	pre_received(s, fd, n, from->addr, len);
}

ssize_t pre_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
		     socklen_t *len_addr)
{
	struct from from = { .addr = addr, .len = len_addr };
	struct iovec iov = { .iov_base = buf, .iov_len = at_most(len) };

	if (!addr)
		return PRE_RECEIVE(fd, receive(s, fd, buf, len, flags),
				   pre_real.recvfrom(fd, buf, len, flags, addr, len_addr), );
#define CAME_FROM(s, fd, n) came_from(s, fd, n, &from)
	return PRE_MOVE_(fd, receive_from(s, fd, &iov, flags, &from),
			 pre_real.recvfrom(fd, buf, len, flags, addr, len_addr), CAME_FROM, );
#undef CAME_FROM
}

USUAL ssize_t pre_write(int fd, const void *buf, size_t len)
{
	return PRE_SEND(fd, len, 0, transmit(s, fd, buf, len, 0), pre_real.write(fd, buf, len));
}

USUAL ssize_t pre_send(int fd, const void *buf, size_t len, int flags)
{
	pre_send_begins(fd, flags);
	return PRE_SEND(fd, len, flags, transmit(s, fd, buf, len, flags),
			pre_real.send(fd, buf, len, flags));
}

static ssize_t transmit_to(pulc_stream *s, int fd, const struct iovec *iov, int flags,
			   const struct sockaddr *addr, socklen_t len_addr)
{
	const struct msghdr msg = { .msg_name = (struct sockaddr *)addr,
				    .msg_namelen = len_addr,
				    .msg_iov = (struct iovec *)iov,
				    .msg_iovlen = 1 };

	if (len_addr > sizeof(struct sockaddr_storage))
		return -EINVAL;
	if (pre_is_bad(addr, len_addr))
		return -EFAULT;
	if (pre_is_bad(iov->iov_base, iov->iov_len))
		return pre_refuse_send(s, fd, flags);
	return pulc_stream_sendmsg(s, fd, &msg, flags);
}

ssize_t pre_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
		   socklen_t len_addr)
{
	const struct iovec iov = { .iov_base = (void *)buf, .iov_len = at_most(len) };
	ssize_t n;

	pre_send_begins(fd, flags);
	if (!addr)
		return PRE_SEND(fd, len, flags, transmit(s, fd, buf, len, flags),
				pre_real.sendto(fd, buf, len, flags, addr, len_addr));
#define WENT_TO(s, fd, n) pre_sent(s, fd, n, addr, len_addr)
	n = PRE_MOVE_(fd, transmit_to(s, fd, &iov, flags, addr, len_addr),
		      pre_real.sendto(fd, buf, len, flags, addr, len_addr), WENT_TO,
		      PRE_AFTER_SEND_(len, flags));
#undef WENT_TO
	pre_send_ended(n, flags);
	return n;
}

/* The vector as a message, for libpulc. */
static ssize_t recv_vector(pulc_stream *s, int fd, const struct iovec *iov, int n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };
	ssize_t len = pre_vector_len(iov, (size_t)n);

	if (len == -EFAULT)
		return pre_refuse_receive(s, fd, flags);
	return len <= 0 ? len : pulc_stream_recvmsg(s, fd, &msg, flags);
}

static ssize_t send_vector(pulc_stream *s, int fd, const struct iovec *iov, int n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };
	ssize_t len = pre_vector_len(iov, (size_t)n);

	if (len == -EFAULT)
		return pre_refuse_send(s, fd, flags);
	/* Nothing at all is not even a datagram. */
	return len <= 0 ? len : pulc_stream_sendmsg(s, fd, &msg, flags);
}

ssize_t pre_readv(int fd, const struct iovec *iov, int n)
{
	return PRE_RECEIVE(fd, recv_vector(s, fd, iov, n, 0), pre_real.readv(fd, iov, n), );
}

ssize_t pre_writev(int fd, const struct iovec *iov, int n)
{
	return PRE_SEND(fd, pre_vector_len(iov, (size_t)n), 0, send_vector(s, fd, iov, n, 0),
			pre_real.writev(fd, iov, n));
}

/* On a socket these are readv and writev, if the offset is -1, or an error of the kernel's. What of
 * their flags is about files, and which only later kernels know. */
#define FLAGS_OF_FILES (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND | 0x20 /* RWF_NOAPPEND */)
#define FLAG_NOSIGNAL 0x100

/* The flags of a send or receive; -EOPNOTSUPP: there are others, and the kernel's socket is not to
 * be asked of them, for it would move bytes that are not next. */
static int flags_of(int flags)
{
	if (flags & ~(FLAGS_OF_FILES | RWF_NOWAIT | FLAG_NOSIGNAL))
		return -EOPNOTSUPP;
	return (flags & RWF_NOWAIT ? MSG_DONTWAIT : 0) | (flags & FLAG_NOSIGNAL ? MSG_NOSIGNAL : 0);
}

ssize_t pre_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	int move = flags_of(flags);

	if (offset != -1)
		return pre_sys(pre_real.preadv2(fd, iov, n, offset, flags));
	return PRE_RECEIVE(fd, move < 0 ? move : recv_vector(s, fd, iov, n, move),
			   pre_real.preadv2(fd, iov, n, offset, flags), );
}

ssize_t pre_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	int move = flags_of(flags);

	if (offset != -1)
		return pre_sys(pre_real.pwritev2(fd, iov, n, offset, flags));
	return PRE_SEND(fd, pre_vector_len(iov, (size_t)n), move,
			move < 0 ? move : send_vector(s, fd, iov, n, move),
			pre_real.pwritev2(fd, iov, n, offset, flags));
}

/* No sockets: what they do to a descriptor, a poll may want to know (pre_stir). */
int pre_eventfd_write(int fd, eventfd_t value)
{
	return (int)pre_sys(pre_real.eventfd_write(fd, value));
}

int pre_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
	return (int)pre_sys(pre_real.timerfd_settime(fd, flags, value, old));
}
