/* poll and ppoll on connected sockets, alone and among others. */
#include "case.h"

#include <sys/resource.h>
#include <time.h>

#define SOME (POLLIN | POLLOUT | POLLRDHUP | POLLPRI)

static int poll_one(struct play *p, int fd, short events, int msec)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	int n = poll(&pfd, 1, msec);

	say(p, "poll = %d", n);
	say_poll(p, "events", pfd.revents);
	return n;
}

CASE(poll_fresh_is_writable, ANY)
{
	EACH {
		poll_one(p, FD, SOME, 0);
		poll_one(p, FD, POLLIN, 0);
		poll_one(p, FD, POLLOUT, -1);
	}
}

CASE(poll_data_is_readable, ANY)
{
	A { SEND("x"); }
	B {
		poll_one(p, FD, POLLIN, 3000);
		poll_one(p, FD, SOME, 0);
		RECV(1);
		poll_one(p, FD, SOME, 0);
	}
}

CASE(poll_every_bit, ANY)
{
	const short all = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND |
			  POLLPRI | POLLRDHUP;

	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		poll_one(p, FD, all, 0);
		poll_one(p, FD, POLLRDNORM, 0);
		poll_one(p, FD, POLLWRNORM, 0);
	}
	B {
		RECV(1);
		poll_one(p, FD, all, 0);
	}
}

CASE(poll_times_out, ANY)
{
	A {
		uint64_t start = usec_clock();

		poll_one(p, FD, POLLIN, 50);
		T(usec_clock() - start >= 49000);
		T(usec_clock() - start < 2000000);
	}
}

CASE(poll_woken_by_data, DUO)
{
	A { poll_one(p, FD, POLLIN, -1); }
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
	A { RECV(1); }
}

CASE(poll_woken_by_data_with_timeout, DUO)
{
	A { poll_one(p, FD, POLLIN | POLLPRI, 8000); }
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
	A { RECV(1); }
}

CASE(poll_woken_by_eof, DUO)
{
	A { poll_one(p, FD, POLLIN, -1); }
	WITH_B {
		until_other_sleeps(p);
		shutdown(FD, SHUT_WR);
	}
	A { RECV(1); }
}

/* Behind an end of the stream, with bytes unread. */
CASE(poll_for_urgent_data_woken_by_reset, DUO)
{
	A {
		poll_one(p, FD, POLLIN, -1);
		SEND("unread");
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
		settle(p, FD, 6);
		R(shutdown(FD, SHUT_WR));
	}
	A { poll_one(p, FD, POLLPRI, 8000); }
	WITH_B {
		until_other_sleeps(p);
		R(close(FD));
	}
}

CASE(poll_woken_by_rdhup_alone, DUO)
{
	A { poll_one(p, FD, POLLRDHUP, -1); }
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
		until_other_sleeps(p);
		close(FD);
	}
	A {
		RECV(1);
		RECV(1);
	}
}

CASE(poll_woken_by_close_without_events, DUO)
{
	A {
		shutdown(FD, SHUT_WR);
		poll_one(p, FD, 0, -1);
	}
	WITH_B {
		until_other_sleeps(p);
		close(FD);
	}
}

CASE(poll_woken_by_reset, DUO)
{
	A {
		poll_one(p, FD, POLLIN, -1);
		RECV(1);
		poll_one(p, FD, SOME, 0);
	}
	WITH_B {
		until_other_sleeps(p);
		setsockopt(FD, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
			   sizeof(struct linger));
		close(FD);
	}
}

CASE(poll_half_closed_by_peer, ANY)
{
	A { shutdown(FD, SHUT_WR); }
	B {
		poll_one(p, FD, POLLRDHUP, 3000);
		poll_one(p, FD, SOME, 0);
	}
	A { poll_one(p, FD, SOME, 0); }
}

CASE(poll_both_shut, ANY)
{
	A { shutdown(FD, SHUT_WR); }
	B {
		settle_poll(p, FD, POLLRDHUP);
		shutdown(FD, SHUT_WR);
		poll_one(p, FD, SOME, 0);
	}
	A {
		settle_poll(p, FD, POLLHUP);
		poll_one(p, FD, SOME, 0);
		poll_one(p, FD, 0, 0);
	}
}

CASE(poll_own_read_side_shut, ANY)
{
	A {
		shutdown(FD, SHUT_RD);
		poll_one(p, FD, SOME, 0);
	}
}

CASE(poll_full_is_not_writable, ANY)
{
	A {
		*stage_word(p, 1) = (long)stuff(FD);
		poll_one(p, FD, SOME, 0);
		poll_one(p, FD, POLLOUT, 20);
	}
	B {
		poll_one(p, FD, POLLIN, 0);
		T(drain_exactly(FD, (size_t)*stage_word(p, 1)));
	}
	A { poll_one(p, FD, POLLOUT, 3000); }
}

CASE(poll_woken_by_space, DUO)
{
	A { *stage_word(p, 1) = (long)stuff(FD); }
	A { poll_one(p, FD, POLLOUT, -1); }
	WITH_B {
		until_other_sleeps(p);
		T(drain_exactly(FD, (size_t)*stage_word(p, 1)));
	}
}

CASE(poll_closed_descriptor, ANY)
{
	A {
		close(FD);
		poll_one(p, FD, SOME, 0);
		poll_one(p, FD, 0, -1);
	}
}

CASE(poll_negative_descriptors_are_skipped, ANY)
{
	struct pollfd pfds[3];

	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		pfds[0] = (struct pollfd){ .fd = -1, .events = POLLIN, .revents = POLLIN };
		pfds[1] = (struct pollfd){ .fd = FD, .events = POLLIN };
		pfds[2] = (struct pollfd){ .fd = ~FD, .events = POLLIN, .revents = 77 };
		R(poll(pfds, 3, 0));
		for (int i = 0; i < 3; i++) say_poll(p, "events", pfds[i].revents);
	}
}

CASE(poll_same_descriptor_twice, ANY)
{
	struct pollfd pfds[2];

	A { SEND("x"); }
	B {
		pfds[0] = (struct pollfd){ .fd = FD, .events = POLLIN };
		pfds[1] = (struct pollfd){ .fd = FD, .events = POLLOUT | POLLIN };
		settle(p, FD, 1);
		R(poll(pfds, 2, -1));
		say_poll(p, "first", pfds[0].revents);
		say_poll(p, "second", pfds[1].revents);
	}
}

CASE(poll_of_nothing, ANY)
{
	A {
		R(poll(NULL, 0, 10));
		R(poll(NULL, 0, 0));
		R(ppoll(NULL, 0, &(struct timespec){ 0 }, NULL));
	}
}

CASE(poll_bad_array, ANY)
{
	A { R(poll((struct pollfd *)bad_address, 1, 0)); }
}

CASE(poll_with_pipe_socket_woken, DUO)
{
	A {
		int pipes[2];
		struct pollfd pfds[2];

		T(pipe(pipes) == 0);
		pfds[0] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
		pfds[1] = (struct pollfd){ .fd = FD, .events = POLLIN };
		R(poll(pfds, 2, -1));
		say_poll(p, "pipe", pfds[0].revents);
		say_poll(p, "socket", pfds[1].revents);
		T(write(pipes[1], "x", 1) == 1);
		R(poll(pfds, 2, -1));
		say_poll(p, "pipe", pfds[0].revents);
		say_poll(p, "socket", pfds[1].revents);
		RECV(1);
		R(poll(pfds, 2, -1));
		say_poll(p, "pipe", pfds[0].revents);
		say_poll(p, "socket", pfds[1].revents);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(poll_with_pipe_pipe_woken, THREAD)
{
	static int pipes[2];

	A { T(pipe(pipes) == 0); }
	A {
		struct pollfd pfds[2] = { { .fd = FD, .events = POLLIN },
					  { .fd = pipes[0], .events = POLLIN } };

		R(poll(pfds, 2, -1));
		say_poll(p, "socket", pfds[0].revents);
		say_poll(p, "pipe", pfds[1].revents);
	}
	WITH_B {
		until_other_sleeps(p);
		T(write(pipes[1], "x", 1) == 1);
	}
}

CASE_TRAITS(poll_many_pairs, SELF, OWN_PAIR)
{
	enum { N = 30 };
	int fds[N][2];
	struct pollfd pfds[2 * N];

	A {
		for (int i = 0; i < N; i++) {
			pair_local(fds[i]);
			if (i > 0)
				R(send(fds[i][0], "fill", 4, 0));
			if (i > 0)
				say_recv(p, fds[i][1], 4, MSG_WAITALL);
			pfds[2 * i] = (struct pollfd){ .fd = fds[i][0], .events = POLLIN };
			pfds[2 * i + 1] = (struct pollfd){ .fd = fds[i][1], .events = POLLIN };
		}
		warm(p, fds[0]);
		R(poll(pfds, 2 * N, 0));
		for (int i = 0; i < N; i += 7) {
			R(send(fds[i][i & 1], "x", 1, 0));
			settle(p, fds[i][!(i & 1)], 1);
		}
		R(poll(pfds, 2 * N, -1));
		for (int i = 0; i < 2 * N; i++)
			if (pfds[i].revents)
				say(p, "%d readable", i);
	}
}

CASE_TRAITS(poll_other_kinds, SELF, NO_PAIR)
{
	struct address address;
	int listener, fd;

	A {
		listener = listen_on("127.0.0.1", &address);
		poll_one(p, listener, SOME, 0);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		poll_one(p, fd, SOME, 0);
		close(fd);
		fd = connect_to(&address, 0);
		settle_poll(p, listener, POLLIN);
		poll_one(p, listener, SOME, 0);
		close(fd);
	}
}

CASE(poll_ppoll_timeout_is_not_changed, ANY)
{
	A {
		struct timespec ts = { .tv_nsec = 30000000 };
		struct pollfd pfd = { .fd = FD, .events = POLLIN };

		R(ppoll(&pfd, 1, &ts, NULL));
		say(p, "%ld", ts.tv_nsec);
		ts.tv_nsec = 2000000000;
		R(ppoll(&pfd, 1, &ts, NULL));
		R(poll(&pfd, 1, 0));
	}
}

CASE(poll_after_every_byte, ANY)
{
	for (int i = 0; i < 10; i++) {
		A { SEND("x"); }
		B {
			poll_one(p, FD, POLLIN, 3000);
			RECV(1);
			poll_one(p, FD, POLLIN, 0);
		}
	}
}

CASE(poll_lowat, ANY)
{
	B { R(setsockopt(FD, SOL_SOCKET, SO_RCVLOWAT, &(int){ 5 }, sizeof(int))); }
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		poll_one(p, FD, POLLIN, 0);
	}
	A { SEND("de"); }
	B {
		poll_one(p, FD, POLLIN, 3000);
		RECV(2);
		poll_one(p, FD, POLLIN, 0);
	}
	A { shutdown(FD, SHUT_WR); }
	B {
		poll_one(p, FD, POLLIN, 3000);
		RECV(10);
	}
}

/* More of them than the process may have descriptors, all but one left free. */
CASE(poll_longer_than_the_kernel_takes, ANY)
{
	static struct pollfd fds[400];
	struct rlimit limit, low;

	B {
		for (size_t i = 0; i < 400; i++) fds[i] = (struct pollfd){ .fd = -1 };
		fds[0] = (struct pollfd){ .fd = FD, .events = POLLIN };
		getrlimit(RLIMIT_NOFILE, &limit);
		low = (struct rlimit){ .rlim_cur = 300, .rlim_max = limit.rlim_max };
		R(setrlimit(RLIMIT_NOFILE, &low));
		R(poll(fds, 400, 0));
		R(poll(fds, 400, 1));
		R(poll(fds, 300, 0));
		R(ppoll(fds, 400, &(struct timespec){ 0, 0 }, NULL));
		R(setrlimit(RLIMIT_NOFILE, &limit));
		R(poll(fds, 400, 0));
	}
}
