/*
 * Another library that stands in libc's place for the calls that the shim takes as well, as tracers
 * and proxies do.
 *
 * Loaded before the shim it is what the program calls and the shim is what it finds; loaded behind
 * it, it is what the shim finds. Each call is counted and passed on unchanged; with CHAIN_REPORT
 * set the sum is told at the end.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static _Atomic unsigned long n_calls;

#define NEXT(name)                                                                                 \
	({                                                                                         \
		static __typeof__(&(name)) next;                                                   \
		if (!next)                                                                         \
			next = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name);                       \
		n_calls++;                                                                         \
		next;                                                                              \
	})

#define FORWARD(ret, name, params, args)                                                           \
	ret name params                                                                            \
	{                                                                                          \
		return NEXT(name) args;                                                            \
	}

FORWARD(ssize_t, read, (int fd, void *buf, size_t len), (fd, buf, len))
FORWARD(ssize_t, write, (int fd, const void *buf, size_t len), (fd, buf, len))
FORWARD(ssize_t, readv, (int fd, const struct iovec *iov, int n), (fd, iov, n))
FORWARD(ssize_t, writev, (int fd, const struct iovec *iov, int n), (fd, iov, n))
FORWARD(ssize_t, recv, (int fd, void *buf, size_t len, int flags), (fd, buf, len, flags))
FORWARD(ssize_t, send, (int fd, const void *buf, size_t len, int flags), (fd, buf, len, flags))
FORWARD(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
FORWARD(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
FORWARD(int, poll, (struct pollfd * fds, nfds_t n, int msec), (fds, n, msec))
FORWARD(int, ppoll,
	(struct pollfd * fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask),
	(fds, n, timeout, mask))
FORWARD(int, select, (int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout),
	(n, in, out, except, timeout))
FORWARD(int, epoll_create1, (int flags), (flags))
FORWARD(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *event),
	(epfd, op, fd, event))
FORWARD(int, epoll_wait, (int fd, struct epoll_event *events, int max, int msec),
	(fd, events, max, msec))
FORWARD(int, epoll_pwait,
	(int fd, struct epoll_event *events, int max, int msec, const sigset_t *mask),
	(fd, events, max, msec, mask))
FORWARD(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
FORWARD(int, connect, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
FORWARD(int, accept, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len))
FORWARD(int, shutdown, (int fd, int how), (fd, how))
FORWARD(int, close, (int fd), (fd))
FORWARD(int, dup, (int fd), (fd))
FORWARD(int, dup2, (int fd, int wanted), (fd, wanted))

__attribute__((destructor)) static void report(void)
{
	if (getenv("CHAIN_REPORT"))
		(void)fprintf(stderr, "chain: %s\n", n_calls ? "called" : "never called");
}
