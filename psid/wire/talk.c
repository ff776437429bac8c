/*
 * Conversations with psid of those that have no part in connections: commands, keepers, the calls
 * of pulc/job.h.
 *
 * A conversation is a Unix seqpacket socket of its own, on which each datagram is one message. psid
 * never waits for us, and we wait for it no longer than the caller says: a psid that hangs must not
 * hang the tool that is used to find out why. One whose queue of callers is full is asked again.
 *
 * As in channel.c the kernel is asked directly, for this runs in preloaded programs, too; messages
 * come from malloc.
 */
#include "talk.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "channel.h"
#include "cleanup.h"
#include "clock.h"
#include "paths.h"
#include "rawsys.h"

#define NSEC_RETRY 20000000l

int wire_talk_call(unsigned n_tries, char *path, size_t size, int *ret_fd)
{
	static const struct timespec pause = { .tv_nsec = NSEC_RETRY };
	int r = -EAGAIN;

	for (unsigned i = 0; i < n_tries && r == -EAGAIN; i++) {
		CLEANUP_FD int fd = (int)raw_syscall(SYS_socket, AF_UNIX,
						     SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return fd;
		r = wire_connect(fd, path, size);
		if (r == 0)
			*ret_fd = TAKE_FD(fd);
		else if (r == -EAGAIN)
			(void)raw_syscall(SYS_nanosleep, &pause, NULL);
	}
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

static int say_hello(int fd, Pulc__Wire__Hello *hello, const char *program)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	int r;

	hello->version = WIRE_VERSION;
	hello->program = (char *)program;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_HELLO;
	msg.hello = hello;
	r = wire_send_from_client(fd, &msg, NULL, 0);
	return r == -EPIPE ? 0 : r;
}

int wire_talk_hello(int fd, Pulc__Wire__Role role, const char *program)
{
	Pulc__Wire__Hello hello = PULC__WIRE__HELLO__INIT;

	hello.role = role;
	return say_hello(fd, &hello, program);
}

int wire_talk_hello_for(int fd, const char *program)
{
	Pulc__Wire__Hello hello = PULC__WIRE__HELLO__INIT;

	hello.role = PULC__WIRE__ROLE__ROLE_CONTROL;
	hello.layout = WIRE_LAYOUT;
	hello.for_process = true;
	return say_hello(fd, &hello, program);
}

int wire_talk_take(int fd, Pulc__Wire__ToClient **ret_msg)
{
	uint8_t buf[WIRE_SIZE_MAX];
	int fds[WIRE_FDS_MAX], r;
	Pulc__Wire__ToClient *msg;
	size_t len, n_fds;

	r = wire_recv(fd, buf, &len, fds, &n_fds);
	if (r < 0)
		return r;
	while (n_fds > 0) /* who owns nothing is sent none */
		(void)raw_close(fds[--n_fds]);
	msg = pulc__wire__to_client__unpack(NULL, len, buf);
	if (!msg)
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

int wire_talk_await(int fd, uint64_t nsec_end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t nsec = nsec_now();
		struct timespec left;
		int n;

		if (nsec >= nsec_end)
			return -ETIMEDOUT;
		left.tv_sec = (time_t)((nsec_end - nsec) / NSEC_PER_SEC);
		left.tv_nsec = (long)((nsec_end - nsec) % NSEC_PER_SEC);
		n = raw_ppoll(&p, 1, &left);
		if (n > 0)
			return 0;
		if (n < 0 && n != -EINTR)
			return n;
	}
}

int wire_talk_receive(int fd, uint64_t nsec_end, Pulc__Wire__ToClient **ret_msg)
{
	int r;

	do {
		r = wire_talk_await(fd, nsec_end);
		if (r == 0)
			r = wire_talk_take(fd, ret_msg);
	} while (r == -EAGAIN);
	return r;
}
