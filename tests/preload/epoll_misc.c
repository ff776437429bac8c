/* Membership, sharing and the rarer calls of epoll. */
#include "epoll_case.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/select.h>
#include <time.h>

CASE(epoll_misc_membership_errors, ANY)
{
	A {
		int ep = epoll_create1(0), file = open("/etc/passwd", O_RDONLY);

		MOD(ep, FD, EPOLLIN, 1);
		DEL(ep, FD);
		ADD(ep, FD, EPOLLIN, 1);
		ADD(ep, FD, EPOLLIN, 1);
		DEL(ep, FD);
		DEL(ep, FD);
		ADD(ep, ep, EPOLLIN, 1);
		ADD(ep, file, EPOLLIN, 1);
		ADD(ep, -1, EPOLLIN, 1);
		ADD(FD, FD, EPOLLIN, 1);
		ADD(-1, FD, EPOLLIN, 1);
		watch(p, ep, 77, FD, EPOLLIN, 1);
		R(epoll_ctl(ep, EPOLL_CTL_ADD, FD, NULL));
		R(epoll_ctl(ep, EPOLL_CTL_DEL, FD, NULL));
	}
}

CASE(epoll_misc_wait_errors, ANY)
{
	volatile int negative = -1;
	struct epoll_event event;

	A {
		int ep = epoll_create1(0);

		R(epoll_wait(ep, &event, 0, 0));
		R(epoll_wait(ep, &event, negative, 0));
		R(epoll_wait(FD, &event, 1, 0));
		R(epoll_wait(-1, &event, 1, 0));
		R(epoll_create(0));
		R(epoll_create1(1));
		R_SIGN(epoll_create(1));
	}
}

CASE(epoll_misc_data_comes_back_untouched, ANY)
{
	struct epoll_event event = { .events = EPOLLOUT, .data.u64 = 0xfedcba9876543210 };

	A {
		int ep = epoll_create1(0);

		R(epoll_ctl(ep, EPOLL_CTL_ADD, FD, &event));
		R(epoll_wait(ep, &event, 1, 1000));
		say(p, "%llx", (unsigned long long)event.data.u64);
		event.data.u64 = UINT64_MAX;
		R(epoll_ctl(ep, EPOLL_CTL_MOD, FD, &event));
		event.data.u64 = 0;
		R(epoll_wait(ep, &event, 1, 1000));
		say(p, "%llx", (unsigned long long)event.data.u64);
	}
}

CASE(epoll_misc_delete_silences, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		DEL(ep, FD);
	}
	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		EXPECT_NONE(ep);
		ADD(ep, FD, EPOLLIN, 2);
		EXPECT(ep);
	}
}

CASE(epoll_misc_close_removes, ANY)
{
	int ep = -1;

	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		EXPECT(ep);
		close(FD);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_misc_close_of_one_duplicate_does_not_remove, ANY)
{
	int ep = -1, copy = -1;

	B {
		ep = epoll_create1(0);
		copy = dup(FD);
		ADD(ep, FD, EPOLLIN, 1);
		close(FD);
	}
	A { SEND("x"); }
	B {
		settle(p, copy, 1);
		EXPECT(ep);
		close(copy);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_misc_number_reused_is_another_member, ANY)
{
	int ep = -1;

	A {
		int fds[2], number = FD;

		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		close(FD);
		T(pipe(fds) == 0);
		T(fds[0] == number || fds[1] == number);
		ADD(ep, fds[0], EPOLLIN, 2);
		T(write(fds[1], "x", 1) == 1);
		EXPECT(ep);
	}
}

/* Which tags a few waits report: how members are spread over the calls is nobody's promise. */
static void say_reported(struct play *p, int ep)
{
	unsigned tags = 0;

	for (int i = 0; i < 100; i++) {
		struct epoll_event events[8];
		int n = epoll_wait(ep, events, 8, 0);

		for (int k = 0; k < n; k++) tags |= 1u << events[k].data.u64;
	}
	say(p, "reported tags 0x%x", tags);
}

CASE(epoll_misc_mixed_with_pipe, ANY)
{
	int ep = -1, pipes[2];

	B {
		ep = epoll_create1(0);
		T(pipe(pipes) == 0);
		ADD(ep, pipes[0], EPOLLIN, 1);
		ADD(ep, FD, EPOLLIN, 2);
		T(write(pipes[1], "x", 1) == 1);
		EXPECT(ep);
	}
	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		say_reported(p, ep);
		RECV(1);
		say_reported(p, ep);
	}
}

CASE(epoll_misc_pipe_wakes_among_sockets, THREAD)
{
	static int pipes[2];
	int ep = -1;

	A {
		T(pipe(pipes) == 0);
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		ADD(ep, pipes[0], EPOLLIN, 2);
	}
	A { WAIT(ep, -1); }
	WITH_B {
		until_other_sleeps(p);
		T(write(pipes[1], "x", 1) == 1);
	}
}

CASE(epoll_misc_poll_on_set, ANY)
{
	int ep = -1;

	B {
		struct pollfd pfd;

		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		pfd = (struct pollfd){ .fd = ep, .events = POLLIN };
		R(poll(&pfd, 1, 0));
	}
	A { SEND("x"); }
	B {
		struct pollfd pfd = { .fd = ep, .events = POLLIN };

		R(poll(&pfd, 1, 3000));
		say_poll(p, "events", pfd.revents);
		RECV(1);
		R(poll(&pfd, 1, 0));
	}
}

CASE(epoll_misc_poll_on_set_wakes_sleeper, DUO)
{
	A {
		int ep = epoll_create1(0);
		struct pollfd pfd = { .fd = ep, .events = POLLIN };

		ADD(ep, FD, EPOLLIN, 1);
		R(poll(&pfd, 1, -1));
		EXPECT(ep);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(epoll_misc_select_on_set, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
	}
	A { SEND("x"); }
	B {
		fd_set in;

		settle(p, FD, 1);
		FD_ZERO(&in);
		FD_SET(ep, &in);
		R(select(ep + 1, &in, NULL, NULL, &(struct timeval){ .tv_sec = 3 }));
	}
}

CASE(epoll_misc_two_level_sets_see_the_same, ANY)
{
	int one = -1, two = -1;

	B {
		one = epoll_create1(0);
		two = epoll_create1(0);
		ADD(one, FD, EPOLLIN, 1);
		ADD(two, FD, EPOLLIN, 2);
	}
	A { SEND("x"); }
	B {
		EXPECT(one);
		EXPECT(two);
		RECV(1);
		EXPECT_NONE(one);
		EXPECT_NONE(two);
	}
}

CASE(epoll_misc_exclusive, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLEXCLUSIVE, 1);
		MOD(ep, FD, EPOLLIN, 2);
	}
	A { SEND("x"); }
	B {
		EXPECT(ep);
		EXPECT(ep);
		RECV(1);
		EXPECT_NONE(ep);
		DEL(ep, FD);
		ADD(ep, FD, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1);
		ADD(ep, FD, EPOLLIN, 1);
		ADD(ep, FD, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1);
	}
}

CASE(epoll_misc_pwait2_and_timeouts, ANY)
{
	struct epoll_event event;

	A {
		int ep = epoll_create1(EPOLL_CLOEXEC);
		uint64_t start = usec_clock();

		ADD(ep, FD, EPOLLIN, 1);
		R(epoll_pwait2(ep, &event, 1, &(struct timespec){ .tv_nsec = 20000000 }, NULL));
		R(epoll_pwait(ep, &event, 1, 20, NULL));
		WAIT(ep, 20);
		T(usec_clock() - start >= 58000);
		T(usec_clock() - start < 2000000);
		T(fcntl(ep, F_GETFD) & FD_CLOEXEC);
	}
}

static void *wait_and_read(void *arg)
{
	struct play *p = arg;
	struct epoll_event event;
	long tag = -1;
	char c;

	if (epoll_wait((int)*stage_word(p, 1), &event, 1, 5000) == 1 &&
	    recv((int)*stage_word(p, 2), &c, 1, 0) == 1)
		tag = (long)event.data.u64;
	return (void *)tag;
}

CASE(epoll_misc_threads_share_a_set, DUO)
{
	pthread_t threads[4];
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLET | EPOLLONESHOT, 9);
		*stage_word(p, 1) = ep;
		*stage_word(p, 2) = FD;
	}
	for (int i = 0; i < 4; i++) {
		A {
			void *tag;

			pthread_create(&threads[i], NULL, wait_and_read, p);
			pthread_join(threads[i], &tag);
			say(p, "tag %ld", (long)tag);
			MOD(ep, FD, EPOLLIN | EPOLLET | EPOLLONESHOT, (unsigned)(10 + i));
		}
		WITH_B { SEND("x"); }
	}
}

CASE(epoll_misc_all_threads_wait_each_gets_one, DUO)
{
	enum { N = 4 };
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 9);
		*stage_word(p, 1) = ep;
		*stage_word(p, 2) = FD;
	}
	A {
		pthread_t threads[N];
		int n = 0;

		for (int i = 0; i < N; i++) pthread_create(&threads[i], NULL, wait_and_read, p);
		for (int i = 0; i < N; i++) {
			void *tag;

			pthread_join(threads[i], &tag);
			n += tag == (void *)9;
		}
		say(p, "%d threads got a byte", n);
	}
	WITH_B { SEND("xxxx"); }
}

CASE(epoll_misc_member_added_while_asleep, THREAD)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		*stage_word(p, 1) = ep;
		*stage_word(p, 2) = FD;
	}
	A {
		WAIT(ep, -1);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
		ADD((int)*stage_word(p, 1), (int)*stage_word(p, 2), EPOLLIN, 3);
	}
}

CASE(epoll_misc_set_used_by_child, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
	}
	A { SEND("xy"); }
	B {
		pid_t pid;

		settle(p, FD, 2);
		pid = fork_logged(p);
		if (pid == 0) {
			EXPECT(ep);
			RECV(1);
			EXPECT(ep);
			_exit(0);
		}
		reap(p, "child", pid);
		EXPECT(ep);
		RECV(1);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_misc_child_makes_its_own_set, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			int ep = epoll_create1(0);

			ADD(ep, FD, EPOLLIN, 1);
			*stage_word(p, 1) = 1;
			WAIT(ep, 8000);
			RECV(1);
			_exit(0);
		}
		reap(p, "child", pid);
	}
	WITH_B {
		while (!*stage_word(p, 1)) usleep(500);
		usleep(5000);
		SEND("x");
	}
}

CASE(epoll_misc_set_survives_dup_and_close, ANY)
{
	int ep = -1;

	B {
		int first = epoll_create1(0);

		ADD(first, FD, EPOLLIN, 1);
		ep = dup(first);
		close(first);
	}
	A { SEND("x"); }
	B {
		EXPECT(ep);
		RECV(1);
		EXPECT_NONE(ep);
		DEL(ep, FD);
		EXPECT_NONE(ep);
	}
}

CASE_TRAITS(epoll_misc_members_from_before_the_upgrade, SELF, OWN_PAIR)
{
	int fds[2], level, edge, oneshot;

	A {
		pair_local(fds);
		level = epoll_create1(0);
		edge = epoll_create1(0);
		oneshot = epoll_create1(0);
		ADD(level, fds[1], EPOLLIN, 1);
		ADD(edge, fds[1], EPOLLIN | EPOLLET, 2);
		ADD(oneshot, fds[0], EPOLLIN | EPOLLONESHOT, 3);
		R(send(fds[1], "shot", 4, 0));
		EXPECT(oneshot);
		say_recv(p, fds[0], 4, MSG_WAITALL);
		warm(p, fds);
		EXPECT_NONE(level);
		EXPECT_NONE(oneshot);
		(void)epoll_wait(edge, &(struct epoll_event){ 0 }, 1, 0);
		EXPECT_NONE(edge);
		R(send(fds[0], "x", 1, 0));
		EXPECT(level);
		EXPECT(edge);
		EXPECT(level);
		EXPECT_NONE(edge);
		R(send(fds[1], "y", 1, 0));
		settle(p, fds[0], 1);
		EXPECT_NONE(oneshot);
		MOD(oneshot, fds[0], EPOLLIN | EPOLLONESHOT, 4);
		EXPECT(oneshot);
		EXPECT_NONE(oneshot);
	}
}

CASE_TRAITS(epoll_misc_one_set_for_both_ends, SELF, OWN_PAIR)
{
	int fds[2], ep;

	A {
		pair_local(fds);
		warm(p, fds);
		ep = epoll_create1(0);
		ADD(ep, fds[0], EPOLLIN, 0);
		ADD(ep, fds[1], EPOLLIN, 1);
		for (int i = 0; i < 6; i++) {
			R(send(fds[i & 1], "x", 1, 0));
			EXPECT(ep);
			say_recv(p, fds[!(i & 1)], 1, 0);
			EXPECT_NONE(ep);
		}
		close(fds[0]);
		EXPECT(ep);
	}
}

CASE_TRAITS(epoll_misc_busy_ring_does_not_starve_pipe, SELF, OWN_PAIR)
{
	int fds[2], pipes[2], ep, n_pipe = 0;

	A {
		pair_local(fds);
		warm(p, fds);
		T(pipe(pipes) == 0);
		ep = epoll_create1(0);
		ADD(ep, fds[1], EPOLLIN, 1);
		ADD(ep, pipes[0], EPOLLIN, 2);
		R(send(fds[0], "always", 6, 0));
		settle(p, fds[1], 6);
		R(write(pipes[1], "x", 1));
		for (int i = 0; i < 2000 && !n_pipe; i++) {
			struct epoll_event event;

			if (epoll_wait(ep, &event, 1, 1000) == 1)
				n_pipe += event.data.u64 == 2;
		}
		T(n_pipe > 0);
	}
}

/* What is no set takes nobody: the connection stays where it is, so nothing waits for the peer's
 * next call. */
CASE(epoll_misc_refused_leaves_the_path, DUO)
{
	B { SEND("abc"); }
	A {
		int file = open("/dev/null", O_RDONLY);

		settle(p, FD, 3);
		ADD(-1, FD, EPOLLIN, 1);
		ADD(file, FD, EPOLLIN, 1);
		close(file);
		RECV(3);
	}
}
