/*
 * Sockets passed to other processes (SCM_RIGHTS).
 *
 * Nobody can tell who will receive a descriptor: perhaps a program without PULC, perhaps another
 * user's. So an upgraded connection goes back to the kernel before it leaves, and one that is not
 * upgraded yet stays there. If bytes are still in the ring (the other end has not sent them again
 * yet, or has ended) the socket itself says so, and a receiver that has the shim takes the
 * connection up when it uses it. One that has not may write at once: what was sent before comes
 * first.
 *
 * That can't be undone, and a receiver may act before the sender knows that the message has gone:
 * so the kernel is asked before. The same message with bytes that lie nowhere is refused for the
 * bytes alone (EFAULT) if it would go, and else for what the message itself is going to be refused
 * for. Then nothing changes; if the kernel takes it after all, which has had room in between, its
 * connections follow. Two kinds of call count as going and may come to nothing: one that waits for
 * room, and one whose receiver the kernel looks for last, behind the bytes (datagrams). Their
 * connections stay on the kernel, which is always right.
 *
 * A descriptor that comes back to a process which has the socket, be it that it passed it to
 * itself, is a duplicate like any other: one socket has one file, one stream, and memberships that
 * last as long as any of its descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include <pulc/fds.h>
#include <pulc/process.h>

#include "cookies.h"
#include "data.h"
#include "inherit.h"
#include "passing.h"
#include "process.h"
#include "rawsys.h"
#include "symbols.h"

#define SIZE_PAGE 4096u /* the smallest that there are */

/* Can the program read there? Nobody has judged its addresses yet, and a wrong one is the kernel's
 * to refuse. Most headers lie on the caller's stack, in the page of this very frame; else the
 * kernel is asked to take a word from there and, by the first argument, to do nothing with it. */
static bool is_readable(const void *at, size_t len)
{
	uintptr_t own = (uintptr_t)__builtin_frame_address(0) / SIZE_PAGE;
	uintptr_t first = (uintptr_t)at / SIZE_PAGE, last = ((uintptr_t)at + len - 1) / SIZE_PAGE;

	if (!pre_enabled)
		return pre_aside && !pre_is_bad(at, len);
	if (len == 0 || (first == own && last == own))
		return true;
	/* Of the first page the kernel is not asked: there it takes no word for none given. */
	if (len > INT_MAX || last < first || first == 0)
		return false;
	for (uintptr_t page = first; page <= last; page++)
		if (page != own && raw_syscall(SYS_rt_sigprocmask, -1, page * SIZE_PAGE, NULL,
					       sizeof(uint64_t)) == -EFAULT)
			return false;
	return true;
}

/* Of a message that is about to be sent. */
static bool has_room_for_rights(const struct msghdr *msg)
{
	return is_readable(msg, sizeof(*msg)) && msg->msg_controllen >= CMSG_LEN(sizeof(int)) &&
	       is_readable(msg->msg_control, msg->msg_controllen);
}

static void each_right(const struct msghdr *msg, void (*visit)(int fd, void *arg), void *arg)
{
	struct msghdr *m = (struct msghdr *)msg;
	int fd;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_len < CMSG_LEN(0))
			return;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(fd) <= c->cmsg_len; at += sizeof(fd)) {
			memcpy(&fd, (const char *)c + at, sizeof(fd));
			visit(fd, arg);
		}
	}
}

/* ---- will it go? ----------------------------------------------------------------------------- */

/* PULC's own numbers are not open to the program, whatever the kernel says. */
static void note_closed(int fd, void *arg)
{
	*(bool *)arg |= pulc_fd_is_own(fd);
}

static void note_ours(int fd, void *arg)
{
	const struct pre_file *f = pre_file_settled(fd);

	*(bool *)arg |= (f && f != &pre_file_other) || pulc_fd_is_own(fd);
}

bool pre_passing_concerns(int via, const struct msghdr *msg)
{
	const struct pre_file *f = pre_file_settled(via);
	bool ours = false;

	/* What is tracked is no Unix socket. */
	if ((!f || f == &pre_file_other) && has_room_for_rights(msg))
		each_right(msg, note_ours, &ours);
	return ours;
}

/* No other socket passes descriptors on. */
static bool is_unix(int fd)
{
	socklen_t len = sizeof(int);
	int domain;

	return raw_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX;
}

/* It will be told by the call, and must not be taken before. */
static bool has_error(int fd)
{
	struct pollfd p = { .fd = fd };
	struct timespec now = { 0, 0 };

	return raw_ppoll(&p, 1, &now) > 0 && (p.revents & POLLERR);
}

static bool is_patient(int fd, int flags)
{
	return !(flags & MSG_DONTWAIT) && !(raw_fcntl(fd, F_GETFL, 0) & O_NONBLOCK);
}

/* Memory that cannot be read; NULL: none is to be had. */
static void *nowhere(void)
{
	static void *_Atomic page;
	void *none = NULL;
	long made;

	if (atomic_load(&page))
		return atomic_load(&page);
	made = raw_syscall(SYS_mmap, NULL, SIZE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (made < 0)
		return NULL;
	if (!atomic_compare_exchange_strong(&page, &none, (void *)made))
		(void)raw_syscall(SYS_munmap, made, SIZE_PAGE);
	return atomic_load(&page);
}

/* A message without bytes is tried with one: there would be nothing to be refused for. */
static bool will_go(int via, const struct msghdr *msg, int flags)
{
	bool has_vector = msg->msg_iovlen <= IOV_MAX &&
			  is_readable(msg->msg_iov, msg->msg_iovlen * sizeof(*msg->msg_iov));
	ssize_t len = has_vector ? pre_vector_len(msg->msg_iov, msg->msg_iovlen) : -EFAULT, e;
	struct iovec bytes = { .iov_base = nowhere(), .iov_len = len > 0 ? (size_t)len : 1 };
	struct msghdr trial = *msg;

	if (len < 0 || has_error(via))
		return false;
	if (!bytes.iov_base)
		return true;
	trial.msg_iov = &bytes;
	trial.msg_iovlen = 1;
	e = raw_sendmsg(via, &trial, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
	return e == -EFAULT || (e == -EAGAIN && is_patient(via, flags));
}

/* ---- going ----------------------------------------------------------------------------------- */

static void send_right(int fd, void *arg)
{
	struct pre_use use;

	(void)arg;
	if (pre_use_file(&use, fd)) {
		if (!pre_file_is_standin(use.file))
			pre_cookie_lists(use.file, fd);
		pre_use_end(&use);
	}
	if (pre_use_shared(&use, fd, pre_file_at(fd)))
		pre_use_end(&use);
	if (!pre_use_stream(&use, fd))
		return;
	pulc_stream_keep_on_kernel(use.stream, fd, PULC_REASON_SHARED);
	pulc_stream_bypassed(use.stream, fd);
	if (pulc_stream_attached(use.stream))
		pulc_stream_passes(use.stream);
	else
		pulc_stream_shared_with(use.stream, PULC_ANYBODY);
	pre_use_end(&use);
}

enum pre_passing pre_passing_begins(int via, const struct msghdr *msg, int flags)
{
	bool closed = false;

	if (!pre_passing_concerns(via, msg) || !is_unix(via))
		return PRE_PASSES_NOTHING;
	each_right(msg, note_closed, &closed);
	if (closed)
		return PRE_PASSES_CLOSED;
	if (!will_go(via, msg, flags))
		return PRE_PASSES_HARDLY;
	each_right(msg, send_right, NULL);
	return PRE_PASSES;
}

void pre_passing_ends(enum pre_passing passing, const struct msghdr *msg, ssize_t n)
{
	if (passing == PRE_PASSES_HARDLY && n >= 0)
		each_right(msg, send_right, NULL);
}

/* ---- coming ---------------------------------------------------------------------------------- */

/* Who sends a message counts one holder. Whoever only looks at it has the socket as well, and is
 * one more once he uses it (inherit.c). */
static void receive_right(int fd, void *arg)
{
	bool stays = *(int *)arg & MSG_PEEK;
	uint64_t cookie;

	if (!pre_process_owns_table())
		return;
	cookie = pre_cookie_of(fd);
	if (pre_file_at(fd)) /* closed behind our back */
		(void)pre_file_install(fd, &pre_file_other);
	if ((!cookie || !pre_cookie_join(cookie, fd)) && pulc_socket_is_upgraded(fd))
		(void)pre_file_install(fd, stays ? &pre_file_looked_at : &pre_file_inherited);
}

void pre_passing_received(const struct msghdr *msg, int flags)
{
	if (pre_enabled)
		each_right(msg, receive_right, &flags);
}
