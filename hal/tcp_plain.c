/*
 * HAL tcp by non-blocking calls, with an epoll set as the descriptor to sleep on.
 *
 * The set is level-triggered and holds at most the socket. It asks for input while there is room
 * for it and for output while something waits to be sent, so it is not readable for news that
 * nobody could use.
 *
 * A socket in a set costs each segment that arrives a call of the set's, and of every set that this
 * one lies in, while the kernel holds the socket's lock, for which a receiver that spins waits. So
 * after N_UNWATCHED pieces that were taken while nobody watched the socket leaves the set, and it
 * comes back with the next watch. Who sleeps has watched first, and looked once more behind that;
 * and what lies in the socket when it is put in makes the set readable at once. Who begins to sleep
 * often enough never finds it out.
 */
#include "tcp_link_private.h"

#include <sys/epoll.h>

#include "rawsys.h"

/* Who sleeps once in so many pieces and one pays two calls for it, which take the socket out and
 * put it back. */
#define N_UNWATCHED 64u

static uint32_t wanted(const struct hal_tcp *h)
{
	uint32_t events = 0;

	if (!h->rx_error && tcp_len(&h->in) < TCP_SIZE_BUFFER)
		events |= EPOLLIN;
	if (!h->tx_error && tcp_len(&h->out) > 0)
		events |= EPOLLOUT;
	return events;
}

/* The set holds the socket for these events, or for none not at all. 0; negative errno. */
static int hold(struct hal_tcp *h, uint32_t events)
{
	const int op = h->interest == 0 ? EPOLL_CTL_ADD
		       : events == 0	? EPOLL_CTL_DEL
					: EPOLL_CTL_MOD;
	struct epoll_event event = { .events = events };
	int e = 0;

	if (events != h->interest)
		e = (int)raw_syscall(SYS_epoll_ctl, h->epoll, op, h->fd, &event);
	if (e == 0)
		h->interest = events;
	return e;
}

static int set_interest(struct hal_tcp *h)
{
	uint32_t events = wanted(h);

	if (events != atomic_load_explicit(&h->wanted, memory_order_relaxed))
		atomic_store_explicit(&h->wanted, events, memory_order_relaxed);
	return hold(h, h->n_unwatched < N_UNWATCHED ? events : 0);
}

static bool is_watched(const struct hal_tcp *h)
{
	hal_watch any = 0;

	for (unsigned i = 0; i < TCP_N_WATCHES; i++)
		any |= h->watches[i];
	return any != 0;
}

/* Where that watch stands, 0: where there is room for one; NULL: nowhere. */
static hal_watch *find_watch(struct hal_tcp *h, hal_watch watch)
{
	for (unsigned i = 0; i < TCP_N_WATCHES; i++)
		if (h->watches[i] == watch)
			return &h->watches[i];
	return NULL;
}

static int plain_watch(struct hal_tcp *h, hal_watch watch)
{
	hal_watch *place = find_watch(h, watch);

	if (!place)
		place = find_watch(h, 0);
	if (!place)
		return -ENOSPC;
	*place = watch;
	h->n_unwatched = 0;
	return set_interest(h);
}

static void plain_unwatch(struct hal_tcp *h, hal_watch watch)
{
	hal_watch *place = find_watch(h, watch);

	if (place)
		*place = 0;
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
		if (len > 0 && h->n_unwatched < N_UNWATCHED && !is_watched(h))
			h->n_unwatched++;
	}
	(void)set_interest(h);
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
	(void)set_interest(h);
}

/* The socket itself is asked: it may not be in the set. */
static bool plain_pending(const struct hal_tcp *h)
{
	struct pollfd p = {
		.fd = h->fd,
		.events = (short)atomic_load_explicit(&h->wanted, memory_order_relaxed),
	};
	const struct timespec now = { 0 };

	return p.events && raw_ppoll(&p, 1, &now) > 0;
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
	.watch = plain_watch,
	.unwatch = plain_unwatch,
	.fd = plain_fd,
	.stop = plain_stop,
	.free = plain_free,
};

int tcp_plain_start(struct hal_tcp *h)
{
	int e = (int)raw_syscall(SYS_epoll_create1, EPOLL_CLOEXEC);

	if (e >= 0)
		e = tcp_keep_own(e, &h->epoll);
	if (e < 0)
		return e;
	h->way = &plain;
	return set_interest(h);
}
