/*
 * A descriptor that a process passes to itself is a duplicate like any other: one socket, one
 * stream, and memberships of epoll sets that last as long as any of its descriptors.
 */
#include "epoll_case.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

/* What comes of fd over a Unix socket; fd itself is closed behind it. */
static int passed(struct play *p, int fd)
{
	int via[2], copy;

	T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
	pass_fd(via[0], fd);
	copy = take_fd(via[1]);
	T(copy >= 0);
	R(close(fd));
	close(via[0]);
	close(via[1]);
	return copy;
}

CASE(pass_self_keeps_the_membership, ANY)
{
	int ep = -1, copy = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		copy = passed(p, FD);
	}
	A { SEND("abc"); }
	B {
		settle(p, copy, 3);
		EXPECT(ep);
		say_recv(p, copy, 3, 0);
		EXPECT_NONE(ep);
		say_send(p, copy, "xy", 0);
		R(close(copy));
		EXPECT_NONE(ep);
	}
	A {
		RECV_FLAGS(2, MSG_WAITALL);
		RECV(1);
	}
}

/* The first descriptor's end is not the socket's. */
CASE(pass_self_goes_on_with_both, ANY)
{
	int via[2] = { -1, -1 }, copy = -1;

	A {
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pass_fd(via[0], FD);
		copy = take_fd(via[1]);
		SEND("one ");
		say_send(p, copy, "two ", 0);
		SEND("three");
		R(close(FD));
		say_send(p, copy, " four", 0);
	}
	B {
		RECV_FLAGS(18, MSG_WAITALL);
		SEND("back");
	}
	A {
		say_recv(p, copy, 4, MSG_WAITALL);
		R(close(copy));
	}
	B { RECV(1); }
}

/* The peer has left bytes unread, in the ring perhaps: nothing is sent to it through the kernel
 * either. */
CASE(pass_self_of_what_was_reset, ANY)
{
	int copy = -1;

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
		copy = passed(p, FD);
		say_recv(p, copy, 1, 0);
		say_send(p, copy, "x", MSG_NOSIGNAL);
		say_send(p, copy, "x", MSG_NOSIGNAL);
	}
}

/* The same where nobody has looked since. */
CASE(pass_self_of_what_was_reset_unseen, ANY)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);
	int copy = -1;

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		do
			if (getsockopt(FD, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
				say(p, "no TCP_INFO");
		while (info.tcpi_state == TCP_ESTABLISHED);
		copy = passed(p, FD);
		say_recv(p, copy, 1, 0);
		say_recv(p, copy, 1, 0);
		say_send(p, copy, "x", MSG_NOSIGNAL);
		say_send(p, copy, "x", MSG_NOSIGNAL);
	}
}

/* What was open under that number before was closed where nobody saw it. */
CASE(pass_self_takes_a_number_closed_behind_the_back, ANY)
{
	A { SEND("in the connection"); }
	B {
		int via[2], ends[2], fill;
		char text[8] = "";

		settle(p, FD, 17);
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		T(pipe(ends) == 0);
		T(write(ends[1], "in pipe", 7) == 7);
		pass_fd(via[0], ends[0]);
		do fill = dup(via[0]); /* no number below is free */
		while (fill < FD);
		close_raw(FD);
		T(take_fd(via[1]) == FD);
		T(read(FD, text, 7) == 7);
		say(p, "%s", text);
	}
}

/* Who looks at the message has a copy of its own each time, and closes that. */
static void look_into_message(struct play *p, int via)
{
	int copy;

	close(FD);
	copy = peek_fd(via);
	T(copy >= 0);
	say_recv(p, copy, 10, MSG_PEEK | MSG_DONTWAIT);
	R(close(copy));
	_exit(0);
}

CASE(pass_self_not_though_looked_at, PROCESS)
{
	B { SEND("unread"); }
	A {
		int via[2];

		settle(p, FD, 6);
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pass_fd(via[0], FD);
		for (unsigned i = 0; i < 3; i++) {
			pid_t pid = fork_logged(p);

			if (pid == 0)
				look_into_message(p, via[1]);
			reap(p, "who looks", pid);
		}
		SEND("still here");
	}
	B {
		RECV(20);
		R(poll(&(struct pollfd){ .fd = FD, .events = POLLIN }, 1, 0));
		SEND(", and here");
	}
	A { RECV_FLAGS(16, MSG_WAITALL); }
}

/* The kernel alone serves it from then on, and its end is one edge still. */
CASE(pass_self_keeps_the_end_one_edge, ANY)
{
	int ep = -1, via[2];

	A {
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pass_fd(via[0], FD);
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLRDHUP | EPOLLET, 1);
		EXPECT_NONE(ep);
	}
	B { R(close(FD)); }
	A {
		EXPECT(ep);
		EXPECT_NONE(ep);
	}
}
