/* SO_RCVLOWAT where some of the bytes that are enough lie in a ring, and the rest comes behind it
 * through the kernel. */
#include "epoll_case.h"

#include <fcntl.h>
#include <sys/select.h>

static int is_readable(int fd, int msec)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, msec);
}

static void wants(struct play *p, int size)
{
	R(setsockopt(FD, SOL_SOCKET, SO_RCVLOWAT, &size, sizeof(size)));
}

/* The sender goes on with the kernel alone: no ring paces. */
static void paces(struct play *p)
{
	R(setsockopt(FD, SOL_SOCKET, SO_MAX_PACING_RATE, &(unsigned){ 1000000000 },
		     sizeof(unsigned)));
}

CASE(lowat_behind_a_ring, ANY)
{
	A { wants(p, 5); }
	B {
		SEND("abc");
		paces(p);
	}
	A {
		settle(p, FD, 3);
		R(is_readable(FD, 0));
	}
	B { SEND("d"); }
	A {
		settle(p, FD, 4);
		R(is_readable(FD, 0));
	}
	B { SEND("e"); }
	A {
		R(is_readable(FD, 3000));
		RECV_FLAGS(2, MSG_DONTWAIT);
		R(is_readable(FD, 0));
	}
	B { R(shutdown(FD, SHUT_WR)); }
	A {
		R(is_readable(FD, 3000));
		RECV(10);
		RECV(10);
	}
}

CASE(lowat_behind_a_ring_by_epoll, ANY)
{
	int level = -1, edge = -1;

	A {
		wants(p, 5);
		level = epoll_create1(0);
		edge = epoll_create1(0);
		ADD(level, FD, EPOLLIN, 1);
		ADD(edge, FD, EPOLLIN | EPOLLET, 2);
	}
	B {
		SEND("abc");
		paces(p);
	}
	A {
		settle(p, FD, 3);
		EXPECT_NONE(level);
		EXPECT_NONE(edge);
	}
	B { SEND("de"); }
	A {
		EXPECT(level);
		EXPECT(edge);
		EXPECT_NONE(edge);
		RECV(10);
		EXPECT_NONE(level);
	}
}

#define ENOUGH_COMES_TO_A_SLEEPER                                                                  \
	WITH_B {                                                                                   \
		until_other_sleeps(p);                                                             \
		SEND("de");                                                                        \
	}

static void begin(struct play *p)
{
	A { wants(p, 5); }
	B {
		SEND("abc");
		paces(p);
	}
	A { settle(p, FD, 3); }
}

CASE(lowat_behind_a_ring_wakes_poll, DUO)
{
	begin(p);
	A { R(is_readable(FD, 9000)); }
	ENOUGH_COMES_TO_A_SLEEPER
	A { RECV(9); }
}

CASE(lowat_behind_a_ring_wakes_select, DUO)
{
	begin(p);
	A {
		fd_set set;

		FD_ZERO(&set);
		FD_SET(FD, &set);
		R(select(FD + 1, &set, NULL, NULL, &(struct timeval){ .tv_sec = 9 }));
	}
	ENOUGH_COMES_TO_A_SLEEPER
	A { RECV(9); }
}

CASE(lowat_behind_a_ring_wakes_epoll, DUO)
{
	begin(p);
	A {
		int ep = epoll_create1(0);

		ADD(ep, FD, EPOLLIN | EPOLLET, 1);
		EXPECT(ep);
		close(ep);
	}
	ENOUGH_COMES_TO_A_SLEEPER
	A { RECV(9); }
}

/* splice takes what is there. */
CASE(lowat_is_nothing_to_splice, ANY)
{
	A { wants(p, 7); }
	B { SEND("few"); }
	A {
		char buf[10];
		int ends[2];

		settle(p, FD, 3);
		T(pipe(ends) == 0);
		R(splice(FD, NULL, ends[1], NULL, 20, 0));
		R(read(ends[0], buf, sizeof(buf)));
		close(ends[0]);
		close(ends[1]);
	}
}
