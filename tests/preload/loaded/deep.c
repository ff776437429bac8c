/*
 * A library that is loaded with RTLD_DEEPBIND, as PHP loads its extensions
 * (tests/preload/deepbind.c): its functions are calls of libc's. It is linked so that they are
 * looked up when they are first called, and those whose addresses it keeps when it is loaded.
 */
#include <poll.h>
#include <sys/socket.h>

ssize_t deep_send(int fd, const void *buf, size_t len);
ssize_t deep_receive(int fd, void *buf, size_t len);
int deep_poll(struct pollfd *fds, nfds_t n, int msec);

ssize_t deep_send(int fd, const void *buf, size_t len)
{
	return send(fd, buf, len, MSG_NOSIGNAL);
}

ssize_t deep_receive(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, 0);
}

int deep_poll(struct pollfd *fds, nfds_t n, int msec)
{
	static int (*volatile kept)(struct pollfd *, nfds_t, int) = poll;

	return kept(fds, n, msec);
}
