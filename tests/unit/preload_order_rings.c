/*
 * Members of an epoll set that are all on rings: those that are found together are told in the
 * order in which what they have was sent.
 */
#include "epoll_set.h"
#include "harness.h"
#include "preload_epoll_bed.h"

#define N 5

static struct {
	int ep;
	int fds[N][2];
	pulc_stream *s[N];
	struct epoll_event events[N_EVENTS];
} rings;

static void begin_rings(uint32_t events)
{
	rings.ep = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < N; i++) {
		fake_pair(rings.fds[i]);
		rings.s[i] = fake_of(rings.fds[i][0]);
		add(rings.ep, rings.fds[i][0], events, (uint64_t)i);
		fake_attach(rings.s[i]);
	}
	while (epoll_wait(rings.ep, rings.events, N_EVENTS, 0) > 0)
		;
}

static void end_rings(void)
{
	for (int i = 0; i < N; i++) {
		close(rings.fds[i][0]);
		close(rings.fds[i][1]);
	}
	close(rings.ep);
	CHECK_INT(fake.n_streams, ==, 0);
}

static void arrive(int i, uint32_t when)
{
	rings.s[i]->when = when;
	fake_arrive(rings.s[i], 1);
}

/* The members of the next answers, max at a time, as digits; each is read from. */
static unsigned told(int max)
{
	unsigned all = 0;
	char buf[8];
	int n, i;

	while ((n = epoll_wait(rings.ep, rings.events, max, 0)) > 0) {
		for (int k = 0; k < n; k++) {
			i = (int)rings.events[k].data.u64;
			all = 10 * all + (unsigned)i;
			CHECK_INT(recv(rings.fds[i][0], buf, sizeof(buf), MSG_DONTWAIT), ==, 1);
		}
	}
	return all;
}

static void rearm(int i, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = (uint64_t)i };

	CHECK_INT(epoll_ctl(rings.ep, EPOLL_CTL_MOD, rings.fds[i][0], &event), ==, 0);
}

static void send_in_some_order(void)
{
	arrive(4, 50);
	arrive(1, 20);
	arrive(3, 40);
	arrive(2, 10);
	arrive(0, 30);
}

static void the_first_one_sent_is_told_first(void)
{
	begin_rings(EPOLLIN | EPOLLET);
	for (int max = N; max > 0; max--) {
		send_in_some_order();
		CHECK_INT(told(max), ==, 21034);
	}
	end_rings();
}

/* Those whose peers mark the board, and those that are looked at directly. */
static void hot_ones_and_others(void)
{
	begin_rings(EPOLLIN | EPOLLET);
	arrive(1, 5);
	CHECK_INT(told(N), ==, 1);
	send_in_some_order();
	CHECK_INT(told(N), ==, 21034);
	end_rings();
}

static void times_go_round(void)
{
	begin_rings(EPOLLIN | EPOLLET);
	arrive(0, 3);
	arrive(1, UINT32_MAX - 4);
	arrive(2, 1);
	CHECK_INT(told(N), ==, 120);
	end_rings();
}

/* Such members come first, and in some order. */
static void a_time_that_is_not_known(void)
{
	begin_rings(EPOLLIN | EPOLLET);
	for (int i = 0; i < N; i++)
		arrive(i, 0);
	CHECK_INT(told(N) % 9, ==, (0 + 1 + 2 + 3 + 4) % 9);
	arrive(3, 0);
	arrive(1, 20);
	arrive(2, 10);
	CHECK_INT(told(N), ==, 321);
	end_rings();
}

/* Arming looks at no one's order; what was unread then is ready since then. */
static void armed_in_another_order(void)
{
	const uint32_t once = EPOLLIN | EPOLLONESHOT;

	begin_rings(once);
	for (int i = 0; i < N; i++)
		rearm(i, once);
	send_in_some_order();
	CHECK_INT(told(N), ==, 21034);
	arrive(0, 60); /* nobody asks for it */
	arrive(1, 61);
	fake_now = 70;
	rearm(1, once);
	arrive(2, 65);
	rearm(2, once);
	fake_now = 75;
	rearm(0, once);
	CHECK_INT(told(N), ==, 120);
	fake_now = 0;
	end_rings();
}

/* It was told of what it was armed with: that says nothing of what comes a time later that looks as
 * if it were before. */
static void armed_long_ago(void)
{
	begin_rings(EPOLLIN | EPOLLET);
	arrive(1, 60);
	fake_now = 70;
	rearm(1, EPOLLIN | EPOLLET);
	CHECK_INT(told(N), ==, 1);
	fake_now = 0;
	arrive(1, 70 + (1u << 31) + 10);
	arrive(2, 70 + (1u << 31) + 20);
	CHECK_INT(told(N), ==, 12);
	end_rings();
}

/* What was told by level, and not read, stays before what comes later. */
static void told_by_level_before(void)
{
	char buf[8];

	begin_rings(EPOLLIN);
	arrive(3, 90);
	REQUIRE_INT(epoll_wait(rings.ep, rings.events, N_EVENTS, 0), ==, 1);
	CHECK_INT(rings.events[0].data.u64, ==, 3);
	arrive(1, 80);
	REQUIRE_INT(epoll_wait(rings.ep, rings.events, N_EVENTS, 0), ==, 2);
	CHECK_INT(rings.events[0].data.u64, ==, 3);
	CHECK_INT(rings.events[1].data.u64, ==, 1);
	for (int i = 1; i <= 3; i += 2)
		CHECK_INT(recv(rings.fds[i][0], buf, sizeof(buf), MSG_DONTWAIT), ==, 1);
	CHECK_INT(epoll_wait(rings.ep, rings.events, N_EVENTS, 0), ==, 0);
	end_rings();
}

/* Those that were listed to be looked at are put in order, and nobody who stands there by level,
 * however many do. */
static void few_among_many(void)
{
	const uint32_t once = EPOLLIN | EPOLLONESHOT;

	begin_rings(EPOLLIN | EPOLLOUT);
	rearm(0, once);
	rearm(2, once);
	arrive(0, 1);
	arrive(2, 2);
	CHECK_INT(told(N), ==, 2);
	for (int i = 1; i < N; i++)
		atomic_fetch_or(&rings.s[i]->ready, EPOLLOUT);
	REQUIRE_INT(epoll_wait(rings.ep, rings.events, N_EVENTS, 0), ==, N - 2);
	rearm(2, once);
	rearm(0, once);
	arrive(0, 10);
	arrive(2, 20);
	REQUIRE_INT(epoll_wait(rings.ep, rings.events, N_EVENTS, 0), ==, N);
	CHECK_INT(rings.events[N - 2].data.u64, ==, 0);
	CHECK_INT(rings.events[N - 1].data.u64, ==, 2);
	end_rings();
}

static const struct test tests[] = {
	TEST(the_first_one_sent_is_told_first),
	TEST(hot_ones_and_others),
	TEST(times_go_round),
	TEST(a_time_that_is_not_known),
	TEST(few_among_many),
	TEST(armed_in_another_order),
	TEST(armed_long_ago),
	TEST(told_by_level_before),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
