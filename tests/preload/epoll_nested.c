/* Epoll sets that are members of other sets. */
#include "epoll_case.h"

CASE(epoll_nested, ANY)
{
	int inner = -1, outer = -1;

	B {
		inner = epoll_create1(0);
		outer = epoll_create1(0);
		ADD(inner, FD, EPOLLIN, 1);
		ADD(outer, inner, EPOLLIN, 2);
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

	A {
		inner = epoll_create1(0);
		outer = epoll_create1(0);
		ADD(inner, FD, EPOLLIN, 1);
		ADD(outer, inner, EPOLLIN, 2);
	}
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

/* Whoever has the outer set ask for nothing may ask again, by level and by edge. */
CASE(epoll_nested_asks_now_and_then, ANY)
{
	static const uint32_t asks[] = { 0, EPOLLIN, 0, EPOLLIN | EPOLLET, 0, EPOLLIN };
	int inner = -1, outer = -1;

	B {
		inner = epoll_create1(0);
		outer = epoll_create1(0);
		ADD(inner, FD, EPOLLIN, 1);
		ADD(outer, inner, 0, 2);
	}
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
		inner = epoll_create1(0);
		outer = epoll_create1(0);
		ADD(inner, FD, EPOLLIN, 1);
		ADD(outer, inner, 0, 2);
		WAIT(outer, 0);
		MOD(outer, inner, EPOLLIN, 3);
	}
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
