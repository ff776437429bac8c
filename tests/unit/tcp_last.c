/*
 * protocols/tcp_last.c: a side ends while it owes more than the kernel has room for, to a peer that
 * has gone back to the kernel.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "harness.h"
#include "tcp_local.h"
#include "tcp_pair.h"

static struct tcp_pair p;

/* End 0 leaves, and end 1 owes it so many bytes: more than the kernel takes at once. */
static uint64_t owe_much(void)
{
	unsigned char buf[4096];
	uint64_t sent = 0;

	tcp_pair_init(&p, tcp_pair_usual_rings);
	tcp_pair_watch(&p);
	bytes_fill(buf, 0, sizeof(buf));
	while (pair_push(&p, 1, buf, sizeof(buf)) == (ssize_t)sizeof(buf))
		bytes_fill(buf, sent += sizeof(buf), sizeof(buf));
	CHECK(sent > 2u << 20);
	REQUIRE_INT(tcp_leave(&p.tcp[0], p.fd[0]), ==, 0);
	return sent;
}

static void large_debt_is_paid_in_pieces(void)
{
	uint64_t sent = owe_much(), got = 0;
	unsigned char buf[4096];
	ssize_t n;

	CHECK_INT(pair_push(&p, 1, buf, 1), ==, -EAGAIN);
	while (got < sent) {
		n = recv(p.fd[0], buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0)
			(void)tcp_poll(&p.tcp[1], p.fd[1], POLLIN);
		else
			REQUIRE(n > 0 && bytes_match(buf, got, (size_t)n));
		got += n > 0 ? (size_t)n : 0;
	}
	CHECK(!tcp_owes(&p.tcp[1]));
	tcp_pair_deinit(&p);
}

#define N_HANDLED 5

static volatile sig_atomic_t n_handled;

static void count_signal(int signal)
{
	(void)signal;
	n_handled++;
}

/* Reads only when the other end's wait has been interrupted. Returns the bytes that came. */
static void *late_reader(void *arg)
{
	uint64_t *got = arg;
	unsigned char buf[4096];
	ssize_t n;

	while (n_handled < N_HANDLED)
		(void)sched_yield();
	while ((n = recv(p.fd[0], buf, sizeof(buf), 0)) > 0) {
		CHECK(bytes_match(buf, *got, (size_t)n));
		*got += (uint64_t)n;
	}
	return NULL;
}

static void signals_do_not_cut_off_the_last_debt(void)
{
	struct itimerval often = { .it_value.tv_usec = 10000, .it_interval.tv_usec = 10000 };
	struct sigaction count = { .sa_handler = count_signal };
	uint64_t sent = owe_much(), got = 0;
	sigset_t alarm_only, before;
	pthread_t reader;

	(void)sigemptyset(&alarm_only);
	(void)sigaddset(&alarm_only, SIGALRM);
	REQUIRE(pthread_sigmask(SIG_BLOCK, &alarm_only, &before) == 0);
	REQUIRE(pthread_create(&reader, NULL, late_reader, &got) == 0);
	REQUIRE(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	REQUIRE(sigaction(SIGALRM, &count, NULL) == 0);
	REQUIRE(setitimer(ITIMER_REAL, &often, NULL) == 0);
	tcp_return_all(&p.tcp[1], p.fd[1]);
	CHECK(!tcp_owes(&p.tcp[1]));
	while (n_handled < N_HANDLED)
		(void)sched_yield();
	REQUIRE(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL) == 0);
	(void)shutdown(p.fd[1], SHUT_WR);
	REQUIRE(pthread_join(reader, NULL) == 0);
	CHECK_INT(got, ==, sent);
	tcp_pair_deinit(&p);
}

/* ---- left to psid ---------------------------------------------------------------------------- */

static struct {
	int memory;
	uint64_t size;
	unsigned n_calls;
	bool shut;
} passed;

static bool take_rest(int fd, int memory, uint64_t size, bool shut)
{
	struct stat st;

	CHECK_INT(fd, ==, p.fd[1]);
	REQUIRE_INT(fstat(memory, &st), ==, 0);
	CHECK_INT(st.st_size, ==, size);
	CHECK_INT(write(memory, "x", 1), ==, -1); /* nobody changes it any more */
	passed.memory = dup(memory);
	passed.size = size;
	passed.shut = shut;
	passed.n_calls++;
	return true;
}

static uint64_t owe_to_be_passed_on(void)
{
	passed.n_calls = 0;
	tcp_pass_on = take_rest;
	return owe_much();
}

/* What the kernel has of the stream's bytes, all of which are there. */
static uint64_t read_kernel(void)
{
	unsigned char buf[4096];
	uint64_t got = 0;
	ssize_t n;

	while ((n = recv(p.fd[0], buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		CHECK(bytes_match(buf, got, (size_t)n));
		got += (uint64_t)n;
	}
	CHECK_INT(n, ==, -1);
	return got;
}

static void the_rest_is_all_that_the_kernel_lacks(uint64_t sent)
{
	unsigned char buf[4096];
	uint64_t got = 0, at;
	ssize_t n;

	REQUIRE_INT(passed.n_calls, ==, 1);
	CHECK(!tcp_owes(&p.tcp[1]));
	while ((n = recv(p.fd[0], buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		got += (uint64_t)n;
	CHECK_INT(n, ==, -1); /* more is to come */
	CHECK_INT(errno, ==, EAGAIN);
	CHECK_INT(got + passed.size, ==, sent);
	for (at = 0; (n = pread(passed.memory, buf, sizeof(buf), (off_t)at)) > 0; at += (uint64_t)n)
		CHECK(bytes_match(buf, got + at, (size_t)n));
	CHECK_INT(at, ==, passed.size);
	(void)close(passed.memory);
}

static void end_test(void)
{
	tcp_pass_on = NULL;
	tcp_pair_deinit(&p);
}

static void who_closes_leaves_the_rest_to_psid(void)
{
	uint64_t sent = owe_to_be_passed_on();

	tcp_close(&p.tcp[1], p.fd[1]);
	CHECK(!passed.shut);
	the_rest_is_all_that_the_kernel_lacks(sent);
	end_test();
}

static void who_shuts_down_leaves_that_to_psid_too(void)
{
	uint64_t sent = owe_to_be_passed_on();

	CHECK_INT(tcp_shutdown(&p.tcp[1], p.fd[1], SHUT_WR), ==, 0);
	CHECK(passed.shut);
	the_rest_is_all_that_the_kernel_lacks(sent);
	CHECK_INT(pair_push(&p, 1, "x", 1), ==, -EPIPE);
	CHECK_INT(tcp_shutdown(&p.tcp[1], p.fd[1], SHUT_RD), ==, 0);
	end_test();
}

/* By another thread, at the end of a process. */
static void nothing_is_sent_behind_the_rest(void)
{
	uint64_t sent = owe_to_be_passed_on();

	CHECK(tcp_pass_on_ending(&p.tcp[1], p.fd[1]));
	CHECK_INT(pair_push(&p, 1, "x", 1), ==, -EPIPE);
	the_rest_is_all_that_the_kernel_lacks(sent);
	end_test();
}

static void who_ends_leaves_others_that_hold_it_the_rest(void)
{
	uint64_t sent = owe_to_be_passed_on(), usual = tcp_last_nsec_wait;

	tcp_last_nsec_wait = 1000000;
	tcp_return_all(&p.tcp[1], p.fd[1]);
	tcp_last_nsec_wait = usual;
	CHECK_INT(passed.n_calls, ==, 0);
	CHECK(tcp_owes(&p.tcp[1]));
	CHECK_INT(read_kernel(), <, sent);
	CHECK_INT(errno, ==, EAGAIN);
	end_test();
}

/* No end of a stream that lacks its last bytes. */
static void what_nobody_takes_is_reset(void (*end)(void))
{
	uint64_t sent = owe_much(), usual = tcp_last_nsec_wait;

	tcp_last_nsec_wait = 1000000;
	end();
	tcp_last_nsec_wait = usual;
	CHECK_INT(read_kernel(), <, sent);
	CHECK_INT(errno, ==, ECONNRESET);
	end_test();
}

static void close_it(void)
{
	tcp_close(&p.tcp[1], p.fd[1]);
	(void)close(p.fd[1]);
	p.fd[1] = -1;
}

static void shut_it(void)
{
	(void)tcp_shutdown(&p.tcp[1], p.fd[1], SHUT_WR);
}

static void close_outside(void)
{
	passed.n_calls = 0;
	tcp_pass_on = take_rest;
	tcp_set_local(&p.tcp[1], TCP_LOCAL_OUTSIDE); /* who could send behind it */
	close_it();
	CHECK_INT(passed.n_calls, ==, 0);
}

static void close_by_reset(void)
{
	struct linger at_once = { .l_onoff = 1 };

	passed.n_calls = 0;
	tcp_pass_on = take_rest;
	CHECK_INT(setsockopt(p.fd[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), ==, 0);
	close_it();
	CHECK_INT(passed.n_calls, ==, 0);
}

/* A write beyond the limit would end the program. */
static void close_with_small_files(void)
{
	struct rlimit usual, small;

	REQUIRE_INT(getrlimit(RLIMIT_FSIZE, &usual), ==, 0);
	small = (struct rlimit){ .rlim_cur = 4096, .rlim_max = usual.rlim_max };
	passed.n_calls = 0;
	tcp_pass_on = take_rest;
	REQUIRE_INT(setrlimit(RLIMIT_FSIZE, &small), ==, 0);
	close_it();
	REQUIRE_INT(setrlimit(RLIMIT_FSIZE, &usual), ==, 0);
	CHECK_INT(passed.n_calls, ==, 0);
}

static void without_a_file_for_it_is_reset(void)
{
	what_nobody_takes_is_reset(close_with_small_files);
}

static void closed_without_psid_is_reset(void)
{
	what_nobody_takes_is_reset(close_it);
}

static void shut_down_without_psid_is_reset(void)
{
	what_nobody_takes_is_reset(shut_it);
}

static void held_by_others_outside_is_reset(void)
{
	what_nobody_takes_is_reset(close_outside);
}

static void closed_by_reset_is_reset(void)
{
	what_nobody_takes_is_reset(close_by_reset);
}

static const struct test tests[] = {
	TEST(large_debt_is_paid_in_pieces),
	TEST(signals_do_not_cut_off_the_last_debt),
	TEST(who_closes_leaves_the_rest_to_psid),
	TEST(who_shuts_down_leaves_that_to_psid_too),
	TEST(who_ends_leaves_others_that_hold_it_the_rest),
	TEST(closed_without_psid_is_reset),
	TEST(shut_down_without_psid_is_reset),
	TEST(held_by_others_outside_is_reset),
	TEST(closed_by_reset_is_reset),
	TEST(nothing_is_sent_behind_the_rest),
	TEST(without_a_file_for_it_is_reset),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
