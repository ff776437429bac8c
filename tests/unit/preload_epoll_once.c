/* Members of the shim's epoll sets that report once (EPOLLONESHOT), on a fake libpulc. */
#include "preload_epoll_bed.h"
#include "rawsys.h"

static void one_shot_is_disarmed_until_modified(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = 7 };
	struct bed b;

	begin(&b, EPOLLIN | EPOLLONESHOT);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 1);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 0);
	REQUIRE_INT(epoll_ctl(b.ep, EPOLL_CTL_MOD, b.fds[0], &event), ==, 0);
	REQUIRE_INT(wait_now(&b), ==, 1);
	CHECK_INT(b.events[0].data.u64, ==, 7);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

/* The kernel reported it before the upgrade, and the program has not asked again. */
static void one_shot_stays_disarmed_over_the_upgrade(void)
{
	struct bed b = { .ep = epoll_create1(0) };

	fake_pair(b.fds);
	b.s = fake_of(b.fds[0]);
	add(b.ep, b.fds[0], EPOLLIN | EPOLLONESHOT, 1);
	CHECK_INT(write(b.fds[1], "x", 1), ==, 1);
	CHECK_INT(epoll_wait(b.ep, b.events, 1, 1000), ==, 1);
	fake_attach(b.s);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

/* The kernel's listing of the set is longer than any buffer. */
static void one_shots_of_a_large_set_stay_disarmed(void)
{
	enum { N = N_EVENTS };
	struct bed b = { .ep = epoll_create1(0) };
	int copies[N];

	fake_pair(b.fds);
	b.s = fake_of(b.fds[0]);
	for (int i = 0; i < N; i++) {
		copies[i] = dup(b.fds[0]);
		add(b.ep, copies[i], EPOLLIN | EPOLLONESHOT, (uint64_t)i);
	}
	CHECK_INT(write(b.fds[1], "x", 1), ==, 1);
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 30000), ==, N);
	fake_attach(b.s);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 0);
	for (int i = 0; i < N; i++)
		close(copies[i]);
	end(&b);
}

/* What comes for it later is heard where others are put in order. */
static void disarmed_one_takes_nothing_from_the_order_of_others(void)
{
	struct bed half;
	int fds[2];

	begin(&half, EPOLLIN);
	half.s->on_kernel = POLLIN;
	(void)wait_now(&half);
	fake_pair(fds);
	add(half.ep, fds[0], EPOLLIN | EPOLLET | EPOLLONESHOT, 2);
	REQUIRE_INT(raw_send(fds[1], "x", 1, 0), ==, 1);
	REQUIRE_INT(epoll_wait(half.ep, half.events, 1, 3000), ==, 1);
	CHECK_INT(half.events[0].data.u64, ==, 2);
	fake_attach(fake_of(fds[0]));
	REQUIRE_INT(raw_send(fds[1], "y", 1, 0), ==, 1);
	CHECK_INT(wait_now(&half), ==, 0);
	close(fds[0]);
	close(fds[1]);
	end(&half);
}

static const struct test tests[] = {
	TEST(one_shot_is_disarmed_until_modified),
	TEST(one_shot_stays_disarmed_over_the_upgrade),
	TEST(one_shots_of_a_large_set_stay_disarmed),
	TEST(disarmed_one_takes_nothing_from_the_order_of_others),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
