/*
 * The server of examples/pingpong.c with a loop of its own: epoll over pulc_fd and a pipe that it
 * writes to itself. Prints the number of messages when an empty one has come.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <pulc/pulc.h>

#define MSEC_PATIENCE 40000

static int failed(int line, long long what)
{
	printf("line %d: %lld\n", line, what);
	return 1;
}

/* Answers everything that is there. -EAGAIN; 0: the empty message. */
static ssize_t serve(pulc_port *port, unsigned *n_messages)
{
	struct pulc_address from;
	char buf[4096];
	ssize_t n;

	while ((n = pulc_receive(port, buf, sizeof(buf), &from, PULC_DONTWAIT)) > 0) {
		(void)pulc_send(port, &from, buf, (size_t)n, 0);
		++*n_messages;
	}
	return n;
}

static int add(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int main(void)
{
	struct epoll_event event;
	unsigned n_messages = 0;
	uint64_t seen = 0;
	int epoll = epoll_create1(EPOLL_CLOEXEC), ends[2], e;
	pulc_port *port;
	ssize_t n;
	char c;

	if (pulc_port_open(PULC_D, 0, "pingpong", &port) != 0 || pipe(ends) != 0)
		return failed(__LINE__, 0);
	if (add(epoll, pulc_fd()) != 0 || add(epoll, ends[0]) != 0 || write(ends[1], "x", 1) != 1)
		return failed(__LINE__, errno);
	while ((n = serve(port, &n_messages)) == -EAGAIN) {
		e = pulc_arm(&seen);
		if (e > 0)
			continue;
		if (e < 0 || epoll_wait(epoll, &event, 1, MSEC_PATIENCE) != 1)
			return failed(__LINE__, e);
		pulc_disarm();
		if (event.data.fd == ends[0] && read(ends[0], &c, 1) != 1)
			return failed(__LINE__, errno);
	}
	printf("%u\n", n_messages);
	return n == 0 && pulc_port_close(port) == 0 ? 0 : failed(__LINE__, n);
}
