/*
 * Sockets passed to other processes (SCM_RIGHTS).
 *
 * Nobody can tell who will receive a descriptor: perhaps a program without PULC, perhaps another user's. So an
 * upgraded connection goes back to the kernel before it leaves, and one that is not upgraded yet stays there. If bytes
 * are still in the ring (the other end has not sent them again yet, or has ended) the socket itself says so, and
 * a receiver that has the shim takes the connection up when it uses it.
 *
 * A descriptor that comes back to a process which has the socket, be it that it passed it to itself, is a duplicate like
 * any other: one socket has one file, one stream, and memberships that last as long as any of its descriptors.
 */
#include <string.h>

#include <pulc/process.h>

#include "cookies.h"
#include "data.h"
#include "inherit.h"
#include "passing.h"
#include "sockets.h"
#include "symbols.h"

static void each_right(const struct msghdr *msg, void (*visit)(int fd))
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
			visit(fd);
		}
	}
}

static void send_right(int fd)
{
	struct pre_use use;

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
	if (pulc_stream_attached(use.stream))
		pulc_stream_passes(use.stream);
	else
		pulc_stream_shared_with(use.stream, PULC_ANYBODY);
	pre_use_end(&use);
}

void pre_passing_sends(const struct msghdr *msg)
{
	if (pre_is_bad(msg, sizeof(*msg)) || msg->msg_controllen < CMSG_LEN(sizeof(int)) ||
	    pre_is_bad(msg->msg_control, 1))
		return;
	each_right(msg, send_right);
}

static void receive_right(int fd)
{
	uint64_t cookie = pre_cookie_of(fd);

	if (pre_file_at(fd)) /* closed behind our back */
		(void)pre_file_install(fd, &pre_file_other);
	if ((!cookie || !pre_cookie_join(cookie, fd)) && pulc_socket_is_upgraded(fd))
		(void)pre_file_install(fd, &pre_file_inherited);
}

void pre_passing_received(const struct msghdr *msg)
{
	if (pre_enabled)
		each_right(msg, receive_right);
}
