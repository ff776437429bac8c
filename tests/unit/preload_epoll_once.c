/* Members of the shim's epoll sets that report once (EPOLLONESHOT), on a fake libpulc. */
#include <poll.h>
#include <sys/resource.h>

#include "epoll_set.h"
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

/* Files that have lost the number since, and have another one, are still in the set under it. */
static void one_shot_is_told_though_others_had_its_number(void)
{
	enum { N = 16 };
	struct bed b = { .ep = epoll_create1(0) };
	int pipes[N][2], number = -1;

	for (int i = 0; i < N; i++) {
		REQUIRE_INT(pipe(pipes[i]), ==, 0);
		number = i ? dup2(pipes[i][0], number) : dup(pipes[i][0]);
		add(b.ep, number, EPOLLIN | EPOLLONESHOT, (uint64_t)number);
		CHECK_INT(write(pipes[i][1], "x", 1), ==, 1);
		CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 1000), ==, 1);
	}
	fake_pair(b.fds);
	b.s = fake_of(b.fds[0]);
	CHECK_INT(dup2(b.fds[0], number), ==, number);
	add(b.ep, number, EPOLLIN | EPOLLONESHOT, (uint64_t)number);
	fake_attach(b.s);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 1);
	close(number);
	for (int i = 0; i < N; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
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

/* What waits for the kernel's events is held without the lock; another thread arms it meanwhile,
 * and another one is told. */
static void held_one_that_another_thread_is_told_of_is_not_armed(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = 7 }, one;
	uint64_t name;
	struct pre_answer held = { .events = &one, .names = &name, .max = 1, .number = 1000 };
	struct pre_answer full = { .events = &one };
	struct pre_set *set;
	struct bed b;

	begin(&b, EPOLLIN | EPOLLONESHOT);
	set = pre_file_at(b.ep)->set;
	fake_arrive(b.s, 1);
	pre_lock(&set->lock);
	pre_ready_collect(set, &held);
	pre_set_unlock(set);
	REQUIRE_INT(held.n, ==, 1);
	REQUIRE_INT(epoll_ctl(b.ep, EPOLL_CTL_MOD, b.fds[0], &event), ==, 0);
	REQUIRE_INT(wait_now(&b), ==, 1);
	pre_lock(&set->lock);
	pre_near_keep(set, &held);
	pre_near_append(set, &full, &held);
	pre_set_unlock(set);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

#define N_IDLE 2000
#define N_ROUNDS 100
#define DATA 7

struct arrival {
	struct bed *b;
	pthread_barrier_t start;
	unsigned n_pauses; /* until then */
	int n_told;
};

static void *arrive(void *arg)
{
	struct arrival *a = arg;

	(void)pthread_barrier_wait(&a->start);
	for (volatile unsigned i = 0; i < a->n_pauses; i++)
		;
	atomic_store(&a->b->s->exact, POLLIN);
	(void)raw_send(a->b->fds[1], "x", 1, 0);
	return NULL;
}

static void *wait_once(void *arg)
{
	struct arrival *a = arg;
	struct epoll_event event;

	a->n_told += epoll_wait(a->b->ep, &event, 1, 10000) == 1 && event.data.u64 == DATA;
	return NULL;
}

static int n_told_now(struct bed *b)
{
	int n = wait_now(b), n_told = 0;

	for (int i = 0; i < n; i++)
		n_told += b->events[i].data.u64 == DATA;
	return n_told;
}

/* enough: a pipe whose end is in the set, for a sleeper of whom another one has taken what he was
 * to be told. */
static void arrive_in_the_midst(struct bed *b, unsigned n_pauses, const int enough[2], bool asks)
{
	int n_told = 0;
	struct arrival a = { .b = b, .n_pauses = n_pauses };
	pthread_t threads[2];
	char c;

	fake_pair(b->fds);
	b->s = fake_of(b->fds[0]);
	add(b->ep, b->fds[0], EPOLLIN | EPOLLONESHOT, DATA);
	add(b->ep, enough[0], EPOLLIN, 5);
	REQUIRE_INT(pthread_barrier_init(&a.start, NULL, 2), ==, 0);
	pthread_create(&threads[0], NULL, wait_once, &a);
	pthread_create(&threads[1], NULL, arrive, &a);
	while (atomic_load(&pre_file_at(b->ep)->set->n_native) == 0)
		usleep(100);
	usleep(100); /* so that it sleeps, as a rule */
	(void)pthread_barrier_wait(&a.start);
	fake_attach(b->s);
	if (asks)
		n_told = n_told_now(b);
	pthread_join(threads[1], NULL);
	CHECK_INT(write(enough[1], "x", 1), ==, 1);
	pthread_join(threads[0], NULL);
	CHECK_INT(n_told + a.n_told + n_told_now(b), ==, 1);
	CHECK_INT(read(enough[0], &c, 1), ==, 1);
	(void)pthread_barrier_destroy(&a.start);
	close(b->fds[0]);
	close(b->fds[1]);
}

/* A thread that sleeps in the kernel's own call is told while the member moves, of what the kernel
 * or the ring has: once. */
static void one_shot_is_told_once_over_the_upgrade(void)
{
	struct bed b = { .ep = -1 };
	struct rlimit limit;
	int pipes[2], enough[2], copies[N_IDLE];

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	REQUIRE_INT(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	REQUIRE(pipe(pipes) == 0 && pipe(enough) == 0);
	for (unsigned i = 0; i < N_IDLE; i++)
		copies[i] = dup(pipes[0]);
	for (unsigned i = 0; i < N_ROUNDS; i++) {
		b.ep = epoll_create1(0);
		/* The kernel's listing of the set takes its time. */
		for (unsigned j = 0; j < N_IDLE; j++)
			add(b.ep, copies[j], EPOLLIN, j + 10);
		arrive_in_the_midst(&b, i % 50 * 2000, enough, i / 50 % 2);
		close(b.ep);
	}
	for (unsigned i = 0; i < N_IDLE; i++)
		close(copies[i]);
	for (unsigned i = 0; i < 2; i++) {
		close(pipes[i]);
		close(enough[i]);
	}
}

static const struct test tests[] = {
	TEST(one_shot_is_disarmed_until_modified),
	TEST(one_shot_stays_disarmed_over_the_upgrade),
	TEST(one_shots_of_a_large_set_stay_disarmed),
	TEST(one_shot_is_told_though_others_had_its_number),
	TEST(disarmed_one_takes_nothing_from_the_order_of_others),
	TEST(held_one_that_another_thread_is_told_of_is_not_armed),
	TEST(one_shot_is_told_once_over_the_upgrade),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
