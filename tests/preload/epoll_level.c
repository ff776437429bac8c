/* Level-triggered epoll, the default. */
#include "epoll_case.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>

static int compare_tags(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;

	return (x->data.u64 > y->data.u64) - (x->data.u64 < y->data.u64);
}

int watch(struct play *p, int ep, int op, int fd, unsigned events, unsigned tag)
{
	struct epoll_event event = { .events = events, .data.u64 = tag };
	int result = epoll_ctl(ep, op, fd, &event);

	if (result < 0)
		say(p, "epoll_ctl %d %x: %s", op, events, errno_name(errno));
	return result;
}

static void say_events(struct play *p, struct epoll_event *events, int n)
{
	char text[64];

	qsort(events, (size_t)n, sizeof(events[0]), compare_tags);
	for (int i = 0; i < n; i++) {
		(void)snprintf(text, sizeof(text), "tag %llx",
			       (unsigned long long)events[i].data.u64);
		say_poll(p, text, (int)events[i].events);
	}
}

int wait_events(struct play *p, int ep, int n_max, int msec)
{
	struct epoll_event events[64];
	int n = epoll_wait(ep, events, n_max, msec), error = errno;

	say(p, n < 0 ? "epoll_wait = %d %s" : "epoll_wait = %d", n, errno_name(error));
	if (n > 0)
		say_events(p, events, n);
	return n;
}

int gather_events(struct play *p, int ep, int n)
{
	struct epoll_event all[64] = { 0 }, events[64];
	int n_all = 0, n_new, i;

	do {
		n_new = epoll_wait(ep, events, 64, 3000);
		for (int k = 0; k < n_new; k++) {
			for (i = 0; i < n_all && all[i].data.u64 != events[k].data.u64; i++)
				;
			if (i == n_all && n_all < 64)
				all[n_all++] = events[k];
		}
	} while (n_all < n && n_new > 0);
	say(p, "%d of %d members are ready", n_all, n);
	say_events(p, all, n_all);
	return n_all;
}

CASE(epoll_level_fresh, ANY)
{
	A {
		int ep = epoll_create1(0);

		EXPECT_NONE(ep);
		ADD(ep, FD, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI, 7);
		EXPECT(ep);
		EXPECT(ep);
		MOD(ep, FD, EPOLLIN, 8);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_level_repeats_until_read, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		EXPECT_NONE(ep);
	}
	A { SEND("abc"); }
	B {
		EXPECT(ep);
		EXPECT(ep);
		RECV(2);
		EXPECT(ep);
		RECV(2);
		EXPECT_NONE(ep);
	}
}

CASE(epoll_level_added_with_data_waiting, ANY)
{
	A { SEND("abc"); }
	B {
		int ep = epoll_create1(0);

		settle(p, FD, 3);
		ADD(ep, FD, EPOLLIN, 1);
		EXPECT(ep);
	}
}

CASE(epoll_level_every_bit, ANY)
{
	A { SEND("x"); }
	B {
		int ep = epoll_create1(0);

		settle(p, FD, 1);
		ADD(ep, FD, 0x1fff & ~0x800, 1);
		EXPECT(ep);
		MOD(ep, FD, EPOLLRDNORM | EPOLLWRNORM, 2);
		EXPECT(ep);
	}
}

CASE(epoll_level_woken_by_data, DUO)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 5);
	}
	A {
		WAIT(ep, -1);
		RECV(1);
		EXPECT_NONE(ep);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(epoll_level_woken_many_times, DUO)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 5);
	}
	for (int i = 0; i < 10; i++) {
		A {
			WAIT(ep, -1);
			RECV(1);
		}
		WITH_B {
			until_other_sleeps(p);
			SEND("x");
		}
	}
}

CASE(epoll_level_ping_pong, DUO)
{
	EACH {
		int ep = epoll_create1(0), n = 0;
		char c = 'x';

		ADD(ep, FD, EPOLLIN, 5);
		if (p->side == SIDE_A)
			SEND("x");
		while (n < 500) {
			struct epoll_event event;

			if (epoll_wait(ep, &event, 1, -1) != 1 || recv(FD, &c, 1, 0) != 1)
				break;
			n++;
			if (send(FD, &c, 1, 0) != 1)
				break;
		}
		say(p, "%d rounds", n);
		if (p->side == SIDE_B)
			RECV(1);
	}
}

CASE(epoll_level_woken_by_eof, DUO)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLRDHUP, 5);
	}
	A {
		WAIT(ep, -1);
		RECV(1);
		EXPECT(ep);
	}
	WITH_B {
		until_other_sleeps(p);
		shutdown(FD, SHUT_WR);
	}
}

CASE(epoll_level_woken_by_close, DUO)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, 0, 5);
		shutdown(FD, SHUT_WR);
	}
	A {
		WAIT(ep, -1);
		RECV(1);
		EXPECT(ep);
	}
	WITH_B {
		until_other_sleeps(p);
		close(FD);
	}
}

CASE(epoll_level_woken_by_reset, DUO)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 5);
	}
	A {
		WAIT(ep, -1);
		RECV(1);
		EXPECT(ep);
		RECV(1);
		EXPECT(ep);
	}
	WITH_B {
		until_other_sleeps(p);
		setsockopt(FD, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
			   sizeof(struct linger));
		close(FD);
	}
}

CASE(epoll_level_full_and_drained, ANY)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLOUT, 1);
		EXPECT(ep);
		*stage_word(p, 1) = (long)stuff(FD);
		EXPECT_NONE(ep);
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
	A {
		EXPECT(ep);
		EXPECT(ep);
	}
}

CASE(epoll_level_woken_by_space, DUO)
{
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLOUT, 1);
		*stage_word(p, 1) = (long)stuff(FD);
	}
	A { WAIT(ep, -1); }
	WITH_B {
		until_other_sleeps(p);
		T(drain_exactly(FD, (size_t)*stage_word(p, 1)));
	}
}

CASE(epoll_level_urgent, ANY)
{
	int ep = -1;

	B {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLPRI, 1);
		EXPECT_NONE(ep);
	}
	A { SEND_FLAGS("u", MSG_OOB); }
	B {
		EXPECT(ep);
		RECV_FLAGS(1, MSG_OOB);
		EXPECT_NONE(ep);
	}
}

/* Behind an end of the stream, with bytes unread. */
CASE(epoll_level_urgent_woken_by_reset, DUO)
{
	struct epoll_event event = { 0 };
	int ep = -1;

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(shutdown(FD, SHUT_WR));
	}
	A {
		settle_poll(p, FD, POLLRDHUP);
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLPRI, 1);
		R(epoll_wait(ep, &event, 1, 8000));
		say_poll(p, "events", (short)event.events);
	}
	WITH_B {
		until_other_sleeps(p);
		R(close(FD));
	}
}

CASE(epoll_level_lowat, ANY)
{
	int ep = -1;

	B {
		R(setsockopt(FD, SOL_SOCKET, SO_RCVLOWAT, &(int){ 4 }, sizeof(int)));
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
	}
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		EXPECT_NONE(ep);
	}
	A { SEND("d"); }
	B {
		EXPECT(ep);
		RECV(10);
		EXPECT_NONE(ep);
	}
}

CASE_TRAITS(epoll_level_many_members, SELF, OWN_PAIR)
{
	enum { N = 40 };
	int fds[N][2], ep;

	A {
		ep = epoll_create1(0);
		for (unsigned i = 0; i < N; i++) {
			pair_local(fds[i]);
			ADD(ep, fds[i][1], EPOLLIN, i);
			/* Enough calls for most of them to be upgraded on their way. */
			for (int k = 0; k < 5; k++)
				if (send(fds[i][0], "x", 1, 0) != 1 ||
				    recv(fds[i][1], &(char){ 0 }, 1, 0) != 1)
					say(p, "pair %u fails", i);
		}
		warm(p, fds[3]);
		EXPECT_NONE(ep);
		for (int i = 0; i < N; i += 3) {
			T(send(fds[i][0], "x", 1, 0) == 1);
			settle(p, fds[i][1], 1);
		}
		gather_events(p, ep, (N + 2) / 3);
		for (int i = 0; i < N; i += 6) say_recv(p, fds[i][1], 9, 0);
		gather_events(p, ep, (N + 2) / 6);
	}
}

CASE_TRAITS(epoll_level_few_at_a_time, SELF, OWN_PAIR)
{
	enum { N = 6 };
	int fds[N][2], ep, n_seen[N] = { 0 };
	struct epoll_event event;

	A {
		ep = epoll_create1(0);
		for (unsigned i = 0; i < N; i++) {
			pair_local(fds[i]);
			ADD(ep, fds[i][1], EPOLLIN, i);
			warm(p, fds[i]);
			T(send(fds[i][0], "x", 1, 0) == 1);
			settle(p, fds[i][1], 1);
		}
		/* Nobody starves although only one event is taken at a time. */
		for (int i = 0; i < 10 * N; i++)
			if (epoll_wait(ep, &event, 1, 3000) == 1)
				n_seen[event.data.u64]++;
		for (int i = 0; i < N; i++) T(n_seen[i] > 0);
	}
}

enum { N_REQUESTS = 600 };

/* One end asks in requests of many sizes and now and then thinks about it. */
static void ask(struct play *p)
{
	static char buf[300000];
	int n_good = 0;

	for (unsigned i = 0; i < N_REQUESTS; i++) {
		size_t size = 1 + i * 7919 % (i % 5 == 0 ? 200000 : 60);

		fill_pattern(buf, size, i);
		n_good += send(FD, &size, sizeof(size), 0) == sizeof(size) &&
			  send(FD, buf, size, 0) == (ssize_t)size &&
			  recv(FD, buf, size, MSG_WAITALL) == (ssize_t)size &&
			  is_pattern(buf, size, i);
		if (i % 17 == 0)
			usleep(300);
	}
	say(p, "%d answers", n_good);
	shutdown(FD, SHUT_WR);
}

/*
 * The other end answers as servers on libevent do: interested in input until the request is
 * whole, then in output until the answer is gone, changing its interest by `renew`.
 */
static void answer(struct play *p, void (*renew)(struct play *p, int ep, int fd, unsigned events))
{
	static char buf[300000];
	size_t have = 0, sent = 0, size = 0;
	int ep = epoll_create1(0), n_answers = 0;
	bool writing = false;

	ADD(ep, FD, EPOLLIN, 1);
	for (;;) {
		struct epoll_event event;
		ssize_t n;

		if (epoll_wait(ep, &event, 1, 5000) != 1) {
			say(p, "no event while %s", writing ? "writing" : "reading");
			break;
		}
		if (writing) {
			n = send(FD, buf + sizeof(size) + sent, size - sent, MSG_DONTWAIT);
			sent += n > 0 ? (size_t)n : 0;
		} else {
			n = recv(FD, buf + have, sizeof(buf) - have, MSG_DONTWAIT);
			if (n == 0)
				break;
			have += n > 0 ? (size_t)n : 0;
			memcpy(&size, buf, sizeof(size));
		}
		if (!writing && have >= sizeof(size) && have == sizeof(size) + size) {
			writing = true;
			renew(p, ep, FD, EPOLLOUT);
		} else if (writing && sent == size) {
			n_answers++;
			have = sent = size = 0;
			writing = false;
			renew(p, ep, FD, EPOLLIN);
		}
	}
	say(p, "%d answered", n_answers);
}

static void renew_by_modifying(struct play *p, int ep, int fd, unsigned events)
{
	MOD(ep, fd, events, 1);
}

static void renew_by_adding_again(struct play *p, int ep, int fd, unsigned events)
{
	DEL(ep, fd);
	ADD(ep, fd, events, 1);
}

CASE(epoll_level_interest_modified, DUO)
{
	A { ask(p); }
	WITH_B { answer(p, renew_by_modifying); }
}

CASE(epoll_level_interest_deleted_and_added, DUO)
{
	A { ask(p); }
	WITH_B { answer(p, renew_by_adding_again); }
}

/* ---- a busy poller whose bytes come through the kernel, behind a ring that has ended --------- */

#define N_TURNS 50
#define N_BYTES 40

static void await_word(struct play *p, unsigned i, long value)
{
	while (atomic_load(stage_word(p, i)) != value) sched_yield();
}

static void send_in_turns(struct play *p)
{
	char bytes[N_BYTES] = { 0 };

	for (long i = 1; i <= N_TURNS; i++) {
		await_word(p, 1, i);
		(void)!send(FD, bytes, sizeof(bytes), 0);
		atomic_store(stage_word(p, 2), i);
	}
}

static int look_by_epoll(int ep)
{
	struct epoll_event event;

	return epoll_wait(ep, &event, 1, 0);
}

static int look_by_poll(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0);
}

/* Returns how many looks said something else than the kernel's would. */
static int take_in_turns(struct play *p, int (*look)(int fd), int looked_at)
{
	int n_wrong = 0;
	char byte;

	for (long i = 1; i <= N_TURNS; i++) {
		n_wrong += look(looked_at) != 0;
		atomic_store(stage_word(p, 1), i);
		await_word(p, 2, i);
		for (int k = 0; k < N_BYTES; k++) {
			n_wrong += look(looked_at) != 1;
			(void)!recv(FD, &byte, 1, 0);
		}
	}
	return n_wrong;
}

static void end_ring(struct play *p)
{
	A { SEND_FLAGS("!", MSG_OOB); }
	B {
		settle_poll(p, FD, POLLPRI);
		RECV_FLAGS(1, MSG_OOB);
	}
}

CASE(epoll_level_busy_behind_a_ring, DUO)
{
	end_ring(p);
	EACH {
		int ep = epoll_create1(0);

		ADD(ep, FD, EPOLLIN, 1);
		if (p->side == SIDE_A)
			send_in_turns(p);
		else
			say(p, "%d looks in vain", take_in_turns(p, look_by_epoll, ep));
		close(ep);
	}
}

CASE(epoll_level_busy_poll_behind_a_ring, DUO)
{
	end_ring(p);
	EACH {
		if (p->side == SIDE_A)
			send_in_turns(p);
		else
			say(p, "%d looks in vain", take_in_turns(p, look_by_poll, FD));
	}
}
