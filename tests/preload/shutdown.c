/* shutdown: each direction by itself, from any holder of the socket. */
#include "case.h"
#include "kernel_count.h"

#include <sys/wait.h>

CASE(shutdown_write, ANY)
{
	A {
		SEND("last");
		R(shutdown(FD, SHUT_WR));
	}
	B {
		RECV_FLAGS(10, MSG_WAITALL);
		RECV(1);
		SEND("answer");
	}
	A {
		RECV_FLAGS(6, MSG_WAITALL);
		RECV_FLAGS(1, MSG_DONTWAIT);
	}
}

CASE(shutdown_write_then_send, ANY)
{
	A {
		count_signal(SIGPIPE, 0);
		R(shutdown(FD, SHUT_WR));
		SEND("x");
		SEND_FLAGS("x", MSG_NOSIGNAL);
		say(p, "%d signals", n_signals);
	}
}

CASE(shutdown_read, ANY)
{
	A {
		R(shutdown(FD, SHUT_RD));
		RECV(1);
		RECV_FLAGS(1, MSG_DONTWAIT);
		SEND("still");
	}
	B {
		RECV_FLAGS(5, MSG_WAITALL);
		RECV_FLAGS(1, MSG_DONTWAIT);
	}
}

CASE(shutdown_read_with_own_bytes_unread, ANY)
{
	struct pollfd pfd;

	A {
		SEND("unread");
		R(shutdown(FD, SHUT_RD));
		for (int i = 0; i < 2; i++) {
			pfd = (struct pollfd){ .fd = FD, .events = POLLIN | POLLOUT | POLLRDHUP };
			R(poll(&pfd, 1, 0));
			say_poll(p, "events", pfd.revents);
		}
		SEND(" more");
		R(shutdown(FD, SHUT_WR));
		R(poll(&pfd, 1, 0));
		say_poll(p, "events", pfd.revents);
		RECV(1);
	}
	B {
		RECV_FLAGS(20, MSG_WAITALL);
		RECV(1);
	}
}

CASE(shutdown_read_with_data_waiting, ANY)
{
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		R(shutdown(FD, SHUT_RD));
		RECV(2);
		RECV(2);
		RECV(2);
	}
}

CASE(shutdown_read_then_data_comes, ANY)
{
	B { R(shutdown(FD, SHUT_RD)); }
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		RECV(2);
		RECV(2);
		RECV(2);
	}
	A { SEND("more"); }
}

CASE(shutdown_both, ANY)
{
	A {
		R(shutdown(FD, SHUT_RDWR));
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
	B { RECV(1); }
}

/* What arrives where both directions are shut down is answered by a reset. */
static void say_reset(struct play *p)
{
	struct pollfd pfd = { .fd = FD, .events = POLLIN | POLLOUT | POLLRDHUP };

	settle_poll(p, FD, POLLHUP);
	R(poll(&pfd, 1, 0));
	say_poll(p, "events", pfd.revents);
	RECV(10);
	RECV(10);
	SEND_FLAGS("x", MSG_NOSIGNAL);
	R(shutdown(FD, SHUT_RDWR));
	RECV(10);
}

CASE(shutdown_both_resets_who_sends, ANY)
{
	A { SEND("abc"); }
	B {
		SEND("d");
		settle(p, FD, 3);
		R(shutdown(FD, SHUT_RDWR));
	}
	A {
		settle_poll(p, FD, POLLRDHUP);
		SEND("more");
		say_reset(p);
	}
	B { say_reset(p); }
}

CASE(shutdown_both_one_after_the_other, ANY)
{
	B { R(shutdown(FD, SHUT_WR)); }
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		R(shutdown(FD, SHUT_RD));
	}
	A {
		SEND("more");
		say_reset(p);
	}
	B { say_reset(p); }
}

CASE(shutdown_both_resets_a_blocked_writer, DUO)
{
	static char big[100000];

	A {
		while (send(FD, big, sizeof(big), MSG_NOSIGNAL) > 0)
			;
		say(p, "%s", errno_name(errno));
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		R(shutdown(FD, SHUT_RDWR));
		/* Whether the reset comes before the last byte is read, or after, is not said. */
		while (recv(FD, big, sizeof(big), 0) > 0)
			;
	}
}

CASE(shutdown_twice, ANY)
{
	A {
		R(shutdown(FD, SHUT_WR));
		R(shutdown(FD, SHUT_WR));
		R(shutdown(FD, SHUT_RD));
		R(shutdown(FD, SHUT_RDWR));
	}
}

CASE(shutdown_of_dead_connection, ANY)
{
	A { shutdown(FD, SHUT_WR); }
	B {
		RECV(1);
		shutdown(FD, SHUT_WR);
	}
	A {
		settle_poll(p, FD, POLLHUP);
		RECV(1);
		R(shutdown(FD, SHUT_WR));
		R(shutdown(FD, SHUT_RDWR));
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

CASE(shutdown_wrong_direction, ANY)
{
	A {
		R(shutdown(FD, 3));
		R(shutdown(FD, -1));
		R(shutdown(-1, SHUT_WR));
		SEND("x");
	}
	B { RECV(1); }
}

CASE(shutdown_wakes_reader_in_other_thread, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A {
		RECV(1);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		R(shutdown((int)*stage_word(p, 1), SHUT_RD));
	}
}

CASE(shutdown_both_wakes_reader_in_other_thread, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A {
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
	WITH_B {
		until_other_sleeps(p);
		R(shutdown((int)*stage_word(p, 1), SHUT_RDWR));
	}
}

CASE(shutdown_wakes_writer_in_other_thread, THREAD)
{
	A {
		*stage_word(p, 1) = FD;
		(void)stuff(FD);
	}
	A {
		(void)stuff(FD);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
	WITH_B {
		until_other_sleeps(p);
		R(shutdown((int)*stage_word(p, 1), SHUT_WR));
	}
}

CASE(shutdown_write_wakes_no_reader, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A { RECV(4); }
	WITH_B {
		until_other_sleeps(p);
		R(shutdown((int)*stage_word(p, 1), SHUT_WR));
		until_other_sleeps(p);
		SEND("late");
	}
}

CASE(shutdown_read_wakes_poll, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLIN | POLLRDHUP };

		R(poll(&pfd, 1, -1));
		say_poll(p, "events", pfd.revents);
	}
	WITH_B {
		until_other_sleeps(p);
		R(shutdown((int)*stage_word(p, 1), SHUT_RD));
	}
}

CASE(shutdown_in_child_shuts_for_all, ANY)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			R(shutdown(FD, SHUT_WR));
			_exit(0);
		}
		reap(p, "child", pid);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
	B {
		RECV(1);
		SEND("y");
	}
	A { RECV(1); }
}

/* To who wants no bytes whatever wakes him is enough; to who has no room, that there will be
 * none. */
static pid_t shut_when_parent_sleeps(struct play *p, int how)
{
	pid_t parent = getpid(), pid = fork_logged(p);

	if (pid == 0) {
		until_process_sleeps(parent);
		_exit(shutdown(FD, how));
	}
	return pid;
}

CASE(shutdown_in_child_wakes_who_receives_nothing, SELF | PROCESS)
{
	A {
		pid_t pid = shut_when_parent_sleeps(p, SHUT_WR);

		R(recv(FD, NULL, 0, 0));
		reap(p, "child", pid);
	}
	B {
		RECV(1);
		SEND("x");
	}
	A {
		pid_t pid = shut_when_parent_sleeps(p, SHUT_RD);

		R(recv(FD, NULL, 0, 0));
		RECV(1);
		R(recv(FD, NULL, 0, 0));
		reap(p, "child", pid);
	}
}

CASE(shutdown_in_child_wakes_writer, SELF | PROCESS)
{
	A {
		pid_t pid;

		(void)stuff(FD);
		pid = shut_when_parent_sleeps(p, SHUT_WR);
		(void)put_pattern(FD, 1u << 20, 1u << 20);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		reap(p, "child", pid);
	}
}

CASE(shutdown_in_child_wakes_who_polls_for_room, SELF | PROCESS)
{
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLOUT };
		pid_t pid;

		(void)stuff(FD);
		pid = shut_when_parent_sleeps(p, SHUT_WR);
		R(poll(&pfd, 1, -1));
		say_poll(p, "events", pfd.revents);
		reap(p, "child", pid);
	}
}

/* Who has shut his side for reading has no end to wait for, but a reset to hear of. */
static void hear_of_reset(struct play *p, int how)
{
	A {
		SEND("unread");
		R(shutdown(FD, how));
	}
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		while (!kernel_has_end(FD)) usleep(1000);
		RECV_FLAGS(100, MSG_PEEK | MSG_TRUNC);
		RECV(100);
		say_error(p, FD);
	}
}

CASE(shutdown_read_hears_of_reset, ANY)
{
	hear_of_reset(p, SHUT_RD);
}

CASE(shutdown_both_hears_of_reset, ANY)
{
	hear_of_reset(p, SHUT_RDWR);
}

CASE(shutdown_through_duplicate, ANY)
{
	A {
		int copy = dup(FD);
		SEND("ab");
		R(shutdown(copy, SHUT_WR));
		R(close(copy));
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
	B {
		RECV_FLAGS(2, MSG_WAITALL);
		RECV(1);
	}
}

CASE(shutdown_large_data_still_arrives, DUO)
{
	enum { LEN = 3000000 };

	A {
		T(put_pattern(FD, LEN, 100000) == LEN);
		R(shutdown(FD, SHUT_WR));
		RECV(1);
	}
	WITH_B {
		T(drain_exactly(FD, LEN));
		RECV(1);
		R(close(FD));
	}
}

CASE(shutdown_data_in_flight_single_thread, SELF)
{
	size_t size = 0;

	A {
		size = stuff(FD);
		T(size > 100000);
		R(shutdown(FD, SHUT_WR));
	}
	B {
		T(drain_exactly(FD, size));
		RECV(1);
	}
}

CASE(shutdown_request_answer, DUO)
{
	A {
		T(put_pattern(FD, 500000, 4000) == 500000);
		R(shutdown(FD, SHUT_WR));
		T(drain_exactly(FD, 700000));
		RECV(1);
	}
	WITH_B {
		T(drain_exactly(FD, 500000));
		RECV(1);
		T(put_pattern(FD, 700000, 7000) == 700000);
		R(shutdown(FD, SHUT_WR));
	}
}

CASE(shutdown_poll_states, ANY)
{
	struct pollfd pfd;

	EACH { shutdown(FD, p->side == SIDE_A ? SHUT_RD : SHUT_WR); }
	EACH {
		settle_poll(p, FD, p->side == SIDE_A ? POLLRDHUP : POLLOUT);
		pfd = (struct pollfd){ .fd = FD, .events = POLLIN | POLLOUT | POLLRDHUP };
		R(poll(&pfd, 1, 0));
		say_poll(p, "events", pfd.revents);
	}
}

/* It is shut down while psid's answers are under way: the connection leaves the kernel
 * afterwards. */
static void shut_before_the_upgrade(struct play *p, int n_exchanges)
{
	int fds[2];

	pair_local(fds);
	for (int n = 0; n < n_exchanges; n++) {
		say_send(p, fds[n % 2], "x", 0);
		say_recv(p, fds[1 - n % 2], 1, 0);
		usleep(1000);
	}
	R(shutdown(fds[1], SHUT_RD));
	usleep(1000);
	say_send(p, fds[0], "late", MSG_NOSIGNAL);
	settle(p, fds[1], 4);
	say_recv(p, fds[1], 10, 0);
	say_send(p, fds[1], "unread", 0);
	settle(p, fds[0], 6);
	say_recv(p, fds[1], 10, 0);
	say_send(p, fds[0], "later", MSG_NOSIGNAL);
	say_recv(p, fds[0], 10, MSG_DONTWAIT);
	close(fds[1]);
	close(fds[0]);
}

CASE_TRAITS(shutdown_in_the_midst_of_an_upgrade, SELF, NO_PAIR)
{
	for (int n = 0; n < 6; n++) shut_before_the_upgrade(p, n);
}

static void shut_both_before_the_upgrade(struct play *p, int n_exchanges, bool is_acknowledged)
{
	int fds[2];

	pair_local(fds);
	for (int n = 0; n < n_exchanges; n++) {
		say_send(p, fds[n % 2], "x", 0);
		say_recv(p, fds[1 - n % 2], 1, 0);
		usleep(1000);
	}
	say_send(p, fds[1], "unread", 0);
	usleep(is_acknowledged ? 60000 : 1000);
	R(shutdown(fds[1], SHUT_RDWR));
	usleep(is_acknowledged ? 60000 : 1000);
	say_send(p, fds[0], "late", MSG_NOSIGNAL);
	settle_poll(p, fds[0], POLLHUP);
	say_error(p, fds[0]);
	say_recv(p, fds[0], 10, 0);
	say_send(p, fds[0], "later", MSG_NOSIGNAL);
	R(shutdown(fds[0], SHUT_RD));
	close(fds[1]);
	close(fds[0]);
}

CASE_TRAITS(shutdown_of_both_in_the_midst_of_an_upgrade, SELF, NO_PAIR)
{
	for (int n = 0; n < 6; n++) shut_both_before_the_upgrade(p, n, n % 2);
	for (int n = 0; n < 6; n++) shut_both_before_the_upgrade(p, n, !(n % 2));
}
