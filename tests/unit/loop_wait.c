/* libpulc/loop_wait.c: which waits of an event loop look before they sleep in the kernel, and how
 * often those do for whom it does not pay. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/process.h>
#include <pulc/signals.h>

#include "clock.h"
#include "harness.h"
#include "private.h"
#include "processors.h"
#include "tcp_connect.h"

#define N_WAITS 10000u
/* Spins of a thread that all fail, in so many waits: 11 in the beginning, and one in 1,023 then. */
#define N_FAILING 20u

static int fds[2];
static pulc_stream *stream;

static void begin(void)
{
	(void)setenv("PULC_SPIN_USEC", "3600000000", 1);
	(void)setenv("PULC_RUNTIME_DIR", "/nonexistent", 1);
	tcp_connect_pair(fds, AF_INET);
	REQUIRE_INT(pulc_stream_new(fds[0], PULC_CONNECTED, &stream), ==, 0);
}

static void end(void)
{
	pulc_stream_closing(stream, fds[0]);
	stream = pulc_stream_unref(stream);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

/* A thread of its own has waited for nothing yet. */
static void run(void *(*what)(void *))
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, what, NULL) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
}

static void in_thread(void *(*what)(void *))
{
	begin();
	run(what);
	end();
}

static void serve(void)
{
	REQUIRE_INT(pulc_stream_send(stream, fds[0], "x", 1, 0), ==, PULC_USE_KERNEL);
	pulc_stream_send_end(stream, fds[0], 1);
}

/* ---- who looks ------------------------------------------------------------------------------- */

static void *waits(void *arg)
{
	CHECK(!pulc_loop_begins());
	serve();
	CHECK(pulc_loop_begins());
	CHECK(!pulc_loop_begins());
	return arg;
}

static void who_has_served_since_looks(void)
{
	in_thread(waits);
}

static void *sends_in_vain(void *arg)
{
	REQUIRE_INT(pulc_stream_send(stream, fds[0], "x", 1, 0), ==, PULC_USE_KERNEL);
	pulc_stream_send_end(stream, fds[0], -EAGAIN);
	CHECK(!pulc_loop_begins());
	return arg;
}

static void what_was_in_vain_is_no_service(void)
{
	in_thread(sends_in_vain);
}

static void *serves_far(void *arg)
{
	atomic_store(&stream->far, true);
	serve();
	CHECK(!pulc_loop_begins());
	return arg;
}

static void far_peer_is_not_waited_for(void)
{
	in_thread(serves_far);
}

static void receive(void)
{
	char byte;

	REQUIRE(send(fds[1], "x", 1, 0) == 1);
	REQUIRE_INT(pulc_stream_recv(stream, fds[0], &byte, 1, MSG_DONTWAIT), ==, PULC_USE_KERNEL);
	pulc_stream_recv_end(stream, fds[0], recv(fds[0], &byte, 1, 0));
}

static void *receives_from_here(void *arg)
{
	processors_run_on(0);
	receive();
	CHECK(!pulc_loop_begins());
	return arg;
}

static void peer_on_this_processor_is_not_waited_for(void)
{
	in_thread(receives_from_here);
}

static void *sends_from_elsewhere(void *arg)
{
	processors_run_on(1);
	REQUIRE(send(fds[1], "x", 1, 0) == 1);
	return arg;
}

static void *receives_what_was_sent(void *arg)
{
	char byte;

	processors_run_on(0);
	REQUIRE_INT(pulc_stream_recv(stream, fds[0], &byte, 1, MSG_DONTWAIT), ==, PULC_USE_KERNEL);
	pulc_stream_recv_end(stream, fds[0], recv(fds[0], &byte, 1, 0));
	CHECK(pulc_loop_begins());
	return arg;
}

/* Neither makes the other: a thread is bound as the one that makes it. */
static void peer_elsewhere_is_waited_for(void)
{
	if (!processors_are_two())
		return;
	begin();
	run(sends_from_elsewhere);
	run(receives_what_was_sent);
	end();
}

static void *connects_elsewhere(void *arg)
{
	processors_run_on(1);
	begin();
	return arg;
}

static void *accepts(void *arg)
{
	processors_run_on(0);
	pulc_loop_accepted(fds[1]);
	CHECK(pulc_loop_begins());
	return arg;
}

static void who_has_accepted_looks(void)
{
	if (!processors_are_two())
		return;
	run(connects_elsewhere);
	run(accepts);
	end();
}

static void *ends_elsewhere(void *arg)
{
	(void)connects_elsewhere(arg);
	REQUIRE(shutdown(fds[1], SHUT_WR) == 0);
	return arg;
}

/* The next connection is about to come. */
static void who_was_told_of_an_end_looks(void)
{
	if (!processors_are_two())
		return;
	run(ends_elsewhere);
	run(receives_what_was_sent);
	end();
}

/* Before anybody has asked how long to spin, which is kept. */
static void who_must_not_spin_does_not(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		begin();
		(void)setenv("PULC_SPIN_USEC", "0", 1);
		serve();
		_exit(!pulc_loop_begins() ? 0 : 1);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK_INT(status, ==, 0);
}

/* ---- how it looks ---------------------------------------------------------------------------- */

struct looker {
	int n_looks;
	int found_at; /* look; 0: never */
	int found;
};

static int look(void *arg)
{
	struct looker *l = arg;

	return ++l->n_looks == l->found_at ? l->found : 0;
}

static void *looks_until_found(void *arg)
{
	struct looker l = { .found_at = 3, .found = 7 };

	CHECK_INT(pulc_loop_looks(look, &l, UINT64_MAX), ==, 7);
	CHECK_INT(l.n_looks, ==, 3);
	return arg;
}

static void what_is_found_is_the_answer(void)
{
	if (processors_are_two())
		in_thread(looks_until_found);
}

static void *looks_for_a_time(void *arg)
{
	uint64_t deadline = nsec_now() + 1000000;
	struct looker l = { 0 };

	CHECK_INT(pulc_loop_looks(look, &l, deadline), ==, 0);
	CHECK_INT(l.n_looks, >=, 1);
	CHECK(nsec_now() >= deadline);
	return arg;
}

static void nothing_ends_with_the_time(void)
{
	if (processors_are_two())
		in_thread(looks_for_a_time);
}

static void *looks_on_one(void *arg)
{
	struct looker l = { 0 };

	processors_run_on(0);
	CHECK_INT(pulc_loop_looks(look, &l, UINT64_MAX), ==, 0);
	CHECK_INT(l.n_looks, ==, 1);
	return arg;
}

static void with_one_processor_nobody_spins(void)
{
	in_thread(looks_on_one);
}

static void *looks_until_refused(void *arg)
{
	struct looker l = { .found_at = 2, .found = -EBADF };

	CHECK_INT(pulc_loop_looks(look, &l, UINT64_MAX), ==, 0);
	CHECK_INT(l.n_looks, ==, 2);
	serve();
	CHECK(pulc_loop_begins());
	return arg;
}

static void look_that_cannot_be_ends_it(void)
{
	if (processors_are_two())
		in_thread(looks_until_refused);
}

static int handler_found;

static int look_with_handler(void *arg)
{
	siginfo_t info = { .si_signo = SIGUSR1 };
	ucontext_t context;
	struct looker *l = arg;

	if (++l->n_looks == 2) {
		pulc_signal_done(pulc_signal_begins(SIGUSR1, &info, &context, true));
		return handler_found;
	}
	return 0;
}

static void *looks_interrupted(void *arg)
{
	struct looker l = { 0 };

	handler_found = 0;
	CHECK_INT(pulc_loop_looks(look_with_handler, &l, UINT64_MAX), ==, -EINTR);
	l.n_looks = 0;
	handler_found = 5;
	CHECK_INT(pulc_loop_looks(look_with_handler, &l, UINT64_MAX), ==, 5);
	return arg;
}

static void handler_ends_it_unless_something_was_found(void)
{
	if (processors_are_two())
		in_thread(looks_interrupted);
}

/* ---- does it pay ----------------------------------------------------------------------------- */

/* Spins among so many waits; every n_hit-th spin finds something, 0: none. */
static unsigned count_spins(unsigned n_waits, unsigned n_hit)
{
	struct looker l;
	unsigned n = 0;

	for (unsigned i = 0; i < n_waits; i++) {
		serve();
		if (!pulc_loop_begins())
			continue;
		n++;
		l = (struct looker){ .found_at = n_hit && n % n_hit == 0 ? 2 : 0, .found = 1 };
		(void)pulc_loop_looks(look, &l, l.found_at ? UINT64_MAX : 0);
	}
	return n;
}

static void *fails_always(void *arg)
{
	unsigned n = count_spins(N_WAITS, 0);

	CHECK_INT(n, >, 11);
	CHECK_INT(n, <=, N_FAILING);
	return arg;
}

static void who_fails_rarely_looks(void)
{
	in_thread(fails_always);
}

static void *succeeds_always(void *arg)
{
	CHECK_INT(count_spins(N_WAITS, 1), ==, N_WAITS);
	return arg;
}

static void who_succeeds_always_looks(void)
{
	if (processors_are_two())
		in_thread(succeeds_always);
}

static void *recovers(void *arg)
{
	(void)count_spins(N_WAITS, 0);
	/* One wait in 1,023 looks, and then more and more. */
	CHECK_INT(count_spins(2000, 1), >, 900);
	return arg;
}

static void who_failed_looks_again(void)
{
	if (processors_are_two())
		in_thread(recovers);
}

static void *finds_at_once(void *arg)
{
	struct looker l;

	for (unsigned i = 0; i < 2 * N_WAITS; i++) {
		serve();
		REQUIRE(pulc_loop_begins());
		l = (struct looker){ .found_at = 1, .found = 1 };
		REQUIRE_INT(pulc_loop_looks(look, &l, 0), ==, 1);
	}
	return arg;
}

static void what_is_there_at_once_is_no_failure(void)
{
	in_thread(finds_at_once);
}

/* For good, so this comes last. */
static void *serves_confined(void *arg)
{
	pulc_process_confined();
	serve();
	CHECK(!pulc_loop_begins());
	pulc_loop_accepted(fds[0]);
	CHECK(!pulc_loop_begins());
	return arg;
}

static void who_is_confined_does_not_look(void)
{
	in_thread(serves_confined);
}

static const struct test tests[] = {
	TEST(who_must_not_spin_does_not),
	TEST(who_has_served_since_looks),
	TEST(what_was_in_vain_is_no_service),
	TEST(far_peer_is_not_waited_for),
	TEST(peer_on_this_processor_is_not_waited_for),
	TEST(peer_elsewhere_is_waited_for),
	TEST(who_has_accepted_looks),
	TEST(who_was_told_of_an_end_looks),
	TEST(what_is_found_is_the_answer),
	TEST(nothing_ends_with_the_time),
	TEST(with_one_processor_nobody_spins),
	TEST(look_that_cannot_be_ends_it),
	TEST(handler_ends_it_unless_something_was_found),
	TEST(who_fails_rarely_looks),
	TEST(who_succeeds_always_looks),
	TEST(who_failed_looks_again),
	TEST(what_is_there_at_once_is_no_failure),
	TEST(who_is_confined_does_not_look),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
