/* The shim's poll and select, on a fake libpulc. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/select.h>

#include "harness.h"
#include "preload_fake.h"
#include "rawsys.h"

static void attached_pair(int fds[2])
{
	fake_pair(fds);
	fake_attach(fake_of(fds[0]));
}

static void close_pair(const int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

static void memory_answers(void)
{
	struct pollfd pfd = { .events = POLLIN };
	int fds[2];

	attached_pair(fds);
	pfd.fd = fds[0];
	CHECK_INT(poll(&pfd, 1, 0), ==, 0);
	fake_arrive(fake_of(fds[0]), 1);
	fake.n_exact_looks = 0;
	CHECK_INT(poll(&pfd, 1, -1), ==, 1);
	CHECK_INT(pfd.revents, ==, POLLIN);
	CHECK_INT(fake.n_exact_looks, ==, 0);
	close_pair(fds);
}

static void kernel_and_ring_together(void)
{
	int fds[2], pipes[2];
	struct pollfd pfds[4] = { { .events = POLLIN },
				  { .events = POLLIN },
				  { .fd = -1, .revents = 9 },
				  { .fd = 888, .events = POLLIN } };

	attached_pair(fds);
	REQUIRE_INT(pipe(pipes), ==, 0);
	pfds[0].fd = fds[0];
	pfds[1].fd = pipes[0];
	CHECK_INT(poll(pfds, 3, 0), ==, 0);
	CHECK_INT(pfds[2].revents, ==, 0);
	CHECK_INT(write(pipes[1], "x", 1), ==, 1);
	CHECK_INT(poll(pfds, 3, -1), ==, 1);
	CHECK_INT(pfds[1].revents, ==, POLLIN);
	fake_arrive(fake_of(fds[0]), 1);
	CHECK_INT(poll(pfds, 4, -1), ==, 3);
	CHECK_INT(pfds[0].revents, ==, POLLIN);
	CHECK_INT(pfds[3].revents, ==, POLLNVAL);
	close_pair(fds);
	close_pair(pipes);
}

/* What the kernel says and the stream denies neither ends the wait nor makes it spin. */
static void kernel_room_is_not_ring_room(void)
{
	struct pollfd pfd = { .events = POLLOUT };
	int fds[2];

	attached_pair(fds);
	pfd.fd = fds[0];
	fake.n_exact_looks = 0;
	CHECK_INT(poll(&pfd, 1, 50), ==, 0);
	CHECK_INT(fake.n_exact_looks, <, 5);
	fake_room(fake_of(fds[0]), 1);
	CHECK_INT(poll(&pfd, 1, 50), ==, 1);
	CHECK_INT(pfd.revents, ==, POLLOUT);
	close_pair(fds);
}

static void end_of_file_is_the_kernels_to_say(void)
{
	struct pollfd pfd = { .events = POLLIN | POLLRDHUP };
	int fds[2];

	attached_pair(fds);
	pfd.fd = fds[0];
	atomic_store(&fake_of(fds[0])->exact, POLLIN | POLLRDHUP);
	shutdown(fds[1], SHUT_WR);
	CHECK_INT(poll(&pfd, 1, 3000), ==, 1);
	CHECK_INT(pfd.revents, ==, POLLIN | POLLRDHUP);
	close_pair(fds);
}

/* Memory knows that there is something to read, and not all about writing. */
static void part_of_an_answer_is_not_enough(void)
{
	struct pollfd pfds[2] = { { .events = POLLIN | POLLOUT }, { .fd = -1 } };
	int fds[2];

	attached_pair(fds);
	pfds[0].fd = fds[0];
	fake_arrive(fake_of(fds[0]), 1);
	atomic_store(&fake_of(fds[0])->exact, POLLOUT);
	for (int i = 0; i < 3 * PRE_N_SPARED; i++) {
		REQUIRE_INT(poll(pfds, 1 + i % 2, i % 3 ? 0 : -1), ==, 1);
		REQUIRE_INT(pfds[0].revents, ==, POLLIN | POLLOUT);
	}
	close_pair(fds);
}

/* A list that is polled so often that the kernel is spared the question. */
static void busy(struct pollfd *pfds, nfds_t n, int n_ready)
{
	for (int i = 0; i < 3 * PRE_N_SPARED; i++) {
		for (nfds_t k = 0; k < n; k++)
			pfds[k].revents = 9;
		REQUIRE_INT(poll(pfds, n, 0), ==, n_ready);
		for (nfds_t k = 1; k < n; k++)
			REQUIRE_INT(pfds[k].revents, ==, 0);
	}
}

/* What others do, of which the shim knows nothing, a busy poller hears of after so many answers at
 * most. */
static void who_polls_busily_hears_of_the_kernels(void)
{
	struct pollfd pfds[4] = { { .events = POLLIN },
				  { .events = POLLIN },
				  { .fd = -1, .events = POLLIN },
				  { .events = POLLIN } };
	int fds[2], more[2], pipes[2], n = 0;

	attached_pair(fds);
	attached_pair(more);
	REQUIRE_INT(pipe(pipes), ==, 0);
	pfds[0].fd = fds[0];
	pfds[1].fd = pipes[0];
	pfds[3].fd = more[0];
	fake_arrive(fake_of(fds[0]), 1);
	busy(pfds, 4, 1);
	REQUIRE_INT(raw_write(pipes[1], "x", 1), ==, 1);
	while (poll(pfds, 4, 0) == 1 && n <= PRE_N_SPARED)
		n++;
	CHECK_INT(n, <=, PRE_N_SPARED);
	CHECK_INT(pfds[0].revents, ==, POLLIN);
	CHECK_INT(pfds[1].revents, ==, POLLIN);
	close_pair(fds);
	close_pair(more);
	close_pair(pipes);
}

/* ... and of its own doing at once, also of a number that it has closed. */
static void who_polls_busily_knows_what_it_did(void)
{
	struct pollfd pfds[3] = { { .events = POLLIN },
				  { .events = POLLIN },
				  { .events = POLLIN } };
	int fds[2], pipes[2];

	attached_pair(fds);
	REQUIRE_INT(pipe(pipes), ==, 0);
	pfds[0].fd = fds[0];
	pfds[1].fd = pipes[0];
	pfds[2].fd = dup(pipes[0]);
	fake_arrive(fake_of(fds[0]), 1);
	busy(pfds, 3, 1);
	CHECK_INT(close(pfds[2].fd), ==, 0);
	CHECK_INT(poll(pfds, 3, 0), ==, 2);
	CHECK_INT(pfds[2].revents, ==, POLLNVAL);
	busy(pfds, 2, 1);
	CHECK_INT(write(pipes[1], "x", 1), ==, 1);
	CHECK_INT(poll(pfds, 2, 0), ==, 2);
	CHECK_INT(pfds[1].revents, ==, POLLIN);
	close_pair(fds);
	close_pair(pipes);
}

/* Who waits hears of a connect no later than of what is sent through a ring afterwards. */
static void who_waits_hears_of_a_connect(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pollfd pfds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	int fds[2], from = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	attached_pair(fds);
	pfds[0].fd = fds[0];
	pfds[1].fd = socket(AF_INET, SOCK_STREAM, 0);
	REQUIRE_INT(bind(pfds[1].fd, (struct sockaddr *)&addr, sizeof(addr)), ==, 0);
	REQUIRE_INT(listen(pfds[1].fd, 1), ==, 0);
	REQUIRE_INT(getsockname(pfds[1].fd, (struct sockaddr *)&addr, &len), ==, 0);
	fake_arrive(fake_of(fds[0]), 1);
	busy(pfds, 2, 1);
	REQUIRE_INT(raw_syscall(SYS_connect, from, &addr, sizeof(addr)), ==, 0);
	CHECK_INT(poll(pfds, 2, -1), ==, 2);
	CHECK_INT(pfds[1].revents, ==, POLLIN);
	close_pair(fds);
	close(pfds[1].fd);
	close(from);
}

/* To what was learned of one list another one has no relation. */
static void another_list_is_asked_about(void)
{
	struct pollfd pfds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	int fds[2], pipes[2], others[2];

	attached_pair(fds);
	REQUIRE_INT(pipe(pipes), ==, 0);
	REQUIRE_INT(pipe(others), ==, 0);
	pfds[0].fd = fds[0];
	pfds[1].fd = pipes[0];
	fake_arrive(fake_of(fds[0]), 1);
	REQUIRE_INT(raw_write(others[1], "x", 1), ==, 1);
	busy(pfds, 2, 1);
	pfds[1].fd = others[0];
	CHECK_INT(poll(pfds, 2, 0), ==, 2);
	CHECK_INT(pfds[1].revents, ==, POLLIN);
	close_pair(fds);
	close_pair(pipes);
	close_pair(others);
}

/* Bytes of a direction that goes through the kernel are seen by the next poll, however busily that
 * is done. */
static void what_the_kernel_moves_is_not_spared(void)
{
	struct pollfd pfds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	int fds[2], more[2];

	attached_pair(fds);
	attached_pair(more);
	pfds[0].fd = fds[0];
	pfds[1].fd = more[0];
	fake_arrive(fake_of(fds[0]), 1);
	busy(pfds, 2, 1);
	fake_of(more[0])->on_kernel = POLLIN;
	atomic_store(&fake_of(more[0])->exact, POLLIN);
	CHECK_INT(poll(pfds, 2, 0), ==, 1);
	REQUIRE_INT(raw_write(more[1], "x", 1), ==, 1);
	CHECK_INT(poll(pfds, 2, 0), ==, 2);
	CHECK_INT(pfds[1].revents, ==, POLLIN);
	close_pair(fds);
	close_pair(more);
}

static void long_lists(void)
{
	enum { N = 600 };
	static struct pollfd pfds[N];
	int fds[2];

	attached_pair(fds);
	for (int i = 0; i < N; i++)
		pfds[i] = (struct pollfd){ .fd = i < N / 2 ? fds[0] : -1, .events = POLLIN };
	CHECK_INT(poll(pfds, N, 1), ==, 0);
	fake_arrive(fake_of(fds[0]), 1);
	for (int i = 0; i < N; i++)
		pfds[i].revents = 9;
	CHECK_INT(poll(pfds, N, -1), ==, N / 2);
	for (int i = 0; i < N; i++)
		REQUIRE_INT(pfds[i].revents, ==, i < N / 2 ? POLLIN : 0);
	close_pair(fds);
}

struct sleeper {
	int fd;
	int n;
	int error;
	int number; /* whose places, behind fd's, make the list as long as it may be; 0: no others */
};

#define SECONDS_HANGING 10
#define N_LIMIT 200

/* An answer that came with the time-out alone is none. */
static void *sleep_in_poll(void *arg)
{
	struct sleeper *s = arg;
	struct pollfd pfds[N_LIMIT] = { { .fd = s->fd, .events = POLLIN } };
	time_t start = time(NULL);

	for (int i = 1; i < N_LIMIT; i++)
		pfds[i] = (struct pollfd){ .fd = s->number, .events = POLLIN };
	s->n = poll(pfds, s->number ? N_LIMIT : 1, SECONDS_HANGING * 1000);
	s->error = errno;
	if (time(NULL) - start >= SECONDS_HANGING)
		s->n = -2;
	return NULL;
}

static void bell_wakes_the_sleeper(void)
{
	struct sleeper sleeper = { 0 };
	pthread_t thread;
	int fds[2];

	attached_pair(fds);
	sleeper.fd = fds[0];
	pthread_create(&thread, NULL, sleep_in_poll, &sleeper);
	usleep(20000);
	fake_arrive(fake_of(fds[0]), 1);
	pthread_join(thread, NULL);
	CHECK_INT(sleeper.n, ==, 1);
	for (int i = 0; i < 8; i++)
		CHECK(fake_of(fds[0])->watches[i].set == NULL);
	close_pair(fds);
}

static void wake_from_a_long_list(int number)
{
	struct sleeper sleeper = { .number = number };
	struct rlimit limit, low;
	pthread_t thread;
	int fds[2];

	getrlimit(RLIMIT_NOFILE, &limit);
	low = limit;
	low.rlim_cur = N_LIMIT;
	attached_pair(fds);
	sleeper.fd = fds[0];
	(void)pulc_waitset_mine();
	REQUIRE_INT(setrlimit(RLIMIT_NOFILE, &low), ==, 0);
	pthread_create(&thread, NULL, sleep_in_poll, &sleeper);
	usleep(20000);
	fake_arrive(fake_of(fds[0]), 1);
	pthread_join(thread, NULL);
	CHECK_INT(sleeper.n, ==, 1);
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	close_pair(fds);
}

/* It is as long as the kernel takes one: with places that are left free, and without. */
static void sleeper_in_a_long_list_is_woken(void)
{
	int pipes[2];

	REQUIRE_INT(pipe(pipes), ==, 0);
	wake_from_a_long_list(-1);
	wake_from_a_long_list(pipes[0]);
	close_pair(pipes);
}

/* The peer sends after the watch and before the sleeper is armed, too little for it, and tells: it
 * will not tell again. */
static void told_of_too_little_it_asks_again(void)
{
	struct sleeper sleeper = { 0 };
	pthread_t thread;
	int fds[2];

	attached_pair(fds);
	sleeper.fd = fds[0];
	fake_of(fds[0])->tells_at_once = true;
	pthread_create(&thread, NULL, sleep_in_poll, &sleeper);
	usleep(20000);
	fake_arrive(fake_of(fds[0]), 1);
	pthread_join(thread, NULL);
	CHECK_INT(sleeper.n, ==, 1);
	close_pair(fds);
}

/* While another thread sleeps on the kernel socket the stream must not go over to rings. */
static void sleeper_on_the_kernel_holds_the_stream(void)
{
	struct sleeper sleeper = { 0 };
	pthread_t thread;
	int fds[2];

	fake_pair(fds);
	sleeper.fd = fds[0];
	pthread_create(&thread, NULL, sleep_in_poll, &sleeper);
	for (unsigned i = 0; i < 30000 && fake_of(fds[0])->n_held != 1; i++)
		usleep(1000);
	CHECK_INT(fake_of(fds[0])->n_held, ==, 1);
	CHECK_INT(write(fds[1], "x", 1), ==, 1);
	pthread_join(thread, NULL);
	CHECK_INT(sleeper.n, ==, 1);
	CHECK_INT(fake_of(fds[0])->n_held, ==, 0);
	close_pair(fds);
}

static void no_signal(int signal)
{
	(void)signal;
}

/* Also one that comes while the waiter spins with signals held back. The first may come before it
 * waits. */
static void signal_ends_the_wait(void)
{
	struct sigaction action = { .sa_handler = no_signal };
	struct sleeper sleeper = { 0 };
	pthread_t thread;
	int fds[2];

	sigaction(SIGUSR1, &action, NULL);
	attached_pair(fds);
	sleeper.fd = fds[0];
	fake.nsec_spin = 300000000;
	pthread_create(&thread, NULL, sleep_in_poll, &sleeper);
	do {
		usleep(20000);
		(void)pthread_kill(thread, SIGUSR1);
	} while (pthread_tryjoin_np(thread, NULL) == EBUSY);
	fake.nsec_spin = 0;
	CHECK_INT(sleeper.n, ==, -1);
	CHECK_INT(sleeper.error, ==, EINTR);
	close_pair(fds);
}

static void select_translates(void)
{
	struct timeval timeout = { .tv_usec = 30000 };
	fd_set in, out, except;
	int fds[2], pipes[2], n;

	attached_pair(fds);
	REQUIRE_INT(pipe(pipes), ==, 0);
	n = (pipes[1] > fds[0] ? pipes[1] : fds[0]) + 1;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(fds[0], &in);
	FD_SET(fds[0], &except);
	CHECK_INT(select(n, &in, &out, &except, &timeout), ==, 0);
	CHECK_INT(timeout.tv_usec, ==, 0);
	CHECK(!FD_ISSET(fds[0], &in));
	fake_arrive(fake_of(fds[0]), 1);
	fake_room(fake_of(fds[0]), 1);
	FD_SET(fds[0], &in);
	FD_SET(fds[0], &out);
	FD_SET(pipes[0], &in);
	FD_SET(pipes[1], &out);
	timeout.tv_sec = 5;
	CHECK_INT(select(n, &in, &out, NULL, &timeout), ==, 3);
	CHECK(FD_ISSET(fds[0], &in) && FD_ISSET(fds[0], &out) && FD_ISSET(pipes[1], &out));
	CHECK(!FD_ISSET(pipes[0], &in));
	CHECK_INT(timeout.tv_sec, <=, 5);
	close_pair(fds);
	close_pair(pipes);
}

static void select_of_a_closed_number_fails(void)
{
	struct timespec timeout = { .tv_sec = 1 };
	fd_set in;
	int fds[2];

	attached_pair(fds);
	FD_ZERO(&in);
	FD_SET(fds[0], &in);
	FD_SET(700, &in);
	CHECK_INT(pselect(701, &in, NULL, NULL, &timeout, NULL), ==, -1);
	CHECK_INT(errno, ==, EBADF);
	close_pair(fds);
}

static const struct test tests[] = {
	TEST(memory_answers),
	TEST(kernel_and_ring_together),
	TEST(kernel_room_is_not_ring_room),
	TEST(end_of_file_is_the_kernels_to_say),
	TEST(part_of_an_answer_is_not_enough),
	TEST(who_polls_busily_hears_of_the_kernels),
	TEST(who_polls_busily_knows_what_it_did),
	TEST(who_waits_hears_of_a_connect),
	TEST(another_list_is_asked_about),
	TEST(what_the_kernel_moves_is_not_spared),
	TEST(long_lists),
	TEST(select_translates),
	TEST(select_of_a_closed_number_fails),
	TEST(bell_wakes_the_sleeper),
	TEST(sleeper_in_a_long_list_is_woken),
	TEST(told_of_too_little_it_asks_again),
	TEST(sleeper_on_the_kernel_holds_the_stream),
	TEST(signal_ends_the_wait),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
