/*
 * The job of a keeper that was started before it.
 *
 * Where other keepers find their Start there is a socket then. One packet comes, with the descriptors that
 * others are born with, and each is put where it belongs: from there on nothing is different. When psid ends, or
 * does not want us any more, the socket is at its end instead.
 */
#include "gifts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "keeper_fds.h"

#define N_FDS (KEEPER_FD_END - KEEPER_FD_START)

union control {
	char bytes[CMSG_SPACE(N_FDS * sizeof(int))];
	struct cmsghdr align;
};

/* Returns how many there were. */
static size_t read_descriptors(struct msghdr *header, int fds[N_FDS])
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(header);
	size_t n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	return n;
}

static int receive(struct keeper_gifts *gifts, int fds[N_FDS], size_t *ret_n)
{
	struct iovec iov = { .iov_base = gifts, .iov_len = sizeof(*gifts) };
	union control control = { { 0 } };
	struct msghdr header = { .msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control) };
	ssize_t n;

	do
		n = recvmsg(KEEPER_FD_START, &header, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	*ret_n = read_descriptors(&header, fds);
	return (size_t)n == sizeof(*gifts) && !(header.msg_flags & MSG_CTRUNC) ? 0 : -EBADMSG;
}

/* Out of the way of the numbers that are needed. */
static int move_away(int *fd)
{
	int away = fcntl(*fd, F_DUPFD_CLOEXEC, KEEPER_FD_END);

	if (away < 0)
		return -errno;
	(void)close(*fd);
	*fd = away;
	return 0;
}

int keeper_gifts_take(void)
{
	struct keeper_gifts gifts;
	int fds[N_FDS], r;
	size_t n = 0, at = 0;

	r = receive(&gifts, fds, &n);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = move_away(&fds[i]);
	for (int i = 0; r == 0 && i < N_FDS; i++) {
		if (!(gifts.has & 1u << i))
			continue;
		if (at == n)
			return -EBADMSG;
		if (dup2(fds[at], KEEPER_FD_START + i) < 0)
			return -errno;
		(void)close(fds[at++]);
	}
	return r;
}
