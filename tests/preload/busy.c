/*
 * Programs that poll without waiting, again and again: what they do to a descriptor themselves is
 * told by the very next call, however calm it was before.
 */
#include "epoll_case.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* Calls without news: more than it takes to be taken for one who polls busily. */
#define N_CALLS 60
#define N_ROUNDS 3

/* What is polled besides the connection. */
struct others {
	int pipe[2];
	int event;
	int timer;
};

/* Past the shim, which learns of the handler only. */
static int handler_fd;

static void write_past(int signal)
{
	struct iovec iov = { (char *)"x", 1 };

	(void)signal;
	(void)!vmsplice(handler_fd, &iov, 1, 0);
}

static void others_open(struct play *p, struct others *o)
{
	(void)signal(SIGUSR1, write_past);
	T(pipe(o->pipe) == 0);
	o->event = eventfd(0, EFD_NONBLOCK);
	o->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
}

static void stir(struct play *p, const struct others *o, int how)
{
	const struct itimerspec at_once = { .it_value.tv_nsec = 1 };

	switch (how) {
	case 0:
		T(write(o->pipe[1], "x", 1) == 1);
		break;
	case 1:
		T(eventfd_write(o->event, 1) == 0);
		break;
	case 2:
		T(timerfd_settime(o->timer, 0, &at_once, NULL) == 0);
		settle_poll(p, o->timer, POLLIN);
		break;
	case 3:
		handler_fd = o->pipe[1];
		T(raise(SIGUSR1) == 0);
		break;
	default:
		T(close(o->pipe[1]) == 0);
		break;
	}
}

static void calm_down(struct play *p, const struct others *o, int how)
{
	uint64_t count;

	if (how == 0 || how == 3)
		T(read(o->pipe[0], &count, 1) == 1);
	else if (how < 3)
		T(read(how == 1 ? o->event : o->timer, &count, sizeof(count)) == sizeof(count));
}

#define N_WAYS 5

/* One look of each kind: how much is ready, and what in all of that. */
static int look_poll(int fd, const struct others *o)
{
	struct pollfd fds[] = { { .fd = o->pipe[0], .events = POLLIN },
				{ .fd = fd, .events = POLLIN },
				{ .fd = o->event, .events = POLLIN },
				{ .fd = o->timer, .events = POLLIN } };
	int n = poll(fds, 4, 0), which = 0;

	for (int i = 0; i < 4; i++) which |= (fds[i].revents != 0) << i;
	return n << 8 | which;
}

static int look_select(int fd, const struct others *o)
{
	const int all[] = { o->pipe[0], fd, o->event, o->timer };
	struct timeval now = { 0 };
	fd_set in;
	int n, top = 0, which = 0;

	FD_ZERO(&in);
	for (int i = 0; i < 4; i++) {
		FD_SET(all[i], &in);
		top = all[i] > top ? all[i] : top;
	}
	n = select(top + 1, &in, NULL, NULL, &now);
	for (int i = 0; i < 4; i++) which |= (FD_ISSET(all[i], &in) != 0) << i;
	return n << 8 | which;
}

static int look_epoll(int ep, const struct others *o)
{
	struct epoll_event events[8];
	int n = epoll_wait(ep, events, 8, 0), which = 0;

	(void)o;
	for (int i = 0; i < n; i++) which |= 1 << events[i].data.u64;
	return n << 8 | which;
}

typedef int looker(int, const struct others *);

/* Nothing is ready. */
static void look_often(struct play *p, int fd, const struct others *o, looker *look)
{
	int seen = 0;

	for (int i = 0; i < N_CALLS; i++) seen |= look(fd, o);
	say(p, "calm: %x", seen);
}

/* Now and then the connection has something: that keeps it busy. */
static void see_byte(struct play *p, int fd, const struct others *o, looker *look)
{
	int seen;

	do seen = look(fd, o);
	while (seen == 0);
	say(p, "byte: %x", seen);
	RECV(1);
	look_often(p, fd, o, look);
}

static void see_stir(struct play *p, int fd, const struct others *o, looker *look, int how)
{
	see_byte(p, fd, o, look);
	stir(p, o, how);
	say(p, "stirred: %x", look(fd, o));
	calm_down(p, o, how);
	say(p, "after: %x", look(fd, o));
}

/* The way that ends the pipe comes last. */
#define N_LOOKS (N_ROUNDS * (N_WAYS - 1) + 1)

static void see_all(struct play *p, const struct others *o, looker *look, const int *fd)
{
	for (int i = 0; i < N_LOOKS; i++) {
		B { look_often(p, fd ? *fd : FD, o, look); }
		A { SEND("x"); }
		B { see_stir(p, fd ? *fd : FD, o, look, i / N_ROUNDS); }
	}
}

CASE(busy_poll_sees_what_it_does, ANY)
{
	struct others o;

	B { others_open(p, &o); }
	see_all(p, &o, look_poll, NULL);
}

CASE(busy_select_sees_what_it_does, ANY)
{
	struct others o;

	B { others_open(p, &o); }
	see_all(p, &o, look_select, NULL);
}

CASE(busy_epoll_sees_what_it_does, ANY)
{
	struct others o;
	int ep = -1;

	B {
		others_open(p, &o);
		ep = epoll_create1(0);
		ADD(ep, o.pipe[0], EPOLLIN, 0);
		ADD(ep, FD, EPOLLIN, 1);
		ADD(ep, o.event, EPOLLIN, 2);
		ADD(ep, o.timer, EPOLLIN, 3);
	}
	see_all(p, &o, look_epoll, &ep);
}

/* What becomes ready because it is added, or changed, is told by the next call too. */
CASE(busy_epoll_sees_what_it_adds, ANY)
{
	struct others o;
	int ep = -1;

	B {
		others_open(p, &o);
		T(write(o.pipe[1], "x", 1) == 1);
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
	}
	for (int i = 0; i < N_ROUNDS; i++) {
		B { look_often(p, ep, &o, look_epoll); }
		A { SEND("x"); }
		B {
			see_byte(p, ep, &o, look_epoll);
			if (i == 0)
				ADD(ep, o.pipe[0], EPOLLIN, 0);
			else
				MOD(ep, o.pipe[0], EPOLLIN, 0);
			say(p, "%x", look_epoll(ep, &o));
			MOD(ep, o.pipe[0], 0, 0);
		}
	}
}

/* The other end's end, and its urgent byte, are seen by one who does nothing but poll. */
CASE(busy_poll_sees_the_end, DUO)
{
	struct others o;

	B { others_open(p, &o); }
	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		RECV(1);
	}
	A { R(shutdown(FD, SHUT_WR)); }
	B {
		while (!(look_poll(FD, &o) & 2)) {}
		RECV(1);
		say(p, "%x", look_poll(FD, &o));
	}
}

CASE(busy_poll_sees_urgent_data, DUO)
{
	struct pollfd pfd = { .events = POLLPRI };

	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		RECV(1);
		pfd.fd = FD;
		for (int i = 0; i < N_CALLS; i++) (void)poll(&pfd, 1, 0);
	}
	A { SEND_FLAGS("!", MSG_OOB); }
	B {
		while (poll(&pfd, 1, 0) == 0) {}
		say(p, "urgent: %d", pfd.revents == POLLPRI);
	}
}
