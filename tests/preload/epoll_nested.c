/* Epoll sets that are members of other sets. */
#include "epoll_case.h"

/* The block's end of the pair in one set, and that one in another, which asks it for this. */
static void nest(struct play *p, uint32_t asks, int *ret_inner, int *ret_outer)
{
	*ret_inner = epoll_create1(0);
	*ret_outer = epoll_create1(0);
	ADD(*ret_inner, FD, EPOLLIN, 1);
	ADD(*ret_outer, *ret_inner, asks, 2);
}

/* A sleeps at the outer set until B sends. */
static void sleep_until_sent(struct play *p, int inner, int outer)
{
	A {
		WAIT(outer, -1);
		EXPECT(inner);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(epoll_nested, ANY)
{
	int inner = -1, outer = -1;

	B {
		nest(p, EPOLLIN, &inner, &outer);
		EXPECT_NONE(outer);
	}
	A { SEND("x"); }
	B {
		EXPECT(outer);
		EXPECT(inner);
		EXPECT(outer);
		RECV(1);
		EXPECT_NONE(outer);
		EXPECT_NONE(inner);
	}
}

CASE(epoll_nested_wakes_sleeper, DUO)
{
	int inner = -1, outer = -1;

	A { nest(p, EPOLLIN, &inner, &outer); }
	sleep_until_sent(p, inner, outer);
}

/* Whoever has the outer set ask for nothing may ask again, by level and by edge. */
CASE(epoll_nested_asks_now_and_then, ANY)
{
	static const uint32_t asks[] = { 0, EPOLLIN, 0, EPOLLIN | EPOLLET, 0, EPOLLIN };
	int inner = -1, outer = -1;

	B { nest(p, 0, &inner, &outer); }
	for (int i = 0; i < 6; i++) {
		A { SEND("x"); }
		B {
			settle(p, FD, 1);
			EXPECT_NONE(outer);
			MOD(outer, inner, asks[i], 2);
			if (asks[i])
				EXPECT(outer);
			else
				EXPECT_NONE(outer);
			EXPECT(inner);
			RECV(1);
			EXPECT_NONE(outer);
			EXPECT_NONE(inner);
			MOD(outer, inner, 0, 2);
		}
	}
}

CASE(epoll_nested_asked_wakes_sleeper, DUO)
{
	int inner = -1, outer = -1;

	A {
		nest(p, 0, &inner, &outer);
		WAIT(outer, 0);
		MOD(outer, inner, EPOLLIN, 3);
	}
	sleep_until_sent(p, inner, outer);
}

/* A child's first set, and poll is the first thing that asks for psid's help. */
CASE(epoll_nested_first_of_a_child, DUO)
{
	A {
		pid_t child;

		SEND("x");
		child = fork_logged(p);
		if (child == 0) {
			int ep = epoll_create1(0);
			struct pollfd pfd = { .fd = ep, .events = POLLIN };

			ADD(ep, FD, EPOLLIN, 1);
			_exit(poll(&pfd, 1, 0) == 0 ? 1 : 2);
		}
		reap(p, "before", child);
	}
	B { SEND("abc"); }
	A {
		pid_t child;

		settle(p, FD, 3);
		child = fork_logged(p);
		if (child == 0) {
			int ep = epoll_create1(0);
			struct pollfd pfd = { .fd = ep, .events = POLLIN };

			ADD(ep, FD, EPOLLIN, 1);
			_exit(poll(&pfd, 1, 3000) == 1 ? 1 : 2);
		}
		reap(p, "after", child);
	}
	B { RECV(1); }
	A { RECV(3); }
}
