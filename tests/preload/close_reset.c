/* The ends of a connection: orderly, by reset, by death, with bytes on their way. */
#include "case.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/wait.h>

static void reset_by_close(int fd)
{
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
	close(fd);
}

static void say_ready(struct play *p, int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	R(poll(&pfd, 1, 0));
	say_poll(p, "events", pfd.revents);
}

/* Behind an end of the stream a reset is a broken pipe. */
CASE(close_reset_after_shutdown, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(shutdown(FD, SHUT_WR));
	}
	A { settle_poll(p, FD, POLLRDHUP); }
	B { R(close(FD)); }
	A {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
		say_ready(p, FD, POLLIN | POLLOUT | POLLRDHUP);
		say_error(p, FD);
		say_ready(p, FD, POLLIN | POLLOUT | POLLRDHUP);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		RECV(1);
	}
}

/* Once both have shut down the connection is over, and nothing is left to reset. */
CASE(close_unread_after_both_have_shut_down, ANY)
{
	A {
		SEND("unread");
		R(shutdown(FD, SHUT_WR));
	}
	B {
		settle(p, FD, 6);
		R(shutdown(FD, SHUT_WR));
	}
	A { settle_poll(p, FD, POLLHUP); }
	B { R(close(FD)); }
	A {
		say_ready(p, FD, POLLIN | POLLOUT | POLLRDHUP);
		say_error(p, FD);
		RECV(1);
		say_ready(p, FD, POLLIN | POLLOUT | POLLRDHUP);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

/* The call that was under way has sent something: its successor hears of the error. */
CASE(close_reset_after_shutdown_of_a_blocked_writer, DUO)
{
	static char big[64 << 20];

	B { R(shutdown(FD, SHUT_WR)); }
	A { settle_poll(p, FD, POLLRDHUP); }
	A {
		R_SIGN(send(FD, big, sizeof(big), MSG_NOSIGNAL));
		say_ready(p, FD, POLLOUT | POLLRDHUP);
		say_error(p, FD);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		R(close(FD));
	}
}

CASE(close_reset_connection_has_ended, ANY)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLHUP);
		R(getsockopt(FD, IPPROTO_TCP, TCP_INFO, &info, &len));
		say(p, "state %u", info.tcpi_state);
		R(shutdown(FD, SHUT_RDWR));
		R(shutdown(FD, SHUT_WR));
	}
}

CASE(close_plain, ANY)
{
	A { R(close(FD)); }
	B {
		RECV(1);
		RECV(1);
		say_error(p, FD);
		R(close(FD));
	}
}

CASE(close_with_data_on_the_way, ANY)
{
	A {
		SEND("parting words");
		R(close(FD));
	}
	B {
		settle_poll(p, FD, POLLRDHUP);
		RECV(3);
		RECV(100);
		RECV(1);
	}
}

CASE(close_with_much_data_on_the_way, SELF)
{
	size_t size = 0;

	A {
		size = stuff(FD);
		R(close(FD));
	}
	B {
		T(drain_exactly(FD, size));
		RECV(1);
	}
}

CASE(close_after_large_transfer, DUO)
{
	enum { LEN = 5 << 20 };

	A {
		T(put_pattern(FD, LEN, 30000) == LEN);
		R(close(FD));
	}
	WITH_B {
		T(drain_exactly(FD, LEN));
		RECV(1);
	}
}

CASE(close_then_send_to_it, ANY)
{
	B { close(FD); }
	A {
		count_signal(SIGPIPE, 0);
		settle_poll(p, FD, POLLRDHUP);
		SEND("first");
		settle_poll(p, FD, POLLERR);
		SEND("second");
		SEND("third");
		say(p, "%d signals", n_signals);
		RECV(1);
		say_error(p, FD);
	}
}

CASE(close_then_send_to_it_seen_by_recv, ANY)
{
	B { close(FD); }
	A {
		settle_poll(p, FD, POLLRDHUP);
		SEND("first");
		settle_poll(p, FD, POLLERR);
		RECV(1);
		RECV(1);
	}
}

CASE(close_unread_data_resets, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLERR);
		RECV(1);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

CASE(close_unread_data_resets_sender, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		count_signal(SIGPIPE, 0);
		settle_poll(p, FD, POLLERR);
		SEND("x");
		SEND("x");
		say(p, "%d signals", n_signals);
		RECV(1);
	}
}

CASE(close_unread_data_so_error, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLERR);
		say_error(p, FD);
		say_error(p, FD);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

CASE(close_partly_read_resets, ANY)
{
	A { SEND("partly read"); }
	B {
		settle(p, FD, 11);
		RECV(6);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLERR);
		RECV(1);
	}
}

CASE(close_unread_data_but_answer_sent, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		SEND("answer");
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLERR);
		RECV(100);
		RECV(100);
		RECV(100);
	}
}

CASE(close_linger_zero_resets, ANY)
{
	A { reset_by_close(FD); }
	B {
		settle_poll(p, FD, POLLERR);
		say_ready(p, FD, POLLIN | POLLOUT | POLLRDHUP);
		RECV(1);
		say_ready(p, FD, POLLIN | POLLOUT | POLLRDHUP);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

CASE(close_linger_zero_after_data, ANY)
{
	A { SEND("data"); }
	B { settle(p, FD, 4); }
	A { reset_by_close(FD); }
	B {
		settle_poll(p, FD, POLLERR);
		RECV(2);
		RECV(10);
		RECV(10);
		RECV(10);
	}
}

CASE(close_linger_time, DUO)
{
	A {
		R(setsockopt(FD, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 5 },
			     sizeof(struct linger)));
		T(put_pattern(FD, 1000000, 100000) == 1000000);
		R(close(FD));
	}
	WITH_B {
		T(drain_exactly(FD, 1000000));
		RECV(1);
	}
}

CASE(close_reset_wakes_reader, DUO)
{
	A {
		RECV(1);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		reset_by_close(FD);
	}
}

CASE(close_wakes_reader, DUO)
{
	A {
		RECV(1);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		close(FD);
	}
}

CASE(close_wakes_writer, DUO)
{
	A {
		(void)stuff(FD);
		count_signal(SIGPIPE, 0);
		SEND("blocked");
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
	WITH_B {
		settle(p, FD, 1);
		until_other_sleeps(p);
		close(FD);
	}
}

CASE(close_wakes_large_writer_with_part, DUO)
{
	enum { LEN = 64 << 20 };

	A {
		char *buf = malloc(LEN);
		ssize_t n;

		memset(buf, 1, LEN);
		n = send(FD, buf, LEN, MSG_NOSIGNAL);
		T(n > 0 && n < LEN);
		RECV(1);
		free(buf);
	}
	WITH_B {
		T(recv(FD, NULL, 1000000, MSG_TRUNC | MSG_WAITALL) == 1000000);
		until_other_sleeps(p);
		close(FD);
	}
}

CASE(close_shut_down_peer_stays_readable, ANY)
{
	A {
		SEND("abc");
		shutdown(FD, SHUT_WR);
	}
	B {
		SEND("def");
		close(FD);
	}
	A {
		settle_poll(p, FD, POLLERR | POLLHUP);
		RECV(10);
	}
}

CASE(close_in_thread_does_not_wake_reader, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A { RECV(10); }
	WITH_B {
		until_other_sleeps(p);
		R(close((int)*stage_word(p, 1)));
		until_other_sleeps(p);
		SEND("still here");
	}
	B { RECV(1); }
}

CASE(close_in_thread_does_not_stop_writer, THREAD)
{
	enum { LEN = 16 << 20 };

	A {
		char *buf = malloc(LEN);

		fill_pattern(buf, LEN, 0);
		*stage_word(p, 1) = FD;
		*stage_word(p, 2) = (long)buf;
	}
	A {
		char *buf = (char *)*stage_word(p, 2);

		R(send(FD, buf, LEN, 0));
		free(buf);
	}
	WITH_B {
		settle(p, FD, 1);
		until_other_sleeps(p);
		R(close((int)*stage_word(p, 1)));
		T(drain_exactly(FD, LEN));
		RECV(1);
	}
}

CASE(close_by_exit, ANY)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			SEND("from child");
			_exit(0);
		}
		close(FD);
		reap(p, "child", pid);
	}
	B {
		RECV_FLAGS(10, MSG_WAITALL);
		RECV(1);
	}
}

CASE(close_by_exit_with_unread_data, ANY)
{
	B { SEND("unread"); }
	A {
		pid_t pid;

		settle(p, FD, 6);
		pid = fork_logged(p);
		if (pid == 0)
			_exit(0);
		close(FD);
		reap(p, "child", pid);
	}
	B {
		settle_poll(p, FD, POLLERR);
		RECV(1);
		RECV(1);
	}
}

CASE(close_by_kill, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			SEND("before the end");
			*stage_word(p, 1) = 1;
			pause();
		}
		close(FD);
		while (!*stage_word(p, 1)) usleep(500);
		kill(pid, SIGKILL);
		reap(p, "child", pid);
	}
	WITH_B {
		RECV_FLAGS(14, MSG_WAITALL);
		RECV(1);
		RECV(1);
	}
}

CASE(close_by_kill_of_blocked_reader, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			RECV(1);
			_exit(0);
		}
		close(FD);
		until_process_sleeps(pid);
		kill(pid, SIGKILL);
		reap(p, "child", pid);
	}
	WITH_B {
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

CASE(close_by_kill_of_blocked_writer, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			*stage_word(p, 1) = (long)stuff(FD) + 1;
			SEND("blocked");
			_exit(0);
		}
		close(FD);
		while (!*stage_word(p, 1)) usleep(500);
		until_process_sleeps(pid);
		kill(pid, SIGKILL);
		reap(p, "child", pid);
	}
	B {
		T(drain_exactly(FD, (size_t)*stage_word(p, 1) - 1));
		RECV(1);
	}
}

CASE(close_peer_name_afterwards, ANY)
{
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);

	A { shutdown(FD, SHUT_WR); }
	B {
		RECV(1);
		R(getpeername(FD, (struct sockaddr *)&name, &size));
		shutdown(FD, SHUT_WR);
	}
	A {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
		R(getpeername(FD, (struct sockaddr *)&name, &size));
		R(getsockname(FD, (struct sockaddr *)&name, &size));
	}
}

CASE(close_all_by_close_range, ANY)
{
	A {
		SEND("x");
		R(close_range((unsigned)FD, (unsigned)FD, 0));
		RECV(1);
	}
	B {
		RECV(1);
		RECV(1);
	}
}

CASE(close_range_cloexec_only_marks, ANY)
{
	A {
		R(close_range((unsigned)FD, (unsigned)FD, CLOSE_RANGE_CLOEXEC));
		T(fcntl(FD, F_GETFD) & FD_CLOEXEC);
		SEND("x");
	}
	B { RECV(1); }
}

/* A connection that was reset has no peer any more. */
CASE(close_reset_leaves_no_peer, ANY)
{
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(getpeername(FD, (struct sockaddr *)&peer, &size));
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLHUP);
		R(getpeername(FD, (struct sockaddr *)&peer, &size));
		RECV(1);
		R(getpeername(FD, (struct sockaddr *)&peer, &size));
	}
}
