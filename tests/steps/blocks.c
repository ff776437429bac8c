/*
 * Messages in blocks go from one process to another, and one of the two is killed at each named
 * point. What was given can be taken, what was lent goes back to its owner, and the memory of both
 * is psid's again.
 */
#include <pulc/block.h>

#include <errno.h>

#include "psid/native_case.h"
#include "steps/walk.h"

#define N_BLOCKS 4u
#define SIZE (64u << 10)

enum who { GIVER, TAKER };

static enum who victim;

static void become(enum who who)
{
	if (victim == who)
		step_victim(getpid());
}

/* ---- giving ---------------------------------------------------------------------------------- */

/* The taker has them, or has had them. */
static void await_blocks(void)
{
	struct pulc_alloc_state state;
	uint64_t seen = 0;

	do {
		(void)pulc_progress(&seen, 2);
		MUST_IS(pulc_alloc_state(&state), 0);
	} while (state.size_given);
	MUST_IS(state.size_used, 0);
}

static void give(void)
{
	pulc_port *p = native_open(PULC_D, "giver");
	uint32_t peer = native_peer_named("taker");
	void *block;
	ssize_t n;

	native_await(1);
	become(GIVER);
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		MUST_IS(pulc_alloc(SIZE, 0, &block), 0);
		native_fill(block, SIZE, i);
		n = pulc_tag_give(peer, i, block, SIZE);
		MUST(n == SIZE || victim == TAKER);
		if (n != SIZE) {
			MUST(n == -ECONNRESET || n == -ECONNREFUSED);
			MUST_IS(pulc_free(block), 0);
		}
	}
	await_blocks();
	MUST_IS(pulc_port_close(p), 0);
}

/* ---- taking ---------------------------------------------------------------------------------- */

static void take(void)
{
	pulc_port *p = native_open(PULC_D, "taker");
	struct pulc_tag want = { .peer = native_peer_named("giver") };
	struct pulc_tagged m;
	const void *block;
	ssize_t n;

	become(TAKER);
	native_reach(1);
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		n = pulc_tag_take(&want, SIZE, &block, &m);
		if (n == -ECONNRESET && victim == GIVER)
			break;
		MUST_IS(n, SIZE);
		MUST_IS(m.tag, i);
		MUST(native_holds(block, SIZE, i));
		MUST_IS(pulc_free(block), 0);
	}
	MUST_IS(pulc_port_close(p), 0);
}

/* ---- the scene ------------------------------------------------------------------------------- */

/* Who is killed is no failure. */
static void look_on(const pid_t *pids)
{
	(void)pids;
}

static void scene(void)
{
	native_role *const roles[] = { give, take };

	native_run_with(roles, 2, look_on);
}

static void walk(enum who who, const char *name)
{
	victim = who;
	steps_walk(name, scene, STEPS_OF_BLOCKS);
}

static void the_giver(void)
{
	walk(GIVER, "the giver");
}

static void the_taker(void)
{
	walk(TAKER, "the taker");
}

static void every_point_was_reached(void)
{
	steps_end(STEPS_OF_BLOCKS);
}

static const struct test tests[] = {
	TEST(the_giver),
	TEST(the_taker),
	TEST(every_point_was_reached),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
