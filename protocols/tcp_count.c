/*
 * Counting a kernel connection's bytes from outside.
 *
 * A byte that some part of the program moved without our seeing it counts as much as any, so the
 * count is taken from the kernel, not kept by us.
 *
 *   written  = bytes_acked + SIOCOUTQ - k
 *       k is 1 on the connecting side, whose SYN the peer acknowledges, 0 on the accepting one.
 *       bytes_acked and the queue move together when an acknowledgement arrives; both are read
 *       until bytes_acked is the same before and after.
 *   left     = kernel_at - (bytes_received - SIOCINQ)
 *       where kernel_at is what the peer has written before its switch. bytes_received is read
 *       before and after: what arrives in between shows as a difference. A received FIN is counted
 *       like a byte; then everything has arrived, and unless bytes behind kernel_at are among it
 *       left is simply SIOCINQ. Behind a reset the state does not say whether one was; but what
 *       TCP_INQ tells counts it, SIOCINQ does not.
 *
 * bytes_sent - bytes_retrans + notsent says the same of a connection that never lost a segment.
 * Where nothing was retransmitted and they still disagree, something unknown is at work and the
 * connection stays on the kernel; where something was, only the first formula holds.
 *
 * The rules and the experiments behind them: docs/upgrade.md.
 */
#include "tcp_count.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

#include "rawsys.h"

/* Readings until two agree: bytes may be arriving, but not this often in a row. */
#define N_TRIES 500

/* Kernel states, from include/net/tcp_states.h by number. */
enum {
	ESTABLISHED = 1,
	SYN_SENT,
	SYN_RECV,
	FIN_WAIT1,
	FIN_WAIT2,
	TIME_WAIT,
	CLOSED,
	CLOSE_WAIT,
	LAST_ACK,
	LISTEN,
	CLOSING
};

static int get_info(int fd, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);
	int e;

	memset(info, 0, sizeof(*info));
	e = raw_getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len);
	if (e < 0)
		return e;
	return len < offsetof(struct tcp_info, tcpi_bytes_retrans) ? -EOPNOTSUPP : 0;
}

int tcp_count_written(int fd, enum pulc_role role, uint64_t *ret_bytes)
{
	struct tcp_info before, after;
	uint64_t written;
	int e, queued = 0;

	for (unsigned i = 0; i < N_TRIES; i++) {
		e = get_info(fd, &before);
		if (e == 0)
			e = raw_ioctl(fd, SIOCOUTQ, &queued);
		if (e == 0)
			e = get_info(fd, &after);
		if (e < 0)
			return -EPERM;
		if (before.tcpi_state != ESTABLISHED && before.tcpi_state != CLOSE_WAIT)
			return -EPERM;
		if (after.tcpi_options & TCPI_OPT_SYN_DATA)
			return -EPERM;
		if (before.tcpi_bytes_acked != after.tcpi_bytes_acked)
			continue;
		written = after.tcpi_bytes_acked + (uint64_t)queued - (role == PULC_CONNECTED);
		if (after.tcpi_bytes_retrans == 0 &&
		    after.tcpi_bytes_sent + after.tcpi_notsent_bytes != written)
			return -EPERM;
		*ret_bytes = written;
		return 0;
	}
	return -EAGAIN;
}

enum pulc_role tcp_count_role(int fd)
{
	struct tcp_info before, after;
	uint64_t sent, known;
	int queued = 0;

	for (unsigned i = 0; i < N_TRIES; i++) {
		if (get_info(fd, &before) < 0 || raw_ioctl(fd, SIOCOUTQ, &queued) < 0 ||
		    get_info(fd, &after) < 0 || after.tcpi_bytes_retrans != 0 ||
		    (after.tcpi_options & TCPI_OPT_SYN_DATA))
			return 0;
		if (before.tcpi_bytes_acked != after.tcpi_bytes_acked)
			continue;
		known = after.tcpi_bytes_acked + (uint64_t)queued;
		sent = after.tcpi_bytes_sent + after.tcpi_notsent_bytes;
		return known == sent ? PULC_ACCEPTED : known == sent + 1 ? PULC_CONNECTED : 0;
	}
	return 0;
}

static bool fin_received(const struct tcp_info *info)
{
	switch (info->tcpi_state) {
	case CLOSE_WAIT:
	case LAST_ACK:
	case CLOSING:
	case TIME_WAIT:
	case CLOSED:
		return true;
	default:
		return false;
	}
}

/* Sets an option that is 0 or 1. Returns what it was, or what it is set to if it can't be known. */
static int exchange_option(int fd, int level, int option, int value)
{
	socklen_t len = sizeof(int);
	int was = value;

	(void)raw_getsockopt(fd, level, option, &was, &len);
	if (was != value)
		(void)raw_syscall(SYS_setsockopt, fd, level, option, &value, sizeof(value), 0);
	return was;
}

/* What TCP_INQ says at a look at the next byte, which is there. */
static int told_left(int fd, int *ret_left)
{
	char byte, control[CMSG_SPACE(sizeof(int)) * 8] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control };
	int was = exchange_option(fd, IPPROTO_TCP, TCP_INQ, 1);
	ssize_t n;

	msg.msg_controllen = sizeof(control);
	n = raw_recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);
	(void)exchange_option(fd, IPPROTO_TCP, TCP_INQ, was);
	if (n <= 0)
		return -EBADMSG;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == IPPROTO_TCP && c->cmsg_type == TCP_CM_INQ) {
			memcpy(ret_left, CMSG_DATA(c), sizeof(*ret_left));
			return 0;
		}
	return -EBADMSG;
}

/* Did a FIN come before the reset? 1 or 0. Nothing comes any more; of a queue that is empty nobody
 * can tell. Urgent data in line, for a look at it would pass it over and take the error. */
static int has_fin(int fd, uint64_t queued)
{
	int was, left = 0, e;

	if (queued == 0)
		return 1;
	was = exchange_option(fd, SOL_SOCKET, SO_OOBINLINE, 1);
	e = told_left(fd, &left);
	(void)exchange_option(fd, SOL_SOCKET, SO_OOBINLINE, was);
	return e < 0 ? e : (uint64_t)left > queued;
}

bool tcp_count_has_fin(int fd, uint64_t kernel_at, bool more)
{
	struct tcp_info info;
	int queued = 0;

	if (get_info(fd, &info) < 0 || !fin_received(&info))
		return false;
	if (info.tcpi_state != CLOSED)
		return true;
	if (!more)
		return info.tcpi_bytes_received > kernel_at;
	return raw_ioctl(fd, SIOCINQ, &queued) == 0 && has_fin(fd, (uint64_t)queued) == 1;
}

/* From one consistent reading. */
static int left_by(int fd, const struct tcp_info *info, uint64_t queued, uint64_t kernel_at,
		   bool more, uint64_t *ret_bytes)
{
	uint64_t consumed = info->tcpi_bytes_received - queued;
	int fin;

	/* Nothing comes any more. Were a FIN counted, or something behind the ring among them, they
	 * would be more. What a reset has kept from coming never does, so nobody gets to the ring
	 * behind it. */
	if (info->tcpi_state == CLOSED && consumed + queued <= kernel_at) {
		*ret_bytes = kernel_at - consumed;
		return 0;
	}
	if (fin_received(info) && !more) {
		*ret_bytes = queued;
		return 0;
	}
	fin = info->tcpi_state == CLOSED ? has_fin(fd, queued) : fin_received(info);
	if (fin < 0)
		return fin;
	consumed -= (uint64_t)fin;
	if (consumed > kernel_at)
		return -EBADMSG;
	*ret_bytes = kernel_at - consumed;
	return 0;
}

/*
 * All bytes in the receive queue. Of those behind kernel_at (more) some may be urgent data, at
 * which SIOCINQ stops: for a moment it counts as part of the stream.
 */
static int count_queued(int fd, bool more, int *ret_queued)
{
	int in_line = more ? exchange_option(fd, SOL_SOCKET, SO_OOBINLINE, 1) : 1;
	int e = raw_ioctl(fd, SIOCINQ, ret_queued);

	if (more)
		(void)exchange_option(fd, SOL_SOCKET, SO_OOBINLINE, in_line);
	return e;
}

int tcp_count_left(int fd, uint64_t kernel_at, bool more, uint64_t *ret_bytes)
{
	struct tcp_info before, after;
	int e, queued = 0;

	for (unsigned i = 0; i < N_TRIES; i++) {
		e = get_info(fd, &before);
		if (e == 0)
			e = count_queued(fd, more, &queued);
		if (e == 0)
			e = get_info(fd, &after);
		if (e < 0)
			return e;
		if (before.tcpi_bytes_received != after.tcpi_bytes_received ||
		    before.tcpi_state != after.tcpi_state)
			continue;
		return left_by(fd, &after, (uint64_t)queued, kernel_at, more, ret_bytes);
	}
	return -EAGAIN;
}

bool tcp_count_is_shut(int fd)
{
	struct tcp_info info;

	if (get_info(fd, &info) < 0)
		return false;
	return info.tcpi_state != ESTABLISHED && info.tcpi_state != CLOSE_WAIT;
}

bool tcp_count_is_deaf(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec now = { 0, 0 };
	struct tcp_info info;
	int queued;

	/* The peer's end tells the same, and changes the state last: what takes the socket's lock
	 * waits for that. */
	if (raw_ppoll(&p, 1, &now) <= 0 || !(p.revents & POLLRDHUP) ||
	    raw_ioctl(fd, SIOCINQ, &queued) < 0 || get_info(fd, &info) < 0)
		return false;
	return info.tcpi_state == ESTABLISHED || info.tcpi_state == FIN_WAIT1 ||
	       info.tcpi_state == FIN_WAIT2;
}

bool tcp_count_is_closed(int fd)
{
	struct tcp_info info;

	return get_info(fd, &info) == 0 && info.tcpi_state == CLOSED;
}

void tcp_push_corked(int fd)
{
	int cork = 0, nodelay = 0, notsent = 0, on = 1, off = 0;
	socklen_t len = sizeof(int);

	if (raw_ioctl(fd, SIOCOUTQNSD, &notsent) < 0 || notsent == 0)
		return;
	(void)raw_getsockopt(fd, IPPROTO_TCP, TCP_CORK, &cork, &len);
	(void)raw_getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len);
	if (cork) {
		(void)raw_syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_CORK, &off, sizeof(off), 0);
		(void)raw_syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on), 0);
	} else if (!nodelay) {
		(void)raw_syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on), 0);
		(void)raw_syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &off, sizeof(off),
				  0);
	}
}
