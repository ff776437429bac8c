/*
 * HAL tcp by non-blocking calls, with an epoll set as the descriptor to sleep on.
 *
 * The set is level-triggered and holds the socket alone. It asks for input while there is room for it and for output while something
 * waits to be sent, so it is not readable for news that nobody could use.
 */
#include "tcp_link_private.h"

#include <sys/epoll.h>

#include "macros.h"
#include "rawsys.h"

static void set_interest(struct hal_tcp *h)
{
	struct epoll_event event = { 0 };

	if (!h->rx_error && tcp_len(&h->in) < TCP_SIZE_BUFFER)
		event.events |= EPOLLIN;
	if (!h->tx_error && tcp_len(&h->out) > 0)
		event.events |= EPOLLOUT;
	if (event.events == h->interest)
		return;
	if (raw_syscall(SYS_epoll_ctl, h->epoll, EPOLL_CTL_MOD, h->fd, &event) == 0)
		h->interest = event.events;
}

static void plain_pull(struct hal_tcp *h)
{
	struct tcp_buffer *in = &h->in;
	size_t room;
	ssize_t len;

	if (in->at == in->end)
		in->at = in->end = 0;
	if (TCP_SIZE_BUFFER - in->end < TCP_FRAME_MAX)
		tcp_buffer_compact(in);
	room = TCP_SIZE_BUFFER - in->end;
	if (room > 0) {
		len = raw_recv(h->fd, in->bytes + in->end, room, MSG_DONTWAIT);
		if (len > 0)
			in->end += (size_t)len;
		else if (len != -EAGAIN && len != -EINTR)
			h->rx_error = -EPIPE;
	}
	set_interest(h);
}

static size_t plain_direct(struct hal_tcp *h, struct iovec *iov, unsigned n)
{
	const struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };
	ssize_t len = raw_sendmsg(h->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (len > 0)
		h->unsure = true;
	else if (len != -EAGAIN && len != -EINTR)
		h->tx_error = -EPIPE;
	return len > 0 ? (size_t)len : 0;
}

static void plain_push(struct hal_tcp *h)
{
	struct tcp_buffer *out = &h->out;
	ssize_t len = 1;

	while (tcp_len(out) > 0 && len > 0) {
		len = raw_send(h->fd, out->bytes + out->at, tcp_len(out),
			       MSG_DONTWAIT | MSG_NOSIGNAL);
		if (len > 0) {
			out->at += (size_t)len;
			h->unsure = true;
		}
		if (len < 0 && len != -EAGAIN && len != -EINTR)
			h->tx_error = -EPIPE;
	}
	set_interest(h);
}

static bool plain_pending(const struct hal_tcp *h)
{
	struct pollfd p = { .fd = h->epoll, .events = POLLIN };
	const struct timespec now = { 0 };

	return raw_ppoll(&p, 1, &now) > 0;
}

static int plain_fd(const struct hal_tcp *h)
{
	return h->epoll;
}

static void plain_stop(struct hal_tcp *h)
{
	(void)h;
}

static void plain_free(struct hal_tcp *h)
{
	tcp_release_fd(&h->epoll);
}

static const struct tcp_way plain = {
	.pull = plain_pull,
	.direct = plain_direct,
	.push = plain_push,
	.pending = plain_pending,
	.fd = plain_fd,
	.stop = plain_stop,
	.free = plain_free,
};

int tcp_plain_start(struct hal_tcp *h)
{
	struct epoll_event event = { .events = EPOLLIN };
	int e = (int)raw_syscall(SYS_epoll_create1, EPOLL_CLOEXEC);

	if (e >= 0)
		e = tcp_keep_own(e, &h->epoll);
	if (e < 0)
		return e;
	h->way = &plain;
	h->interest = EPOLLIN;
	e = (int)raw_syscall(SYS_epoll_ctl, h->epoll, EPOLL_CTL_ADD, h->fd, &event);
	return e;
}
