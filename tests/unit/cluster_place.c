/* Placement: even spreads, busy, stale and full nodes, cursors, and what is counted as placed. */
#include <errno.h>
#include <stdlib.h>

#include "config.h"
#include "harness.h"
#include "inside.h"
#include "macros.h"
#include "place.h"
#include "placed.h"

static struct psid_cluster cluster;
static struct psid_cluster_config config;
static uint64_t chosen[4096];

static struct psid_node *node(unsigned i)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "n%u", i);
	return psid_members_find(&cluster.gossip.swim.members, psid_node_id(name));
}

/* n nodes with 4 idle cores each and news of now; the first is this one. */
static void set_up(unsigned n)
{
	cluster = (struct psid_cluster){ .config = &config };
	psid_load_init(&cluster.meter, "/nonexistent");
	for (unsigned i = 0; i < n; i++) {
		struct psid_node *added;
		char name[16];

		(void)snprintf(name, sizeof(name), "n%u", i);
		REQUIRE_INT(psid_members_add(&cluster.gossip.swim.members, name, &added), ==, 0);
		psid_members_set_state(&cluster.gossip.swim.members, added, PSID_NODE_ALIVE);
		added->n_cores = 4;
		added->load.number = 1;
		added->usec_load = psid_usec_now();
	}
	cluster.self = node(0);
	cluster.meter.usec_last = psid_usec_now() + 3600 * 1000000ull; /* never sample */
}

static void tear_down(void)
{
	psid_members_deinit(&cluster.gossip.swim.members);
}

static unsigned n_on(unsigned i, size_t n)
{
	unsigned count = 0;

	for (size_t j = 0; j < n; j++)
		count += chosen[j] == node(i)->id;
	return count;
}

static int place(enum psid_strategy strategy, uint32_t n_tasks, uint32_t n_per_node,
		 bool oversubscribe)
{
	struct psid_placement wanted = { .strategy = strategy,
					 .n_tasks = n_tasks,
					 .n_per_node = n_per_node,
					 .oversubscribe = oversubscribe };

	return psid_place(&cluster, &wanted, chosen);
}

static void bursts_spread_evenly(void)
{
	unsigned least = 1000, most = 0;

	set_up(8);
	for (unsigned i = 0; i < 1000; i++)
		REQUIRE_INT(place(PSID_PLACE_LEAST_LOADED, 1, 0, true), ==, 0);
	for (unsigned i = 0; i < 8; i++) {
		least = MIN(least, psid_placed_sum(node(i)->placed));
		most = MAX(most, psid_placed_sum(node(i)->placed));
	}
	CHECK_INT(most - least, <=, 1);
	tear_down();
	set_up(8);
	REQUIRE_INT(place(PSID_PLACE_LEAST_LOADED, 1000, 0, true), ==, 0);
	for (unsigned i = 0; i < 8; i++)
		CHECK_INT(n_on(i, 1000), ==, 125);
	tear_down();
}

static void a_busy_node_waits_for_the_others(void)
{
	set_up(8);
	node(3)->load.centi_foreign = 800; /* two for each core */
	REQUIRE_INT(place(PSID_PLACE_LEAST_LOADED, 7 * 8, 0, true), ==, 0);
	CHECK_INT(n_on(3, 7 * 8), ==, 0);
	REQUIRE_INT(place(PSID_PLACE_LEAST_LOADED, 8, 0, true), ==, 0);
	CHECK_INT(n_on(3, 8), ==, 1);
	tear_down();
}

static void cores_are_not_oversubscribed(void)
{
	set_up(2);
	node(1)->load.n_cpus = 3;
	CHECK_INT(place(PSID_PLACE_LEAST_LOADED, 6, 0, false), ==, -ENOSPC);
	CHECK(node(1)->placed == NULL);
	CHECK_INT(place(PSID_PLACE_LEAST_LOADED, 5, 0, false), ==, 0);
	CHECK_INT(n_on(1, 5), ==, 1);
	CHECK_INT(place(PSID_PLACE_NEXT, 1, 0, false), ==, -ENOSPC);
	CHECK_INT(place(PSID_PLACE_NODES, 1, 0, false), ==, -ENOSPC);
	psid_unplace(&cluster, node(0)->id, 2);
	CHECK_INT(place(PSID_PLACE_NEXT, 2, 0, false), ==, 0);
	CHECK_INT(n_on(0, 2), ==, 2);
	tear_down();
}

static void stale_news_ranks_last(void)
{
	set_up(3);
	node(1)->usec_load -= 60 * 1000000ull;
	node(2)->load.centi_foreign = 300;
	CHECK_INT(place(PSID_PLACE_LEAST_LOADED, 8, 0, false), ==, 0);
	CHECK_INT(n_on(1, 8), ==, 0);
	CHECK_INT(place(PSID_PLACE_LEAST_LOADED, 4, 0, false), ==, 0);
	CHECK_INT(n_on(1, 4), ==, 4);
	tear_down();
}

static void the_drained_and_suspected_get_nothing(void)
{
	struct psid_candidate candidates[2];
	struct psid_placement wanted = { .strategy = PSID_PLACE_NODES, .n_tasks = 2 };

	set_up(4);
	node(1)->drained = true;
	psid_members_set_state(&cluster.gossip.swim.members, node(2), PSID_NODE_SUSPECT);
	psid_members_set_state(&cluster.gossip.swim.members, node(3), PSID_NODE_DEAD);
	CHECK_INT(place(PSID_PLACE_LEAST_LOADED, 5, 0, false), ==, -ENOSPC);
	/* Where there is no room otherwise, and the caller wants it: the suspected too. */
	wanted.strategy = PSID_PLACE_LEAST_LOADED;
	wanted.n_tasks = 5;
	wanted.even_suspected = true;
	CHECK_INT(psid_place(&cluster, &wanted, chosen), ==, 0);
	CHECK_INT(n_on(1, 5) + n_on(3, 5), ==, 0);
	CHECK_INT(n_on(2, 5), >, 0);
	for (unsigned i = 0; i < 5; i++)
		psid_unplace(&cluster, chosen[i], 1);
	wanted = (struct psid_placement){ .strategy = PSID_PLACE_NODES, .n_tasks = 2 };
	candidates[0] = (struct psid_candidate){ node(1)->id, 1 };
	candidates[1] = (struct psid_candidate){ node(2)->id, 0 };
	wanted.candidates = candidates;
	wanted.n_candidates = 2;
	CHECK_INT(psid_place(&cluster, &wanted, chosen), ==, 0);
	CHECK(chosen[0] == node(1)->id && chosen[1] == node(2)->id);
	candidates[0].node = node(3)->id;
	CHECK_INT(psid_place(&cluster, &wanted, chosen), ==, -EHOSTUNREACH);
	tear_down();
}

static void next_goes_round(void)
{
	uint64_t last;

	set_up(4);
	REQUIRE_INT(place(PSID_PLACE_NEXT, 4, 0, false), ==, 0);
	for (unsigned i = 0; i < 4; i++)
		CHECK_INT(n_on(i, 4), ==, 1);
	REQUIRE_INT(place(PSID_PLACE_NEXT, 1, 0, false), ==, 0);
	last = chosen[0];
	REQUIRE_INT(place(PSID_PLACE_NEXT, 3, 0, false), ==, 0);
	CHECK_INT(chosen[0], !=, last);
	CHECK_INT(chosen[1], !=, last);
	CHECK_INT(chosen[2], !=, last);
	tear_down();
}

static void blocks_are_kept_together(void)
{
	set_up(4);
	REQUIRE_INT(place(PSID_PLACE_LEAST_LOADED, 4, 2, false), ==, 0);
	CHECK(chosen[0] == chosen[1] && chosen[2] == chosen[3] && chosen[0] != chosen[2]);
	CHECK_INT(place(PSID_PLACE_LEAST_LOADED, 9, 3, false), ==, -ENOSPC);
	REQUIRE_INT(place(PSID_PLACE_NODES, 5, 2, false), ==, 0);
	CHECK(chosen[0] == chosen[1] && chosen[2] == chosen[3] && chosen[3] != chosen[4]);
	tear_down();
}

static void placed_is_counted_until_it_shows(void)
{
	struct psid_placed placed = { 0 };
	const uint64_t sec = 1000000;

	for (unsigned i = 0; i < 100; i++)
		psid_placed_add(&placed, i * sec, 1);
	CHECK_INT(psid_placed_sum(&placed), ==, 100);
	psid_placed_seen(&placed, 0, 10);
	CHECK_INT(psid_placed_sum(&placed), ==, 90);
	psid_placed_take_back(&placed, 5);
	CHECK_INT(psid_placed_sum(&placed), ==, 85);
	psid_placed_seen(&placed, 100 * sec, 0); /* the last ones are too young to be sure */
	CHECK_INT(psid_placed_sum(&placed), <, 85);
	psid_placed_add(&placed, 200 * sec, 7);
	psid_placed_seen(&placed, 200 * sec + sec / 2, 0);
	CHECK_INT(psid_placed_sum(&placed), ==, 7);
	psid_placed_seen(&placed, 202 * sec, 0);
	CHECK_INT(psid_placed_sum(&placed), ==, 0);
	psid_placed_take_back(&placed, 5);
	CHECK_INT(placed.n, ==, 0);
}

static const struct test tests[] = {
	TEST(bursts_spread_evenly),
	TEST(a_busy_node_waits_for_the_others),
	TEST(cores_are_not_oversubscribed),
	TEST(stale_news_ranks_last),
	TEST(next_goes_round),
	TEST(the_drained_and_suspected_get_nothing),
	TEST(blocks_are_kept_together),
	TEST(placed_is_counted_until_it_shows),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
