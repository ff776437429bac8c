/*
 * sendfile and splice on streams.
 *
 * A ring is filled by copying, so the bytes bounce through a buffer. What counts is that nothing is
 * lost when the receiving end takes less than was fetched: a file is read at an offset that moves
 * by what was sent; a socket's bytes are peeked and taken after the pipe has them; from a pipe,
 * which can't be peeked, only as much is taken as will be sent, waiting for room even on a
 * non-blocking socket once the first byte fitted.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data.h"
#include "rawsys.h"
#include "symbols.h"

#define SIZE_BOUNCE (16u << 10)
#define SIZE_CALL 0x7ffff000u /* as much as the kernel moves in one call (read(2)) */

/*
 * True if fd's bytes go through a ring, or might from now on; else a kernel send has begun, which
 * the caller ends. An error is to be told only if there is something to send, so it is not asked
 * for here.
 */
static bool sends_by_ring(struct pre_use *use, int fd)
{
	pulc_stream *s = use->stream;

	/* The kernel makes datagrams of a file's pages in a way of its own. */
	if (pulc_stream_is_datagram(s))
		pulc_stream_keep_on_kernel(s, fd, PULC_REASON_UNSUPPORTED);
	return pulc_stream_send_begin(s, fd) != 0;
}

static ssize_t send_from_file(int fd, int fd_in, off_t pos, size_t len)
{
	char buf[SIZE_BOUNCE];
	size_t total = 0;
	ssize_t n;
	long got;

	while (total < len) {
		got = raw_syscall(SYS_pread64, fd_in, buf,
				  len - total < sizeof(buf) ? len - total : sizeof(buf),
				  pos + (off_t)total);
		if (got <= 0)
			return total > 0 ? (ssize_t)total : got == -EISDIR ? -EINVAL : got;
		n = pre_send(fd, buf, (size_t)got, 0);
		if (n < 0)
			return total > 0 ? (ssize_t)total : n;
		total += (size_t)n;
		if (n < got)
			break;
	}
	return (ssize_t)total;
}

/* Can fd be read from (O_RDONLY) or written to (O_WRONLY)? */
static bool is_open_for(int fd, long mode)
{
	long flags = raw_syscall(SYS_fcntl, fd, F_GETFL);

	return flags >= 0 && ((flags & O_ACCMODE) == O_RDWR || (flags & O_ACCMODE) == mode);
}

/* The kernel moves nothing to what appends, be it a socket. Asked only if some may do so: that
 * takes a third of the time in which a short piece is read. */
static bool appends(int fd)
{
	long flags = 0;

	if (UNLIKELY(atomic_load_explicit(&pre_some_append, memory_order_relaxed)))
		flags = raw_syscall(SYS_fcntl, fd, F_GETFL);
	return flags > 0 && (flags & O_APPEND);
}

static ssize_t bounce_file(int fd, int fd_in, off_t *offset, size_t len)
{
	off_t pos = offset ? *offset : (off_t)raw_syscall(SYS_lseek, fd_in, 0, SEEK_CUR);
	ssize_t n;

	if (!offset && pos < 0)
		return pos == -ESPIPE ? -EINVAL : pos;
	/* What no offset can be the end of the kernel refuses, in its own order: nothing is
	 * sent. */
	if (pos < 0 || len > (size_t)(SSIZE_MAX - pos))
		return pre_sys(pre_real.sendfile(fd, fd_in, offset, len));
	if (appends(fd))
		return is_open_for(fd_in, O_RDONLY) ? -EINVAL : -EBADF;
	n = send_from_file(fd, fd_in, pos, len < SIZE_CALL ? len : SIZE_CALL);
	if (n > 0 && offset)
		*offset = pos + n;
	else if (n > 0)
		(void)raw_syscall(SYS_lseek, fd_in, pos + n, SEEK_SET);
	return n;
}

ssize_t pre_sendfile(int fd, int fd_in, off_t *offset, size_t len)
{
	struct pre_use use;
	ssize_t n;

	if (len == 0 || !pre_use_stream(&use, fd))
		return pre_sys(pre_real.sendfile(fd, fd_in, offset, len));
	if (sends_by_ring(&use, fd)) {
		n = bounce_file(fd, fd_in, offset, len);
	} else {
		n = pre_sys(pre_real.sendfile(fd, fd_in, offset, len));
		pulc_stream_send_end(use.stream, fd, n);
	}
	pre_use_end(&use);
	return n;
}

static bool is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* What fd is ready for. */
static short look_at(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	return pre_real.poll(&pfd, 1, 0) > 0 ? pfd.revents : 0;
}

static int wait_for(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	int ret = pre_poll(&pfd, 1, -1);

	return ret < 0 ? ret : 0;
}

/* What fits into the pipe at once; -EAGAIN: nothing. */
static ssize_t write_now(int fd, void *buf, size_t len)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	ssize_t n = pre_sys(pre_real.pwritev2(fd, &iov, 1, -1, RWF_NOWAIT));

	if (n != -EOPNOTSUPP)
		return n;
	/* An older kernel: a pipe that has room takes at least that much without blocking. */
	if (!look_at(fd, POLLOUT))
		return -EAGAIN;
	pre_stir();
	return raw_syscall(SYS_write, fd, buf, len < PIPE_BUF ? len : PIPE_BUF);
}

/* Puts what fits into the pipe; waits for room for the first byte unless told not to. */
static ssize_t into_pipe(int fd, void *buf, size_t len, unsigned flags)
{
	ssize_t n;
	int ret;

	for (;;) {
		n = write_now(fd, buf, len);
		if (n != -EAGAIN || (flags & SPLICE_F_NONBLOCK) ||
		    (raw_syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK))
			return n;
		ret = wait_for(fd, POLLOUT);
		if (ret < 0)
			return ret;
	}
}

/* Asked instead of receiving once more, which might take an error that is the next call's to
 * tell. */
static bool has_bytes(pulc_stream *s, int fd)
{
	int size;

	return pulc_stream_inq(s, fd, &size) == 0 && size > 0;
}

/* The kernel's splice does not get past urgent data. What it says there it says best itself: of the
 * stream nothing lies in a ring any more. Only of a reset it may not know: a receive of no bytes
 * tells that. */
static ssize_t stopped_at_mark(int fd, int fd_pipe, size_t len, unsigned flags)
{
	ssize_t n = pre_recv(fd, NULL, 0, MSG_DONTWAIT);

	if (n < 0 && n != -EAGAIN)
		return n;
	return pre_sys(pre_real.splice(fd, NULL, fd_pipe, NULL, len, flags));
}

/*
 * Waits, unless told not to, for the first byte and for room for it; then takes what is there, as
 * far as it fits. What lies in several places may take several receives.
 */
static ssize_t socket_to_pipe(pulc_stream *s, int fd, int fd_pipe, size_t len, unsigned flags)
{
	char buf[SIZE_BOUNCE];
	size_t done = 0, piece;
	ssize_t n;

	if (!is_open_for(fd_pipe, O_WRONLY))
		return -EBADF;
	do {
		if (pulc_stream_at_mark(s, fd))
			return done > 0 ? (ssize_t)done : stopped_at_mark(fd, fd_pipe, len, flags);
		piece = len - done < sizeof(buf) ? len - done : sizeof(buf);
		/* SO_RCVLOWAT means nothing to what is there. */
		n = pre_recv(fd, buf, piece, MSG_PEEK | MSG_DONTWAIT);
		if (n == -EAGAIN && !done)
			n = pre_recv(fd, buf, piece, MSG_PEEK);
		if (n > 0)
			n = into_pipe(fd_pipe, buf, (size_t)n,
				      flags | (done ? SPLICE_F_NONBLOCK : 0));
		if (n > 0)
			n = pre_recv(fd, buf, (size_t)n, MSG_DONTWAIT);
		done += n > 0 ? (size_t)n : 0;
	} while (n > 0 && done < len && has_bytes(s, fd));
	return done > 0 ? (ssize_t)done : n;
}

static ssize_t send_all(int fd, const char *buf, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = pre_send(fd, buf + done, len - done, 0);
		if (n == -EAGAIN || n == -EINTR) {
			(void)wait_for(fd, POLLOUT);
			continue;
		}
		if (n < 0)
			return done > 0 ? (ssize_t)done : n;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Waits, unless told not to, for bytes in the pipe. 1: they are there; 0: its end. */
static ssize_t await_bytes(int fd_pipe, unsigned flags)
{
	short there = look_at(fd_pipe, POLLIN);
	int ret;

	if (!there && ((flags & SPLICE_F_NONBLOCK) ||
		       (raw_syscall(SYS_fcntl, fd_pipe, F_GETFL) & O_NONBLOCK)))
		return -EAGAIN;
	if (!there) {
		ret = wait_for(fd_pipe, POLLIN);
		if (ret < 0)
			return ret;
		there = look_at(fd_pipe, POLLIN);
	}
	return !there || (there & POLLIN);
}

/* An error of the socket ends the wait too. */
static int await_room(pulc_stream *s, int fd)
{
	if (pulc_stream_poll(s, fd, POLLOUT))
		return 0;
	if (raw_syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK)
		return -EAGAIN;
	return wait_for(fd, POLLOUT);
}

/* An error of the socket is told when there is something to send, which then stays in the pipe. */
static ssize_t piece_to_socket(pulc_stream *s, int fd_pipe, int fd, size_t len, unsigned flags)
{
	char buf[SIZE_BOUNCE];
	ssize_t n = await_bytes(fd_pipe, flags);

	if (n <= 0)
		return n;
	n = await_room(s, fd);
	if (n < 0)
		return n;
	n = pre_send(fd, "", 0, 0);
	if (n < 0 && n != -EAGAIN)
		return n;
	n = pre_sys(pre_real.read(fd_pipe, buf, len));
	return n > 0 ? send_all(fd, buf, (size_t)n) : n;
}

/* Waits, unless told not to, for the first byte and for room for all; what is in the pipe by then
 * goes. */
static ssize_t pipe_to_socket(pulc_stream *s, int fd_pipe, int fd, size_t len, unsigned flags)
{
	size_t done = 0, piece;
	ssize_t n;

	if (!is_open_for(fd_pipe, O_RDONLY))
		return -EBADF;
	if (appends(fd))
		return -EINVAL;
	/* Less than a piece: the pipe is empty, or the socket takes no more. */
	do {
		piece = len - done < SIZE_BOUNCE ? len - done : SIZE_BOUNCE;
		n = piece_to_socket(s, fd_pipe, fd, piece, flags | (done ? SPLICE_F_NONBLOCK : 0));
		done += n > 0 ? (size_t)n : 0;
	} while (n == (ssize_t)piece && done < len);
	return done > 0 ? (ssize_t)done : n;
}

/* From a socket. While the kernel moves the bytes that direction stays with it. */
static ssize_t splice_from(pulc_stream *s, int fd_in, int fd_out, size_t len, unsigned flags)
{
	ssize_t n;

	if (pulc_stream_kernel_enter(s, POLLIN) == 0) {
		n = pre_sys(pre_real.splice(fd_in, NULL, fd_out, NULL, len, flags));
		pulc_stream_kernel_leave(s, POLLIN);
		return n;
	}
	if (is_pipe(fd_out))
		return socket_to_pipe(s, fd_in, fd_out, len, flags);
	return pre_sys(pre_real.splice(fd_in, NULL, fd_out, NULL, len, flags));
}

/* To a socket. */
static ssize_t splice_to(struct pre_use *use, int fd_in, int fd_out, size_t len, unsigned flags)
{
	ssize_t n;

	if (is_pipe(fd_in) && sends_by_ring(use, fd_out))
		return pipe_to_socket(use->stream, fd_in, fd_out, len, flags);
	n = pre_sys(pre_real.splice(fd_in, NULL, fd_out, NULL, len, flags));
	if (is_pipe(fd_in))
		pulc_stream_send_end(use->stream, fd_out, n);
	return n;
}

ssize_t pre_splice(int fd_in, off64_t *offset_in, int fd_out, off64_t *offset_out, size_t len,
		   unsigned flags)
{
	struct pre_use use;
	int saved = errno;
	ssize_t n;

	pre_cancellation_point();
	if (offset_in || offset_out || len == 0)
		return pre_sys(pre_real.splice(fd_in, offset_in, fd_out, offset_out, len, flags));
	if (pre_use_stream(&use, fd_in))
		n = splice_from(use.stream, fd_in, fd_out, len, flags);
	else if (pre_use_stream(&use, fd_out))
		n = splice_to(&use, fd_in, fd_out, len, flags);
	else
		return pre_sys(pre_real.splice(fd_in, NULL, fd_out, NULL, len, flags));
	pre_use_end(&use);
	/* Of several calls the last may have failed, which is no failure. */
	if (n >= 0)
		errno = saved;
	return n;
}
