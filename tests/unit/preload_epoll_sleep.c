/* Sleeping in the shim's epoll sets, on a fake libpulc: who wakes whom, and what happens where
 * something cannot be had. */
#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#include "epoll.h"
#include "wait.h"
#include "preload_epoll_bed.h"

struct sleeper {
	struct bed *b;
	int n;
};

#define SECONDS_HANGING 10

/* An answer that came with the time-out alone is none. */
static void *sleep_in_set(void *arg)
{
	time_t start = time(NULL);
	struct sleeper *s = arg;

	s->n = epoll_wait(s->b->ep, s->b->events, N_EVENTS, SECONDS_HANGING * 1000);
	if (time(NULL) - start >= SECONDS_HANGING)
		s->n = -1;
	return NULL;
}

/* Waits until `n` threads of this process sleep: nothing announces it. */
static void until_asleep(pulc_waitset *set)
{
	for (int i = 0; i < 2000 && !atomic_load(&set->armed); i++)
		usleep(500);
	usleep(2000);
}

static pulc_waitset *waitset_of(struct bed *b)
{
	for (int i = 0; i < 8; i++) {
		if (b->s->watches[i].set)
			return b->s->watches[i].set;
	}
	return NULL;
}

static void bell_wakes_the_sleeper(void)
{
	struct sleeper sleeper = { .n = -1 };
	pthread_t thread;
	struct bed b;

	begin(&b, EPOLLIN);
	(void)epoll_wait(b.ep, b.events, N_EVENTS, 1); /* sleeps once: watched from now on */
	REQUIRE(waitset_of(&b) != NULL);
	sleeper.b = &b;
	pthread_create(&thread, NULL, sleep_in_set, &sleeper);
	until_asleep(waitset_of(&b));
	fake_arrive(b.s, 1);
	pthread_join(thread, NULL);
	CHECK_INT(sleeper.n, ==, 1);
	CHECK(!atomic_load(&waitset_of(&b)->armed));
	end(&b);
}

static void who_is_not_told_finds_out(void)
{
	struct sleeper sleeper = { .n = -1 };
	pthread_t thread;
	struct bed b;

	begin(&b, EPOLLIN | EPOLLET);
	(void)epoll_wait(b.ep, b.events, N_EVENTS, 1);
	REQUIRE(waitset_of(&b) != NULL);
	fake_nsec_trust = 100000000;
	sleeper.b = &b;
	pthread_create(&thread, NULL, sleep_in_set, &sleeper);
	until_asleep(waitset_of(&b));
	fake_arrive_untold(b.s, 1);
	pthread_join(thread, NULL);
	fake_nsec_trust = UINT64_MAX;
	CHECK_INT(sleeper.n, ==, 1);
	end(&b);
}

/* The sleeper began before there was anything but the kernel. */
static void upgrade_wakes_the_sleeper(void)
{
	struct bed b = { .ep = epoll_create1(0) };
	struct sleeper sleeper = { .b = &b, .n = -1 };
	pthread_t thread;

	fake_pair(b.fds);
	b.s = fake_of(b.fds[0]);
	add(b.ep, b.fds[0], EPOLLIN, 3);
	pthread_create(&thread, NULL, sleep_in_set, &sleeper);
	usleep(20000);
	fake_attach(b.s);
	usleep(20000);
	fake_arrive(b.s, 1);
	pthread_join(thread, NULL);
	REQUIRE_INT(sleeper.n, ==, 1);
	CHECK_INT(b.events[0].data.u64, ==, 3);
	end(&b);
}

/* Bits that one thread takes in vain are watches that the other one still relies on. */
static void who_leaves_without_an_answer_hands_over(void)
{
	struct sleeper sleeper = { .n = -1 };
	pthread_t thread;
	struct bed b;
	char c;

	begin(&b, EPOLLIN);
	(void)epoll_wait(b.ep, b.events, N_EVENTS, 1);
	REQUIRE(waitset_of(&b) != NULL);
	sleeper.b = &b;
	pthread_create(&thread, NULL, sleep_in_set, &sleeper);
	until_asleep(waitset_of(&b));
	atomic_store(&waitset_of(&b)->armed, false); /* so that the bit alone is set */
	fake_arrive(b.s, 1);
	CHECK_INT(recv(b.fds[0], &c, 1, 0), ==, 1);
	CHECK_INT(wait_now(&b), ==, 0);
	atomic_store(&waitset_of(&b)->armed, true);
	fake_arrive(b.s, 1);
	pthread_join(thread, NULL);
	CHECK_INT(sleeper.n, ==, 1);
	end(&b);
}

struct brief {
	struct bed *b;
	struct epoll_event event;
};

static void *sleep_briefly(void *arg)
{
	struct brief *s = arg;

	(void)epoll_wait(s->b->ep, &s->event, 1, 100);
	return NULL;
}

/* Two sleep in the kernel's own call when the upgrade comes; the one that it wakes goes, the other
 * one relies on the bell. */
static void who_leaves_keeps_the_bell_armed_for_early_sleepers(void)
{
	struct bed b = { .ep = epoll_create1(0) };
	struct sleeper sleeper = { .b = &b, .n = -1 };
	struct brief brief = { .b = &b };
	pthread_t threads[2];

	fake_pair(b.fds);
	b.s = fake_of(b.fds[0]);
	add(b.ep, b.fds[0], EPOLLIN, 3);
	pthread_create(&threads[0], NULL, sleep_in_set, &sleeper);
	usleep(20000);
	pthread_create(&threads[1], NULL, sleep_briefly, &brief);
	usleep(20000);
	fake_attach(b.s);
	pthread_join(threads[1], NULL);
	fake_arrive(b.s, 1);
	pthread_join(threads[0], NULL);
	CHECK_INT(sleeper.n, ==, 1);
	end(&b);
}

/* A program that leaves no descriptor for the set's private half: the sleeper looks by itself, at
 * memory and kernel. */
static void without_descriptors(void)
{
	struct sleeper sleeper = { .n = -1 };
	struct rlimit limit, low;
	pthread_t thread;
	struct bed b;
	char c;

	b.ep = epoll_create1(EPOLL_CLOEXEC);
	fake_pair(b.fds);
	b.s = fake_of(b.fds[0]);
	add(b.ep, b.fds[0], EPOLLIN | EPOLLRDHUP | EPOLLET, 4);
	sleeper.b = &b;
	pthread_create(&thread, NULL, sleep_in_set, &sleeper);
	usleep(20000);
	getrlimit(RLIMIT_NOFILE, &limit);
	low = limit;
	low.rlim_cur = (rlim_t)b.fds[1] + 1;
	setrlimit(RLIMIT_NOFILE, &low);
	fake_attach(b.s);
	usleep(20000);
	fake_arrive(b.s, 1);
	pthread_join(thread, NULL);
	CHECK_INT(sleeper.n, ==, 1);
	CHECK_INT(b.events[0].events, ==, EPOLLIN);
	CHECK_INT(recv(b.fds[0], &c, 1, 0), ==, 1);
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 5), ==, 0);
	atomic_store(&b.s->exact, POLLRDHUP);
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 3000), ==, 1);
	CHECK_INT(b.events[0].events, ==, EPOLLRDHUP);
	setrlimit(RLIMIT_NOFILE, &limit);
	atomic_store(&b.s->exact, 0);
	(void)wait_now(&b);
	fake_arrive(b.s, 1); /* with a bell again */
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 3000), ==, 1);
	end(&b);
}

/* No bell to be had: the sleeper looks by itself. */
static void without_a_wait_set(void)
{
	struct sleeper sleeper = { .n = -1 };
	pthread_t thread;
	struct bed b;

	fake.no_waitset = true;
	begin(&b, EPOLLIN);
	sleeper.b = &b;
	pthread_create(&thread, NULL, sleep_in_set, &sleeper);
	usleep(20000);
	fake_arrive(b.s, 1);
	pthread_join(thread, NULL);
	CHECK_INT(sleeper.n, ==, 1);
	end(&b);
	fake.no_waitset = false;
}

/* Its peer may not know how to wake us, but there is nothing to be woken for. */
static void who_tells_nothing_keeps_nobody_awake(bool once)
{
	unsigned n_sleeps;
	struct bed b;

	fake.nsec_patience = 1000000;
	begin(&b, EPOLLIN | (once ? EPOLLONESHOT : 0));
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 3), ==, 0);
	if (once) {
		fake_arrive(b.s, 1);
		CHECK_INT(wait_now(&b), ==, 1);
	} else {
		CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_DEL, b.fds[0], NULL), ==, 0);
	}
	n_sleeps = atomic_load(&fake_n_sleeps);
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 100), ==, 0);
	CHECK_INT(atomic_load(&fake_n_sleeps) - n_sleeps, <, 5);
	end(&b);
	fake.nsec_patience = UINT64_MAX;
}

static void disarmed_one_keeps_nobody_awake(void)
{
	who_tells_nothing_keeps_nobody_awake(true);
}

static void parked_one_keeps_nobody_awake(void)
{
	who_tells_nothing_keeps_nobody_awake(false);
}

/* Whoever waits for others need not look after it any more when it is gone, or has a bell. */
static void mute_set_is_counted_while_it_is_mute(void)
{
	struct pollfd pfd = { .events = POLLIN };
	struct bed b;

	for (int i = 0; i < 2; i++) {
		fake.no_waitset = true;
		begin(&b, EPOLLIN);
		pfd.fd = b.ep;
		CHECK_INT(poll(&pfd, 1, 0), ==, 0);
		CHECK_INT(pre_n_mute, ==, 1);
		fake.no_waitset = false;
		if (i == 0)
			CHECK_INT(poll(&pfd, 1, 0), ==, 0);
		else
			end(&b);
		CHECK_INT(pre_n_mute, ==, 0);
		if (i == 0)
			end(&b);
	}
}

/* The shortest of many: each may be longer. */
static void fine_time_out_is_not_rounded_up(void)
{
	const struct timespec timeout = { .tv_nsec = 100000 };
	uint64_t start, nsec, nsec_least = UINT64_MAX;
	struct bed b;

	begin(&b, EPOLLIN);
	for (int i = 0; i < 200; i++) {
		start = pre_now();
		CHECK_INT(epoll_pwait2(b.ep, b.events, N_EVENTS, &timeout, NULL), ==, 0);
		nsec = pre_now() - start;
		nsec_least = nsec < nsec_least ? nsec : nsec_least;
	}
	CHECK_INT(nsec_least, >=, 100000);
	CHECK_INT(nsec_least, <, 900000);
	end(&b);
}

enum { N_SHARED = 10, N_BYTES = 3000 };

struct crowd {
	int ep;
	int fds[N_SHARED][2];
	_Atomic int n_received;
};

/* The fake's recv may find less than its last look promised: two threads take from one stream. */
static void *receive_all(void *arg)
{
	struct crowd *c = arg;
	struct epoll_event events[4];
	char buf[16];

	while (atomic_load(&c->n_received) < N_BYTES) {
		int n = epoll_wait(c->ep, events, 4, 20);

		for (int i = 0; i < n; i++) {
			ssize_t got = recv(c->fds[events[i].data.u64][0], buf, 1, MSG_DONTWAIT);

			if (got > 0)
				(void)atomic_fetch_add(&c->n_received, (int)got);
		}
	}
	return NULL;
}

/* Nothing is lost and nobody hangs while several threads wait for one set. */
static void threads_share_a_set(void)
{
	struct crowd c = { .ep = epoll_create1(0) };
	pthread_t threads[3];

	for (int i = 0; i < N_SHARED; i++) {
		fake_pair(c.fds[i]);
		add(c.ep, c.fds[i][0], EPOLLIN, (uint64_t)i);
	}
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, receive_all, &c);
	for (int i = 0; i < N_SHARED; i++)
		fake_attach(fake_of(c.fds[i][0]));
	for (int i = 0; i < N_BYTES; i++) {
		fake_arrive(fake_of(c.fds[i % N_SHARED][0]), 1);
		if (i % 64 == 0)
			usleep(200);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(atomic_load(&c.n_received), ==, N_BYTES);
	for (int i = 0; i < N_SHARED; i++) {
		close(c.fds[i][0]);
		close(c.fds[i][1]);
	}
	close(c.ep);
	CHECK_INT(fake.n_streams, ==, 0);
}

static const struct test tests[] = {
	TEST(bell_wakes_the_sleeper),
	TEST(who_is_not_told_finds_out),
	TEST(upgrade_wakes_the_sleeper),
	TEST(who_leaves_without_an_answer_hands_over),
	TEST(who_leaves_keeps_the_bell_armed_for_early_sleepers),
	TEST(without_a_wait_set),
	TEST(without_descriptors),
	TEST(disarmed_one_keeps_nobody_awake),
	TEST(parked_one_keeps_nobody_awake),
	TEST(mute_set_is_counted_while_it_is_mute),
	TEST(fine_time_out_is_not_rounded_up),
	TEST(threads_share_a_set),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
