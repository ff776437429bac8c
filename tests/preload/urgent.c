/* Urgent data: where the mark is, who is told, and that the stream around it stays whole. */
#include "case.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/uio.h>

static void say_mark(struct play *p)
{
	say(p, "at mark: %d", sockatmark(FD));
}

/* Nobody has looked at the connection since it was upgraded, if it was: the peer must not have
 * to. */
CASE(urgent_to_a_peer_that_does_not_look, ANY)
{
	A {
		SEND("before");
		SEND_FLAGS("!", MSG_OOB);
		SEND("after");
	}
	B {
		settle_poll(p, FD, POLLPRI);
		RECV_FLAGS(1, MSG_OOB);
		RECV(100);
		RECV_FLAGS(5, MSG_WAITALL);
	}
}

CASE(urgent_wakes_poll, DUO)
{
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLPRI };

		R(poll(&pfd, 1, 9000));
		say_poll(p, "revents", pfd.revents);
		RECV_FLAGS(1, MSG_OOB);
		pfd.events = POLLPRI | POLLIN;
		R(poll(&pfd, 1, 0));
	}
	WITH_B {
		until_other_sleeps(p);
		SEND_FLAGS("!", MSG_OOB);
	}
}

CASE(urgent_wakes_poll_with_bytes_unread, DUO)
{
	B { SEND("unread"); }
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLPRI };

		settle(p, FD, 6);
		R(poll(&pfd, 1, 9000));
		say_poll(p, "revents", pfd.revents);
		RECV_FLAGS(1, MSG_OOB);
		RECV(100);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND_FLAGS("!", MSG_OOB);
	}
}

CASE(urgent_wakes_select, DUO)
{
	A {
		fd_set except;

		FD_ZERO(&except);
		FD_SET(FD, &except);
		R(select(FD + 1, NULL, NULL, &except, &(struct timeval){ .tv_sec = 9 }));
		T(FD_ISSET(FD, &except));
		RECV_FLAGS(1, MSG_OOB);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND_FLAGS("!", MSG_OOB);
	}
}

CASE(urgent_wakes_epoll, DUO)
{
	A {
		struct epoll_event event = { .events = EPOLLPRI };
		int ep = epoll_create1(0);

		R(epoll_ctl(ep, EPOLL_CTL_ADD, FD, &event));
		R(epoll_wait(ep, &event, 1, 9000));
		say_poll(p, "events", (int)event.events);
		RECV_FLAGS(1, MSG_OOB);
		close(ep);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND_FLAGS("!", MSG_OOB);
	}
}

CASE(urgent_signals_its_owner, DUO)
{
	A {
		count_signal(SIGURG, 0);
		R(fcntl(FD, F_SETOWN, getpid()));
		T(fcntl(FD, F_GETOWN) == getpid());
	}
	A {
		RECV(1);
		say(p, "%d signals", n_signals);
		RECV_FLAGS(1, MSG_OOB);
		signal(SIGURG, SIG_IGN);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND_FLAGS("!", MSG_OOB);
	}
}

/* A receive that waits for all of its bytes stops before the mark. */
CASE(urgent_stops_waitall, DUO)
{
	A {
		RECV_FLAGS(100, MSG_WAITALL);
		say_mark(p);
		RECV_FLAGS(5, MSG_WAITALL);
		say_mark(p);
	}
	WITH_B {
		SEND("before");
		until_other_sleeps(p);
		SEND_FLAGS("!", MSG_OOB);
		SEND("after");
	}
}

/* A receive ends at the mark if it has something by then: also one that slept for more before
 * urgent data came, and took nothing. */
static void say_stopped(struct play *p, int flags)
{
	RECV_FLAGS(100, flags);
	RECV_FLAGS(100, flags | MSG_DONTWAIT);
	RECV_FLAGS(1, MSG_OOB);
}

CASE(urgent_alone_stops_waitall, DUO)
{
	B { SEND("abc"); }
	A {
		settle(p, FD, 3);
		RECV_FLAGS(100, MSG_WAITALL);
		RECV_FLAGS(1, MSG_OOB);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND_FLAGS("!", MSG_OOB);
	}
}

CASE(urgent_alone_stops_who_peeks_for_all, DUO)
{
	B { SEND("abc"); }
	A {
		settle(p, FD, 3);
		say_stopped(p, MSG_PEEK | MSG_WAITALL);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND_FLAGS("!", MSG_OOB);
	}
}

CASE(urgent_stops_who_peeks_for_all, DUO)
{
	A { say_stopped(p, MSG_PEEK | MSG_WAITALL); }
	WITH_B {
		until_other_sleeps(p);
		SEND_FLAGS("de!", MSG_OOB);
	}
}

CASE(urgent_in_line, ANY)
{
	B { R(setsockopt(FD, SOL_SOCKET, SO_OOBINLINE, &(int){ 1 }, sizeof(int))); }
	A {
		SEND("before");
		SEND_FLAGS("x!", MSG_OOB);
		SEND("after");
	}
	B {
		settle_poll(p, FD, POLLPRI);
		settle(p, FD, 13);
		RECV_FLAGS(1, MSG_OOB);
		say_mark(p);
		RECV_FLAGS(100, MSG_PEEK);
		RECV(100);
		say_mark(p);
		RECV(100);
		say_mark(p);
	}
}

/* The later one is urgent, the earlier one is dropped where the program had got that far. */
CASE(urgent_twice, ANY)
{
	A {
		SEND("a");
		SEND_FLAGS("1", MSG_OOB);
	}
	B {
		settle_poll(p, FD, POLLPRI);
		RECV(1);
		say_mark(p);
	}
	A {
		SEND("b");
		SEND_FLAGS("2", MSG_OOB);
		SEND("c");
	}
	B {
		settle(p, FD, 1);
		RECV_FLAGS(1, MSG_OOB | MSG_PEEK);
		RECV_FLAGS(1, MSG_OOB);
		RECV_FLAGS(1, MSG_OOB);
		RECV(100);
		say_mark(p);
		RECV_FLAGS(1, MSG_WAITALL);
	}
}

CASE(urgent_by_message, ANY)
{
	char buf[10];
	struct iovec iov[2] = { { (void *)"ab", 2 }, { (void *)"c!", 2 } };
	struct msghdr out = { .msg_iov = iov, .msg_iovlen = 2 };
	struct iovec into = { buf, sizeof(buf) };
	struct msghdr in = { .msg_iov = &into, .msg_iovlen = 1 };

	A { R(sendmsg(FD, &out, MSG_OOB)); }
	B {
		settle_poll(p, FD, POLLPRI);
		R(recvmsg(FD, &in, MSG_OOB));
		say(p, "flags %x", (unsigned)in.msg_flags);
		say_bytes(p, "urgent", buf, 1);
		settle(p, FD, 3);
		in.msg_flags = 0;
		R(recvmsg(FD, &in, 0));
		say(p, "flags %x", (unsigned)in.msg_flags);
		say_bytes(p, "others", buf, 3);
	}
}

CASE(urgent_both_ways, ANY)
{
	EACH {
		SEND("one");
		SEND_FLAGS("!", MSG_OOB);
		SEND("two");
	}
	EACH {
		settle_poll(p, FD, POLLPRI);
		RECV_FLAGS(1, MSG_OOB);
		settle(p, FD, 3);
		RECV(100);
		RECV_FLAGS(3, MSG_WAITALL);
	}
}

CASE(urgent_then_the_end, ANY)
{
	A {
		SEND("last");
		SEND_FLAGS("!", MSG_OOB);
		R(shutdown(FD, SHUT_WR));
	}
	B {
		settle_poll(p, FD, POLLRDHUP);
		RECV_FLAGS(1, MSG_OOB);
		RECV(100);
		RECV(100);
		RECV(100);
	}
}

/* Much data before and after, sent while the peer reads: no byte is lost or moved. */
CASE(urgent_amid_much_data, DUO)
{
	enum { LEN = 3 << 20 };

	A {
		T(put_pattern(FD, LEN, 50000) == LEN);
		SEND_FLAGS("!", MSG_OOB);
		T(put_pattern(FD, LEN, 50000) == LEN);
	}
	WITH_B {
		T(drain_exactly(FD, LEN));
		T(drain_exactly(FD, LEN));
		RECV_FLAGS(1, MSG_OOB);
	}
}

/* The full connection takes no urgent byte either. */
CASE_TRAITS(urgent_when_full, SELF | PROCESS, SETTLED)
{
	A { *stage_word(p, 1) = (long)stuff(FD); }
	B {
		ssize_t got = recv(FD, NULL, (size_t)*stage_word(p, 1), MSG_WAITALL | MSG_TRUNC);

		T(got == *stage_word(p, 1));
	}
	A {
		SEND_FLAGS("!", MSG_OOB);
		SEND("z");
	}
	B {
		RECV_FLAGS(1, MSG_WAITALL);
		RECV_FLAGS(1, MSG_OOB);
	}
}

CASE(urgent_mark_stays_until_read, ANY)
{
	int mark = -1;

	A {
		SEND("ab");
		SEND_FLAGS("!", MSG_OOB);
	}
	B {
		settle_poll(p, FD, POLLPRI);
		settle(p, FD, 2);
		say_mark(p);
		RECV(1);
		say_mark(p);
		RECV(1);
		say_mark(p);
		R(ioctl(FD, SIOCATMARK, &mark));
		RECV_FLAGS(1, MSG_DONTWAIT);
		say_mark(p);
	}
	A { SEND("c"); }
	B {
		RECV_FLAGS(1, MSG_WAITALL);
		say_mark(p);
		R(sockatmark(-1));
	}
}

/* A receive of no bytes waits for something, and an urgent byte at the mark is that. */
CASE(urgent_byte_is_something_to_who_takes_nothing, ANY)
{
	A { SEND_FLAGS("12!", MSG_OOB); }
	B {
		settle_poll(p, FD, POLLPRI);
		RECV_FLAGS(0, MSG_DONTWAIT);
		RECV(10);
		RECV_FLAGS(0, MSG_DONTWAIT);
		RECV_FLAGS(1, MSG_OOB);
		RECV_FLAGS(0, MSG_DONTWAIT);
	}
}

/* It is passed over before a bad address is found. */
CASE(urgent_byte_is_nothing_to_a_bad_address, ANY)
{
	A { SEND_FLAGS("12!", MSG_OOB); }
	B {
		settle_poll(p, FD, POLLPRI);
		RECV_FLAGS(2, MSG_WAITALL);
		R(recv(FD, NULL, 1, MSG_DONTWAIT));
		say_mark(p);
		R(recv(FD, NULL, 1, MSG_DONTWAIT));
	}
	A { SEND("3"); }
	B {
		settle(p, FD, 1);
		R(recv(FD, NULL, 1, 0));
		RECV(1);
	}
}

/* What the kernel's splice answers there: nothing, until somebody else has received what is
 * behind. */
CASE(urgent_data_stops_a_splice, ANY)
{
	int pipes[2];

	A {
		SEND("before");
		SEND_FLAGS("!", MSG_OOB);
		SEND("behind");
	}
	B {
		settle_poll(p, FD, POLLPRI);
		settle(p, FD, 6);
		T(pipe(pipes) == 0);
		R(splice(FD, NULL, pipes[1], NULL, 100, 0));
		R(splice(FD, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
		RECV_FLAGS(1, MSG_OOB);
		R(splice(FD, NULL, pipes[1], NULL, 100, 0));
		RECV_FLAGS(2, MSG_WAITALL);
		settle(p, FD, 4);
		R(splice(FD, NULL, pipes[1], NULL, 100, 0));
	}
}

/* A reset is told there once, be it the kernel's or one that follows from bytes that were left
 * unread. */
static void reset_behind_urgent_data(struct play *p, void (*end)(int fd))
{
	int pipes[2];

	B { SEND("never read"); }
	A {
		settle(p, FD, 10);
		SEND("before");
		SEND_FLAGS("!", MSG_OOB);
	}
	B {
		settle_poll(p, FD, POLLPRI);
		T(pipe(pipes) == 0);
		RECV_FLAGS(6, MSG_WAITALL);
		R(splice(FD, NULL, pipes[1], NULL, 100, 0));
	}
	A { end(FD); }
	B {
		settle_poll(p, FD, POLLHUP);
		R(splice(FD, NULL, pipes[1], NULL, 100, 0));
		R(splice(FD, NULL, pipes[1], NULL, 100, 0));
		close(pipes[0]);
		close(pipes[1]);
	}
}

static void dissolve(int fd)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	(void)connect(fd, &nobody, sizeof(nobody));
}

static void close_unread(int fd)
{
	(void)close(fd);
}

CASE(urgent_data_before_a_dissolved_end_stops_a_splice, ANY)
{
	reset_behind_urgent_data(p, dissolve);
}

CASE(urgent_data_before_a_reset_stops_a_splice, ANY)
{
	reset_behind_urgent_data(p, close_unread);
}

/* What was left unread by the one that closes resets the connection: there is nothing any more that
 * an urgent byte could be taken from. */
CASE(urgent_byte_is_gone_behind_a_reset, ANY)
{
	B { SEND("never read"); }
	A {
		settle(p, FD, 10);
		SEND_FLAGS("!", MSG_OOB);
	}
	B { settle_poll(p, FD, POLLPRI); }
	A { close(FD); }
	B {
		settle_poll(p, FD, POLLHUP);
		RECV_FLAGS(1, MSG_OOB);
		say_error(p, FD);
		RECV_FLAGS(1, MSG_OOB);
	}
}

CASE(urgent_byte_is_there_behind_an_end_and_a_reset, ANY)
{
	B { SEND("never read"); }
	A {
		settle(p, FD, 10);
		SEND_FLAGS("!", MSG_OOB);
		R(shutdown(FD, SHUT_WR));
	}
	B { settle_poll(p, FD, POLLRDHUP); }
	A { close(FD); }
	B {
		settle_poll(p, FD, POLLHUP);
		RECV_FLAGS(1, MSG_OOB);
		RECV_FLAGS(1, MSG_OOB);
	}
}

/* Behind an own end of reading too. */
CASE(urgent_byte_left_unread_resets_who_reads_no_more, ANY)
{
	A {
		SEND_FLAGS("!", MSG_OOB);
		R(shutdown(FD, SHUT_RD));
	}
	B {
		settle_poll(p, FD, POLLPRI);
		close(FD);
	}
	A {
		settle_poll(p, FD, POLLHUP);
		RECV(10);
		RECV(10);
	}
}

/* Who may not wait is told of the end there, if it has come. */
CASE(urgent_data_stops_a_splice_before_the_end, ANY)
{
	int pipes[2];

	A {
		SEND_FLAGS("!", MSG_OOB);
		SEND("behind");
	}
	B {
		settle_poll(p, FD, POLLPRI);
		T(pipe(pipes) == 0);
		T(fcntl(FD, F_SETFL, O_NONBLOCK) == 0);
		R(splice(FD, NULL, pipes[1], NULL, 100, 0));
	}
	A { R(shutdown(FD, SHUT_WR)); }
	B {
		settle_poll(p, FD, POLLRDHUP);
		R(splice(FD, NULL, pipes[1], NULL, 100, 0));
		RECV(2);
	}
}

/* ---- of somebody else's ---------------------------------------------------------------------- */

static void end_with_urgent_byte(struct play *p, int fd, int others)
{
	pid_t pid = fork_logged(p);

	if (pid == 0) {
		close(others);
		say_send(p, fd, "ab!", MSG_OOB);
		say_send(p, fd, "cd", 0);
		_exit(0);
	}
	reap(p, "child", pid);
}

/* The parent goes on, behind urgent data of which it has not heard and which its peer has not yet
 * read; the urgent byte itself perhaps. */
static void parent_goes_on(struct play *p, bool takes_first)
{
	int fds[2];

	A {
		pair_local(fds);
		end_with_urgent_byte(p, fds[0], fds[1]);
		settle_poll(p, fds[1], POLLPRI);
		if (takes_first)
			say_recv(p, fds[1], 1, MSG_OOB);
		warm_one_way(p, (int[]){ fds[1], fds[0] });
		say_send(p, fds[0], "parent", 0);
		say_recv(p, fds[1], 100, 0);
		if (!takes_first)
			say_recv(p, fds[1], 1, MSG_OOB);
		say_recv(p, fds[1], 8, MSG_WAITALL);
		say_send(p, fds[0], "more", 0);
		say_recv(p, fds[1], 4, MSG_WAITALL);
		close(fds[0]);
		say_recv(p, fds[1], 1, 0);
		close(fds[1]);
	}
}

CASE_TRAITS(urgent_byte_of_a_child_that_has_ended, SELF, NO_PAIR | STAYS_KERNEL)
{
	parent_goes_on(p, false);
}

CASE_TRAITS(urgent_byte_of_a_child_that_has_ended_taken_first, SELF, NO_PAIR | STAYS_KERNEL)
{
	parent_goes_on(p, true);
}
