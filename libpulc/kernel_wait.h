/* A look at the kernel before a receive, or an event loop, sleeps there: kernel_wait.c,
 * loop_wait.c. */
#ifndef PULC_LIB_KERNEL_WAIT_H
#define PULC_LIB_KERNEL_WAIT_H

#include "private.h"

/* A receive that was asked for. */
struct kernel_call {
	const struct iovec *iov;
	size_t n;
	int flags;
};

/* s is not attached, and counts the caller as inside the kernel. Returns PULC_USE_KERNEL; -EINTR,
 * PULC_BEGIN_AGAIN: a handler has interrupted the call; else what the kernel has answered. Blocks
 * in that last case only. */
ssize_t kernel_wait(struct pulc_stream *s, int fd, const struct kernel_call *call);
/* The kernel's receive has answered n. */
void kernel_wait_ended(struct pulc_stream *s, int fd, ssize_t n);

/* The peer of a TCP connection sent its last segment from this very processor. */
bool peer_is_here(int fd);

/* For an event loop: the kernel's receive from s, or send to it, has answered n. */
void loop_received(const struct pulc_stream *s, int fd, ssize_t n);
void loop_sent(const struct pulc_stream *s, ssize_t n);

#endif
