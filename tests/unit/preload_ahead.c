/*
 * Which waits of the shim's look before they sleep in the kernel, on a fake libpulc that would
 * always do so: so often as a test says, and what happens between two looks is the test's as well.
 * That a look is worth while is libpulc's matter (loop_wait.c there).
 */
#include <sys/select.h>
#include <signal.h>

#include "harness.h"
#include "epoll_set.h"
#include "preload_epoll_bed.h"

#define N_LOOKS 5

static struct bed bed;

/* Members of a set on the kernel: a connection, of which the test has the other end. */
static void begin_on_kernel(uint32_t events)
{
	bed = (struct bed){ .ep = epoll_create1(EPOLL_CLOEXEC) };
	fake_pair(bed.fds);
	bed.s = fake_of(bed.fds[0]);
	if (events)
		add(bed.ep, bed.fds[0], events, 7);
	fake.looks_ahead = true;
	fake.n_looks = N_LOOKS;
	fake.n_looked = 0;
	fake.between_looks = NULL;
}

static void end_on_kernel(void)
{
	fake.looks_ahead = false;
	fake.between_looks = NULL;
	end(&bed);
}

static int wait_msec(int msec)
{
	fake.n_looked = 0;
	return epoll_wait(bed.ep, bed.events, N_EVENTS, msec);
}

static void send_one(void)
{
	REQUIRE_INT(send(bed.fds[1], "x", 1, 0), ==, 1);
	fake.between_looks = NULL;
}

/* ---- epoll ----------------------------------------------------------------------------------- */

static void set_is_looked_at_before_a_sleep(void)
{
	begin_on_kernel(EPOLLIN);
	CHECK_INT(wait_msec(1), ==, 0);
	CHECK_INT(fake.n_looked, ==, N_LOOKS);
	CHECK_INT(wait_msec(0), ==, 0);
	CHECK_INT(fake.n_looked, ==, 0);
	end_on_kernel();
}

/* What a look has found is gone: an edge, or a member that is told once. */
static void what_is_found_is_the_answer(void)
{
	begin_on_kernel(EPOLLIN | EPOLLET | EPOLLONESHOT);
	fake.between_looks = send_one;
	CHECK_INT(wait_msec(-1), ==, 1);
	CHECK_INT(fake.n_looked, ==, 2);
	CHECK_INT(bed.events[0].data.u64, ==, 7);
	CHECK_INT(bed.events[0].events, ==, EPOLLIN);
	CHECK_INT(wait_msec(0), ==, 0);
	end_on_kernel();
}

static void nothing_is_asked_beyond_the_time_out(void)
{
	const struct timespec brief = { .tv_nsec = 1000000 };

	begin_on_kernel(EPOLLIN);
	CHECK_INT(wait_msec(10), ==, 0);
	CHECK(fake.looks_until <= pre_now());
	CHECK_INT(epoll_pwait2(bed.ep, bed.events, N_EVENTS, &brief, NULL), ==, 0);
	CHECK(fake.looks_until <= pre_now());
	CHECK_INT(fake.n_looked, ==, 2 * N_LOOKS);
	end_on_kernel();
}

static void nobody_near_is_waited_for(void)
{
	int pipes[2];

	begin_on_kernel(0);
	REQUIRE_INT(pipe(pipes), ==, 0);
	add(bed.ep, pipes[0], EPOLLIN, 1);
	CHECK_INT(wait_msec(1), ==, 0);
	CHECK_INT(fake.n_looked, ==, 0);
	bed.s->far = true;
	add(bed.ep, bed.fds[0], EPOLLIN, 7);
	CHECK_INT(wait_msec(1), ==, 0);
	CHECK_INT(fake.n_looked, ==, 0);
	close(pipes[0]);
	close(pipes[1]);
	end_on_kernel();
}

/* Another set would be woken besides. */
static void exclusive_member_is_not_looked_for(void)
{
	begin_on_kernel(EPOLLIN | EPOLLEXCLUSIVE);
	CHECK_INT(wait_msec(1), ==, 0);
	CHECK_INT(fake.n_looked, ==, 0);
	end_on_kernel();
}

static void *sleep_there(void *arg)
{
	struct epoll_event event;

	CHECK_INT(epoll_wait(bed.ep, &event, 1, -1), ==, 1);
	return arg;
}

static struct pre_set *set_of(int ep)
{
	return pre_file_at(ep)->set;
}

static void sleeper_is_left_to_sleep(void)
{
	pthread_t thread;

	begin_on_kernel(EPOLLIN);
	fake.looks_ahead = false;
	fake.n_loops = 0;
	REQUIRE(pthread_create(&thread, NULL, sleep_there, NULL) == 0);
	while (fake.n_loops == 0)
		(void)sched_yield();
	CHECK_INT(atomic_load(&set_of(bed.ep)->n_native), ==, 1);
	fake.looks_ahead = true;
	CHECK_INT(wait_msec(1), ==, 0);
	CHECK_INT(fake.n_looked, ==, 1);
	send_one();
	REQUIRE(pthread_join(thread, NULL) == 0);
	end_on_kernel();
}

static void *close_it(void *arg)
{
	REQUIRE_INT(close(bed.ep), ==, 0);
	return arg;
}

static int others[2];

/* The number is another set's then, which has something. */
static void give_the_number_away(void)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, close_it, NULL) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	REQUIRE_INT(epoll_create1(EPOLL_CLOEXEC), ==, bed.ep);
	add(bed.ep, others[0], EPOLLIN, 8);
	fake.between_looks = send_one;
}

static void *wait_in_thread(void *arg)
{
	CHECK_INT(wait_msec(-1), ==, 1);
	CHECK_INT(bed.events[0].data.u64, ==, 7);
	return arg;
}

static void set_that_is_closed_meanwhile_is_the_one(void)
{
	pthread_t thread;

	begin_on_kernel(EPOLLIN);
	fake_pair(others);
	REQUIRE_INT(send(others[1], "x", 1, 0), ==, 1);
	fake.between_looks = give_the_number_away;
	REQUIRE(pthread_create(&thread, NULL, wait_in_thread, NULL) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	CHECK_INT(fake.n_looked, ==, 3);
	close(others[0]);
	close(others[1]);
	end_on_kernel();
}

static void attach_it(void)
{
	fake.between_looks = NULL;
	fake_attach(bed.s);
	fake_arrive(bed.s, 1);
}

/* From then on there is more to a wait than the kernel's call. */
static void *upgraded_meanwhile(void *arg)
{
	begin_on_kernel(EPOLLIN);
	fake.between_looks = attach_it;
	CHECK_INT(wait_msec(-1), ==, 1);
	CHECK_INT(bed.events[0].data.u64, ==, 7);
	end_on_kernel();
	return arg;
}

static void member_that_is_upgraded_meanwhile_is_heard(void)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, upgraded_meanwhile, NULL) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
}

/* ---- signals --------------------------------------------------------------------------------- */

static volatile int n_handled;

static void handler(int signal)
{
	(void)signal;
	n_handled++;
}

static void raise_it(void)
{
	fake.between_looks = NULL;
	REQUIRE_INT(raise(SIGUSR1), ==, 0);
}

static void begin_with_handler(void)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

	REQUIRE_INT(sigaction(SIGUSR1, &action, NULL), ==, 0);
	n_handled = 0;
	begin_on_kernel(EPOLLIN);
}

static void handler_interrupts(void)
{
	begin_with_handler();
	fake.between_looks = raise_it;
	CHECK_INT(wait_msec(-1), ==, -1);
	CHECK_INT(errno, ==, EINTR);
	CHECK_INT(n_handled, ==, 1);
	CHECK_INT(fake.n_looked, ==, 1);
	end_on_kernel();
}

static void raise_and_see(void)
{
	raise_it();
	CHECK_INT(n_handled, ==, 0);
}

static void set_mask(int how)
{
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	REQUIRE_INT(pthread_sigmask(how, &usr1, NULL), ==, 0);
}

static bool is_masked(void)
{
	sigset_t now;

	REQUIRE_INT(pthread_sigmask(SIG_BLOCK, NULL, &now), ==, 0);
	return sigismember(&now, SIGUSR1) || sigismember(&now, SIGUSR2);
}

/* It is let in by the mask alone, be it pending before or raised meanwhile. */
static void mask_lets_in(int (*wait)(const sigset_t *mask))
{
	sigset_t none;

	sigemptyset(&none);
	for (int i = 0; i < 2; i++) {
		begin_with_handler();
		set_mask(SIG_BLOCK);
		if (i == 0)
			REQUIRE_INT(raise(SIGUSR1), ==, 0);
		else
			fake.between_looks = raise_and_see;
		CHECK_INT(wait(&none), ==, -1);
		CHECK_INT(errno, ==, EINTR);
		CHECK_INT(n_handled, ==, 1);
		CHECK_INT(fake.n_looked, ==, N_LOOKS);
		set_mask(SIG_UNBLOCK);
		CHECK(!is_masked());
		end_on_kernel();
	}
}

/* It is held back by the mask alone: the handler runs when the wait is over. */
static void mask_holds_back(int (*wait)(const sigset_t *mask), int answer)
{
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	begin_with_handler();
	fake.between_looks = raise_and_see;
	CHECK_INT(wait(&usr1), ==, answer);
	CHECK_INT(n_handled, ==, 1);
	CHECK_INT(fake.n_looked, ==, N_LOOKS);
	CHECK(!is_masked());
	end_on_kernel();
}

static int wait_epoll(const sigset_t *mask)
{
	return epoll_pwait(bed.ep, bed.events, N_EVENTS, 20, mask);
}

static int wait_epoll_2(const sigset_t *mask)
{
	const struct timespec brief = { .tv_nsec = 20000000 };

	return epoll_pwait2(bed.ep, bed.events, N_EVENTS, &brief, mask);
}

static int wait_poll(const sigset_t *mask)
{
	struct pollfd pfd = { .fd = bed.fds[0], .events = POLLIN };
	const struct timespec brief = { .tv_nsec = 20000000 };

	return ppoll(&pfd, 1, &brief, mask);
}

static int wait_select(const sigset_t *mask)
{
	const struct timespec brief = { .tv_nsec = 20000000 };
	fd_set in;

	FD_ZERO(&in);
	FD_SET(bed.fds[0], &in);
	return pselect(bed.fds[0] + 1, &in, NULL, NULL, &brief, mask);
}

static void mask_of_the_wait_holds_during_the_looks(void)
{
	int (*const waits[])(const sigset_t *) = { wait_epoll, wait_epoll_2, wait_poll,
						   wait_select };

	for (unsigned i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		mask_lets_in(waits[i]);
		mask_holds_back(waits[i], 0);
	}
}

/* Nothing is left for the kernel's own call, which would let nobody in. */
static void use_all_the_time(void)
{
	fake.between_looks = NULL;
	usleep(30000);
}

static void pending_signal_is_let_in_at_the_end(void)
{
	sigset_t none;

	sigemptyset(&none);
	begin_with_handler();
	set_mask(SIG_BLOCK);
	REQUIRE_INT(raise(SIGUSR1), ==, 0);
	fake.between_looks = use_all_the_time;
	CHECK_INT(wait_epoll(&none), ==, -1);
	CHECK_INT(n_handled, ==, 1);
	set_mask(SIG_UNBLOCK);
	end_on_kernel();
}

/* ---- poll and select ------------------------------------------------------------------------- */

static int poll_msec(int msec)
{
	struct pollfd pfd = { .fd = bed.fds[0], .events = POLLIN };
	int n;

	fake.n_looked = 0;
	n = poll(&pfd, 1, msec);
	CHECK_INT(pfd.revents, ==, n > 0 ? POLLIN : 0);
	return n;
}

static void list_is_looked_at_before_a_sleep(void)
{
	begin_on_kernel(0);
	CHECK_INT(poll_msec(1), ==, 0);
	CHECK_INT(fake.n_looked, ==, N_LOOKS);
	CHECK(fake.looks_until <= pre_now());
	CHECK_INT(poll_msec(0), ==, 0);
	CHECK_INT(fake.n_looked, ==, 0);
	fake.between_looks = send_one;
	CHECK_INT(poll_msec(-1), ==, 1);
	CHECK_INT(fake.n_looked, ==, 2);
	end_on_kernel();
}

static void handler_interrupts_poll(void)
{
	begin_with_handler();
	fake.between_looks = raise_it;
	CHECK_INT(poll_msec(-1), ==, -1);
	CHECK_INT(errno, ==, EINTR);
	CHECK_INT(fake.n_looked, ==, 1);
	end_on_kernel();
}

static void *list_of_several_threads(void *arg)
{
	list_is_looked_at_before_a_sleep();
	handler_interrupts_poll();
	return arg;
}

/* Then the connection is held on the kernel meanwhile. */
static void so_it_is_where_there_are_threads(void)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, list_of_several_threads, NULL) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
}

static int listen_anywhere(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	REQUIRE(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0);
	REQUIRE(listen(listener, 1) == 0);
	return listener;
}

static void *poll_cancelled(void *listener)
{
	struct pollfd pfd = { .fd = *(int *)listener, .events = POLLIN };

	REQUIRE_INT(pthread_cancel(pthread_self()), ==, 0);
	(void)poll(&pfd, 1, 1);
	return listener;
}

/* A list without connections is the kernel's also where there are threads. */
static void cancelled_thread_does_not_look(void)
{
	int listener = listen_anywhere();
	struct pollfd pfd = { .fd = listener, .events = POLLIN };
	pthread_t thread;
	void *result;

	begin_on_kernel(0);
	CHECK_INT(poll(&pfd, 1, 1), ==, 0);
	CHECK_INT(fake.n_looked, ==, N_LOOKS);
	fake.n_looked = 0;
	REQUIRE(pthread_create(&thread, NULL, poll_cancelled, &listener) == 0);
	REQUIRE(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_INT(fake.n_looked, ==, 0);
	close(listener);
	end_on_kernel();
}

static void list_of_nobody_near_is_not_looked_at(void)
{
	struct pollfd pfd = { .events = POLLIN };
	int pipes[2];

	begin_on_kernel(0);
	REQUIRE_INT(pipe(pipes), ==, 0);
	pfd.fd = pipes[0];
	CHECK_INT(poll(&pfd, 1, 1), ==, 0);
	CHECK_INT(fake.n_looked, ==, 0);
	bed.s->far = true;
	CHECK_INT(poll_msec(1), ==, 0);
	CHECK_INT(fake.n_looked, ==, 0);
	close(pipes[0]);
	close(pipes[1]);
	end_on_kernel();
}

static int select_usec(struct timeval *timeout)
{
	fd_set in;
	int n;

	FD_ZERO(&in);
	FD_SET(bed.fds[0], &in);
	fake.n_looked = 0;
	n = select(bed.fds[0] + 1, &in, NULL, NULL, timeout);
	CHECK_INT(n > 0, ==, n > 0 && FD_ISSET(bed.fds[0], &in));
	return n;
}

static void use_some_time(void)
{
	usleep(20000);
	send_one();
}

static void select_looks_and_knows_how_long(void)
{
	struct timeval brief = { .tv_usec = 1000 }, ten = { .tv_sec = 10 }, now = { 0 };

	begin_on_kernel(0);
	CHECK_INT(select_usec(&brief), ==, 0);
	CHECK_INT(fake.n_looked, ==, N_LOOKS);
	CHECK_INT(select_usec(&now), ==, 0);
	CHECK_INT(fake.n_looked, ==, 0);
	fake.between_looks = use_some_time;
	CHECK_INT(select_usec(&ten), ==, 1);
	CHECK_INT(fake.n_looked, ==, 2);
	CHECK_INT(ten.tv_sec * 1000000 + ten.tv_usec, <=, 9980000);
	end_on_kernel();
}

static const struct test tests[] = {
	TEST(set_is_looked_at_before_a_sleep),
	TEST(what_is_found_is_the_answer),
	TEST(nothing_is_asked_beyond_the_time_out),
	TEST(nobody_near_is_waited_for),
	TEST(exclusive_member_is_not_looked_for),
	TEST(handler_interrupts),
	TEST(mask_of_the_wait_holds_during_the_looks),
	TEST(pending_signal_is_let_in_at_the_end),
	TEST(list_is_looked_at_before_a_sleep),
	TEST(handler_interrupts_poll),
	TEST(list_of_nobody_near_is_not_looked_at),
	TEST(select_looks_and_knows_how_long),
	TEST(sleeper_is_left_to_sleep),
	TEST(set_that_is_closed_meanwhile_is_the_one),
	TEST(member_that_is_upgraded_meanwhile_is_heard),
	TEST(so_it_is_where_there_are_threads),
	TEST(cancelled_thread_does_not_look),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
