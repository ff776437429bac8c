/*
 * Time from the processor's counter: it is the clock's, whatever the counter does; a counter that
 * does not keep to its rate is not believed.
 */
#include <time.h>

#include "clock.h"
#include "harness.h"
#include "pulse.h"

/* More than any two readings that belong together are apart, far less than a wrong base or rate
 * makes. */
#define NSEC_NEAR (100 * NSEC_PER_USEC)
#define NSEC_RENEWED (2000 * NSEC_PER_USEC)

static uint64_t real_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* A time between two readings of the clock. */
static void check_time(struct pulse *p)
{
	uint64_t before = real_now(), now = pulse_now(p), after = real_now();

	CHECK(now + NSEC_NEAR >= before);
	CHECK(now <= after + NSEC_NEAR);
}

static void run(struct pulse *p, uint64_t nsec)
{
	uint64_t end = nsec_now() + nsec;

	while (nsec_now() < end)
		check_time(p);
}

static void it_is_the_clock_s_time(void)
{
	struct pulse p = { 0 };

	run(&p, 50 * NSEC_RENEWED);
}

/* As after a machine was moved to one whose counter is faster, or stands elsewhere. */
static void a_counter_that_lies_is_not_believed(void)
{
	struct pulse p = { 0 };

	for (unsigned i = 0; i < 20; i++) {
		run(&p, NSEC_RENEWED);
		p.rate += p.rate / 8;
		p.n_good = 0;
		run(&p, NSEC_RENEWED);
		p.ticks += 1000000000;
		run(&p, NSEC_RENEWED);
		p.ticks -= 1000000000;
		p.n_good = 0;
		run(&p, NSEC_RENEWED);
	}
}

/* An odd rate is measured again before it is used. */
static void a_rate_is_measured_twice(void)
{
	struct pulse p = { 0 };

	run(&p, 10 * NSEC_RENEWED);
	p.rate *= 2;
	p.nsec_steady = nsec_now() - NSEC_RENEWED;
	p.ticks = pulse_ticks() + NSEC_PER_SEC;
	(void)pulse_renew(&p);
	CHECK_INT(p.n_good, ==, 0);
}

static const struct test tests[] = {
	TEST(it_is_the_clock_s_time),
	TEST(a_counter_that_lies_is_not_believed),
	TEST(a_rate_is_measured_twice),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
