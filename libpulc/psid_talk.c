/*
 * Conversations with psid for the calls of pulc/job.h. They have nothing to do with the channel that carries
 * upgrades (client.c): each is a socket of its own, opened for one question, so that they may come
 * from any thread and wait for their answer.
 */
#include "psid_talk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#include "channel.h"
#include "cleanup.h"
#include "clock.h"
#include "paths.h"
#include "pulc/job.h"
#include "rawsys.h"

#define SEC_PATIENCE 10
#define NSEC_RETRY 20000000l
#define N_RETRIES_BUSY 250

/* A psid whose queue of callers is full is asked again for a while. */
static int connect_patiently(int *ret_fd)
{
	static const struct timespec pause = { .tv_nsec = NSEC_RETRY };
	int r = -EAGAIN;

	for (int i = 0; i < N_RETRIES_BUSY && r == -EAGAIN; i++) {
		CLEANUP_FD int fd = (int)raw_syscall(SYS_socket, AF_UNIX,
						     SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return fd;
		r = wire_connect(fd, NULL, 0);
		if (r == 0)
			*ret_fd = TAKE_FD(fd);
		else if (r == -EAGAIN)
			(void)raw_syscall(SYS_nanosleep, &pause, NULL);
	}
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

int psid_talk_open(Pulc__Wire__Role role, int *ret_fd)
{
	Pulc__Wire__Hello hello = PULC__WIRE__HELLO__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	CLEANUP_FD int fd = -EBADF;
	int r = connect_patiently(&fd);

	if (r < 0)
		return r;
	hello.version = WIRE_VERSION;
	hello.role = role;
	hello.program = (char *)"libpulc";
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_HELLO;
	msg.hello = &hello;
	r = wire_send_from_client(fd, &msg, NULL, 0);
	if (r < 0 && r != -EPIPE) /* a Refuse may be there to read */
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int await_readable(int fd, uint64_t nsec_end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t nsec = nsec_now();
		struct timespec left;
		long n;

		if (nsec >= nsec_end)
			return -ETIMEDOUT;
		left.tv_sec = (time_t)((nsec_end - nsec) / NSEC_PER_SEC);
		left.tv_nsec = (long)((nsec_end - nsec) % NSEC_PER_SEC);
		n = raw_syscall(SYS_ppoll, &p, 1, &left, NULL, 0);
		if (n > 0)
			return 0;
		if (n < 0 && n != -EINTR)
			return (int)n;
	}
}

static int receive(int fd, uint64_t nsec_end, Pulc__Wire__ToClient **ret_msg)
{
	uint8_t buf[WIRE_SIZE_MAX];
	int fds[WIRE_FDS_MAX], r;
	size_t len, n_fds;

	do {
		r = await_readable(fd, nsec_end);
		if (r < 0)
			return r;
		r = wire_recv(fd, buf, &len, fds, &n_fds);
	} while (r == -EAGAIN);
	if (r < 0)
		return r;
	while (n_fds > 0)
		(void)close_own(fds[--n_fds]);
	*ret_msg = pulc__wire__to_client__unpack(NULL, len, buf);
	return *ret_msg ? 0 : -EBADMSG;
}

int psid_talk_receive(int fd, char *why, Pulc__Wire__ToClient **ret_msg)
{
	uint64_t nsec_end = nsec_now() + SEC_PATIENCE * NSEC_PER_SEC;
	Pulc__Wire__ToClient *msg;
	int r;

	while ((r = receive(fd, nsec_end, &msg)) == 0 &&
	       msg->body_case == PULC__WIRE__TO_CLIENT__BODY_WELCOME)
		pulc__wire__to_client__free_unpacked(msg, NULL);
	if (r < 0)
		return r;
	if (msg->body_case == PULC__WIRE__TO_CLIENT__BODY_REFUSE) {
		if (why)
			(void)snprintf(why, PULC_SIZE_WHY, "%s", msg->refuse->text);
		pulc__wire__to_client__free_unpacked(msg, NULL);
		return -ECONNREFUSED;
	}
	*ret_msg = msg;
	return 0;
}
