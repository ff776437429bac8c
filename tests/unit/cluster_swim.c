/* Membership, in virtual time: joining, dying, leaving, losing, dividing, and lies. */
#include <stdlib.h>

#include "cluster/sim.h"
#include "harness.h"
#include "macros.h"
#include "swim_inside.h"

static struct sim sim;
static const unsigned first = 0;

static void set_up(unsigned n)
{
	sim_init(&sim, n, 1);
	sim_start_acquainted(&sim);
	sim_run(&sim, 2 * SIM_SEC);
	REQUIRE(sim_agreed(&sim));
}

static void tear_down(void)
{
	sim_deinit(&sim);
}

static struct psid_node *view(unsigned i, unsigned j)
{
	return psid_members_find(&sim.nodes[i].swim.members, sim_id(&sim, j));
}

static void all_learn_of_all(void)
{
	sim_init(&sim, 40, 1);
	sim_start(&sim, 0, NULL, 0);
	for (unsigned i = 1; i < sim.n; i++) {
		sim_start(&sim, i, &first, 1);
		sim_run(&sim, 20 * SIM_MSEC);
	}
	CHECK_INT(sim_run_until_agreed(&sim, 20 * SIM_SEC), <, 20 * SIM_SEC);
	CHECK_INT(sim.nodes[7].last_remark, ==, PSID_SWIM_JOINED);
	CHECK_INT(sim.n_suspected_falsely, ==, 0);
	tear_down();
}

/* The first node is started with the others as seeds, before any of them. */
static void any_seed_will_do(void)
{
	static const unsigned seeds[] = { 0, 1, 2 };

	sim_init(&sim, 6, 1);
	sim_start(&sim, 0, seeds, 3);
	sim_run(&sim, 20 * SIM_SEC);
	CHECK_INT(sim.nodes[0].last_remark, ==, PSID_SWIM_ALONE);
	for (unsigned i = 1; i < sim.n; i++)
		sim_start(&sim, i, seeds, 3);
	CHECK_INT(sim_run_until_agreed(&sim, 30 * SIM_SEC), <, 30 * SIM_SEC);
	sim_kill(&sim, 0);
	CHECK_INT(sim_run_until_all(&sim, 0, PSID_NODE_DEAD, 5 * SIM_SEC), <, 5 * SIM_SEC);
	sim_start(&sim, 0, seeds + 1, 2);
	CHECK_INT(sim_run_until_agreed(&sim, 30 * SIM_SEC), <, 30 * SIM_SEC);
	tear_down();
}

static void death_is_noticed(void)
{
	uint64_t life;

	set_up(64);
	life = view(0, 5)->life;
	for (unsigned i = 5; i < 55; i += 10) {
		sim_kill(&sim, i);
		CHECK_INT(sim_run_until_all(&sim, i, PSID_NODE_DEAD, 4 * SIM_SEC), <, 4 * SIM_SEC);
	}
	CHECK_INT(sim.n_buried_falsely, ==, 0);
	sim_start(&sim, 5, &first, 1);
	CHECK_INT(sim_run_until_all(&sim, 5, PSID_NODE_ALIVE, 5 * SIM_SEC), <, 5 * SIM_SEC);
	CHECK(view(0, 5)->life > life);
	CHECK_INT(sim.nodes[5].n_given_up, ==, 0);
	tear_down();
}

static void small_clusters_work_too(void)
{
	for (unsigned n = 2; n <= 4; n++) {
		set_up(n);
		sim_kill(&sim, n - 1);
		CHECK_INT(sim_run_until_all(&sim, n - 1, PSID_NODE_DEAD, 5 * SIM_SEC), <,
			  5 * SIM_SEC);
		CHECK_INT(sim.n_suspected_falsely, ==, 0);
		tear_down();
	}
}

/* Half the cluster at once. */
static void catastrophes_are_survived(void)
{
	set_up(64);
	for (unsigned i = 32; i < 64; i++)
		sim_kill(&sim, i);
	sim_run(&sim, 20 * SIM_SEC);
	for (unsigned i = 32; i < 64; i++)
		CHECK_INT(sim_count(&sim, i, PSID_NODE_DEAD), ==, 32);
	CHECK_INT(sim.n_buried_falsely, ==, 0);
	CHECK(sim_agreed(&sim));
	tear_down();
}

static void good_byes_are_heard(void)
{
	set_up(64);
	sim_leave(&sim, 9);
	CHECK_INT(sim_run_until_all(&sim, 9, PSID_NODE_LEFT, 2 * SIM_SEC), <, 2 * SIM_SEC);
	sim_run(&sim, 10 * SIM_SEC);
	CHECK_INT(sim_count(&sim, 9, PSID_NODE_LEFT), ==, 63);
	sim_start(&sim, 9, &first, 1);
	CHECK_INT(sim_run_until_all(&sim, 9, PSID_NODE_ALIVE, 5 * SIM_SEC), <, 5 * SIM_SEC);
	tear_down();
}

static void loss_is_no_death(void)
{
	sim_init(&sim, 64, 1);
	sim.permille_loss = 100;
	sim_start_acquainted(&sim);
	sim_run(&sim, 600 * SIM_SEC);
	CHECK_INT(sim.n_buried_falsely, ==, 0);
	CHECK(sim_agreed(&sim));
	sim_kill(&sim, 3);
	CHECK_INT(sim_run_until_all(&sim, 3, PSID_NODE_DEAD, 5 * SIM_SEC), <, 5 * SIM_SEC);
	tear_down();
}

/* Networks that are slow, and do not keep the order. */
static void delay_is_no_death(void)
{
	sim_init(&sim, 32, 1);
	sim.usec_delay_min = 1 * SIM_MSEC;
	sim.usec_delay_max = 60 * SIM_MSEC;
	sim_start_acquainted(&sim);
	sim_run(&sim, 120 * SIM_SEC);
	CHECK_INT(sim.n_buried_falsely, ==, 0);
	tear_down();
}

/* A node that stops is dead to the others; when it goes on it kills nobody, and is taken back. */
static void the_stopped_come_back(void)
{
	uint64_t life;

	set_up(32);
	life = view(0, 4)->life;
	sim_stop(&sim, 4);
	CHECK_INT(sim_run_until_all(&sim, 4, PSID_NODE_DEAD, 5 * SIM_SEC), <, 5 * SIM_SEC);
	sim_continue(&sim, 4);
	CHECK_INT(sim_run_until_agreed(&sim, 30 * SIM_SEC), <, 30 * SIM_SEC);
	CHECK_INT(sim.nodes[4].n_given_up, >, 0);
	CHECK(view(0, 4)->life == life);
	CHECK_INT(view(0, 4)->incarnation, >, 0);
	CHECK_INT(sim.n_buried_falsely, ==, 0);
	tear_down();
}

/* Cut off, it believes that all others have died, and says so when it is back. */
static void the_cut_off_do_no_harm(void)
{
	set_up(32);
	sim_divide(&sim, 1);
	sim_run(&sim, 60 * SIM_SEC);
	CHECK_INT(sim_opinion(&sim, 0, 9), ==, PSID_NODE_DEAD);
	CHECK_INT(sim_opinion(&sim, 9, 0), ==, PSID_NODE_DEAD);
	sim.n_buried_falsely = 0;
	sim_divide(&sim, 0);
	CHECK_INT(sim_run_until_agreed(&sim, 60 * SIM_SEC), <, 60 * SIM_SEC);
	CHECK_INT(sim.n_buried_falsely, ==, 0);
	for (unsigned i = 1; i < sim.n; i++)
		CHECK_INT(sim.nodes[i].n_given_up, <=, 1);
	tear_down();
}

static void halves_find_each_other(void)
{
	set_up(48);
	sim_divide(&sim, 20);
	sim_run(&sim, 60 * SIM_SEC);
	for (unsigned i = 0; i < 20; i++)
		CHECK_INT(sim_opinion(&sim, i, 30), ==, PSID_NODE_DEAD);
	CHECK_INT(sim_opinion(&sim, 30, 31), ==, PSID_NODE_ALIVE);
	sim.n_buried_falsely = 0;
	sim_divide(&sim, 0);
	CHECK_INT(sim_run_until_agreed(&sim, 60 * SIM_SEC), <, 60 * SIM_SEC);
	CHECK_INT(sim.n_buried_falsely, ==, 0);
	tear_down();
}

/* Moments without a processor: suspected perhaps, buried never. */
static void the_starved_live(void)
{
	set_up(32);
	for (unsigned i = 0; i < 100; i++) {
		sim_stop(&sim, 7);
		sim_run(&sim, 200 * SIM_MSEC);
		sim_continue(&sim, 7);
		sim_run(&sim, 50 * SIM_MSEC);
	}
	CHECK_INT(sim_count(&sim, 7, PSID_NODE_DEAD), ==, 0);
	CHECK_INT(sim.n_buried_falsely, ==, 0);
	tear_down();
}

/* All of them at once, as when a whole machine of containers sleeps. */
static void nobody_dies_of_a_common_sleep(void)
{
	set_up(16);
	for (unsigned i = 0; i < sim.n; i++)
		sim_stop(&sim, i);
	sim_run(&sim, 60 * SIM_SEC);
	for (unsigned i = 0; i < sim.n; i++)
		sim_continue(&sim, i);
	sim_run(&sim, 10 * SIM_SEC);
	CHECK_INT(sim.n_buried_falsely, ==, 0);
	CHECK(sim_agreed(&sim));
	tear_down();
}

static void what_a_node_says_of_itself_spreads(void)
{
	set_up(32);
	sim.nodes[3].swim.self->drained = true;
	sim.nodes[3].swim.self->n_cores = 7;
	psid_swim_touch(&sim.nodes[3].swim, sim.usec_now);
	sim.nodes[3].swim.self->load.n_tasks = 5;
	sim.nodes[3].swim.self->load.rate = 77;
	sim_run(&sim, 15 * SIM_SEC);
	for (unsigned i = 0; i < sim.n; i++)
		if (i != 3) {
			CHECK(view(i, 3)->drained);
			CHECK_INT(view(i, 3)->n_cores, ==, 7);
			CHECK_INT(view(i, 3)->load.n_tasks, ==, 5);
			CHECK_INT(view(i, 3)->load.rate, ==, 77);
		}
	sim.nodes[3].swim.self->load.rate = 0;
	sim_run(&sim, 15 * SIM_SEC);
	for (unsigned i = 0; i < sim.n; i++)
		CHECK_INT(view(i, 3)->load.rate, ==, 0);
	tear_down();
}

/* Somebody has missed something, or makes it up; the digests differ. */
static void tables_are_repaired(void)
{
	struct psid_swim *swim;

	set_up(16);
	swim = &sim.nodes[2].swim;
	swim->digest -= view(2, 5)->digest;
	psid_spread_forget(swim, view(2, 5));
	psid_members_remove(&swim->members, view(2, 5));
	view(3, 6)->n_cores = 1;
	view(3, 6)->incarnation = 0;
	sim.nodes[6].swim.self->n_cores = 9;
	psid_swim_touch(&sim.nodes[6].swim, sim.usec_now);
	CHECK_INT(sim_run_until_agreed(&sim, 30 * SIM_SEC), <, 30 * SIM_SEC);
	CHECK_INT(view(3, 6)->n_cores, ==, 9);
	tear_down();
}

/* That each of them sends, over 20 s from now on. */
static double bytes_a_second(void)
{
	uint64_t before = 0, after = 0;

	for (unsigned i = 0; i < sim.n; i++)
		before += sim.nodes[i].size_sent;
	sim_run(&sim, 20 * SIM_SEC);
	for (unsigned i = 0; i < sim.n; i++)
		after += sim.nodes[i].size_sent;
	return (double)(after - before) / sim.n / 20;
}

static double bytes_in_rest(unsigned n)
{
	double bytes;

	set_up(n);
	bytes = bytes_a_second();
	tear_down();
	return bytes;
}

static void cost_does_not_grow(void)
{
	double few = bytes_in_rest(16), many = bytes_in_rest(128), most = bytes_in_rest(256);

	CHECK_INT((int)few, <, 1000);
	CHECK_INT((int)many, <, 1000);
	CHECK_INT((int)most, <, 1000);
	CHECK_INT((int)(many * 100), <, (int)(few * 120));
	CHECK_INT((int)(most * 100), <, (int)(few * 120));
}

/* All come in through the first one, within some seconds. */
static double bytes_after_start(unsigned n)
{
	double bytes;

	sim_init(&sim, n, 1);
	sim_start(&sim, 0, NULL, 0);
	for (unsigned i = 1; i < n; i++) {
		sim_start(&sim, i, &first, 1);
		sim_run(&sim, 20 * SIM_MSEC);
	}
	REQUIRE_INT(sim_run_until_agreed(&sim, 20 * SIM_SEC), <, 20 * SIM_SEC);
	sim_run(&sim, 5 * SIM_SEC);
	bytes = bytes_a_second();
	tear_down();
	return bytes;
}

static void news_of_a_start_is_soon_told(void)
{
	double few = bytes_after_start(16), many = bytes_after_start(128);

	CHECK_INT((int)few, <, 1000);
	CHECK_INT((int)many, <, 1000);
	CHECK_INT((int)(many * 100), <, (int)(few * 120));
}

static void names_belong_to_one_node(void)
{
	const unsigned seeds[] = { 0 };

	set_up(8);
	sim_kill(&sim, 7);
	sim_run(&sim, 5 * SIM_SEC);
	/* At 7's address, with 6's name. */
	sim_start_as(&sim, 7, "n6", seeds, 1);
	sim_run(&sim, 10 * SIM_SEC);
	CHECK_INT(sim.nodes[7].last_remark, ==, PSID_SWIM_NAME_TAKEN);
	CHECK_INT(sim.nodes[7].swim.members.n_up, ==, 1);
	CHECK(psid_address_equal(&view(0, 6)->address, &sim.nodes[6].swim.self->address));
	sim_kill(&sim, 6); /* its name is free then */
	sim_run(&sim, 30 * SIM_SEC);
	CHECK_INT(sim.nodes[7].swim.members.n_up, ==, 7);
	tear_down();
}

/* Two that started within the same millisecond are in the same life, by what they say. */
static void twins_are_told_apart(void)
{
	static const unsigned seed_of_first[] = { 0 }, seed_of_second[] = { 1 };

	sim_init(&sim, 6, 1);
	sim_start(&sim, 0, NULL, 0);
	for (unsigned i = 1; i < 4; i++)
		sim_start(&sim, i, &first, 1);
	REQUIRE_INT(sim_run_until_agreed(&sim, 30 * SIM_SEC), <, 30 * SIM_SEC);
	/* Through the same seed: the first one it hears of is let in. */
	sim_start_as(&sim, 4, "twin", seed_of_first, 1);
	sim_start_as(&sim, 5, "twin", seed_of_first, 1);
	sim_run(&sim, 10 * SIM_SEC);
	CHECK_INT(sim.nodes[4].swim.joined + sim.nodes[5].swim.joined, ==, 1);
	CHECK_INT(sim.nodes[4].swim.is_refused + sim.nodes[5].swim.is_refused, ==, 1);
	sim_leave(&sim, 4);
	sim_leave(&sim, 5);
	sim_run(&sim, 10 * SIM_SEC);
	/* Through two, which both let one in: one stays in the end. */
	sim_start_as(&sim, 4, "twin", seed_of_first, 1);
	sim_start_as(&sim, 5, "twin", seed_of_second, 1);
	REQUIRE_INT(sim.nodes[4].swim.self->life, ==, sim.nodes[5].swim.self->life);
	sim_run(&sim, 30 * SIM_SEC);
	CHECK_INT(sim.nodes[4].swim.out + sim.nodes[5].swim.out, ==, 1);
	for (unsigned i = 0; i < 4; i++) {
		unsigned stays = sim.nodes[4].swim.out ? 5 : 4;

		CHECK_INT(sim_opinion(&sim, i, stays), ==, PSID_NODE_ALIVE);
		CHECK(psid_address_equal(&view(i, stays)->address,
					 &sim.nodes[stays].swim.self->address));
	}
	tear_down();
}

static void strangers_stay_out(void)
{
	struct psid_address nowhere = { .ip = { [10] = 0xff, 0xff, 10, 9, 9, 9 }, .port = 1 };

	sim_init(&sim, 3, 1);
	sim_start(&sim, 0, NULL, 0);
	sim.nodes[0].swim.params.closed = true;
	REQUIRE_INT(psid_swim_expect(&sim.nodes[0].swim, "n1", &nowhere), ==, 0);
	sim_start(&sim, 1, &first, 1);
	sim_start(&sim, 2, &first, 1);
	sim_run(&sim, 5 * SIM_SEC);
	CHECK_INT(sim_opinion(&sim, 0, 1), ==, PSID_NODE_ALIVE);
	CHECK_INT(sim_opinion(&sim, 0, 2), ==, PSID_NODE_UNKNOWN);
	CHECK_INT(sim.nodes[2].last_remark, ==, PSID_SWIM_NOT_LISTED);
	tear_down();
}

/* The first node restarts before the others miss it: it knows nobody, and is found in its place by
 * those who know it. */
static void the_first_is_back_before_it_is_missed(void)
{
	for (unsigned n = 2; n <= 8; n += 3) {
		set_up(n);
		sim_kill(&sim, 0);
		sim_run(&sim, 50 * SIM_MSEC);
		sim_start(&sim, 0, &first, 1);
		CHECK_INT(sim_run_until_agreed(&sim, 5 * SIM_SEC), <, 5 * SIM_SEC);
		tear_down();
	}
}

/* Its clock was set back before it restarted. */
static void clocks_may_go_back(void)
{
	set_up(8);
	sim_kill(&sim, 5);
	sim_run(&sim, 100 * SIM_MSEC);
	sim_start(&sim, 5, &first, 1);
	sim.nodes[5].swim.self->life = 17;
	CHECK_INT(sim_run_until_agreed(&sim, 20 * SIM_SEC), <, 20 * SIM_SEC);
	tear_down();
}

/* What node 1 would have said, in that life and of itself; the answer is left to be delivered. */
static void hear(unsigned i, uint64_t life, enum psid_swim_kind kind)
{
	const struct psid_node *self = sim.nodes[1].swim.self;
	const struct psid_origin from = { self->id, life, self->address };
	uint8_t body[PSID_SWIM_SIZE_MAX];
	struct psid_writer w = { .at = body, .end = body + sizeof(body) };
	struct psid_news news;

	psid_news_of(&sim.nodes[1].swim, self, &news);
	news.life = life;
	news.drained = true;
	psid_put(&w, kind, 1);
	psid_put_news(&w, &news);
	psid_swim_receive(&sim.nodes[i].swim, sim.usec_now, &from, body, (size_t)(w.at - body));
}

/* Copies, of which none was heard before: this node has restarted since. */
static void what_was_said_in_former_lives_counts_for_nothing(void)
{
	uint64_t life;

	set_up(8);
	life = sim.nodes[1].swim.self->life;
	hear(0, life - 5, PSID_SWIM_GOSSIP);
	hear(0, life - 5, PSID_SWIM_JOIN);
	CHECK(!view(0, 1)->drained);
	sim_run(&sim, 2 * SIM_SEC);
	CHECK_INT(sim.nodes[1].swim.self->life, ==, life); /* the answers went to it */
	CHECK_INT(view(0, 1)->life, ==, life);
	CHECK(sim_agreed(&sim));
	tear_down();
}

/* One that has the key says the greatest that can be said of node 1, so that nothing could be
 * greater. */
static void lie(enum psid_node_state state, uint64_t life, uint32_t incarnation)
{
	const struct psid_node *liar = sim.nodes[2].swim.self;
	const struct psid_origin from = { liar->id, liar->life, liar->address };
	const struct psid_news news = { .kind = PSID_NEWS_STATE,
					.id = sim_id(&sim, 1),
					.life = life,
					.incarnation = incarnation,
					.state = state };
	uint8_t body[PSID_SWIM_SIZE_MAX];
	struct psid_writer w = { .at = body, .end = body + sizeof(body) };

	psid_put(&w, PSID_SWIM_GOSSIP, 1);
	psid_put_news(&w, &news);
	for (unsigned i = 0; i < 2; i++)
		psid_swim_receive(&sim.nodes[i].swim, sim.usec_now, &from, body,
				  (size_t)(w.at - body));
}

static void no_lie_is_the_last_word(void)
{
	const uint64_t last = (1ull << 48) - 1;
	struct psid_origin from;

	for (enum psid_node_state state = PSID_NODE_DEAD; state <= PSID_NODE_LEFT; state++) {
		set_up(8);
		lie(state, last, 0);
		CHECK_INT(sim_run_until_agreed(&sim, 20 * SIM_SEC), <, 20 * SIM_SEC);
		lie(state, view(1, 1)->life, UINT32_MAX);
		CHECK_INT(sim_run_until_agreed(&sim, 20 * SIM_SEC), <, 20 * SIM_SEC);
		lie(state, view(1, 1)->life + SIM_SEC, UINT32_MAX);
		CHECK_INT(sim_run_until_agreed(&sim, 20 * SIM_SEC), <, 20 * SIM_SEC);
		CHECK_INT(view(0, 1)->life, <, last);
		from = (struct psid_origin){ sim_id(&sim, 1), last, view(0, 1)->address };
		psid_swim_receive(&sim.nodes[0].swim, sim.usec_now, &from, NULL, 0);
		CHECK_INT(sim_run_until_agreed(&sim, 5 * SIM_SEC), <, 5 * SIM_SEC);
		tear_down();
	}
}

/* seal.c does not know its start, and has forgotten later ones. */
static void an_outdated_life_is_told(void)
{
	struct psid_origin from;
	uint64_t life;

	set_up(8);
	life = sim.nodes[1].swim.self->life;
	from = (struct psid_origin){ sim_id(&sim, 1), life + 7, view(0, 1)->address };
	psid_swim_outdated(&sim.nodes[0].swim, sim.usec_now, &from); /* a copy, forged origin */
	sim_run(&sim, 2 * SIM_SEC);
	CHECK_INT(sim.nodes[1].swim.self->life, ==, life);
	sim_kill(&sim, 1);
	CHECK_INT(sim_run_until_all(&sim, 1, PSID_NODE_DEAD, 4 * SIM_SEC), <, 4 * SIM_SEC);
	sim_start(&sim, 1, &first, 1);
	sim.nodes[1].swim.self->life = 17;
	psid_swim_outdated(&sim.nodes[0].swim, sim.usec_now, &from);
	sim_run(&sim, 5 * SIM_MSEC);
	CHECK_INT(sim.nodes[1].swim.self->life, ==, life + 8);
	CHECK_INT(sim_run_until_agreed(&sim, 5 * SIM_SEC), <, 5 * SIM_SEC);
	CHECK_INT(view(0, 1)->life, ==, life + 8);
	tear_down();
}

/* Whoever knows the key may say anything: nothing breaks. */
static void garbage_is_harmless(void)
{
	uint8_t body[PSID_SWIM_SIZE_MAX];
	struct psid_origin from = { .address.port = 1 };

	set_up(8);
	srand(1);
	for (unsigned i = 0; i < 20000; i++) {
		size_t len = (size_t)rand() % sizeof(body);

		for (size_t j = 0; j < len; j++)
			body[j] = (uint8_t)rand();
		if (len > 0)
			body[0] = (uint8_t)(1 + rand() % 10);
		from.id = (uint64_t)rand();
		psid_swim_receive(&sim.nodes[i % 8].swim, sim.usec_now, &from, body, len);
	}
	CHECK_INT(sim.nodes[1].n_remarks, >, 0);
	sim_run(&sim, 30 * SIM_SEC);
	for (unsigned i = 1; i < 8; i++)
		CHECK_INT(sim_opinion(&sim, 0, i), ==, PSID_NODE_ALIVE);
	tear_down();
}

static void loads_become_known(void)
{
	uint64_t oldest = 0;

	set_up(32);
	sim_run(&sim, 20 * SIM_SEC);
	for (unsigned i = 0; i < sim.n; i++)
		for (unsigned j = 0; j < sim.n; j++)
			if (i != j && sim.usec_now - view(i, j)->usec_load > oldest)
				oldest = sim.usec_now - view(i, j)->usec_load;
	CHECK_INT(oldest, <, 15 * SIM_SEC);
	tear_down();
}

static const struct test tests[] = {
	TEST(all_learn_of_all),
	TEST(any_seed_will_do),
	TEST(death_is_noticed),
	TEST(small_clusters_work_too),
	TEST(catastrophes_are_survived),
	TEST(good_byes_are_heard),
	TEST(loss_is_no_death),
	TEST(delay_is_no_death),
	TEST(the_stopped_come_back),
	TEST(the_cut_off_do_no_harm),
	TEST(halves_find_each_other),
	TEST(the_starved_live),
	TEST(nobody_dies_of_a_common_sleep),
	TEST(what_a_node_says_of_itself_spreads),
	TEST(tables_are_repaired),
	TEST(cost_does_not_grow),
	TEST(news_of_a_start_is_soon_told),
	TEST(names_belong_to_one_node),
	TEST(twins_are_told_apart),
	TEST(strangers_stay_out),
	TEST(the_first_is_back_before_it_is_missed),
	TEST(clocks_may_go_back),
	TEST(what_was_said_in_former_lives_counts_for_nothing),
	TEST(no_lie_is_the_last_word),
	TEST(an_outdated_life_is_told),
	TEST(garbage_is_harmless),
	TEST(loads_become_known),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
