/* Edge-triggered and one-shot epoll: what makes an event, and what does not. */
#include "epoll_case.h"

#define IN_EDGE (EPOLLIN | EPOLLET)
#define BOTH_EDGE (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

CASE(epoll_edge_fresh_reports_writable_once, ANY)
{
	A {
		int ep = epoll_create1(0);

		ADD(ep, FD, BOTH_EDGE, 1);
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_edge_one_arrival_one_event, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE, 1);
		EXPECT_NONE(ep);
	}
	A { SEND("abc"); }
	B {
		EXPECT(ep);
		EXPECT_NONE(ep);
		RECV(1);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_edge_new_data_new_event, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE, 1);
	}
	for (int i = 0; i < 5; i++) {
		A { SEND("abc"); }
		B {
			EXPECT(ep);
			EXPECT_NONE(ep);
		}
	}
	B { RECV(100); }
	B { EXPECT_NONE(ep); }
}

CASE(epoll_edge_arrival_reports_writable_too, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, BOTH_EDGE, 1);
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
	A { SEND("x"); }
	B {
		EXPECT(ep);
		EXPECT_NONE(ep);
		RECV(1);
		EXPECT_NONE(ep);
	}
}

/* The arrival was an event; what it tells is what there is when somebody asks. */
CASE(epoll_edge_arrival_taken_before_the_wait, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, BOTH_EDGE, 1);
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		RECV(3);
		EXPECT(ep);
		EXPECT_NONE(ep);
		MOD(ep, FD, IN_EDGE, 1);
		EXPECT_NONE(ep);
	}
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		RECV(3);
		EXPECT_NONE(ep);
	}
}

/* Too little to be told of is no arrival. */
CASE(epoll_edge_below_the_low_water_mark, ANY)
{
	int ep = -1;

	B {
		R(setsockopt(FD, SOL_SOCKET, SO_RCVLOWAT, &(int){ 5 }, sizeof(int)));
		ep = epoll_create1(0);
		ADD(ep, FD, BOTH_EDGE, 1);
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		EXPECT_NONE(ep);
	}
	A { SEND("de"); }
	B {
		settle(p, FD, 5);
		EXPECT(ep);
		RECV(5);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_edge_partial_read_then_new_data, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE, 1);
	}
	A { SEND("abcdef"); }
	B {
		EXPECT(ep);
		settle(p, FD, 6);
		RECV(3);
		EXPECT_NONE(ep);
	}
	A { SEND("ghi"); }
	B {
		EXPECT(ep);
		settle(p, FD, 6);
		RECV(100);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_edge_read_to_eagain_then_again, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE, 1);
	}
	for (int i = 0; i < 20; i++) {
		A { SEND("message"); }
		B {
			EXPECT(ep);
			settle(p, FD, 7);
			RECV_FLAGS(100, MSG_DONTWAIT);
			RECV_FLAGS(100, MSG_DONTWAIT);
			EXPECT_NONE(ep);
		}
	}
}

CASE(epoll_edge_added_with_data_waiting, ANY)
{
	A { SEND("x"); }
	B {
		int ep = epoll_create1(0);

		settle(p, FD, 1);
		ADD(ep, FD, IN_EDGE, 1);
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_edge_modify_asks_again, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE, 1);
	}
	A { SEND("x"); }
	B {
		EXPECT(ep);
		EXPECT_NONE(ep);
		MOD(ep, FD, IN_EDGE, 2);
		EXPECT(ep);
		EXPECT_NONE(ep);
		MOD(ep, FD, IN_EDGE | EPOLLOUT, 3);
		EXPECT(ep);
		EXPECT_NONE(ep);
		RECV(1);
		MOD(ep, FD, IN_EDGE, 4);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_edge_eof_is_an_event, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE | EPOLLRDHUP, 1);
	}
	A { SEND("x"); }
	B {
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
	A { shutdown(FD, SHUT_WR); }
	B {
		EXPECT(ep);
		EXPECT_NONE(ep);
		RECV(10);
		RECV(10);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_edge_hang_up_is_an_event, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		shutdown(FD, SHUT_WR);
		ADD(ep, FD, IN_EDGE, 1);
	}
	A {
		settle_poll(p, FD, POLLRDHUP);
		close(FD);
	}
	B {
		settle_poll(p, FD, POLLHUP);
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_edge_reset_is_an_event, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE, 1);
	}
	A {
		setsockopt(FD, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
			   sizeof(struct linger));
		close(FD);
	}
	B {
		settle_poll(p, FD, POLLERR);
		EXPECT(ep);
		EXPECT_NONE(ep);
		RECV(1);
		RECV(1);
		EXPECT_NONE(ep);
	}
}

/* Memory knows of it, and the kernel: it is one event. */
CASE(epoll_edge_reset_is_one_event, ANY)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		SEND("unread");
	}
	B { settle(p, FD, 6); }
	A {
		ADD(ep, FD, BOTH_EDGE, 1);
		EXPECT(ep);
	}
	B { R(close(FD)); }
	A {
		settle_poll(p, FD, POLLHUP);
		EXPECT(ep);
		EXPECT_NONE(ep);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		EXPECT_NONE(ep);
	}
}

/* The set is changed between the end and the wait; whoever does not ask for EPOLLRDHUP learns of it
 * as something to read. */
CASE(epoll_edge_end_before_another_is_added, ANY)
{
	int ep = -1, copy;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE, 1);
	}
	A { SEND("abc"); }
	B {
		EXPECT(ep);
		settle(p, FD, 3);
		RECV_FLAGS(100, MSG_DONTWAIT);
		RECV_FLAGS(100, MSG_DONTWAIT);
	}
	A { R(shutdown(FD, SHUT_WR)); }
	B {
		settle_poll(p, FD, POLLRDHUP);
		copy = dup(FD);
		ADD(ep, copy, IN_EDGE, 2);
		DEL(ep, copy);
		EXPECT(ep);
		RECV(100);
		close(copy);
	}
}

CASE(epoll_edge_space_is_an_event, ANY)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLOUT | EPOLLET, 1);
		EXPECT(ep);
		EXPECT_NONE(ep);
		*stage_word(p, 1) = (long)stuff(FD);
		EXPECT_NONE(ep);
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
	A {
		EXPECT(ep);
		SEND("on");
	}
	B { RECV_FLAGS(2, MSG_WAITALL); }
}

CASE(epoll_edge_woken_by_data, DUO)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE, 1);
	}
	for (int i = 0; i < 5; i++) {
		A {
			WAIT(ep, -1);
			RECV(10);
		}
		WITH_B {
			until_other_sleeps(p);
			SEND("x");
		}
	}
}

CASE(epoll_edge_ping_pong_without_loss, DUO)
{
	EACH {
		int ep = epoll_create1(0), n = 0;
		char c = 'x';

		ADD(ep, FD, IN_EDGE, 5);
		if (p->side == SIDE_A)
			SEND("x");
		while (n < 500) {
			struct epoll_event event;

			if (epoll_wait(ep, &event, 1, 5000) != 1)
				break;
			while (recv(FD, &c, 1, MSG_DONTWAIT) == 1) {
				n++;
				(void)!send(FD, &c, 1, 0);
			}
		}
		say(p, "%s", n >= 500 ? "all rounds" : "an edge was lost");
	}
}

CASE(epoll_edge_bulk_without_loss, DUO)
{
	enum { LEN = 4 << 20 };

	A {
		static char buf[65521];
		int ep = epoll_create1(0);
		size_t at = 0;

		fill_pattern(buf, sizeof(buf), 0);
		ADD(ep, FD, EPOLLOUT | EPOLLET, 1);
		while (at < LEN) {
			size_t place = at % sizeof(buf), n = sizeof(buf) - place;
			ssize_t sent = send(FD, buf + place, n < LEN - at ? n : LEN - at,
					    MSG_DONTWAIT);
			struct epoll_event event;

			if (sent > 0)
				at += (size_t)sent;
			else if (epoll_wait(ep, &event, 1, 5000) != 1)
				break;
		}
		say(p, "sent %zu", at);
	}
	WITH_B {
		static char buf[30000];
		int ep = epoll_create1(0);
		size_t at = 0;

		ADD(ep, FD, IN_EDGE, 1);
		while (at < LEN) {
			ssize_t got = recv(FD, buf, sizeof(buf), MSG_DONTWAIT);
			struct epoll_event event;

			if (got > 0 && is_pattern(buf, (size_t)got, at))
				at += (size_t)got;
			else if (got > 0 || epoll_wait(ep, &event, 1, 5000) != 1)
				break;
		}
		say(p, "received %zu", at);
	}
}

CASE(epoll_oneshot_fires_once, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLONESHOT, 1);
	}
	A { SEND("x"); }
	B {
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
	A { SEND("y"); }
	B {
		settle(p, FD, 2);
		EXPECT_NONE(ep);
	}
	B {
		MOD(ep, FD, EPOLLIN | EPOLLONESHOT, 2);
		EXPECT(ep);
		EXPECT_NONE(ep);
		RECV(10);
	}
	B {
		MOD(ep, FD, EPOLLIN | EPOLLONESHOT, 3);
		EXPECT_NONE(ep);
	}
	A { SEND("z"); }
	B { EXPECT(ep); }
}

CASE(epoll_oneshot_disarms_hang_up_too, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLONESHOT, 1);
	}
	A { SEND("x"); }
	B { EXPECT(ep); }
	A { close(FD); }
	B {
		settle_poll(p, FD, POLLRDHUP);
		EXPECT_NONE(ep);
		MOD(ep, FD, EPOLLIN | EPOLLONESHOT, 2);
		EXPECT(ep);
	}
}

CASE(epoll_oneshot_out_consumes_in, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLOUT | EPOLLONESHOT, 1);
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_edge_oneshot_rearmed_loop, DUO)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE | EPOLLONESHOT, 1);
	}
	for (int i = 0; i < 10; i++) {
		A {
			WAIT(ep, 5000);
			RECV(10);
			MOD(ep, FD, IN_EDGE | EPOLLONESHOT, (unsigned)i);
		}
		WITH_B {
			until_other_sleeps(p);
			SEND("x");
		}
	}
}

/* The end came before anybody was told anything: one edge tells of all. */
CASE(epoll_edge_of_an_end_that_came_before, ANY)
{
	struct pollfd set = { .events = POLLIN };

	B {
		set.fd = epoll_create1(0);
		ADD(set.fd, FD, EPOLLOUT | EPOLLET, 1);
		R(poll(&set, 1, 0));
	}
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0)
			_exit(0);
		R(close(FD));
		reap(p, "child", pid);
	}
	B {
		settle_poll(p, FD, POLLRDHUP);
		EXPECT(set.fd);
		EXPECT_NONE(set.fd);
	}
}

CASE(epoll_edge_two_sets_each_get_the_edge, ANY)
{
	int one = -1, two = -1;

	B {
		one = epoll_create1(0);
		two = epoll_create1(0);
		ADD(one, FD, IN_EDGE, 1);
		ADD(two, FD, IN_EDGE, 2);
	}
	A { SEND("x"); }
	B {
		EXPECT(one);
		EXPECT(two);
		EXPECT_NONE(one);
		EXPECT_NONE(two);
		RECV(1);
	}
	A { SEND("y"); }
	B {
		EXPECT(two);
		EXPECT(one);
		EXPECT_NONE(two);
		EXPECT_NONE(one);
	}
}

CASE(epoll_edge_through_dup_is_a_member_of_its_own, ANY)
{
	int ep = -1, copy = -1;

	B {
		ep = epoll_create1(0);
		copy = dup(FD);
		ADD(ep, FD, IN_EDGE, 1);
		ADD(ep, copy, IN_EDGE, 2);
	}
	A { SEND("x"); }
	B {
		EXPECT(ep);
		EXPECT_NONE(ep);
		DEL(ep, copy);
	}
	A { SEND("y"); }
	B {
		EXPECT(ep);
		close(copy);
	}
}
