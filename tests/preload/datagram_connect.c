/* connect, closed peers and their errors, shutdown. */
#include "case.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static void connect_fd(struct play *p, int fd, const struct address *to)
{
	R(connect(fd, (const struct sockaddr *)&to->storage, to->size));
}

static void send_text(struct play *p, int fd, const char *text, const struct address *to)
{
	R(sendto(fd, text, strlen(text), 0, (const struct sockaddr *)&to->storage, to->size));
}

static void receive_all(struct play *p, int fd)
{
	while (say_recv(p, fd, 32, MSG_DONTWAIT) >= 0)
		;
}

static int pending_error(int fd)
{
	int error = -1;
	socklen_t size = sizeof(error);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	return error;
}

/* ---- connect --------------------------------------------------------------------------------- */

/* What was there before stays; what strangers send afterwards is refused. */
CASE_TRAITS(datagram_connect_refuses_others, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2], other_address;
		int fds[2], other;

		fds[0] = bound_on("127.0.0.1", &addresses[0]);
		fds[1] = bound_on("127.0.0.1", &addresses[1]);
		other = bound_on("127.0.0.1", &other_address);
		warm_datagrams(p, fds, addresses);
		send_text(p, fds[0], "before", &addresses[1]);
		send_text(p, other, "other before", &addresses[1]);
		connect_fd(p, fds[1], &other_address);
		send_text(p, fds[0], "after", &addresses[1]);
		send_text(p, other, "other after", &addresses[1]);
		receive_all(p, fds[1]);
		connect_fd(p, fds[1], &addresses[0]);
		send_text(p, fds[0], "again", &addresses[1]);
		send_text(p, other, "other again", &addresses[1]);
		receive_all(p, fds[1]);
		R(send(fds[1], "answer", 6, 0));
		receive_all(p, fds[0]);
		receive_all(p, other);
		close(fds[0]);
		close(fds[1]);
		close(other);
	}
}

CASE_TRAITS(datagram_connect_dissolved, SELF, OWN_PAIR)
{
	A {
		struct sockaddr none = { .sa_family = AF_UNSPEC };
		struct address addresses[2];
		int fds[2];

		pair_datagrams("127.0.0.1", fds, addresses);
		warm_datagrams(p, fds, addresses);
		R(connect(fds[0], &none, sizeof(none)));
		R(send(fds[0], "nowhere", 7, 0));
		send_text(p, fds[0], "by name", &addresses[1]);
		receive_all(p, fds[1]);
		R(send(fds[1], "back", 4, 0));
		receive_all(p, fds[0]);
		connect_fd(p, fds[0], &addresses[1]);
		R(send(fds[0], "connected", 9, 0));
		receive_all(p, fds[1]);
		close(fds[0]);
		close(fds[1]);
	}
}

CASE_TRAITS(datagram_connect_by_turns, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2], third_address;
		int fds[2], third;

		pair_datagrams("127.0.0.1", fds, addresses);
		third = bound_on("127.0.0.1", &third_address);
		warm_datagrams(p, fds, addresses);
		for (int i = 0; i < 6; i++) {
			connect_fd(p, fds[0], i % 2 ? &addresses[1] : &third_address);
			R(send(fds[0], "turn", 4, 0));
			R(send(fds[0], "turn again", 10, 0));
			send_text(p, fds[0], "by name", &addresses[1]);
			receive_all(p, i % 2 ? fds[1] : third);
			send_text(p, third, "from third", &addresses[0]);
			R(send(fds[1], "from second", 11, 0));
			receive_all(p, fds[0]);
		}
		receive_all(p, fds[1]);
		close(fds[0]);
		close(fds[1]);
		close(third);
	}
}

/* ---- closed ports ---------------------------------------------------------------------------- */

CASE_TRAITS(datagram_to_closed_peer, ANY, DATAGRAMS)
{
	B {
		SEND("last words");
		close(FD);
	}
	A {
		R(send(FD, "first", 5, 0));
		R(send(FD, "second", 6, 0));
		R(send(FD, "third", 5, 0));
		R(recv(FD, NULL, 0, MSG_DONTWAIT));
		RECV_FLAGS(16, MSG_DONTWAIT);
		say(p, "error %s", errno_name(pending_error(FD)));
	}
}

/* What the peer leaves unread when it closes is dropped in silence: only what is sent afterwards is
 * refused. Long enough for those who look after their peers from time to time. */
CASE_TRAITS(datagram_closed_peer_refuses_nothing_of_before, ANY, DATAGRAMS)
{
	struct pollfd pfd;

	A { SEND("unread"); }
	B {
		settle(p, FD, 1);
		close(FD);
	}
	A {
		for (int i = 0; i < 4; i++) {
			pfd = (struct pollfd){ .fd = FD, .events = POLLIN };
			R(poll(&pfd, 1, 100));
		}
		say(p, "error %s", errno_name(pending_error(FD)));
		SEND("refused");
		settle_poll(p, FD, POLLIN);
		say(p, "error %s", errno_name(pending_error(FD)));
	}
}

/* So it is where a socket gives up its port and keeps what came by it. */
CASE_TRAITS(datagram_dissolved_peer_refuses_nothing_of_before, ANY, DATAGRAMS)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct pollfd pfd;

	A { SEND("unread"); }
	B {
		settle(p, FD, 1);
		R(connect(FD, &none, sizeof(none)));
	}
	A {
		for (int i = 0; i < 4; i++) {
			pfd = (struct pollfd){ .fd = FD, .events = POLLIN };
			R(poll(&pfd, 1, 100));
		}
		say(p, "error %s", errno_name(pending_error(FD)));
	}
	B { RECV_FLAGS(16, MSG_DONTWAIT); }
}

CASE_TRAITS(datagram_dissolved_by_child_is_refused_nothing, ANY, DATAGRAMS)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct pollfd pfd;
	pid_t pid;

	A {
		SEND("unread");
		pid = fork();
		if (pid == 0) {
			(void)connect(FD, &none, sizeof(none));
			/* In vain, but it gives the socket another port. */
			_exit(send(FD, "nowhere", 7, 0) >= 0);
		}
		reap(p, "child", pid);
		for (int i = 0; i < 4; i++) {
			pfd = (struct pollfd){ .fd = FD, .events = POLLIN };
			R(poll(&pfd, 1, 100));
		}
		say(p, "error %s", errno_name(pending_error(FD)));
	}
	B { RECV_FLAGS(16, MSG_DONTWAIT); }
}

CASE_TRAITS(datagram_refused_is_polled, ANY, DATAGRAMS)
{
	struct pollfd pfd;

	B { close(FD); }
	A {
		R(send(FD, "x", 1, 0));
		pfd = (struct pollfd){ .fd = FD, .events = POLLIN | POLLOUT };
		R(poll(&pfd, 1, 1000));
		say_poll(p, "events", pfd.revents);
		say(p, "error %s", errno_name(pending_error(FD)));
		R(poll(&pfd, 1, 0));
		say_poll(p, "events", pfd.revents);
		R(send(FD, "x", 1, 0));
		R(recv(FD, NULL, 0, 0));
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

/* What the peer never took is gone with it, and its port is another's. */
CASE_TRAITS(datagram_port_of_another, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2];
		int fds[2], again;

		pair_datagrams("127.0.0.1", fds, addresses);
		warm_datagrams(p, fds, addresses);
		R(send(fds[0], "unread", 6, 0));
		close(fds[1]);
		again = socket(AF_INET, SOCK_DGRAM, 0);
		R(bind(again, (struct sockaddr *)&addresses[1].storage, addresses[1].size));
		R(send(fds[0], "for the new one", 15, 0));
		receive_all(p, again);
		send_text(p, again, "answer", &addresses[0]);
		receive_all(p, fds[0]);
		close(fds[0]);
		close(again);
	}
}

/* The sender is gone, what it has sent is not. */
CASE_TRAITS(datagram_of_closed_sender, ANY, DATAGRAMS | SERVER)
{
	A {
		for (int i = 0; i < 5; i++) SEND("left behind");
		close(FD);
	}
	B {
		for (int i = 0; i < 5; i++) RECV(16);
		RECV_FLAGS(16, MSG_DONTWAIT);
	}
}

CASE_TRAITS(datagram_of_killed_sender, PROCESS, DATAGRAMS | SERVER)
{
	pid_t pid;
	int pipe_fds[2];
	char byte = 'x';

	A {
		R(pipe(pipe_fds) == 0);
		pid = fork();
		if (pid == 0) {
			for (int i = 0; i < 5; i++) (void)!send(FD, "left behind", 11, 0);
			(void)!write(pipe_fds[1], &byte, 1);
			pause();
		}
		(void)!read(pipe_fds[0], &byte, 1);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	B {
		for (int i = 0; i < 5; i++) RECV(16);
		RECV_FLAGS(16, MSG_DONTWAIT);
	}
	A { SEND("by the parent"); }
	B { RECV(16); }
}

/* The last holder of a receiver is killed: its port is closed at that moment. */
CASE_TRAITS(datagram_to_killed_receiver, PROCESS, DATAGRAMS)
{
	pid_t pid;

	B {
		pid = fork();
		if (pid == 0)
			for (;;) pause();
		close(FD);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	A {
		struct timeval patience = { .tv_sec = 3 };

		setsockopt(FD, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		SEND("anybody?");
		RECV(8);
		RECV_FLAGS(8, MSG_DONTWAIT);
		SEND("again");
		R(send(FD, "x", 1, 0));
	}
}

CASE_TRAITS(datagram_duplicates_close, ANY, DATAGRAMS)
{
	int copy = -1;

	B {
		copy = dup(FD);
		close(FD);
	}
	A {
		SEND("to the copy");
		SEND("and more");
	}
	B {
		say_recv(p, copy, 16, 0);
		say_send(p, copy, "answer", 0);
		say_recv(p, copy, 16, 0);
		close(copy);
	}
	A {
		RECV(16);
		R(send(FD, "x", 1, 0));
		R(send(FD, "x", 1, 0));
	}
}

/* ---- shutdown -------------------------------------------------------------------------------- */

CASE_TRAITS(datagram_shutdown_writing, ANY, DATAGRAMS)
{
	A {
		SEND("before");
		R(shutdown(FD, SHUT_WR));
		R(send(FD, "after", 5, MSG_NOSIGNAL));
	}
	B {
		RECV(8);
		RECV_FLAGS(8, MSG_DONTWAIT);
		SEND("still heard");
	}
	A { RECV(16); }
}

CASE_TRAITS(datagram_shutdown_reading, ANY, DATAGRAMS)
{
	struct pollfd pfd;

	A {
		SEND("before");
		SEND("and another");
	}
	B {
		R(shutdown(FD, SHUT_RD));
		pfd = (struct pollfd){ .fd = FD, .events = POLLIN | POLLRDHUP };
		R(poll(&pfd, 1, 0));
		say_poll(p, "events", pfd.revents);
		RECV(16);
		RECV(16);
		RECV(16);
	}
}

CASE_TRAITS(datagram_shutdown_wakes, DUO, DATAGRAMS)
{
	B { RECV(8); }
	WITH_A {
		until_other_sleeps(p);
		SEND("x");
	}
	if (play_is(p, THREAD)) {
		B {
			*stage_word(p, 1) = FD;
			RECV(8);
		}
		WITH_A {
			until_other_sleeps(p);
			T(shutdown((int)*stage_word(p, 1), SHUT_RD) == 0);
		}
	}
}

/* Who waits for something else than what a shut socket says for ever sleeps. */
CASE_TRAITS(datagram_shutdown_leaves_others_asleep, DUO, DATAGRAMS)
{
	struct pollfd pfd;

	A {
		count_signal(SIGUSR1, 0);
		R(shutdown(FD, SHUT_RD));
		pfd = (struct pollfd){ .fd = FD, .events = POLLPRI };
		R(poll(&pfd, 1, 10000));
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

CASE_TRAITS(datagram_shutdown_unconnected, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2];
		int fds[2];

		fds[0] = bound_on("127.0.0.1", &addresses[0]);
		fds[1] = bound_on("127.0.0.1", &addresses[1]);
		warm_datagrams(p, fds, addresses);
		send_text(p, fds[0], "before", &addresses[1]);
		R(shutdown(fds[1], SHUT_RDWR));
		send_text(p, fds[0], "after", &addresses[1]);
		receive_all(p, fds[0]);
		R(recv(fds[1], NULL, 0, MSG_DONTWAIT));
		close(fds[0]);
		close(fds[1]);
	}
}

/* By another process, which the sleeper does not hear of. */
CASE_TRAITS(datagram_shutdown_by_child, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2], other_address;
		int fds[2], other;
		pid_t pid;

		fds[0] = bound_on("127.0.0.1", &addresses[0]);
		fds[1] = bound_on("127.0.0.1", &addresses[1]);
		other = bound_on("127.0.0.1", &other_address);
		warm_datagrams(p, fds, addresses);
		pid = fork_logged(p);
		if (pid == 0) {
			shutdown(other, SHUT_RD);
			until_process_sleeps(getppid());
			shutdown(fds[1], SHUT_RD);
			_exit(0);
		}
		say_recv(p, fds[1], 8, 0);
		reap(p, "child", pid);
		say_recv(p, other, 8, 0);
		close(fds[0]);
		close(fds[1]);
		close(other);
	}
}

/* ---- errors that wait ------------------------------------------------------------------------ */

static void say_pending(struct play *p, int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLOUT };
	int size = -1;

	R(poll(&pfd, 1, 0));
	say_poll(p, "events", pfd.revents);
	R(ioctl(fd, FIONREAD, &size));
	say(p, "size %d", size);
}

static void give_away(int fd)
{
	int over[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, over);
	pass_fd(over[0], fd);
	close(take_fd(over[1]));
	close(over[0]);
	close(over[1]);
}

/* fds[0] has sent to a port that is closed, and nobody has been told. */
static void begin_refused(struct play *p, int fds[2], struct address addresses[2])
{
	struct address closed;
	int other;

	fds[0] = bound_on("127.0.0.1", &addresses[0]);
	fds[1] = bound_on("127.0.0.1", &addresses[1]);
	other = bound_on("127.0.0.1", &closed);
	warm_datagrams(p, fds, addresses);
	send_text(p, fds[0], "unread", &addresses[1]);
	close(other);
	connect_fd(p, fds[0], &closed);
	R(send(fds[0], "nobody", 6, 0));
}

CASE_TRAITS(datagram_refusal_is_not_for_inq, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2];
		int fds[2];

		begin_refused(p, fds, addresses);
		say_pending(p, fds[0]);
		say_pending(p, fds[0]);
		R(recv(fds[0], NULL, 0, MSG_DONTWAIT));
		say_pending(p, fds[0]);
		receive_all(p, fds[1]);
		close(fds[0]);
		close(fds[1]);
	}
}

/* What came before the socket was connected waits in a queue, and the error in the kernel: a poll
 * tells of both. */
CASE_TRAITS(datagram_refusal_is_polled_beside_a_datagram, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2], closed;
		int other = bound_on("127.0.0.1", &closed), fds[2];
		struct pollfd pfd;

		fds[0] = bound_on("127.0.0.1", &addresses[0]);
		fds[1] = bound_on("127.0.0.1", &addresses[1]);
		warm_datagrams(p, fds, addresses);
		send_text(p, fds[1], "before", &addresses[0]);
		close(other);
		connect_fd(p, fds[0], &closed);
		R(send(fds[0], "nobody", 6, 0));
		pfd = (struct pollfd){ .fd = fds[0], .events = POLLIN };
		settle_poll(p, fds[0], POLLIN);
		R(poll(&pfd, 1, 0));
		say_poll(p, "events", pfd.revents);
		say_error(p, fds[0]);
		R(poll(&pfd, 1, 0));
		say_poll(p, "events", pfd.revents);
		receive_all(p, fds[0]);
		close(fds[0]);
		close(fds[1]);
	}
}

/* What the sender sends again, because the receiver's socket goes away, takes no error from it and
 * makes none. */
CASE_TRAITS(datagram_refusal_waits_for_a_send, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2];
		int fds[2], size;

		begin_refused(p, fds, addresses);
		(void)ioctl(fds[0], FIONREAD, &size);
		give_away(fds[1]);
		send_text(p, fds[0], "refused", &addresses[1]);
		send_text(p, fds[0], "sent", &addresses[1]);
		receive_all(p, fds[1]);
		say_pending(p, fds[0]);
		close(fds[0]);
		close(fds[1]);
	}
}

CASE_TRAITS(datagram_refusal_waits_for_a_receive, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2];
		int fds[2];

		begin_refused(p, fds, addresses);
		send_text(p, fds[1], "behind the error", &addresses[0]);
		give_away(fds[1]);
		say_pending(p, fds[0]);
		receive_all(p, fds[0]);
		receive_all(p, fds[0]);
		receive_all(p, fds[1]);
		close(fds[0]);
		close(fds[1]);
	}
}

CASE_TRAITS(datagram_given_back_to_nobody, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2];
		int fds[2];

		pair_datagrams("127.0.0.1", fds, addresses);
		warm_datagrams(p, fds, addresses);
		R(send(fds[0], "one", 3, 0));
		R(send(fds[0], "two", 3, 0));
		give_away(fds[1]);
		close(fds[1]);
		say_pending(p, fds[0]);
		say(p, "error %s", errno_name(pending_error(fds[0])));
		close(fds[0]);
	}
}
