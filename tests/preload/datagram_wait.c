/* poll, select and epoll on UDP sockets: what is ready, what wakes, what makes an event. */
#include "epoll_case.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/select.h>

#define ALL (POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM)
#define IN_EDGE (EPOLLIN | EPOLLET)

static int poll_one(struct play *p, int fd, short events, int msec)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	int n = poll(&pfd, 1, msec);

	say(p, "poll = %d", n);
	say_poll(p, "events", pfd.revents);
	return n;
}

/* ---- poll and select ------------------------------------------------------------------------- */

CASE_TRAITS(datagram_poll_level, ANY, DATAGRAMS)
{
	B {
		poll_one(p, FD, ALL, 0);
		poll_one(p, FD, POLLIN, 0);
	}
	A {
		SEND("one");
		SEND("");
	}
	B {
		poll_one(p, FD, ALL, 3000);
		RECV(8);
		poll_one(p, FD, ALL, 0);
		RECV(8);
		poll_one(p, FD, ALL, 0);
	}
}

CASE_TRAITS(datagram_poll_wakes, DUO, DATAGRAMS)
{
	for (int i = 0; i < 4; i++) {
		B {
			poll_one(p, FD, POLLIN, i % 2 ? 20000 : -1);
			RECV_FLAGS(8, MSG_DONTWAIT);
		}
		WITH_A {
			until_other_sleeps(p);
			SEND(i % 2 ? "" : "wake");
		}
	}
}

CASE_TRAITS(datagram_poll_times_out, ANY, DATAGRAMS)
{
	uint64_t start;

	B {
		start = usec_clock();
		poll_one(p, FD, POLLIN, 40);
		T(usec_clock() - start >= 39000);
	}
	A { SEND("late"); }
	B { RECV(8); }
}

CASE_TRAITS(datagram_select, ANY, DATAGRAMS)
{
	struct timeval tv = { .tv_sec = 3 };
	fd_set readable, writable;

	A { SEND("x"); }
	for (int i = 0; i < 2; i++) {
		B {
			FD_ZERO(&readable);
			FD_ZERO(&writable);
			FD_SET(FD, &readable);
			FD_SET(FD, &writable);
			tv.tv_sec = i ? 0 : 3;
			R(select(FD + 1, &readable, i ? NULL : &writable, NULL, &tv));
			T(FD_ISSET(FD, &readable));
			T(FD_ISSET(FD, &writable));
			RECV_FLAGS(8, MSG_DONTWAIT);
		}
	}
}

CASE_TRAITS(datagram_select_wakes, DUO, DATAGRAMS)
{
	struct timeval tv = { .tv_sec = 20 };
	fd_set readable;

	for (int i = 0; i < 2; i++) {
		B {
			FD_ZERO(&readable);
			FD_SET(FD, &readable);
			R(select(FD + 1, &readable, NULL, NULL, i ? &tv : NULL));
			RECV_FLAGS(8, MSG_DONTWAIT);
		}
		WITH_A {
			until_other_sleeps(p);
			SEND("wake");
		}
	}
}

/* ---- epoll ----------------------------------------------------------------------------------- */

CASE_TRAITS(datagram_epoll_level, ANY, DATAGRAMS)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLRDHUP, 1);
		EXPECT_NONE(ep);
	}
	A {
		SEND("one");
		SEND("two");
	}
	B {
		for (int i = 0; i < 2; i++) {
			EXPECT(ep);
			EXPECT(ep);
			RECV(8);
		}
		EXPECT_NONE(ep);
		MOD(ep, FD, EPOLLIN | EPOLLOUT, 2);
		EXPECT(ep);
		close(ep);
	}
}

/* There is room all the time; what comes by the kernel is told with it. */
CASE_TRAITS(datagram_epoll_room_and_the_kernels, ANY, DATAGRAMS)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLOUT, 1);
		EXPECT(ep);
		EXPECT(ep);
	}
	for (int i = 0; i < 5; i++) {
		A { SEND_FLAGS("kernel", MSG_DONTROUTE); }
		B {
			EXPECT(ep);
			EXPECT(ep);
			RECV(8);
			for (int j = 0; j < 3; j++) EXPECT(ep);
		}
	}
	B { close(ep); }
}

/* Every arrival is an event, taken or not. (A flow that is made while a datagram waits may be one
 * more: SETTLED.) */
CASE_TRAITS(datagram_epoll_edge, ANY, DATAGRAMS | SETTLED)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, IN_EDGE, 1);
		EXPECT_NONE(ep);
	}
	for (int i = 0; i < 5; i++) {
		A { SEND("abc"); }
		B {
			EXPECT(ep);
			EXPECT_NONE(ep);
		}
	}
	B {
		for (int i = 0; i < 4; i++) RECV(8);
		EXPECT_NONE(ep);
		MOD(ep, FD, IN_EDGE, 2);
		EXPECT(ep);
		EXPECT_NONE(ep);
		RECV(8);
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
	A { SEND("again"); }
	B {
		EXPECT(ep);
		EXPECT_NONE(ep);
		close(ep);
	}
}

CASE_TRAITS(datagram_epoll_one_shot, ANY, DATAGRAMS)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLONESHOT, 1);
	}
	for (int i = 0; i < 3; i++) {
		A { SEND("abc"); }
		B {
			if (i != 1)
				EXPECT(ep);
			EXPECT_NONE(ep);
			RECV(8);
			if (i == 1)
				MOD(ep, FD, EPOLLIN | EPOLLONESHOT, 2);
		}
	}
	B {
		EXPECT_NONE(ep);
		MOD(ep, FD, EPOLLIN | EPOLLONESHOT, 3);
	}
	A { SEND("for the third time"); }
	B {
		EXPECT(ep);
		MOD(ep, FD, EPOLLIN | EPOLLONESHOT | EPOLLET, 4);
		EXPECT(ep);
		EXPECT_NONE(ep);
		close(ep);
	}
}

CASE_TRAITS(datagram_epoll_added_with_data, ANY, DATAGRAMS | SETTLED)
{
	A { SEND("x"); }
	B {
		int ep = epoll_create1(0);

		ADD(ep, FD, IN_EDGE, 1);
		EXPECT(ep);
		EXPECT_NONE(ep);
		DEL(ep, FD);
		ADD(ep, FD, EPOLLIN, 2);
		EXPECT(ep);
		EXPECT(ep);
		RECV(1);
		EXPECT_NONE(ep);
		close(ep);
	}
}

CASE_TRAITS(datagram_epoll_wakes, DUO, DATAGRAMS)
{
	static const unsigned ways[] = { EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT,
					 EPOLLIN | EPOLLEXCLUSIVE };
	int ep = -1;

	for (unsigned i = 0; i < 4; i++) {
		B {
			ep = epoll_create1(0);
			ADD(ep, FD, ways[i], i);
		}
		B {
			WAIT(ep, i ? 20000 : -1);
			RECV_FLAGS(8, MSG_DONTWAIT);
			close(ep);
		}
		WITH_A {
			until_other_sleeps(p);
			SEND("wake");
		}
	}
}

CASE_TRAITS(datagram_epoll_in_two_sets, ANY, DATAGRAMS | SETTLED)
{
	int ep[2] = { -1, -1 };

	B {
		for (unsigned i = 0; i < 2; i++) {
			ep[i] = epoll_create1(0);
			ADD(ep[i], FD, i ? IN_EDGE : EPOLLIN, i);
		}
	}
	A { SEND("both"); }
	B {
		EXPECT(ep[0]);
		EXPECT(ep[1]);
		EXPECT_NONE(ep[1]);
		RECV(8);
		EXPECT_NONE(ep[0]);
		EXPECT_NONE(ep[1]);
		close(ep[0]);
		close(ep[1]);
	}
}

/* A set inside a set, and one of several members. */
CASE_TRAITS(datagram_epoll_nested, DUO, DATAGRAMS)
{
	int ep = -1, outer = -1;

	B {
		ep = epoll_create1(0);
		outer = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		ADD(outer, ep, EPOLLIN, 2);
		EXPECT_NONE(outer);
	}
	for (int i = 0; i < 2; i++) {
		B { WAIT(outer, 20000); }
		WITH_A {
			until_other_sleeps(p);
			SEND("deep");
		}
		B {
			EXPECT(ep);
			RECV(8);
			EXPECT_NONE(outer);
		}
	}
	B {
		close(outer);
		close(ep);
	}
}

/* That a flow has ended is no arrival. */
CASE_TRAITS(datagram_epoll_hears_nothing_of_a_flow_that_ended, ANY, DATAGRAMS | SERVER | SETTLED)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLOUT | EPOLLET, 1);
		EXPECT(ep);
	}
	A { close(FD); }
	B {
		for (int i = 0; i < 2; i++) RECV_FLAGS(4, MSG_DONTWAIT);
		EXPECT_NONE(ep);
		close(ep);
	}
}

static void send_elsewhere(struct play *p, int ep, const struct address *other)
{
	for (int i = 0; i < 2; i++) {
		R(sendto(FD, "x", 1, 0, (struct sockaddr *)&other->storage, other->size));
		EXPECT_NONE(ep);
	}
}

/* What the socket sends is soon where it goes to, and there is room for more: nobody has asked. */
CASE_TRAITS(datagram_epoll_hears_nothing_of_room, ANY, DATAGRAMS | SERVER)
{
	struct address other;
	int ep = -1, fd = -1;

	B {
		bool is_ipv6 = p->addresses[SIDE_B].storage.ss_family == AF_INET6;

		fd = bound_on(is_ipv6 ? "::1" : "127.0.0.1", &other);
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
	}
	A { SEND("unread"); }
	B {
		WAIT(ep, 20000);
		send_elsewhere(p, ep, &other);
	}
	A { SEND_FLAGS("in the kernel", MSG_DONTROUTE); }
	B {
		WAIT(ep, 20000);
		send_elsewhere(p, ep, &other);
		MOD(ep, FD, EPOLLIN | EPOLLOUT | EPOLLET, 2);
		EXPECT(ep);
		for (int i = 0; i < 2; i++) RECV(16);
		close(fd);
		close(ep);
	}
}

static long receive_in_time(struct play *p, int ep, int fd, const _Atomic long *usec_sent)
{
	struct sockaddr_storage from;
	socklen_t size = sizeof(from);
	char c;

	WAIT(ep, 20000);
	R(recvfrom(fd, &c, 1, MSG_DONTWAIT, (struct sockaddr *)&from, &size));
	return (long)usec_clock() - atomic_load(usec_sent);
}

static void send_to_sleeper(struct play *p, int fd, _Atomic long *usec_sent)
{
	until_other_sleeps(p);
	atomic_store(usec_sent, (long)usec_clock());
	R(send(fd, "x", 1, 0));
}

enum { N_EACH = 30 };

/* Who sent by a queue ends, and whoever sends next gets another one. Nothing is sent back. */
CASE_TRAITS(datagram_epoll_wakes_for_the_next_sender, DUO, NO_PAIR)
{
	_Atomic long *usec_sent = stage_word(p, 0), *port = stage_word(p, 1);
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int ep = -1, receiver = -1, sender = -1;
	long usec, usec_worst = 0;
	struct address own;

	B {
		receiver = bound_on("127.0.0.1", &own);
		atomic_store(port, ((struct sockaddr_in *)&own.storage)->sin_port);
		ep = epoll_create1(0);
		ADD(ep, receiver, EPOLLIN, 1);
	}
	for (int i = 0; i < 3 * N_EACH; i++) {
		A {
			to.sin_port = (in_port_t)atomic_load(port);
			if (i % N_EACH == 0)
				sender = socket(AF_INET, SOCK_DGRAM, 0);
			if (i % N_EACH == 0)
				R(connect(sender, (struct sockaddr *)&to, sizeof(to)));
		}
		B {
			usec = receive_in_time(p, ep, receiver, usec_sent);
			usec_worst = usec > usec_worst ? usec : usec_worst;
		}
		WITH_A { send_to_sleeper(p, sender, usec_sent); }
		A {
			if (i % N_EACH == N_EACH - 1)
				close(sender);
		}
		B { say_recv(p, receiver, 1, MSG_DONTWAIT); }
	}
	B {
		T(usec_worst < 400000);
		close(receiver);
		close(ep);
	}
}

CASE_TRAITS(datagram_epoll_hears_of_refusal, ANY, DATAGRAMS)
{
	int ep = -1;

	B { close(FD); }
	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		R(send(FD, "x", 1, 0));
		EXPECT(ep);
		R(recv(FD, NULL, 0, MSG_DONTWAIT));
		EXPECT_NONE(ep);
		close(ep);
	}
}

/* Several members, some of them strangers to every flow. */
CASE_TRAITS(datagram_epoll_of_several, SELF, OWN_PAIR)
{
	A {
		struct address addresses[4];
		int fds[4], ep = epoll_create1(0);

		pair_datagrams("127.0.0.1", fds, addresses);
		warm_datagrams(p, fds, addresses);
		pair_datagrams("127.0.0.1", fds + 2, addresses + 2);
		for (unsigned i = 0; i < 4; i++) ADD(ep, fds[i], EPOLLIN, i);
		EXPECT_NONE(ep);
		for (int i = 0; i < 4; i++) R(send(fds[i], "x", 1, 0));
		gather_events(p, ep, 4);
		for (int i = 0; i < 4; i++) say_recv(p, fds[i], 4, MSG_DONTWAIT);
		EXPECT_NONE(ep);
		for (int i = 0; i < 4; i++) close(fds[i]);
		close(ep);
	}
}

/* Room alone fills each answer, and what comes through the kernel is told beside it before long. */
CASE_TRAITS(datagram_epoll_full_of_room, ANY, DATAGRAMS | SERVER)
{
	struct epoll_event event = { 0 };
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLOUT, 1);
		for (int i = 0; i < 3; i++) R(epoll_wait(ep, &event, 1, 0));
	}
	A {
		const struct address *own = &p->addresses[p->side];

		/* What goes elsewhere than to its peer is the kernel's. */
		R(connect(FD, (const struct sockaddr *)&own->storage, own->size));
		R(sendto(FD, "x", 1, 0, PEER, PEER_SIZE));
	}
	B {
		settle(p, FD, 1);
		for (int i = 0; i < 1000 && !(event.events & EPOLLIN); i++) {
			usleep(100);
			(void)epoll_wait(ep, &event, 1, 0);
		}
		say_poll(p, "events", (int)event.events);
		RECV(4);
		close(ep);
	}
}
