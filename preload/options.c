/*
 * Socket options, and ioctl, which is the same under another name.
 *
 * The kernel keeps all options and answers for all of them. Three kinds concern us: those that
 * change how a data call waits (libpulc reads them again), those whose answer counts bytes (what is
 * in the rings is added), and those after which a byte is no longer what the program wrote or comes
 * with something that a ring can't carry. A connection with the last kind stays on the kernel, or
 * goes back; a socket that has one before it is connected is remembered, and so is a listener,
 * which passes it on. SO_ZEROCOPY is of the last kind only when the first send makes use of it:
 * gRPC sets it on each listener, to see whether it could.
 *
 * One receives when it is read, TCP_ZEROCOPY_RECEIVE: pages of the kernel's come where the program
 * has mapped the socket. Of what is in a ring no page can be had, and so it is answered as the
 * kernel answers where it can map none: what fits is copied, of more it is said that it is to be
 * received otherwise.
 */
#include <asm/socket.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#include <pulc/process.h>

#include "data.h"
#include "file.h"
#include "macros.h"
#include "rawsys.h"
#include "symbols.h"

#define NO_LIMIT UINT32_MAX /* SO_MAX_PACING_RATE */

/* The option's value, or its first word; 0 where the kernel would not find one. */
static int value_of(const void *value, socklen_t len)
{
	int word = 0;

	if (len >= sizeof(word) && !pre_is_bad(value, sizeof(word)))
		memcpy(&word, value, sizeof(word));
	return word;
}

/*
 * Has the kernel such an upper protocol? Many ask for kTLS who can do without, and where nobody has
 * loaded it: OpenSSL, if built with it, for each socket. A socket of our own is asked, as one that
 * is on rings has to leave them before it gets the protocol.
 */
static bool has_upper_protocol(const void *name, socklen_t len)
{
	int fd = (int)raw_syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	long e;

	if (fd < 0)
		return true;
	e = raw_syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_ULP, name, len);
	(void)raw_close(fd);
	return e != -ENOENT;
}

static bool is_for_kernel(int level, int option, const void *value, socklen_t len)
{
	if (level == IPPROTO_TCP && option == TCP_ULP)
		return has_upper_protocol(value, len);
	if (level == IPPROTO_TCP)
		return option == TCP_REPAIR && value_of(value, len) != 0;
	if (level != SOL_SOCKET)
		return false;
	switch (option) {
	case SO_TIMESTAMP_OLD:
	case SO_TIMESTAMP_NEW:
	case SO_TIMESTAMPNS_OLD:
	case SO_TIMESTAMPNS_NEW:
	case SO_TIMESTAMPING_OLD:
	case SO_TIMESTAMPING_NEW:
		return value_of(value, len) != 0;
	case SO_PEEK_OFF:
		return value_of(value, len) >= 0;
	case SO_MAX_PACING_RATE:
		return (uint32_t)value_of(value, len) != NO_LIMIT;
	case SO_ATTACH_FILTER:
	case SO_ATTACH_BPF:
		return true;
	default:
		return false;
	}
}

/* at_once: what was sent before cannot be sent on later. */
static void keep(int fd, bool at_once)
{
	struct pre_file *f = pre_file_at(fd);
	struct pre_use use;

	if (f == &pre_file_other || !pre_use_own(&use, fd))
		return;
	use.file->kept = true;
	if (use.stream)
		pulc_stream_keep_on_kernel(use.stream, fd, PULC_REASON_UNSUPPORTED);
	if (use.stream && at_once)
		pulc_stream_bypassed(use.stream, fd);
	pre_use_end(&use);
}

void pre_zerocopy_begins(int fd)
{
	socklen_t len = sizeof(int);
	int wanted = 0;

	if (pre_sys(pre_real.getsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &wanted, &len)) == 0 && wanted)
		keep(fd, false);
}

/* What is sent from then on becomes something else in the kernel (kTLS), or goes nowhere. */
static bool is_written_otherwise(int level, int option)
{
	return level == IPPROTO_TCP && (option == TCP_ULP || option == TCP_REPAIR);
}

/*
 * From now on the kernel decrypts what is received. What lies in a ring and cannot be given back
 * would come as it is: then it is refused, and who asked decrypts by himself, as where the kernel
 * has no kTLS.
 */
static bool receives_past_kernel(int fd)
{
	struct pre_use use;
	bool does;

	keep(fd, false);
	if (!pre_use_stream(&use, fd))
		return false;
	does = !pulc_stream_is_kernels(use.stream);
	pre_use_end(&use);
	return does;
}

/* An option that means nothing to a connection marks those that are upgraded (libpulc/label.c): it
 * is not the program's to change, nor to see. */
static bool is_mark(int fd, int level, int option)
{
	socklen_t len = sizeof(int);
	int protocol = 0;

	return UNLIKELY(level == IPPROTO_IP && option == IP_RECVORIGDSTADDR) &&
	       pre_sys(pre_real.getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len)) == 0 &&
	       protocol == IPPROTO_TCP;
}

USUAL int pre_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	struct pre_use use;
	int ret;

	if (is_mark(fd, level, option))
		return 0;
	if (is_for_kernel(level, option, value, len))
		keep(fd, is_written_otherwise(level, option));
	if (UNLIKELY(level == SOL_TLS) && option == TLS_RX && receives_past_kernel(fd))
		return -EBUSY;
	ret = (int)pre_sys(pre_real.setsockopt(fd, level, option, value, len));
	if (ret == 0 && pre_use_stream(&use, fd)) {
		pulc_stream_option_changed(use.stream, fd, level, option);
		pre_use_end(&use);
	}
	return ret;
}

/* What SO_ERROR answers when PULC knows of an error. The kernel may know of the same reset, which
 * is told once. False: ask the kernel. */
static bool take_error(pulc_stream *s, int fd, void *value, socklen_t *len)
{
	socklen_t len_kernel = sizeof(int);
	int error, kernel;

	/* Who has no room for it takes it all the same. */
	if (pre_is_bad(len, sizeof(*len)) || (int)*len < 0 || pre_is_bad(value, *len))
		return false;
	error = pulc_stream_take_error(s);
	if (error == 0)
		return false;
	(void)pre_sys(pre_real.getsockopt(fd, SOL_SOCKET, SO_ERROR, &kernel, &len_kernel));
	*len = MIN(*len, (socklen_t)sizeof(error));
	memcpy(value, &error, *len);
	return true;
}

/* A connection that was reset has no peer any more. */
int pre_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct pre_use use;
	bool is_reset;

	if (!pre_use_stream(&use, fd))
		return (int)pre_sys(pre_real.getpeername(fd, addr, len));
	is_reset = pulc_stream_is_reset(use.stream);
	pre_use_end(&use);
	return is_reset ? -ENOTCONN : (int)pre_sys(pre_real.getpeername(fd, addr, len));
}

#define SIZE_UNTIL(member)                                                                         \
	(offsetof(struct tcp_zerocopy_receive, member) +                                           \
	 sizeof(((struct tcp_zerocopy_receive *)0)->member))

/* What the kernel says of the rest of the request, without receiving anything. At the end of what
 * it has there may be more in a ring. */
static int check_mapped(int fd, struct tcp_zerocopy_receive *r, socklen_t size)
{
	int ret;

	r->length = 0;
	r->copybuf_len = 0;
	ret = (int)pre_sys(pre_real.getsockopt(fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, r, &size));
	return ret == -EIO ? 0 : ret;
}

/* Bytes for the program's buffer, which has room for all of them. */
static ssize_t copy_instead(pulc_stream *s, int fd, void *buf, int size)
{
	ssize_t n;

	if (pre_is_bad(buf, (size_t)size))
		return -EFAULT;
	n = pulc_stream_recv(s, fd, buf, (size_t)size, MSG_DONTWAIT);
	if (n == PULC_USE_KERNEL) {
		n = pre_sys(pre_real.recv(fd, buf, (size_t)size, MSG_DONTWAIT));
		pulc_stream_recv_end(s, fd, n);
	}
	return n;
}

/* TCP_ZEROCOPY_RECEIVE of a connection that is on rings and has bytes. False: ask the kernel. */
static bool receive_mapped(pulc_stream *s, int fd, void *value, const socklen_t *len, int *ret_e)
{
	struct tcp_zerocopy_receive r = { 0 };
	int there = 0, room;
	socklen_t size;
	ssize_t n = 0;

	if (pulc_stream_is_kernels(s) || pre_is_bad(value, sizeof(r)) ||
	    pre_is_bad(len, sizeof(*len)) || *len < SIZE_UNTIL(recv_skip_hint) ||
	    *len > sizeof(r) || pulc_stream_inq(s, fd, &there) < 0 || there == 0)
		return false;
	size = *len;
	memcpy(&r, value, size);
	room = r.copybuf_len;
	*ret_e = check_mapped(fd, &r, size);
	if (*ret_e == 0 && there <= room)
		n = copy_instead(s, fd, (void *)(uintptr_t)r.copybuf_address, there);
	if (*ret_e < 0 || n < 0) {
		*ret_e = *ret_e < 0 ? *ret_e : (int)n;
		return true;
	}
	r.copybuf_len = (int)n;
	r.recv_skip_hint = n ? 0 : (uint32_t)there;
	if (pulc_stream_inq(s, fd, &there) == 0)
		r.inq = (uint32_t)there;
	memcpy(value, &r, size);
	return true;
}

int pre_getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	struct pre_use use;
	bool taken = false;
	int ret = 0;

	if (is_mark(fd, level, option)) {
		ret = (int)pre_sys(pre_real.getsockopt(fd, level, option, value, len));
		return ret < 0 ? ret : (memset(value, 0, *len), 0);
	}
	if (!pre_use_stream(&use, fd))
		return (int)pre_sys(pre_real.getsockopt(fd, level, option, value, len));
	if (level == IPPROTO_TCP && option == TCP_ZEROCOPY_RECEIVE)
		taken = receive_mapped(use.stream, fd, value, len, &ret);
	if (level == SOL_SOCKET && option == SO_ERROR)
		taken = take_error(use.stream, fd, value, len);
	if (!taken)
		ret = (int)pre_sys(pre_real.getsockopt(fd, level, option, value, len));
	if (ret == 0 && level == IPPROTO_TCP && option == TCP_INFO)
		pulc_stream_add_info(use.stream, value, *len);
	pre_use_end(&use);
	return ret;
}

/* The kernel has answered with its share of the bytes, so arg can be written to. */
static int complete(pulc_stream *s, int fd, unsigned long command, int *arg)
{
	switch (command) {
	case FIONREAD:
		return pulc_stream_attached(s) ? pulc_stream_inq(s, fd, arg) : 0;
	case SIOCOUTQ:
	case SIOCOUTQNSD:
		return pulc_stream_attached(s) ? pulc_stream_outq(s, fd, arg) : 0;
	case SIOCATMARK:
		*arg = *arg && pulc_stream_at_mark(s, fd);
		return 0;
	case FIONBIO:
		pulc_stream_nonblock_changed(s, *arg != 0);
		return 0;
	case FIOASYNC:
		if (*arg)
			keep(fd, false);
		return 0;
	case SIOCGSTAMP_OLD:
	case SIOCGSTAMP_NEW:
	case SIOCGSTAMPNS_OLD:
	case SIOCGSTAMPNS_NEW:
		/* It is the kernel that notes when the last datagram has come. */
		if (pulc_stream_is_datagram(s))
			keep(fd, false);
		return 0;
	default:
		return 0;
	}
}

int pre_ioctl(int fd, unsigned long command, void *arg)
{
	int ret = (int)pre_sys(pre_real.ioctl(fd, command, arg)), e;
	struct pre_use use;

	if (ret < 0 || !pre_use_stream(&use, fd))
		return ret;
	e = complete(use.stream, fd, command, arg);
	pre_use_end(&use);
	return e < 0 ? e : ret;
}

int pre_sockatmark(int fd)
{
	int mark = 0, ret = pre_ioctl(fd, SIOCATMARK, &mark);

	return ret < 0 ? ret : mark;
}
