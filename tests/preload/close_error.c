/* SO_ERROR and receives of no bytes, where a connection was reset: who is told of what, and how
 * often. */
#include "case.h"

#include "rawsys.h"

#include <netinet/tcp.h>
#include <sys/uio.h>

/* Asked again and again, for nothing else tells when it is there; 30 s at most. */
static void say_error_when_it_comes(struct play *p, int fd)
{
	uint64_t end = usec_clock() + 30 * 1000 * 1000;
	socklen_t size = sizeof(int);
	int error = 0;

	while (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && !error &&
	       usec_clock() < end)
		usleep(1000);
	say(p, "SO_ERROR %s", error ? errno_name(error) : "none");
}

static void say_error_now(struct play *p, int fd)
{
	socklen_t size = sizeof(int);
	int error = -1;

	R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
	say(p, "SO_ERROR %s", error ? errno_name(error) : "none");
}

/* The kernel knows of the end, and PULC has not been asked anything. */
static void settle_unseen(struct play *p, int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLRDHUP };
	struct timespec most = { .tv_sec = 5 };

	if (raw_ppoll(&pfd, 1, &most) <= 0)
		say(p, "the end has not come");
}

static void disconnect(struct play *p, int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	R(connect(fd, &none, sizeof(none)));
}

/* Who asks without room for the answer has taken it. */
CASE(close_error_taken_without_room, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		socklen_t none = 0;
		char nothing;

		settle_poll(p, FD, POLLHUP);
		R(getsockopt(FD, SOL_SOCKET, SO_ERROR, &nothing, &none));
		say_error_now(p, FD);
		RECV(1);
	}
}

/* Nobody has polled, received or sent since. */
CASE(close_error_is_there_without_a_look, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		say_error_when_it_comes(p, FD);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

CASE(close_error_state_without_a_look, ANY)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_unseen(p, FD);
		R(getsockopt(FD, IPPROTO_TCP, TCP_INFO, &info, &size));
		say(p, "state %d", info.tcpi_state);
		RECV(1);
	}
}

CASE(close_error_behind_an_end_is_there_without_a_look, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(shutdown(FD, SHUT_WR));
	}
	A { settle_poll(p, FD, POLLRDHUP); }
	B { R(close(FD)); }
	A {
		say_error_when_it_comes(p, FD);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		RECV(1);
	}
}

/* Bytes come before an error, also to one who takes none of them. */
CASE(close_error_comes_behind_bytes_that_nobody_takes, ANY)
{
	A { SEND("bytes"); }
	B {
		settle(p, FD, 5);
		SEND("unread");
	}
	A {
		settle(p, FD, 6);
		R(close(FD));
	}
	B {
		settle_poll(p, FD, POLLHUP);
		RECV_FLAGS(0, MSG_DONTWAIT);
		RECV_FLAGS(0, MSG_PEEK | MSG_DONTWAIT);
		RECV(2);
		RECV_FLAGS(0, MSG_DONTWAIT);
		RECV(10);
	}
}

/* A connection that is undone by AF_UNSPEC is reset; a receive of no bytes tells that too, once. */
CASE(close_error_of_a_disconnect_told_to_who_takes_nothing, ANY)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	A { R(connect(FD, &none, sizeof(none))); }
	B {
		settle_poll(p, FD, POLLHUP);
		RECV_FLAGS(0, MSG_DONTWAIT);
		RECV_FLAGS(0, MSG_DONTWAIT);
	}
}

/* recv is told of the end, recvmmsg of the error first. */
CASE(close_error_is_told_by_recvmmsg_before_the_end, ANY)
{
	A { R(close(FD)); }
	B {
		char byte;
		struct iovec iov = { &byte, 1 };
		struct mmsghdr msgs[2] = { { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } },
					   { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } } };

		settle_poll(p, FD, POLLRDHUP);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		settle_poll(p, FD, POLLHUP);
		RECV(1);
		R(recvmmsg(FD, msgs, 2, 0, NULL));
		R(recvmmsg(FD, msgs, 2, 0, NULL));
	}
}

/* Who sleeps for nothing is told nothing, whatever wakes him. */
CASE(close_error_is_not_told_to_a_sleeper_for_nothing, DUO)
{
	A { SEND("unread"); }
	B { settle(p, FD, 6); }
	A {
		RECV(0);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		R(close(FD));
	}
}

/* A shut-down in vain, for the connection was reset, does not take the reset away. */
CASE(close_error_outlasts_a_shutdown, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLHUP);
		R(shutdown(FD, SHUT_RDWR));
		SEND_FLAGS("x", MSG_NOSIGNAL);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

/* The error comes before the broken pipe, whoever is the first to ask. */
CASE(close_error_after_own_shutdown, ANY)
{
	A {
		SEND("unread");
		R(shutdown(FD, SHUT_WR));
	}
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_unseen(p, FD);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		RECV(1);
	}
}

/* Of a reset that the kernel makes as well the program hears once. */
CASE(close_error_told_by_send, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		disconnect(p, FD);
	}
	A {
		settle_unseen(p, FD);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		say_error_now(p, FD);
		R(shutdown(FD, SHUT_WR));
		SEND_FLAGS("x", MSG_NOSIGNAL);
		RECV(1);
	}
}

CASE(close_error_told_by_receive, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		disconnect(p, FD);
	}
	A {
		settle_unseen(p, FD);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		say_error_now(p, FD);
		RECV(1);
	}
}

/* Of the reset that was told nothing is left for the socket's next connection; one that nobody was
 * told of stays. */
CASE(close_error_told_before_a_disconnect, ANY)
{
	struct pollfd pfd;

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		say_error_when_it_comes(p, FD);
		disconnect(p, FD);
		pfd = (struct pollfd){ .fd = FD, .events = POLLIN | POLLOUT };
		R(poll(&pfd, 1, 0));
		say_poll(p, "disconnected", pfd.revents);
		say_error_now(p, FD);
	}
}

CASE(close_error_untold_before_a_disconnect, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_unseen(p, FD);
		disconnect(p, FD);
		say_error_now(p, FD);
	}
}

/* By a death of which nobody has told yet: the one that died had never said that it was there. */
CASE(close_error_after_own_shutdown_by_an_unknown_holders_death, DUO)
{
	pid_t pid;

	A {
		SEND("unread");
		R(shutdown(FD, SHUT_WR));
	}
	B {
		settle(p, FD, 6);
		pid = fork();
		if (pid == 0)
			for (;;) pause();
		R(close(FD));
		kill(pid, SIGKILL);
		reap(p, "child", pid);
	}
	A {
		settle_unseen(p, FD);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

/* Who has slept for more than has come is told of what has come. */
CASE(close_error_behind_a_part_is_for_the_next_call, DUO)
{
	A { SEND("unread"); }
	B { settle(p, FD, 6); }
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };

		RECV_FLAGS(100, MSG_WAITALL);
		R(poll(&pfd, 1, 0));
		say_poll(p, "poll", pfd.revents);
		RECV(1);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("a part");
		R(close(FD));
	}
}

/* A program that was run counts as a holder of all that it was given, and says nothing of its
 * end. */
CASE(close_error_after_a_program_was_run, PROCESS)
{
	A { SEND("unread"); }
	B {
		T(system("true") == 0);
		R(close(FD));
	}
	A {
		settle_unseen(p, FD);
		say_error(p, FD);
		say_error(p, FD);
		RECV(1);
	}
}
