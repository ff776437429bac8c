/*
 * Messages of fixed sizes with descriptors beside them: psid and its starter, psid and a keeper
 * that waits.
 *
 * Both sides of a conversation wait for each other, but not for ever: the other may be stopped.
 */
#include "packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define SEC_PATIENCE 5

union control {
	char bytes[CMSG_SPACE(PACKET_N_FDS * sizeof(int))];
	struct cmsghdr align;
};

void packet_limit(int fd)
{
	const struct timeval limit = { .tv_sec = SEC_PATIENCE };

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

int packet_send(int fd, const void *message, size_t size, const int *fds, size_t n_fds)
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

static void take_descriptors(struct msghdr *header, int ret_fds[PACKET_N_FDS])
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(header);
	size_t n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(ret_fds, CMSG_DATA(c), (n < PACKET_N_FDS ? n : PACKET_N_FDS) * sizeof(int));
}

int packet_recv(int fd, void *message, size_t size, int ret_fds[PACKET_N_FDS])
{
	struct iovec iov = { .iov_base = message, .iov_len = size };
	union control control = { { 0 } };
	struct msghdr header = { .msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control) };
	ssize_t n;

	for (size_t i = 0; i < PACKET_N_FDS; i++)
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

unsigned packet_gather(const int *fds, size_t n, int ret_fds[PACKET_N_FDS], size_t *ret_n)
{
	unsigned has = 0;

	*ret_n = 0;
	for (unsigned i = 0; i < n; i++)
		if (fds[i] >= 0) {
			has |= 1u << i;
			ret_fds[(*ret_n)++] = fds[i];
		}
	return has;
}
