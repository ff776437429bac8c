/* A connection that was passed, or lies in a message: a reset reaches whoever has it then,
 * whichever way its bytes went. */
#include "case.h"

#include <stdio.h>

#include "rawsys.h"

/* FD lies in a message from now on, and comes to nobody. */
static void give_away(struct play *p)
{
	int via[2];

	T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
	pass_fd(via[0], FD);
}

static void say_name(struct play *p)
{
	struct sockaddr_storage ss;
	socklen_t size = sizeof(ss);

	R(getpeername(FD, (struct sockaddr *)&ss, &size));
}

static int events_of(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLOUT };

	return poll(&pfd, 1, 0) > 0 ? pfd.revents : 0;
}

/* Told once, then it is over. */
static void say_reset(struct play *p)
{
	settle_poll(p, FD, POLLHUP);
	say_name(p);
	RECV(1);
	RECV(1);
	SEND_FLAGS("x", MSG_NOSIGNAL);
}

/* A's bytes lie in the ring, which the kernel alone follows now. */
#define UNREAD_OF_ONE_THAT_HAS_LEFT                                                                \
	A { SEND("unread"); }                                                                      \
	B { settle(p, FD, 6); }                                                                    \
	A { give_away(p); }

CASE(pass_reset_by_close, ANY)
{
	UNREAD_OF_ONE_THAT_HAS_LEFT
	B { R(close(FD)); }
	A { say_reset(p); }
}

CASE(pass_reset_by_close_wakes_reader, DUO)
{
	UNREAD_OF_ONE_THAT_HAS_LEFT
	A {
		RECV(1);
		say_name(p);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		R(close(FD));
	}
}

CASE(pass_reset_by_kill_wakes_reader, PROCESS)
{
	pid_t holder = 0;

	UNREAD_OF_ONE_THAT_HAS_LEFT
	B {
		holder = fork_logged(p);
		if (holder == 0)
			pause();
		R(close(FD));
	}
	A {
		RECV(1);
		say_name(p);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		kill(holder, SIGKILL);
		reap(p, "holder", holder);
	}
}

/* Who sleeps for bytes, be it to look at them, and gets some, hears of it with the next call. */
CASE(pass_reset_by_kill_behind_what_wakes_reader, PROCESS)
{
	pid_t holder = 0;

	UNREAD_OF_ONE_THAT_HAS_LEFT
	B {
		holder = fork_logged(p);
		if (holder == 0)
			pause();
	}
	A {
		RECV_FLAGS(10, MSG_PEEK);
		RECV_FLAGS(10, MSG_WAITALL);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("some");
		R(close(FD));
		kill(holder, SIGKILL);
		reap(p, "holder", holder);
	}
}

/* What was on its way to A comes before the reset. */
CASE(pass_reset_behind_bytes, ANY)
{
	UNREAD_OF_ONE_THAT_HAS_LEFT
	B {
		SEND("an answer");
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLHUP);
		RECV(20);
		RECV(1);
		RECV(1);
	}
}

/* It does not read what its peer has still to return. */
CASE(pass_reset_by_who_has_left, ANY)
{
	B { SEND("unread"); }
	A {
		int via[2];

		settle(p, FD, 6);
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pass_fd(via[0], FD);
		R(close(via[0]));
		R(close(via[1]));
		R(close(FD));
	}
	B { say_reset(p); }
}

static void ends_with_a_child(struct play *p, bool killed)
{
	pid_t pid = fork_logged(p);

	if (pid == 0 && killed)
		pause();
	if (pid == 0)
		exit(0);
	R(close(FD));
	if (killed)
		kill(pid, SIGKILL);
	reap(p, "child", pid);
}

CASE(pass_reset_by_exit, ANY)
{
	UNREAD_OF_ONE_THAT_HAS_LEFT
	B { ends_with_a_child(p, false); }
	A { say_reset(p); }
}

CASE(pass_reset_by_kill, PROCESS)
{
	UNREAD_OF_ONE_THAT_HAS_LEFT
	B { ends_with_a_child(p, true); }
	A { say_reset(p); }
}

/* Bytes come before it, also those behind urgent data, of which the kernel counts none. */
CASE_TRAITS(pass_reset_by_kill_behind_urgent_data, SELF, OWN_PAIR)
{
	A {
		int fds[2];

		pair_local(fds);
		say_send(p, fds[1], "x!", MSG_OOB);
		say_send(p, fds[1], "behind", 0);
		warm_one_way(p, fds);
		say_send(p, fds[0], "unread", 0);
		say_recv(p, fds[0], 1, MSG_WAITALL);
		p->fd = fds[0];
		give_away(p);
		p->fd = fds[1];
		ends_with_a_child(p, true);
		settle_poll(p, fds[0], POLLHUP);
		say_recv(p, fds[0], 20, MSG_DONTWAIT);
		say_recv(p, fds[0], 1, 0);
		say_recv(p, fds[0], 1, 0);
		close(fds[0]);
	}
}

/* The first to ask sends: the kernel, of which that is asked, knows of no reset. */
CASE(pass_reset_by_kill_told_by_send, PROCESS)
{
	UNREAD_OF_ONE_THAT_HAS_LEFT
	B { ends_with_a_child(p, true); }
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLRDHUP };

		T(raw_ppoll(&pfd, 1, &(struct timespec){ .tv_sec = 5 }) == 1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		RECV(1);
	}
}

/* Or receives. */
CASE(pass_reset_by_kill_told_by_receive, PROCESS)
{
	UNREAD_OF_ONE_THAT_HAS_LEFT
	B { ends_with_a_child(p, true); }
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLRDHUP };

		T(raw_ppoll(&pfd, 1, &(struct timespec){ .tv_sec = 5 }) == 1);
		RECV(1);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

/* It was reset before it was passed, and nobody has been told: the next program that has it is. */
CASE(pass_reset_found_by_another_program, PROCESS)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		char number[16];
		pid_t pid;

		give_away(p);
		(void)snprintf(number, sizeof(number), "%d", FD);
		pid = fork_logged(p);
		if (pid == 0) {
			execl("/proc/self/exe", "catalogue", "--count", number, NULL);
			_exit(99);
		}
		R(close(FD));
		reap(p, "count", pid);
	}
}

/* One of the two who have it is told; it is over for the other one then. */
CASE(pass_reset_told_to_one, ANY)
{
	int via[2];

	A {
		SEND("unread");
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pass_fd(via[0], FD);
	}
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		pid_t pid;

		settle_poll(p, FD, POLLHUP);
		pid = fork_logged(p);
		if (pid == 0) {
			close(FD);
			p->fd = take_fd(via[1]);
			SEND_FLAGS("x", MSG_NOSIGNAL);
			_exit(0);
		}
		reap(p, "who was passed it", pid);
		say_poll(p, "poll", events_of(FD));
		say_error(p, FD);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

/* ---- known to the kernel --------------------------------------------------------------------- */

/* A program that has the socket without PULC, as it were, is the first one that is told. */
static void dissolved_and_passed(struct play *p)
{
	A {
		struct sockaddr nobody = { .sa_family = AF_UNSPEC };

		R(connect(FD, &nobody, sizeof(nobody)));
	}
	B {
		settle_poll(p, FD, POLLHUP);
		give_away(p);
		T(raw_send(FD, "x", 1, MSG_NOSIGNAL) == -ECONNRESET);
		T(raw_send(FD, "x", 1, MSG_NOSIGNAL) == -EPIPE);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		RECV(1);
	}
}

CASE(pass_reset_of_a_dissolved_one, ANY)
{
	dissolved_and_passed(p);
}

CASE(pass_reset_of_a_dissolved_one_behind_bytes, ANY)
{
	B { SEND("unread"); }
	A { settle(p, FD, 6); }
	dissolved_and_passed(p);
}
