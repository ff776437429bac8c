/*
 * libpulc/turn.h: when it is the peer's turn, and how long the first look waits then.
 */
#include "harness.h"
#include "turn.h"

static struct turn t;
static struct shm_side side;
static struct shm_stream ring = { .own = &side };

static void begin(void)
{
	t = (struct turn){ 0 };
}

static uint32_t wait_now(void)
{
	return atomic_load(&t.wait);
}

/* One message to the peer, and its answer. */
static bool exchange(bool at_first)
{
	bool early;

	turn_received(&t);
	turn_sent(&t);
	early = turn_wait(&t, &ring, pulse_ticks());
	turn_found(&t, early, at_first);
	return early;
}

static void a_stream_knows_no_turns(void)
{
	begin();
	for (unsigned i = 0; i < 3; i++) {
		turn_sent(&t);
		CHECK(!turn_is_peers(&t));
		CHECK(!turn_wait(&t, NULL, pulse_ticks()));
	}
}

static void an_answer_makes_it_the_peers(void)
{
	begin();
	turn_received(&t);
	CHECK(!turn_is_peers(&t));
	turn_sent(&t);
	CHECK(turn_is_peers(&t) == (pulse_ticks() != 0));
	/* Waited for once. */
	(void)turn_wait(&t, NULL, pulse_ticks());
	CHECK(!turn_is_peers(&t));
}

static void more_than_one_message_is_no_answer(void)
{
	begin();
	turn_received(&t);
	turn_sent(&t);
	turn_sent(&t);
	CHECK(!turn_is_peers(&t));
}

static void no_wait_is_too_long(void)
{
	begin();
	for (unsigned i = 0; i < 2 * TURN_WAIT_MAX / TURN_MORE(0); i++)
		(void)exchange(false);
	CHECK_INT(wait_now(), ==, TURN_WAIT_MAX);
}

/* Who is late anyway learns nothing from what he finds. */
static void a_look_that_was_not_early_changes_nothing(void)
{
	begin();
	turn_found(&t, false, true);
	CHECK_INT(wait_now(), ==, 0);
	atomic_store(&t.wait, 100);
	turn_found(&t, false, true);
	CHECK_INT(wait_now(), ==, 100);
	turn_found(&t, true, true);
	CHECK_INT(wait_now(), ==, 100 - TURN_LESS(100));
	turn_found(&t, true, false);
	CHECK_INT(wait_now(), ==, 100 - TURN_LESS(100) + TURN_MORE(100));
}

static void never_waits_less_than_nothing(void)
{
	begin();
	for (uint32_t i = 0; i < 2 * TURN_LESS(0); i++) {
		atomic_store(&t.wait, i);
		turn_found(&t, true, true);
		CHECK_INT(wait_now(), ==, i < TURN_LESS(0) ? 0 : i - TURN_LESS(0));
	}
}

/* What a look has found is counted once, before the next wait, as turn_found would have counted
 * it. */
static void a_look_is_counted_when_the_next_wait_begins(void)
{
	begin();
	CHECK(!turn_count(&t));
	atomic_store(&t.wait, 100);
	turn_looks(&t, true, true);
	CHECK_INT(wait_now(), ==, 100);
	CHECK(turn_count(&t));
	CHECK_INT(wait_now(), ==, 100 - TURN_LESS(100));
	CHECK(!turn_count(&t));
	CHECK_INT(wait_now(), ==, 100 - TURN_LESS(100));
	turn_looks(&t, true, true);
	turn_looks(&t, false, false);
	CHECK(turn_count(&t));
	CHECK_INT(wait_now(), ==, 100 - TURN_LESS(100) + TURN_MORE(100));
	turn_looks(&t, false, true);
	CHECK(turn_count(&t));
	CHECK_INT(wait_now(), ==, 100 - TURN_LESS(100) + TURN_MORE(100));
	turn_looks_aside(&t);
	CHECK(turn_count(&t));
	CHECK_INT(wait_now(), ==, 100 - TURN_LESS(100) + TURN_MORE(100));
	turn_looks(&t, true, true);
	turn_looked_in_vain(&t);
	CHECK(!turn_count(&t));
	CHECK_INT(wait_now(), ==, 100 - TURN_LESS(100) + TURN_MORE(100));
}

static const struct test tests[] = {
	TEST(a_stream_knows_no_turns),
	TEST(an_answer_makes_it_the_peers),
	TEST(more_than_one_message_is_no_answer),
	TEST(no_wait_is_too_long),
	TEST(a_look_that_was_not_early_changes_nothing),
	TEST(never_waits_less_than_nothing),
	TEST(a_look_is_counted_when_the_next_wait_begins),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
