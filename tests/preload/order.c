/*
 * Several connections of one client, or of two that talk to each other, one on the kernel and one
 * on rings, or all on rings: what was sent first is told no later than what was sent after it.
 *
 * Where it says kernel one connection of each case is kept on the kernel, by an option that only
 * the kernel can serve. Many rounds, for a waiter that asks the kernel now and then only would be
 * right now and then.
 */
#include "epoll_case.h"

#include <sys/select.h>

#define N_ROUNDS 200
/* Between two bytes over the quiet one. */
#define N_QUIET 700
#define N_QUIET_ROUNDS 20
#define KERNELS 1
#define RINGS 2

static void pair_on_kernel(int fds[2])
{
	pair_local(fds);
	for (int i = 0; i < 2; i++)
		setsockopt(fds[i], SOL_SOCKET, SO_MAX_PACING_RATE, &(int){ 2000000000 },
			   sizeof(int));
}

/* One byte through each, in this order. */
static void send_both(struct play *p, const int kernels[2])
{
	(void)!send(kernels[0], "x", 1, 0);
	(void)!send(p->fds[SIDE_A], "y", 1, 0);
}

static void take_both(struct play *p, const int kernels[2])
{
	char c;

	(void)!recv(kernels[1], &c, 1, 0);
	(void)!recv(p->fds[SIDE_B], &c, 1, 0);
}

enum { WAIT, PWAIT, PWAIT2, N_CALLS };

static int wait_by(int call, int ep, struct epoll_event *events, int max)
{
	const struct timespec second = { .tv_sec = 1 };

	if (call == PWAIT)
		return epoll_pwait(ep, events, max, 1000, NULL);
	if (call == PWAIT2)
		return epoll_pwait2(ep, events, max, &second, NULL);
	return epoll_wait(ep, events, max, 1000);
}

/* The bytes' order as they are told of; a member told twice counts once. */
static bool is_told_in_order(int call, int ep, int max)
{
	struct epoll_event events[8];
	bool first = false;
	int n;

	for (int i = 0; i < 4; i++) {
		n = wait_by(call, ep, events, max);
		for (int k = 0; k < n; k++) {
			if (events[k].data.u64 == RINGS)
				return first;
			first = true;
		}
	}
	return false;
}

static void play_epoll(struct play *p, unsigned kind, int max)
{
	int kernels[2], ep = epoll_create1(0), n_wrong = 0;

	pair_on_kernel(kernels);
	ADD(ep, kernels[1], EPOLLIN | kind, KERNELS);
	ADD(ep, p->fds[SIDE_B], EPOLLIN | kind, RINGS);
	for (int i = 0; i < N_ROUNDS; i++) {
		send_both(p, kernels);
		n_wrong += !is_told_in_order(i % N_CALLS, ep, max);
		take_both(p, kernels);
		if (kind & EPOLLONESHOT) {
			MOD(ep, kernels[1], EPOLLIN | kind, KERNELS);
			MOD(ep, p->fds[SIDE_B], EPOLLIN | kind, RINGS);
		}
	}
	say(p, "events %x, room for %d: %d rounds in the wrong order", kind, max, n_wrong);
	close(ep);
	close(kernels[0]);
	close(kernels[1]);
}

CASE(order_epoll_kernel_then_ring, SELF)
{
	A {
		play_epoll(p, 0, 8);
		play_epoll(p, EPOLLET, 8);
		play_epoll(p, EPOLLONESHOT, 8);
		play_epoll(p, EPOLLET | EPOLLONESHOT, 8);
	}
}

CASE(order_epoll_with_room_for_one, SELF)
{
	A {
		play_epoll(p, EPOLLET, 1);
		play_epoll(p, EPOLLONESHOT, 1);
		play_epoll(p, EPOLLET | EPOLLONESHOT, 1);
	}
}

/* Three that are always ready, and room for two: all are told of. */
CASE(order_epoll_turns, SELF)
{
	A {
		int kernels[2][2], ep = epoll_create1(0), n_seen[3] = { 0 };
		struct epoll_event events[2];

		for (int i = 0; i < 2; i++) {
			pair_on_kernel(kernels[i]);
			ADD(ep, kernels[i][1], EPOLLIN, (unsigned)i);
			(void)!send(kernels[i][0], "x", 1, 0);
		}
		ADD(ep, p->fds[SIDE_B], EPOLLIN, 2);
		(void)!send(p->fds[SIDE_A], "y", 1, 0);
		for (int i = 0; i < 30; i++) {
			int n = epoll_wait(ep, events, 2, 1000);

			for (int k = 0; k < n; k++) n_seen[events[k].data.u64]++;
		}
		T(n_seen[0] >= 10 && n_seen[1] >= 10 && n_seen[2] >= 10);
	}
}

CASE(order_poll_kernel_then_ring, SELF)
{
	A {
		int kernels[2], n_wrong = 0;

		pair_on_kernel(kernels);
		for (int i = 0; i < N_ROUNDS; i++) {
			struct pollfd fds[] = {
				{ .fd = p->fds[SIDE_B], .events = POLLIN },
				{ .fd = kernels[1], .events = POLLIN },
			};
			const struct timespec second = { .tv_sec = 1 };

			send_both(p, kernels);
			n_wrong += (i % 2 ? poll(fds, 2, 1000) : ppoll(fds, 2, &second, NULL)) != 2;
			take_both(p, kernels);
		}
		say(p, "%d rounds in the wrong order", n_wrong);
	}
}

CASE(order_select_kernel_then_ring, SELF)
{
	A {
		int kernels[2], n_wrong = 0, most;

		pair_on_kernel(kernels);
		most = kernels[1] > p->fds[SIDE_B] ? kernels[1] : p->fds[SIDE_B];
		for (int i = 0; i < N_ROUNDS; i++) {
			struct timeval second = { .tv_sec = 1 };
			fd_set set;

			FD_ZERO(&set);
			FD_SET(kernels[1], &set);
			FD_SET(p->fds[SIDE_B], &set);
			send_both(p, kernels);
			n_wrong += select(most + 1, &set, NULL, NULL, &second) != 2;
			take_both(p, kernels);
		}
		say(p, "%d rounds in the wrong order", n_wrong);
	}
}

static unsigned told_by(const struct epoll_event *events, int n)
{
	unsigned told = 0;

	for (int i = 0; i < n; i++) told |= events[i].data.u32;
	return told;
}

/* A connection over which nothing is sent, both ends of which this set has, beside one that is
 * busy: it may be taken into rings meanwhile, and what is sent over it then, at last, is told no
 * later than what is sent behind it. */
CASE(order_epoll_after_a_quiet_time, SELF)
{
	A {
		int quiet[2], ep = epoll_create1(0), n_wrong = 0;
		struct epoll_event events[8];
		unsigned told;
		char c;

		pair_local(quiet);
		ADD(ep, quiet[1], EPOLLIN, KERNELS);
		ADD(ep, quiet[0], EPOLLIN, 4);
		ADD(ep, p->fds[SIDE_B], EPOLLIN, RINGS);
		for (int round = 0; round < N_QUIET_ROUNDS; round++) {
			for (int i = 0; i < N_QUIET; i++) {
				(void)!send(p->fds[SIDE_A], "y", 1, 0);
				n_wrong += epoll_wait(ep, events, 8, 1000) != 1;
				(void)!recv(p->fds[SIDE_B], &c, 1, 0);
			}
			send_both(p, quiet);
			for (told = 0; !(told & RINGS);)
				told |= told_by(events, epoll_wait(ep, events, 8, 1000));
			n_wrong += told != (KERNELS | RINGS);
			take_both(p, quiet);
		}
		say(p, "%d wrong", n_wrong);
		close(ep);
		close(quiet[0]);
		close(quiet[1]);
	}
}

/* A new connection is told of before what was sent elsewhere behind it. */
CASE(order_connect_then_ring, SELF)
{
	A {
		int ep = epoll_create1(0), listener, n_wrong = 0, fds[2];
		struct address address;
		char c;

		listener = listen_on("127.0.0.1", &address);
		ADD(ep, listener, EPOLLIN, KERNELS);
		ADD(ep, p->fds[SIDE_B], EPOLLIN, RINGS);
		for (int i = 0; i < N_ROUNDS; i++) {
			fds[0] = connect_to(&address, 0);
			(void)!send(p->fds[SIDE_A], "y", 1, 0);
			n_wrong += !is_told_in_order(WAIT, ep, 8);
			fds[1] = accept(listener, NULL, NULL);
			(void)!recv(p->fds[SIDE_B], &c, 1, 0);
			close(fds[0]);
			close(fds[1]);
		}
		say(p, "%d rounds in the wrong order", n_wrong);
	}
}

/* One process sends, tells another one, and that sends. */
CASE(order_of_two_clients, SELF)
{
	A {
		int kernels[2], go[2], done[2], ep = epoll_create1(0), n_wrong = 0;
		pid_t pid;
		char c;

		pair_on_kernel(kernels);
		T(pipe(go) == 0 && pipe(done) == 0);
		ADD(ep, kernels[1], EPOLLIN, KERNELS);
		ADD(ep, p->fds[SIDE_B], EPOLLIN, RINGS);
		pid = fork();
		if (pid == 0) {
			close(go[1]);
			while (read(go[0], &c, 1) == 1 && send(kernels[0], "x", 1, 0) == 1)
				(void)!write(done[1], "d", 1);
			_exit(0);
		}
		close(go[0]);
		close(done[1]); /* a client that ends early ends the reads below */
		for (int i = 0; i < N_ROUNDS; i++) {
			(void)!write(go[1], "g", 1);
			(void)!read(done[0], &c, 1);
			(void)!send(p->fds[SIDE_A], "y", 1, 0);
			n_wrong += !is_told_in_order(WAIT, ep, 8);
			take_both(p, kernels);
		}
		close(go[1]);
		close(done[0]);
		reap(p, "client", pid);
		say(p, "%d rounds in the wrong order", n_wrong);
	}
}

/* The waiter sleeps, or looks all the time, in another process. By edge: what is ready by level
 * stays in the kernel's list, in its old order, until somebody looks. */
static int wait_for_all(struct play *p, const int kernels[2], int done)
{
	int ep = epoll_create1(0), n_wrong = 0;

	ADD(ep, kernels[1], EPOLLIN | EPOLLET, KERNELS);
	ADD(ep, p->fds[SIDE_B], EPOLLIN | EPOLLET, RINGS);
	for (int i = 0; i < N_ROUNDS; i++) {
		n_wrong += !is_told_in_order(WAIT, ep, 8);
		take_both(p, kernels);
		(void)!write(done, "d", 1);
	}
	return n_wrong;
}

static void play_with_waiter(struct play *p,
			     int (*wait)(struct play *p, const int kernels[2], int done))
{
	int kernels[2], done[2];
	pid_t pid;
	char c;

	pair_on_kernel(kernels);
	T(pipe(done) == 0);
	pid = fork();
	if (pid == 0)
		_exit(wait(p, kernels, done[1]));
	close(done[1]); /* a waiter that ends early ends the reads below */
	for (int i = 0; i < N_ROUNDS; i++) {
		send_both(p, kernels);
		(void)!read(done[0], &c, 1);
	}
	close(done[0]);
	reap(p, "waiter", pid);
}

CASE(order_for_another_process, SELF)
{
	A { play_with_waiter(p, wait_for_all); }
}

/* The connection that is sent on second stands first in the list: by itself the kernel looks at one
 * after the other, too. */
static int poll_for_all(struct play *p, const int kernels[2], int done)
{
	int n_wrong = 0;

	for (int i = 0; i < N_ROUNDS; i++) {
		struct pollfd fds[] = {
			{ .fd = p->fds[SIDE_B], .events = POLLIN },
			{ .fd = kernels[1], .events = POLLIN },
		};

		(void)poll(fds, 2, 1000);
		n_wrong += !fds[1].revents;
		take_both(p, kernels);
		(void)!write(done, "d", 1);
	}
	return n_wrong;
}

CASE(order_poll_for_another_process, SELF)
{
	A { play_with_waiter(p, poll_for_all); }
}

/* ---- all on rings ---------------------------------------------------------------------------- */

#define N_RINGS 4

/* The order in which connections are sent to in round i: each of them is first, and last, in
 * some. */
static int turn_of(int round, int k)
{
	int i = (round + k) % N_RINGS;

	return round & 4 ? N_RINGS - 1 - i : i;
}

/* The order in which they are told of, `max` at a time. */
static bool is_told_as_sent(int round, int ep, int max)
{
	struct epoll_event events[N_RINGS];
	bool same = true;
	int n;

	for (int told = 0; told < N_RINGS; told += n) {
		n = wait_by(round % N_CALLS, ep, events, max);
		if (n < 1)
			return false;
		for (int i = 0; i < n; i++)
			same &= (int)events[i].data.u64 == turn_of(round, told + i);
	}
	return same;
}

static void open_rings(struct play *p, int rings[N_RINGS][2], int ep, unsigned kind)
{
	for (int i = 0; i < N_RINGS; i++) {
		pair_local(rings[i]);
		warm(p, rings[i]);
		ADD(ep, rings[i][1], EPOLLIN | kind, (unsigned)i);
	}
}

static void close_rings(int rings[N_RINGS][2])
{
	for (int i = 0; i < N_RINGS; i++) {
		close(rings[i][0]);
		close(rings[i][1]);
	}
}

/* With an answer from each now and then, as a client has that asks; else one way only, as news are
 * sent. */
static void play_rings(struct play *p, unsigned kind, int max, bool answers)
{
	int rings[N_RINGS][2], ep = epoll_create1(0), n_wrong = 0;
	char c;

	open_rings(p, rings, ep, kind);
	for (int round = 0; round < N_ROUNDS; round++) {
		for (int k = 0; k < N_RINGS; k++)
			(void)!send(rings[turn_of(round, k)][0], "x", 1, 0);
		n_wrong += !is_told_as_sent(round, ep, max);
		for (int i = 0; i < N_RINGS; i++) {
			(void)!recv(rings[i][1], &c, 1, 0);
			if (answers) {
				(void)!send(rings[i][1], "y", 1, 0);
				(void)!recv(rings[i][0], &c, 1, 0);
			}
			if (kind & EPOLLONESHOT)
				MOD(ep, rings[i][1], EPOLLIN | kind, (unsigned)i);
		}
	}
	say(p, "events %x, room for %d, answers %d: %d rounds in the wrong order", kind, max,
	    answers, n_wrong);
	close_rings(rings);
	close(ep);
}

CASE_TRAITS(order_of_rings, SELF, OWN_PAIR | SETTLED)
{
	A {
		play_rings(p, EPOLLET, N_RINGS, true);
		play_rings(p, EPOLLET, N_RINGS, false);
		play_rings(p, EPOLLONESHOT, N_RINGS, true);
		play_rings(p, EPOLLET, 1, false);
		play_rings(p, EPOLLET | EPOLLONESHOT, 3, true);
	}
}

/* What is unread counts from its first byte: the one that was sent to before and after another one
 * comes first. */
CASE_TRAITS(order_of_rings_by_first_unread_byte, SELF, OWN_PAIR | SETTLED)
{
	A {
		int rings[N_RINGS][2], ep = epoll_create1(0), n_wrong = 0;
		struct epoll_event events[N_RINGS];
		char bytes[2];

		open_rings(p, rings, ep, EPOLLET);
		for (int round = 0; round < N_ROUNDS; round++) {
			int first = turn_of(round, 0), second = turn_of(round, 1), n;

			(void)!send(rings[first][0], "x", 1, 0);
			(void)!send(rings[second][0], "x", 1, 0);
			(void)!send(rings[first][0], "x", 1, 0);
			n = epoll_wait(ep, events, N_RINGS, 1000);
			n_wrong += n != 2 || (int)events[0].data.u64 != first;
			(void)!recv(rings[first][1], bytes, 2, MSG_WAITALL);
			(void)!recv(rings[second][1], bytes, 1, 0);
		}
		say(p, "%d rounds in the wrong order", n_wrong);
		close_rings(rings);
		close(ep);
	}
}

/* Long messages have no room in the line that is looked at. */
CASE_TRAITS(order_of_rings_with_long_messages, SELF, OWN_PAIR | SETTLED)
{
	A {
		int rings[N_RINGS][2], ep = epoll_create1(0), n_wrong = 0;
		static char bytes[1000];

		open_rings(p, rings, ep, EPOLLET);
		for (int round = 0; round < N_ROUNDS; round++) {
			for (int k = 0; k < N_RINGS; k++)
				(void)!send(rings[turn_of(round, k)][0], bytes, sizeof(bytes), 0);
			n_wrong += !is_told_as_sent(round, ep, N_RINGS);
			for (int i = 0; i < N_RINGS; i++)
				(void)!recv(rings[i][1], bytes, sizeof(bytes), MSG_WAITALL);
		}
		say(p, "%d rounds in the wrong order", n_wrong);
		close_rings(rings);
		close(ep);
	}
}

/* An end is told of before what was sent elsewhere behind it: by close, with nothing unread and
 * with something, and by shutdown. */
CASE_TRAITS(order_of_an_end_and_a_ring, SELF, OWN_PAIR | SETTLED)
{
	A {
		int rings[N_RINGS][2], ep, n_wrong = 0, n;
		struct epoll_event events[N_RINGS];

		for (int round = 0; round < 60; round++) {
			int first = turn_of(round, 0), second = turn_of(round, 1);

			ep = epoll_create1(0);
			open_rings(p, rings, ep, round & 8 ? EPOLLET : 0);
			if (round % 3 == 1)
				shutdown(rings[first][0], SHUT_WR);
			if (round % 3 == 2)
				(void)!send(rings[first][0], "x", 1, 0);
			if (round % 3 != 1)
				close(rings[first][0]);
			(void)!send(rings[second][0], "x", 1, 0);
			n = epoll_wait(ep, events, N_RINGS, 1000);
			n_wrong += n < 1 || (int)events[0].data.u64 != first;
			close_rings(rings);
			close(ep);
		}
		say(p, "%d rounds in the wrong order", n_wrong);
	}
}

/* Whoever asks for room stands where he asked for it, also if his peer has sent nothing through its
 * ring yet. */
CASE_TRAITS(order_of_room, SELF, OWN_PAIR | SETTLED)
{
	A {
		int fds[2], ep = epoll_create1(0), n_wrong = 0;
		struct epoll_event events[2];

		pair_local(fds);
		warm_one_way(p, fds);
		for (unsigned i = 0; i < 2; i++) ADD(ep, fds[!i], EPOLLIN, i);
		for (int round = 0; round < 10; round++) {
			for (unsigned i = 0; i < 2; i++) MOD(ep, fds[!i], EPOLLIN | EPOLLOUT, i);
			n_wrong += epoll_wait(ep, events, 2, 1000) != 2 || events[0].data.u64 != 0;
			for (unsigned i = 0; i < 2; i++) MOD(ep, fds[!i], EPOLLIN, i);
			n_wrong += epoll_wait(ep, events, 2, 0) != 0;
		}
		say(p, "%d rounds in the wrong order", n_wrong);
		close(ep);
		close(fds[0]);
		close(fds[1]);
	}
}
