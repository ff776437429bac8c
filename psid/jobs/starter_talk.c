/*
 * Messages of fixed sizes with descriptors beside them, over a Unix socket of packets, between psid and
 * its starter. Both sides wait for an answer, but not for ever: the other may be stopped.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "starter.h"

#define SEC_STARTER 5

union control {
	char bytes[CMSG_SPACE(STARTER_N_FDS * sizeof(int))];
	struct cmsghdr align;
};

void psid_starter_limit(int fd)
{
	const struct timeval limit = { .tv_sec = SEC_STARTER };

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

int psid_starter_send(int fd, const void *message, size_t size, const int *fds, size_t n_fds)
{
	struct iovec iov = { .iov_base = (void *)message, .iov_len = size };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control control = { { 0 } };
	ssize_t n;

	if (n_fds > 0) {
		header.msg_control = &control;
		header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
	}
	do
		n = sendmsg(fd, &header, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static void take_descriptors(struct msghdr *header, int ret_fds[STARTER_N_FDS])
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(header);
	size_t n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(ret_fds, CMSG_DATA(c), (n < STARTER_N_FDS ? n : STARTER_N_FDS) * sizeof(int));
}

int psid_starter_recv(int fd, void *message, size_t size, int ret_fds[STARTER_N_FDS])
{
	struct iovec iov = { .iov_base = message, .iov_len = size };
	union control control = { { 0 } };
	struct msghdr header = { .msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control) };
	ssize_t n;

	for (size_t i = 0; i < STARTER_N_FDS; i++)
		ret_fds[i] = -EBADF;
	do
		n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	take_descriptors(&header, ret_fds);
	if (n == 0)
		return -EPIPE;
	return (size_t)n == size && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ? 0 : -EBADMSG;
}
