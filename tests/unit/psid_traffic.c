/*
 * How psid adds up what its sides say to have written: the true, the false, those that end and
 * those that come back. Time is the test's own.
 */
#include <unistd.h>

#include "conn.h"
#include "geometry.h"
#include "harness.h"
#include "layout.h"
#include "macros.h"
#include "memory.h"
#include "psid.h"
#include "slab.h"
#include "traffic.h"

#define N_CONNS 3u
#define SEC 1000000ull
#define MIB (1ull << 20)
#define BEGIN 1000000000ull

static struct psid psid;
static struct psid_conn conns[N_CONNS];
static struct psid_slab slab;
static uint64_t usec_now;

static uint64_t at(uint32_t slot)
{
	return shm_slot_at(slab.size_slot, slot) + offsetof(struct shm_side, head);
}

/* A connection has two sides; their slots are those of one slab, which is nothing to the counts. */
static void set_up(void)
{
	uint64_t zero = 0;

	psid_map_seed();
	usec_now = BEGIN;
	psid = (struct psid){ .traffic = { .usec_looked = BEGIN } };
	slab = (struct psid_slab){ .size_slot = SHM_PAGE };
	REQUIRE_INT(psid_memory_new("test", shm_slot_at(SHM_PAGE, 2 * N_CONNS), &zero, sizeof(zero),
				    &slab.fd),
		    ==, 0);
	for (uint32_t i = 0; i < N_CONNS; i++) {
		conns[i] = (struct psid_conn){ .psid = &psid, .id = i + 1 };
		for (uint32_t k = 0; k < 2; k++)
			conns[i].sides[k] = (struct psid_side){ .conn = &conns[i],
								.slab = &slab,
								.slot = 2 * i + k };
		REQUIRE_INT(psid_map_insert(&psid.conns, &conns[i].by_id, i + 1), ==, 0);
	}
}

static void tear_down(void)
{
	for (uint32_t i = 0; i < N_CONNS; i++)
		psid_map_remove(&psid.conns, &conns[i].by_id);
	psid_map_deinit(&psid.conns);
	(void)close(slab.fd);
}

/* The side says to have written so much. */
static void say(uint32_t slot, uint64_t size)
{
	REQUIRE_INT(pwrite(slab.fd, &size, sizeof(size), (off_t)at(slot)), ==, sizeof(size));
}

static uint64_t look_after(uint64_t usec)
{
	usec_now += usec;
	return psid_traffic_look(&psid, usec_now);
}

static void what_is_written_is_a_rate(void)
{
	set_up();
	CHECK_INT(look_after(SEC), ==, 0);
	say(0, 3 * MIB);
	say(3, MIB);
	CHECK_INT(look_after(2 * SEC), ==, 2 * MIB);
	CHECK_INT(psid.traffic.size_moved, ==, 4 * MIB);
	CHECK_INT(look_after(SEC), ==, 0);
	CHECK_INT(psid.traffic.size_moved, ==, 4 * MIB);
	tear_down();
}

static void looks_have_time_between(void)
{
	set_up();
	say(0, MIB);
	CHECK_INT(look_after(SEC), ==, MIB);
	say(0, 3 * MIB);
	CHECK_INT(look_after(SEC / 2), ==, MIB);
	CHECK_INT(look_after(SEC / 2), ==, 2 * MIB);
	psid.conns.n += 2500; /* as if there were so many */
	say(0, 5 * MIB);
	CHECK_INT(look_after(2 * SEC), ==, 2 * MIB);
	CHECK_INT(psid.traffic.size_moved, ==, 3 * MIB);
	CHECK_INT(look_after(2 * SEC), ==, 2 * MIB);
	CHECK_INT(look_after(2 * SEC), ==, MIB / 3);
	psid.conns.n -= 2500;
	tear_down();
}

static void lies_count_as_nothing(void)
{
	set_up();
	say(0, MIB);
	say(1, 1ull << 60);
	say(2, UINT64_MAX);
	CHECK_INT(look_after(SEC), ==, MIB);
	say(0, 0); /* backwards */
	say(1, 5);
	CHECK_INT(look_after(SEC), ==, 0);
	say(0, MIB); /* who comes to his senses counts again */
	CHECK_INT(look_after(SEC), ==, MIB);
	CHECK_INT(psid.traffic.size_moved, ==, 2 * MIB);
	tear_down();
}

static void the_end_of_a_side_counts(void)
{
	set_up();
	say(0, MIB);
	CHECK_INT(look_after(SEC), ==, MIB);
	psid_traffic_count(&conns[0].sides[0], 3 * MIB, usec_now + SEC / 2);
	conns[0].sides[0].slab = NULL;
	CHECK_INT(look_after(SEC), ==, 2 * MIB);
	CHECK_INT(psid.traffic.size_moved, ==, 3 * MIB);
	tear_down();
}

static void what_comes_back_brings_nothing(void)
{
	set_up();
	say(4, 100 * MIB);
	psid_traffic_returned(&conns[2].sides[0]);
	CHECK_INT(look_after(SEC), ==, 0);
	say(4, 101 * MIB);
	CHECK_INT(look_after(SEC), ==, MIB);
	tear_down();
}

static void a_pause_is_no_mean(void)
{
	set_up();
	say(0, 100 * MIB);
	CHECK_INT(look_after(3600 * SEC), ==, 0);
	CHECK_INT(psid.traffic.size_moved, ==, 100 * MIB);
	say(0, 101 * MIB);
	CHECK_INT(look_after(SEC), ==, MIB);
	tear_down();
}

static const struct test tests[] = {
	TEST(what_is_written_is_a_rate),      TEST(looks_have_time_between),
	TEST(lies_count_as_nothing),	      TEST(the_end_of_a_side_counts),
	TEST(what_comes_back_brings_nothing), TEST(a_pause_is_no_mean),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
