/*
 * The client socket, one datagram at a time.
 *
 * A message is one SOCK_SEQPACKET datagram: encoded by protobuf-c into memory of the caller's
 * stack, with at most WIRE_FDS_MAX descriptors beside it. The same code runs in psid, in the
 * tools and inside preloaded programs; for the last it asks the kernel directly and never
 * allocates. Decoding takes its memory from an arena of fixed size: a message that unfolds to
 * more than that is malformed.
 *
 * Invariants: nothing here blocks; a descriptor received is either handed to the caller or
 * closed. An empty datagram without descriptors can't be told from the end of the connection, and
 * nobody of good faith sends one: both are -EPIPE.
 */
#include "channel.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#include "macros.h"
#include "rawsys.h"

union fd_control {
	char bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

int wire_send(int fd, const void *buf, size_t len, const int *fds, size_t n_fds)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union fd_control control;
	ssize_t n;

	if (len > WIRE_SIZE_MAX || n_fds > WIRE_FDS_MAX)
		return -EMSGSIZE;
	if (n_fds > 0) {
		struct cmsghdr *cmsg;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, n_fds * sizeof(int));
	}
	do
		n = raw_sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n == -EINTR);
	if (n == -ECONNRESET)
		return -EPIPE;
	return n < 0 ? (int)n : 0;
}

int wire_send_from_client(int fd, const Pulc__Wire__FromClient *msg, const int *fds, size_t n_fds)
{
	size_t len = pulc__wire__from_client__get_packed_size(msg);

	if (len > WIRE_SIZE_MAX)
		return -EMSGSIZE;
	uint8_t buf[len +
		    1]; /* what it needs, not what it might: a program's thread has little stack */
	(void)pulc__wire__from_client__pack(msg, buf);
	return wire_send(fd, buf, len, fds, n_fds);
}

int wire_send_to_client(int fd, const Pulc__Wire__ToClient *msg, const int *fds, size_t n_fds)
{
	size_t len = pulc__wire__to_client__get_packed_size(msg);

	if (len > WIRE_SIZE_MAX)
		return -EMSGSIZE;
	uint8_t buf[len + 1];
	(void)pulc__wire__to_client__pack(msg, buf);
	return wire_send(fd, buf, len, fds, n_fds);
}

/* Copies the descriptors out of msg. */
static size_t take_fds(struct msghdr *msg, int *fds, size_t n_max)
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n_here;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n_here = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), n_max - n);
		memcpy(fds + n, CMSG_DATA(c), n_here * sizeof(int));
		n += n_here;
	}
	return n;
}

/* One datagram and at most WIRE_FDS_MAX descriptors. Returns 0; -EPIPE, -EBADMSG as wire_recv;
 * -EMFILE: not all of them found a place. Those that came are in fds in any case. */
static int receive(int fd, void *buf, int flags, size_t *ret_len, int fds[WIRE_FDS_MAX],
		   size_t *ret_n_fds)
{
	struct iovec iov = { .iov_base = buf, .iov_len = WIRE_SIZE_MAX };
	union fd_control control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;

	*ret_n_fds = 0;
	/* Reset: the other end has gone without having read all of ours. What it sent itself comes
	 * next. */
	do
		n = raw_recvmsg(fd, &msg, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n == -EINTR || n == -ECONNRESET);
	if (n < 0)
		return (int)n;
	*ret_n_fds = take_fds(&msg, fds, WIRE_FDS_MAX);
	*ret_len = (size_t)n;
	if ((msg.msg_flags & MSG_CTRUNC) && *ret_n_fds < WIRE_FDS_MAX)
		return -EMFILE;
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -EBADMSG;
	if (n == 0)
		return *ret_n_fds == 0 ? -EPIPE : -EBADMSG;
	return 0;
}

int wire_recv(int fd, void *buf, size_t *ret_len, int ret_fds[WIRE_FDS_MAX], size_t *ret_n_fds)
{
	size_t n_fds;
	int r;

	r = receive(fd, buf, 0, ret_len, ret_fds, &n_fds);
	while (r < 0 && n_fds > 0)
		(void)raw_close(ret_fds[--n_fds]);
	if (r == 0)
		*ret_n_fds = n_fds;
	return r;
}

/* Looked at first. The kernel closes, here and now, what we have no place for; of a message that is
 * still in the queue that is never the last close, nor is it afterwards of one that we hold. */
int wire_recv_hostile(int fd, void *buf, size_t *ret_len, int ret_fds[WIRE_FDS_MAX],
		      size_t *ret_n_fds)
{
	struct msghdr msg = { 0 };
	int r;
	ssize_t n;

	r = receive(fd, buf, MSG_PEEK, ret_len, ret_fds, ret_n_fds);
	if (r < 0)
		return r;
	do
		n = raw_recvmsg(fd, &msg, MSG_DONTWAIT);
	while (n == -EINTR || n == -ECONNRESET);
	return 0;
}

static void *arena_alloc(void *data, size_t size)
{
	struct wire_arena *arena = data;
	void *p;

	if (size > sizeof(arena->bytes) - arena->used)
		return NULL;
	p = arena->bytes + arena->used;
	arena->used = MIN(ALIGN_UP(arena->used + size, 16), sizeof(arena->bytes));
	return p;
}

static void arena_free(void *data, void *p)
{
	(void)data; /* all of it goes at once, with the next wire_arena_init */
	(void)p;
}

void wire_arena_init(struct wire_arena *arena)
{
	arena->allocator = (ProtobufCAllocator){
		.alloc = arena_alloc,
		.free = arena_free,
		.allocator_data = arena,
	};
	arena->used = 0;
}
