/*
 * A connection that is dissolved (connect(2) with AF_UNSPEC) by one of several processes that hold
 * its socket: what the others are told, and its peer; and one that was reset before.
 */
#include "case.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static int dissolve(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	return connect(fd, &none, sizeof(none));
}

/* By a forked child, while this process has it too. */
static void dissolve_by_child(struct play *p)
{
	pid_t pid = fork_logged(p);

	if (pid == 0)
		_exit(dissolve(FD) == 0 ? 0 : 1);
	reap(p, "child", pid);
}

enum first {
	SEND_FIRST,
	SEND_NOTHING,
	RECEIVE,
	PEEK,
	POLL,
	SHUT,
	ASK_ERROR,
	ASK_SIZE,
	ASK_PEER,
	WRITE,
	N_FIRST
};

static void call_first(struct play *p, enum first first)
{
	struct sockaddr_storage ss;
	socklen_t size = sizeof(ss);
	struct pollfd pfd = { .fd = FD, .events = POLLIN | POLLOUT | POLLRDHUP };
	int n = -1;

	switch (first) {
	case SEND_FIRST:
		SEND_FLAGS("x", MSG_NOSIGNAL);
		break;
	case SEND_NOTHING:
		SEND_FLAGS("", MSG_NOSIGNAL);
		break;
	case RECEIVE:
		RECV(1);
		break;
	case PEEK:
		RECV_FLAGS(1, MSG_PEEK | MSG_DONTWAIT);
		break;
	case POLL:
		R(poll(&pfd, 1, 0));
		say_poll(p, "poll", pfd.revents);
		break;
	case SHUT:
		R(shutdown(FD, SHUT_WR));
		break;
	case ASK_ERROR:
		say_error(p, FD);
		break;
	case ASK_SIZE:
		R(ioctl(FD, FIONREAD, &n));
		say(p, "%d", n);
		break;
	case ASK_PEER:
		R(getpeername(FD, (struct sockaddr *)&ss, &size));
		break;
	default:
		signal(SIGPIPE, SIG_IGN);
		R(write(FD, "x", 1));
		signal(SIGPIPE, SIG_DFL);
	}
}

/* Each call as the first one afterwards, and then all of them. */
static void say_what_is_left(struct play *p, enum first first)
{
	call_first(p, first);
	for (enum first then = 0; then < N_FIRST; then++) call_first(p, then);
}

static void dissolved(struct play *p, enum first first, const char *unread)
{
	B {
		if (*unread)
			SEND(unread);
	}
	A {
		settle(p, FD, (int)strlen(unread));
		SEND("sent before");
		dissolve_by_child(p);
		say_what_is_left(p, first);
	}
	B {
		settle_poll(p, FD, POLLHUP);
		say_what_is_left(p, first);
	}
}

CASE(dissolve_then_send, ANY)
{
	dissolved(p, SEND_FIRST, "");
}

CASE(dissolve_then_send_with_bytes_unread, ANY)
{
	dissolved(p, SEND_FIRST, "unread");
}

CASE(dissolve_then_send_nothing, ANY)
{
	dissolved(p, SEND_NOTHING, "");
}

CASE(dissolve_then_write, ANY)
{
	dissolved(p, WRITE, "unread");
}

CASE(dissolve_then_receive, ANY)
{
	dissolved(p, RECEIVE, "unread");
}

CASE(dissolve_then_peek, ANY)
{
	dissolved(p, PEEK, "unread");
}

CASE(dissolve_then_poll, ANY)
{
	dissolved(p, POLL, "unread");
}

CASE(dissolve_then_shut, ANY)
{
	dissolved(p, SHUT, "");
}

CASE(dissolve_then_ask_for_the_error, ANY)
{
	dissolved(p, ASK_ERROR, "unread");
}

CASE(dissolve_then_ask_for_the_size, ANY)
{
	dissolved(p, ASK_SIZE, "unread");
}

CASE(dissolve_then_ask_for_the_peer, ANY)
{
	dissolved(p, ASK_PEER, "");
}

/* The other way round: the child goes on with what its parent has dissolved. */
CASE(dissolve_by_the_parent, ANY)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			while (!*stage_word(p, 1)) usleep(300);
			say_what_is_left(p, SEND_FIRST);
			_exit(0);
		}
		R(dissolve(FD));
		*stage_word(p, 1) = 1;
		reap(p, "child", pid);
		say_what_is_left(p, SEND_FIRST);
	}
	B {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
		RECV(1);
	}
}

/* By one who has it from elsewhere. */
CASE(dissolve_by_who_was_passed_it, PROCESS)
{
	int via[2];
	pid_t pid = -1;

	A {
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pid = fork_logged(p);
		if (pid == 0) {
			int fd;

			close(FD);
			fd = take_fd(via[1]);
			_exit(dissolve(fd) == 0 ? 0 : 1);
		}
		pass_fd(via[0], FD);
		reap(p, "receiver", pid);
		say_what_is_left(p, SEND_FIRST);
	}
	B {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
		RECV(1);
	}
}

static void dissolve_under(struct play *p, pid_t pid)
{
	int e;

	until_process_sleeps(pid);
	e = dissolve(FD);
	reap(p, "child", pid);
	T(e == 0);
}

CASE(dissolve_under_a_receive, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			RECV(10);
			RECV(10);
			SEND_FLAGS("x", MSG_NOSIGNAL);
			_exit(0);
		}
		dissolve_under(p, pid);
		RECV(1);
	}
	B {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
	}
}

CASE(dissolve_under_a_peek, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			RECV_FLAGS(10, MSG_PEEK);
			RECV(10);
			_exit(0);
		}
		dissolve_under(p, pid);
	}
	B { settle_poll(p, FD, POLLHUP); }
}

CASE(dissolve_under_a_splice, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			int fds[2];

			T(pipe(fds) == 0);
			R(splice(FD, NULL, fds[1], NULL, 10, 0));
			RECV(10);
			_exit(0);
		}
		dissolve_under(p, pid);
	}
	B { settle_poll(p, FD, POLLHUP); }
}

CASE(dissolve_under_a_poll, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			struct pollfd pfd = { .fd = FD, .events = POLLIN };

			R(poll(&pfd, 1, -1));
			say_poll(p, "poll", pfd.revents);
			RECV(10);
			_exit(0);
		}
		dissolve_under(p, pid);
	}
	B {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
	}
}

/* The one who polls may look before the one who dissolves has said so. */
CASE(dissolve_under_a_poll_with_bytes_unread, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			struct pollfd pfd = { .fd = FD, .events = POLLRDHUP };

			R(poll(&pfd, 1, -1));
			say_poll(p, "poll", pfd.revents);
			_exit(0);
		}
		until_process_sleeps(pid);
		SEND("unread");
		dissolve_under(p, pid);
	}
	B { settle_poll(p, FD, POLLHUP); }
}

CASE(dissolve_under_an_epoll_wait, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 };
			int set = epoll_create1(0);

			R(epoll_ctl(set, EPOLL_CTL_ADD, FD, &event));
			R(epoll_wait(set, &event, 1, -1));
			say_poll(p, "epoll", (int)event.events);
			RECV(10);
			_exit(0);
		}
		dissolve_under(p, pid);
	}
	B {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
	}
}

CASE(dissolve_under_a_send, DUO)
{
	A {
		pid_t pid;

		T(stuff(FD) > 1000);
		pid = fork_logged(p);
		if (pid == 0) {
			static char buf[1 << 20];

			signal(SIGPIPE, SIG_IGN);
			R_SIGN(send(FD, buf, sizeof(buf), 0));
			SEND_FLAGS("x", MSG_NOSIGNAL);
			_exit(0);
		}
		dissolve_under(p, pid);
	}
	B {
		settle_poll(p, FD, POLLHUP);
		RECV_FLAGS(0, MSG_DONTWAIT);
	}
}

/* Another connection of the same socket, as both find it. */
CASE_TRAITS(dissolve_and_connect_anew, SELF, OWN_PAIR)
{
	struct address address;
	int listener, fds[2], again;

	A {
		pid_t pid;

		listener = listen_on("127.0.0.1", &address);
		fds[0] = connect_to(&address, 0);
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		say_send(p, fds[1], "old", 0);
		settle(p, fds[0], 3);
		pid = fork_logged(p);
		if (pid == 0) {
			R(dissolve(fds[0]));
			R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
			say_send(p, fds[0], "child", 0);
			_exit(0);
		}
		reap(p, "child", pid);
		again = accept(listener, NULL, NULL);
		say_recv(p, again, 5, MSG_WAITALL);
		say_send(p, fds[0], "parent", 0);
		say_recv(p, again, 6, MSG_WAITALL);
		say_send(p, again, "reply", 0);
		say_recv(p, fds[0], 5, MSG_WAITALL);
		close(fds[0]);
		say_recv(p, again, 1, 0);
		say_recv(p, fds[1], 1, 0);
	}
}

/* Who has shut down when the connection is dissolved, which its peer has reset. */
enum shut { NOBODY, ONE_BEFORE, ONE_AFTER, PEER_BEFORE };

/* The reset is told after the end that it was meant for, once. */
static void dissolve_reset(struct play *p, enum shut shut, enum first first)
{
	A {
		SEND("unread");
		if (shut == ONE_BEFORE)
			R(shutdown(FD, SHUT_WR));
	}
	B {
		settle(p, FD, 6);
		if (shut == PEER_BEFORE)
			R(shutdown(FD, SHUT_WR));
	}
	A {
		if (shut == PEER_BEFORE)
			settle_poll(p, FD, POLLRDHUP);
	}
	B { R(close(FD)); }
	A {
		settle_poll(p, FD, POLLHUP);
		if (shut == ONE_AFTER)
			R(shutdown(FD, SHUT_WR));
		R(dissolve(FD));
		say_what_is_left(p, first);
	}
}

CASE(dissolve_a_reset_connection, ANY)
{
	dissolve_reset(p, NOBODY, RECEIVE);
}

CASE(dissolve_a_reset_connection_twice, ANY)
{
	dissolve_reset(p, ONE_BEFORE, SHUT);
	A {
		R(dissolve(FD));
		say_what_is_left(p, ASK_ERROR);
	}
}

CASE(dissolve_after_shutdown_and_reset_then_receive, ANY)
{
	dissolve_reset(p, ONE_BEFORE, RECEIVE);
}

CASE(dissolve_after_shutdown_and_reset_then_ask_for_the_error, ANY)
{
	dissolve_reset(p, ONE_BEFORE, ASK_ERROR);
}

CASE(dissolve_after_shutdown_and_reset_then_poll, ANY)
{
	dissolve_reset(p, ONE_BEFORE, POLL);
}

CASE(dissolve_after_reset_and_shutdown_then_receive, ANY)
{
	dissolve_reset(p, ONE_AFTER, RECEIVE);
}

CASE(dissolve_after_reset_and_shutdown_then_send, ANY)
{
	dissolve_reset(p, ONE_AFTER, SEND_FIRST);
}

CASE(dissolve_a_broken_pipe_then_receive, ANY)
{
	dissolve_reset(p, PEER_BEFORE, RECEIVE);
}

CASE(dissolve_a_broken_pipe_then_ask_for_the_error, ANY)
{
	dissolve_reset(p, PEER_BEFORE, ASK_ERROR);
}

/* Nothing is shut down any more: a child that has it still sees that too. */
CASE(dissolve_what_was_shut_for_reading, ANY)
{
	A {
		R(shutdown(FD, SHUT_RD));
		dissolve_by_child(p);
		say_what_is_left(p, POLL);
	}
	B {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
	}
}

/* Who connects anew has left all that behind. */
CASE_TRAITS(dissolve_a_reset_connection_and_connect_anew, SELF, OWN_PAIR)
{
	struct address address;
	int listener, fds[2], again;

	A {
		listener = listen_on("127.0.0.1", &address);
		fds[0] = connect_to(&address, 0);
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		say_send(p, fds[0], "unread", 0);
		settle(p, fds[1], 6);
		R(shutdown(fds[0], SHUT_WR));
		close(fds[1]);
		settle_poll(p, fds[0], POLLHUP);
		R(dissolve(fds[0]));
		R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
		again = accept(listener, NULL, NULL);
		say_error(p, fds[0]);
		say_send(p, fds[0], "anew", 0);
		say_recv(p, again, 4, MSG_WAITALL);
		say_send(p, again, "reply", 0);
		say_recv(p, fds[0], 5, MSG_WAITALL);
		close(again);
		say_recv(p, fds[0], 1, 0);
	}
}

/* It was deleted from a set before that, and is added as the other connection that it is by now. */
CASE_TRAITS(dissolve_and_connect_anew_between_two_memberships, SELF, OWN_PAIR)
{
	struct epoll_event event = { .events = EPOLLIN };
	int listener, set, fds[2], again;
	struct address address;

	A {
		set = epoll_create1(EPOLL_CLOEXEC);
		listener = listen_on("127.0.0.1", &address);
		fds[0] = connect_to(&address, 0);
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		R(epoll_ctl(set, EPOLL_CTL_ADD, fds[0], &event));
		R(epoll_ctl(set, EPOLL_CTL_DEL, fds[0], NULL));
		R(dissolve(fds[0]));
		R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
		again = accept(listener, NULL, NULL);
		R(epoll_ctl(set, EPOLL_CTL_ADD, fds[0], &event));
		R(epoll_ctl(set, EPOLL_CTL_ADD, fds[0], &event));
		R(epoll_ctl(set, EPOLL_CTL_MOD, fds[0], &event));
		say_send(p, again, "anew", 0);
		R(epoll_wait(set, &event, 1, -1));
		say_recv(p, fds[0], 4, MSG_WAITALL);
		R(epoll_ctl(set, EPOLL_CTL_DEL, fds[0], NULL));
		R(epoll_ctl(set, EPOLL_CTL_DEL, fds[0], NULL));
	}
}
