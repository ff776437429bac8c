/*
 * A connection's life: which sockets are TCP connections, and which end of them we are.
 *
 * The kernel makes and ends connections; the shim only takes note. socket() marks TCP sockets,
 * connect() and accept() make them streams, with the role that libpulc needs for its count of
 * bytes. A listener that came from elsewhere (a parent, systemd) is recognised at its first accept.
 * A stream is made even before a non-blocking connect has succeeded: as long as the kernel refuses
 * to move bytes nothing comes of it.
 *
 * A socket that existed unconnected when the process forked may be connected here and used there:
 * such a connection stays on the kernel. So does one whose options want it (options.c).
 */
#include <netinet/in.h>

#include <pulc/process.h>

#include "cookies.h"
#include "file.h"
#include "process.h"
#include "rawsys.h"
#include "sockets.h"
#include "symbols.h"

void pre_keep_on_kernel(int fd, enum pulc_reason reason)
{
	struct pre_use use;

	if (!pre_use_stream(&use, fd))
		return;
	pulc_stream_keep_on_kernel(use.stream, fd, reason);
	pre_use_end(&use);
}

void pre_keep_for_others(int fd)
{
	struct pre_use use;

	if (!pre_use_stream(&use, fd))
		return;
	pulc_stream_keep_on_kernel(use.stream, fd, PULC_REASON_UNSUPPORTED);
	pulc_stream_bypassed(use.stream, fd);
	pre_use_end(&use);
}

/* A UDP socket sends and receives from the beginning, so it has its stream from the beginning. */
static void made_datagram(int fd, int domain)
{
	struct pre_file *f = pre_file_new();
	pulc_stream *s;

	if (!f)
		return;
	if (pulc_stream_new_datagram(fd, domain, &s) < 0) {
		pre_file_free(f);
		return;
	}
	pulc_stream_set_user(s, f);
	atomic_store(&f->stream, s);
	if (!pre_file_install(fd, f))
		pre_file_free(f);
}

USUAL int pre_socket(int domain, int type, int protocol)
{
	int fd = (int)pre_sys(pre_real.socket(domain, type, protocol));
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 || !pre_enabled || (domain != AF_INET && domain != AF_INET6))
		return fd;
	if (kind == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP)) {
		pre_process_notice_fork();
		(void)pre_file_install(fd, &pre_file_tcp);
	} else if (kind == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP)) {
		pre_process_notice_fork();
		made_datagram(fd, domain);
	}
	return fd;
}

/* Gives f, which has no descriptor that others could use yet or is just being connected, its
 * stream. */
USUAL static int make_stream(struct pre_file *f, int fd, enum pulc_role role)
{
	pulc_stream *s, *none = NULL;
	int ret;

	if (atomic_load(&f->stream))
		return 0;
	ret = pulc_stream_new(fd, role, &s);
	if (ret < 0)
		return ret;
	pulc_stream_set_user(s, f);
	if (!atomic_compare_exchange_strong(&f->stream, &none, s))
		pulc_stream_unref(s);
	else if (f->shared || f->kept)
		pulc_stream_keep_on_kernel(
			s, fd, f->shared ? PULC_REASON_SHARED : PULC_REASON_UNSUPPORTED);
	return 0;
}

/* The stream's reference stays: other threads' calls may be using it. */
static void let_go(struct pre_use *use, int fd)
{
	pulc_stream *s = use->stream;

	if (atomic_compare_exchange_strong(&use->file->stream, &s, NULL))
		pulc_stream_closing(use->stream, fd);
}

/* A disconnected socket is a new one: it may be connected again, and its counts begin anew. Its
 * stream may have an error to tell before. */
static void disconnected(struct pre_use *use, int fd)
{
	pre_cookie_shares(use->file);
	if (!pulc_stream_attached(use->stream))
		pulc_stream_keep_on_kernel(use->stream, fd, PULC_REASON_UNSUPPORTED);
	if (!pulc_stream_disconnected(use->stream, fd))
		let_go(use, fd);
}

/* connect(2) has not failed, on a socket that has a stream already, perhaps. False: it needs
 * one. */
static bool connected_again(int fd, bool unspecified)
{
	struct pre_use use;
	bool is_done;

	if (!pre_use_stream(&use, fd))
		return unspecified;
	if (!pre_process_owns_table()) { /* a child's own socket by the number of one of ours */
		pre_use_end(&use);
		return true;
	}
	is_done = unspecified || pulc_stream_is_datagram(use.stream);
	if (unspecified && !pulc_stream_is_datagram(use.stream))
		disconnected(&use, fd);
	else if (pulc_stream_connected(use.stream, fd))
		let_go(&use, fd);
	pre_use_end(&use);
	return is_done;
}

USUAL int pre_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct pre_use use;
	int ret;

	ret = (int)pre_sys(pre_real.connect(fd, addr, len));
	if ((ret < 0 && ret != -EINPROGRESS && ret != -EINTR) || pre_file_at(fd) == &pre_file_other)
		return ret;
	pre_process_notice_fork();
	if (connected_again(fd, ret == 0 && len >= sizeof(addr->sa_family) &&
					addr->sa_family == AF_UNSPEC))
		return ret;
	if (!pre_use_own(&use, fd))
		return ret;
	if (!use.file->set)
		(void)make_stream(use.file, fd, PULC_CONNECTED);
	pre_use_end(&use);
	pulc_stream_connect_begun();
	return ret;
}

static bool is_tcp(int fd)
{
	int domain = -1, protocol = -1;
	socklen_t len = sizeof(domain);

	if (raw_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
	    (domain != AF_INET && domain != AF_INET6))
		return false;
	len = sizeof(protocol);
	return raw_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
	       protocol == IPPROTO_TCP;
}

USUAL static int accepted(int listener, int fd, int flags)
{
	struct pre_file *f, *from;

	if (!pre_enabled)
		return fd;
	pulc_accept_ended(fd);
	if (fd < 0)
		return fd;
	pre_process_notice_fork();
	if (!pre_file_settled(listener))
		(void)pre_file_replace(listener, NULL,
				       is_tcp(fd) ? &pre_file_tcp : &pre_file_other);
	/* NULL: closed meanwhile. */
	from = pre_file_at(listener);
	if (from == &pre_file_other)
		return fd;
	f = pre_file_new();
	if (!f)
		return fd;
	f->kept = from && from->kept;
	if (make_stream(f, fd, PULC_ACCEPTED) < 0) {
		pre_file_free(f);
		return fd;
	}
	pulc_stream_nonblock_changed(atomic_load(&f->stream), flags & SOCK_NONBLOCK);
	pulc_loop_accepted(fd);
	if (!pre_file_install(fd, f))
		pre_file_free(f);
	return fd;
}

/* Not before it is known that these are connections that may be upgraded. */
static int await(int listener)
{
	const struct pre_file *f = pre_file_at(listener);

	return f == &pre_file_tcp || f == &pre_file_tcp_shared ? pulc_accept_begins(listener) : 0;
}

USUAL int pre_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	int e = await(fd);

	return e < 0 ? e : accepted(fd, (int)pre_sys(pre_real.accept(fd, addr, len)), 0);
}

USUAL int pre_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int e = flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC) ? 0 : await(fd);

	return e < 0 ? e
		     : accepted(fd, (int)pre_sys(pre_real.accept4(fd, addr, len, flags)), flags);
}

USUAL int pre_shutdown(int fd, int how)
{
	struct pre_use use;
	int ret;

	if (!pre_use_stream(&use, fd))
		return (int)pre_sys(pre_real.shutdown(fd, how));
	ret = pulc_stream_shutdown(use.stream, fd, how);
	if (ret == PULC_USE_KERNEL)
		ret = (int)pre_sys(pre_real.shutdown(fd, how));
	pre_use_end(&use);
	return ret;
}
