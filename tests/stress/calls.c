/*
 * Moving some bytes by a call chosen at random: every call of the data path, blocking or not, with
 * every way of waiting. The callers check the bytes; here only counts and errors are handled.
 */
#include "stress.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Nothing here stands still that long; the other side's pauses are milliseconds. */
#define MSEC_STALLED 30000

void end_init(struct end *end, int fd, uint64_t seed, bool for_output)
{
	struct epoll_event event = { .events = (for_output ? EPOLLOUT : EPOLLIN) | EPOLLET };

	*end = (struct end){ .fd = fd, .epoll = -1, .rng = { seed } };
	if (!rng_one_in(&end->rng, 2))
		return;
	end->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_ctl(end->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("epoll_ctl: %s", strerror(errno));
}

void end_deinit(struct end *end)
{
	if (end->epoll >= 0)
		close(end->epoll);
	end->epoll = -1;
}

static int wait_by_epoll(int fd, short events)
{
	struct epoll_event event = { .events = (uint32_t)events };
	int set = epoll_create1(EPOLL_CLOEXEC), n;

	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("epoll_ctl: %s", strerror(errno));
	n = epoll_wait(set, &event, 1, MSEC_STALLED);
	close(set);
	return n;
}

static int wait_by_select(int fd, short events)
{
	struct timeval patience = { .tv_sec = MSEC_STALLED / 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return events & POLLIN ? select(fd + 1, &set, NULL, NULL, &patience)
			       : select(fd + 1, NULL, &set, NULL, &patience);
}

static int wait_once(struct end *end, short events)
{
	struct pollfd pfd = { .fd = end->fd, .events = events };
	struct epoll_event event;

	if (end->epoll >= 0)
		return epoll_wait(end->epoll, &event, 1, MSEC_STALLED);
	if (rng_one_in(&end->rng, 4))
		return wait_by_epoll(end->fd, events);
	if (end->fd < FD_SETSIZE && rng_one_in(&end->rng, 3))
		return wait_by_select(end->fd, events);
	return poll(&pfd, 1, MSEC_STALLED);
}

static uint64_t progress_of(const struct end *end)
{
	return end->progress ? *end->progress : 0;
}

/* One direction may have ended long before the other, on a machine that has more to do. */
void end_wait(struct end *end, short events)
{
	uint64_t before;
	int n;

	do {
		before = progress_of(end);
		n = wait_once(end, events);
	} while (n == 0 && progress_of(end) != before);
	if (n == 0)
		fail("%s for %d ms: descriptor %d, %s", events & POLLIN ? "no input" : "no room",
		     MSEC_STALLED, end->fd,
		     end->epoll >= 0 ? "by edge" : "by poll, select or epoll");
	if (n < 0 && errno != EINTR)
		fail("waiting: %s", strerror(errno));
}

/* Cuts [buf, buf + len) into at most four pieces at random places. */
static int cut(struct rng *rng, void *buf, size_t len, struct iovec iov[4])
{
	int n = 1 + (int)rng_below(rng, 4);

	for (int i = 0; i < n; i++) {
		size_t size = i == n - 1 ? len : (size_t)rng_below(rng, len + 1);

		iov[i] = (struct iovec){ buf, size };
		buf = (char *)buf + size;
		len -= size;
	}
	return n;
}

static size_t size_of(const struct iovec *iov, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

static ssize_t put_messages(struct end *end, void *buf, size_t len, int flags)
{
	struct iovec iov[4];
	struct mmsghdr messages[2] = { 0 };
	size_t n = (size_t)cut(&end->rng, buf, len, iov), n_first = (n + 1) / 2;
	int n_sent;

	messages[0].msg_hdr = (struct msghdr){ .msg_iov = iov, .msg_iovlen = n_first };
	messages[1].msg_hdr = (struct msghdr){ .msg_iov = iov + n_first,
					       .msg_iovlen = n - n_first };
	n_sent = sendmmsg(end->fd, messages, 2, flags);
	if (n_sent == 2 && messages[0].msg_len != size_of(iov, n_first))
		fail("sendmmsg went on after a message cut short");
	if (n_sent <= 0)
		return n_sent;
	return (ssize_t)messages[0].msg_len + (n_sent == 2 ? (ssize_t)messages[1].msg_len : 0);
}

static ssize_t put_once(struct end *end, void *buf, size_t len)
{
	int flags = MSG_NOSIGNAL | (rng_one_in(&end->rng, 3) ? MSG_DONTWAIT : 0);
	struct iovec iov[4];
	struct msghdr message = { .msg_iov = iov };

	switch (rng_below(&end->rng, 8)) {
	case 0:
		return write(end->fd, buf, len);
	case 1:
		return writev(end->fd, iov, cut(&end->rng, buf, len, iov));
	case 2:
		message.msg_iovlen = (size_t)cut(&end->rng, buf, len, iov);
		return sendmsg(end->fd, &message, flags);
	case 3:
		return sendto(end->fd, buf, len, flags, NULL, 0);
	case 4:
		return syscall(SYS_write, end->fd, buf, len);
	case 5:
		return send(end->fd, buf, len, flags | (rng_one_in(&end->rng, 8) ? MSG_MORE : 0));
	case 6:
		return put_messages(end, buf, len, flags);
	default:
		return send(end->fd, buf, len, flags);
	}
}

ssize_t end_put(struct end *end, const void *buf, size_t len)
{
	for (;;) {
		ssize_t n = put_once(end, (void *)buf, len);

		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (errno == EAGAIN)
			end_wait(end, POLLOUT);
	}
}

static ssize_t take_after_peek(struct end *end, void *buf, size_t len)
{
	static __thread unsigned char peeked[4096];
	ssize_t n = recv(end->fd, peeked, len < sizeof(peeked) ? len : sizeof(peeked), MSG_PEEK);
	ssize_t got;
	int n_waiting = 0;

	if (n <= 0)
		return n;
	if (ioctl(end->fd, FIONREAD, &n_waiting) < 0 || n_waiting < n)
		fail("FIONREAD says %d after a peek at %zd bytes", n_waiting, n);
	got = recv(end->fd, buf, (size_t)n, MSG_WAITALL | MSG_DONTWAIT);
	if (got != n || memcmp(buf, peeked, (size_t)n) != 0)
		fail("peeked at %zd bytes, then got %zd%s", n, got, got == n ? " others" : "");
	return got;
}

static ssize_t take_once(struct end *end, void *buf, size_t len)
{
	int flags = rng_one_in(&end->rng, 3) ? MSG_DONTWAIT : 0;
	struct iovec iov[4];
	struct msghdr message = { .msg_iov = iov };

	switch (rng_below(&end->rng, 8)) {
	case 0:
		return read(end->fd, buf, len);
	case 1:
		return readv(end->fd, iov, cut(&end->rng, buf, len, iov));
	case 2:
		message.msg_iovlen = (size_t)cut(&end->rng, buf, len, iov);
		return recvmsg(end->fd, &message, flags);
	case 3:
		return recvfrom(end->fd, buf, len, flags, NULL, NULL);
	case 4:
		return syscall(SYS_read, end->fd, buf, len);
	case 5:
		return take_after_peek(end, buf, len);
	case 6:
		return recv(end->fd, buf, len, MSG_WAITALL);
	default:
		return recv(end->fd, buf, len, flags);
	}
}

ssize_t end_take(struct end *end, void *buf, size_t len)
{
	for (;;) {
		ssize_t n = take_once(end, buf, len);

		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (errno == EAGAIN)
			end_wait(end, POLLIN);
	}
}
