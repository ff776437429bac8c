/*
 * Processes that share a processor and wait for one another do not keep it from each other: none
 * spins while all whom it may wait for last ran there. What that costs is counted in the time of
 * the processor that they take, which is theirs alone: a spin would take it for as long as the
 * kernel lets it.
 */
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include "clock.h"
#include "private.h"
#include "psid/native_case.h"

#define USEC_SPIN "100000"
#define N_ROLES 3u
#define N_TURNS 400u
/* Of a process, on the average. A turn without spins takes 10; the kernel lets one who spins do so
 * for 1000 or more. */
#define USEC_TURN 200u

static void pin_to_one_processor(void)
{
	cpu_set_t all, one;
	int cpu = 0;

	MUST_IS(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	MUST_IS(sched_setaffinity(0, sizeof(one), &one), 0);
}

static uint64_t usec_of_processor(void)
{
	struct rusage r;

	MUST_IS(getrusage(RUSAGE_SELF, &r), 0);
	return (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static void say(pulc_port *p, const struct pulc_address *to, uint64_t number)
{
	MUST_IS(pulc_send(p, to, &number, sizeof(number), 0), sizeof(number));
}

static void hear(pulc_port *p, uint64_t number)
{
	uint64_t got;

	MUST_IS(pulc_receive(p, &got, sizeof(got), NULL, 0), sizeof(got));
	MUST_IS(got, number);
}

/* ---- three roles ----------------------------------------------------------------------------- */

/* A word goes round: each waits for the one before it, and is joined with all. */
static void go_round(unsigned i)
{
	static const char *const names[N_ROLES] = { "first", "second", "third" };
	struct pulc_address next;
	uint64_t before;
	pulc_port *p;

	(void)setenv("PULC_SPIN_USEC", USEC_SPIN, 1);
	pin_to_one_processor();
	p = native_open(PULC_D, names[i]);
	next = native_find(names[(i + 1) % N_ROLES]);
	before = usec_of_processor();
	for (unsigned turn = 0; turn < N_TURNS; turn++) {
		if (i == 0)
			say(p, &next, turn);
		hear(p, turn);
		if (i != 0)
			say(p, &next, turn);
	}
	MUST(usec_of_processor() - before < N_TURNS * USEC_TURN);
	native_reach(1 + i);
	for (unsigned k = 0; k < N_ROLES; k++)
		native_await(1 + k);
	MUST_IS(pulc_port_close(p), 0);
}

static void first(void)
{
	go_round(0);
}

static void second(void)
{
	go_round(1);
}

static void third(void)
{
	go_round(2);
}

static void nobody_spins_while_all_share_a_processor(void)
{
	NATIVE_RUN(first, second, third);
}

/* ---- one wait -------------------------------------------------------------------------------- */

#define NSEC_SPIN (5000000 * NSEC_PER_USEC)
#define NSEC_DEADLINE (1000 * NSEC_PER_USEC)

static bool nothing(pulc_stream *s, const struct wait *w)
{
	(void)s, (void)w;
	return false;
}

static bool nothing_in_kernel(pulc_stream *s, int fd, const struct wait *w)
{
	(void)s, (void)fd, (void)w;
	return false;
}

static short no_events(pulc_stream *s, const struct wait *w)
{
	(void)s, (void)w;
	return 0;
}

static void said(pulc_stream *s, int fd, const struct wait *w)
{
	(void)s, (void)fd, (void)w;
}

static bool is_here(pulc_stream *s)
{
	(void)s;
	return true;
}

/* It was not known where the peer is when the spin began, or the peer has come here since. */
static void a_spin_ends_when_the_peer_is_here(void)
{
	static const struct wait_way way = { nothing, nothing_in_kernel, no_events, said };
	static const struct handler handler = { .peer_here = is_here };
	struct pulc_stream s = { .handler = &handler, .fd = -1 };
	struct wait w = wait_begin(&way, POLLIN, 0);
	uint64_t begun = nsec_now();
	int e;

	w.nsec_deadline = begun + NSEC_DEADLINE;
	do
		e = wait_for(&s, -1, &w, NSEC_SPIN);
	while (e == 0);
	CHECK_INT(e, ==, -EAGAIN);
	CHECK_INT(nsec_now() - begun, <, NSEC_SPIN / 2);
}

static const struct test tests[] = {
	TEST(nobody_spins_while_all_share_a_processor),
	TEST(a_spin_ends_when_the_peer_is_here),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
