/* How a data call is made on a stream, or on the kernel. */
#ifndef PULC_PRELOAD_DATA_H
#define PULC_PRELOAD_DATA_H

#include <sys/socket.h>
#include <sys/uio.h>

#include "file.h"

/* A ring took less than it was given. */
void pre_send_cut_short(struct pre_file *f, ssize_t n, int flags);
/*
 * Rings are filled and emptied by copying, without the kernel's care for bad addresses; this finds
 * the usual ones. Nothing is ever mapped in the first page, nor, on x86-64, in the half of the
 * addresses that is the kernel's.
 */
#define PRE_SIZE_NO_ADDRESS 4096
static inline bool pre_is_bad(const void *buf, size_t len)
{
#if defined(__x86_64__)
	return __builtin_expect((intptr_t)buf < PRE_SIZE_NO_ADDRESS && len > 0, 0);
#else
	return __builtin_expect((uintptr_t)buf < PRE_SIZE_NO_ADDRESS && len > 0, 0);
#endif
}
/* The bytes of a connection are to be dropped, wherever the buffer for them is. */
static inline bool pre_drops(const pulc_stream *s, int flags)
{
	return (flags & MSG_TRUNC) && !pulc_stream_is_datagram(s);
}
/* What a call with a bad buffer answers: what the kernel says before it looks at it, else
 * -EFAULT. */
ssize_t pre_refuse_receive(pulc_stream *s, int fd, int flags);
ssize_t pre_refuse_send(pulc_stream *s, int fd, int flags);

/* A send without copying, if its socket is for that (SO_ZEROCOPY), is the kernel's, and so are all
 * after it. */
void pre_zerocopy_begins(int fd);
static inline void pre_send_begins(int fd, int flags)
{
	if (__builtin_expect(flags & MSG_ZEROCOPY, 0))
		pre_zerocopy_begins(fd);
}

/* A send has ended: one with MSG_FASTOPEN may have begun a connection. */
static inline void pre_send_ended(ssize_t n, int flags)
{
	if (__builtin_expect(flags & MSG_FASTOPEN, 0) && (n >= 0 || n == -EINPROGRESS))
		pulc_stream_connect_begun();
}

/* Bytes of a vector; -EINVAL, -EFAULT as the kernel says it. */
ssize_t pre_vector_len(const struct iovec *iov, size_t n);

/* The end of a call that the kernel made: n is its answer; who was named by it (addr may be NULL)
 * matters for datagrams. */
void pre_received(pulc_stream *s, int fd, ssize_t n, const void *addr, socklen_t len);
void pre_sent(pulc_stream *s, int fd, ssize_t n, const void *addr, socklen_t len);

/*
 * The shape of all data calls: on_ring, which may use `s`, if fd is a stream; on_kernel if it is
 * none or libpulc says so, which is then told the result (end). One that a signal handler has
 * interrupted, and that the kernel would restart, begins anew.
 */
#define PRE_MOVE_(fd, on_ring, on_kernel, end, after)                                              \
	({                                                                                         \
		__label__ again_;                                                                  \
		struct pre_use use_;                                                               \
		ssize_t n_;                                                                        \
again_:                                                                                            \
		pre_cancellation_point();                                                          \
		if (!pre_use_stream(&use_, (fd))) {                                                \
			n_ = __builtin_expect(use_.file == &pre_file_gone, 0)                      \
				     ? -EBADF                                                      \
				     : pre_sys(on_kernel);                                         \
		} else {                                                                           \
			pulc_stream *s = use_.stream;                                              \
			n_ = (on_ring);                                                            \
			if (n_ <= PULC_USE_KERNEL) {                                               \
				if (n_ == PULC_BEGIN_AGAIN) {                                      \
					pre_use_end(&use_);                                        \
					goto again_;                                               \
				}                                                                  \
				n_ = pre_sys(on_kernel);                                           \
				end(s, (fd), n_);                                                  \
			} else {                                                                   \
				after;                                                             \
			}                                                                          \
			pre_use_end(&use_);                                                        \
		}                                                                                  \
		n_;                                                                                \
	})
#define PRE_RECEIVE(fd, on_ring, on_kernel, after)                                                 \
	PRE_MOVE_(fd, on_ring, on_kernel, pulc_stream_recv_end, after)
#define PRE_AFTER_SEND_(len, flags)                                                                \
	if (__builtin_expect(n_ < 0 || n_ < (ssize_t)(len), 0))                                    \
	pre_send_cut_short(use_.file, n_, (flags))
#define PRE_SEND(fd, len, flags, on_ring, on_kernel)                                               \
	PRE_MOVE_(fd, on_ring, on_kernel, pulc_stream_send_end, PRE_AFTER_SEND_(len, flags))

#endif
