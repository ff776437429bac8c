/*
 * The plan of a partition: order, passing, exclusive nodes, what is told late or never, grants that
 * come to nothing, limits for each user, and reservations.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "harness.h"
#include "inside.h"
#include "macros.h"
#include "plan.h"

enum { N_NODES = 4, N_CORES = 4, SEC = 1000000 };

static struct psid_cluster cluster;
static struct psid_cluster_config config;
static struct psid_book book;
static struct psid_plan *plan;
static uint64_t now;

/* What became of the jobs that were decided about last. */
static struct {
	char text[1024];
	char why[PSID_SIZE_WHY]; /* of the last one */
	size_t n_nodes;
} said;

static struct psid_node *node(unsigned i)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "n%u", i);
	return psid_members_find(&cluster.gossip.swim.members, psid_node_id(name));
}

static void make_partition(bool exclusive)
{
	Pulc__Peer__PartitionRecord record = PULC__PEER__PARTITION_RECORD__INIT;
	Pulc__Wire__Partition partition = PULC__WIRE__PARTITION__INIT;
	char *nodes[] = { (char *)"n0", (char *)"n1", (char *)"n2", (char *)"n3" };

	partition.name = (char *)"night";
	partition.nodes = nodes;
	partition.n_nodes = N_NODES;
	partition.exclusive = exclusive;
	record.partition = &partition;
	record.counter = 1;
	REQUIRE_INT(psid_book_take(&book, &record), ==, 1);
}

static void set_up(bool exclusive)
{
	cluster = (struct psid_cluster){ .config = &config };
	psid_load_init(&cluster.meter, "/nonexistent");
	for (unsigned i = 0; i < N_NODES; i++) {
		struct psid_node *added;
		char name[16];

		(void)snprintf(name, sizeof(name), "n%u", i);
		REQUIRE_INT(psid_members_add(&cluster.gossip.swim.members, name, &added), ==, 0);
		psid_members_set_state(&cluster.gossip.swim.members, added, PSID_NODE_ALIVE);
		added->n_cores = N_CORES;
		added->load.number = 1;
		added->usec_load = psid_usec_now();
	}
	cluster.self = node(0);
	cluster.meter.usec_last = psid_usec_now() + 3600ull * SEC; /* never sample */
	make_partition(exclusive);
	plan = psid_plan_new("night");
	REQUIRE(plan != NULL);
	now = 1000 * SEC;
}

static void tear_down(void)
{
	plan = psid_plan_free(plan);
	psid_book_deinit(&book);
	psid_members_deinit(&cluster.gossip.swim.members);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* A job of so many tasks of a user, asked for by n0 at this time. */
static int want_of(uint32_t uid, const char *job, uint32_t n_tasks, uint64_t since, bool waits)
{
	Pulc__Wire__Submit submit = PULC__WIRE__SUBMIT__INIT;
	Pulc__Peer__Want message = PULC__PEER__WANT__INIT;

	submit.n_tasks = n_tasks;
	submit.wait = waits;
	message.job = (char *)job;
	message.uid = uid;
	message.since_msec = since;
	message.submit = &submit;
	return psid_plan_want(plan, node(0)->id, &message, now);
}

static int want(const char *job, uint32_t n_tasks, uint64_t since, bool waits)
{
	return want_of(0, job, n_tasks, since, waits);
}

/* Node i runs this job ("": none) of a user and a partition with so many processors. */
static void tell_of(uint32_t uid, const char *partition, unsigned i, const char *job,
		    uint32_t n_cpus)
{
	Pulc__Peer__Use use = PULC__PEER__USE__INIT;
	Pulc__Peer__UsedBy by = PULC__PEER__USED_BY__INIT, *list = &by;

	by.job = (char *)job;
	by.uid = uid;
	by.partition = (char *)partition;
	by.n_cpus = by.n_tasks = n_cpus;
	use.jobs = &list;
	use.n_jobs = job[0] ? 1 : 0;
	CHECK_INT(psid_plan_told(plan, node(i)->id, &use, now), ==, 0);
}

static void tell(unsigned i, const char *job, uint32_t n_cpus)
{
	tell_of(0, "", i, job, n_cpus);
}

static void all_are_idle(void)
{
	for (unsigned i = 0; i < N_NODES; i++)
		tell(i, "", 0);
}

static void on_verdict(void *data, const struct psid_ticket *ticket, Pulc__Peer__Answer answer,
		       const Pulc__Peer__Share *shares, size_t n_shares)
{
	static const char *const answers[] = { "waits", "granted", "refused" };
	size_t len = strlen(said.text);
	uint32_t n = 0;

	(void)data;
	for (size_t i = 0; i < n_shares; i++)
		n += shares[i].n_tasks;
	if (answer == PULC__PEER__ANSWER__ANSWER_GRANTED)
		CHECK_INT(n, ==, ticket->submit->n_tasks);
	(void)snprintf(said.text + len, sizeof(said.text) - len, "%s%s %s", len ? ", " : "",
		       ticket->job, answers[answer]);
	said.n_nodes = 0;
	for (size_t i = 0, k; i < n_shares; i++) {
		for (k = 0; k < i && shares[k].node != shares[i].node; k++)
			;
		said.n_nodes += k == i;
	}
	(void)snprintf(said.why, sizeof(said.why), "%s", ticket->why);
}

/* The partition's limits, to be set. */
static Pulc__Wire__Partition *limits(void)
{
	return psid_book_find(&book, "night")->record->partition;
}

/* "a granted, b waits": what is said when it is decided now. */
static const char *decide(void)
{
	said.text[0] = '\0';
	psid_plan_decide(plan, &cluster, psid_book_find(&book, "night"), now, on_verdict, NULL);
	return said.text;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void first_come_first_served(void)
{
	set_up(false);
	CHECK_INT(want("b", 16, 2, true), ==, 0);
	CHECK_INT(want("a", 16, 1, true), ==, 0);
	CHECK_INT(want("c", 16, 3, true), ==, 0);
	CHECK_STR(decide(), ""); /* no node has told */
	all_are_idle();
	CHECK_STR(decide(), "a granted, b waits, c waits");
	CHECK_STR(decide(), ""); /* once */
	for (unsigned i = 0; i < N_NODES; i++)
		tell(i, "a", 4);
	CHECK_STR(decide(), "");
	all_are_idle();
	CHECK_STR(decide(), "b granted, c waits"); /* its place is another now */
	tear_down();
}

static void the_small_pass_and_not_for_ever(void)
{
	char name[8];

	set_up(false);
	all_are_idle();
	CHECK_INT(want("half", 8, 1, true), ==, 0);
	CHECK_STR(decide(), "half granted");
	CHECK_INT(want("large", 12, 2, true), ==, 0);
	CHECK_STR(decide(), "large waits");
	for (unsigned i = 0; i < 12; i += 4) {
		(void)snprintf(name, sizeof(name), "s%u", i);
		CHECK_INT(want(name, 4, 10 + i, true), ==, 0);
		CHECK(strstr(decide(), " granted") != NULL);
		psid_plan_unwant(plan, node(0)->id, name); /* it has come and gone */
	}
	/* There is room, and the large one has been passed by as much as it asks for. */
	CHECK_INT(want("late", 1, 99, true), ==, 0);
	CHECK_STR(decide(), "late waits");
	CHECK_INT(want("too-late", 1, 99, false), ==, 0);
	CHECK_STR(decide(), "too-late refused");
	psid_plan_unwant(plan, node(0)->id, "half");
	CHECK_STR(decide(), "large granted, late granted");
	tear_down();
}

static void an_exclusive_node_is_taken_as_a_whole(void)
{
	set_up(true);
	all_are_idle();
	tell(2, "stranger", 0); /* its keeper is still there */
	CHECK_INT(want("a", 5, 1, true), ==, 0);
	CHECK_INT(want("b", 1, 2, true), ==, 0);
	CHECK_INT(want("c", 1, 3, true), ==, 0);
	CHECK_STR(decide(), "a granted, b granted, c waits");
	tell(2, "", 0);
	CHECK_STR(decide(), "c granted");
	tear_down();
}

static void what_never_fits_is_refused(void)
{
	set_up(false);
	all_are_idle();
	CHECK_INT(want("a", 17, 1, true), ==, 0);
	CHECK_STR(decide(), "a refused");
	CHECK_INT(want("b", 16, 2, false), ==, 0);
	CHECK_INT(want("c", 1, 3, false), ==, 0);
	CHECK_STR(decide(), "b granted, c refused");
	tear_down();
}

/* Who does not want to wait gives the nodes a moment to tell. */
static void the_silent_are_not_used(void)
{
	set_up(false);
	tell(0, "", 0);
	now += SEC;
	CHECK_INT(want("a", 4, 1, false), ==, 0);
	CHECK_STR(decide(), ""); /* what was told before does not count */
	tell(1, "", 0);
	CHECK_STR(decide(), "a granted");
	CHECK_INT(want("b", 9, 1, false), ==, 0);
	tell(2, "", 0);
	tell(3, "", 0);
	CHECK_STR(decide(), "");
	now += 2 * SEC;
	CHECK_STR(decide(), "b refused");
	CHECK_INT(want("c", 1, 1, true), ==, 0);
	all_are_idle();
	now += 4 * SEC; /* and what was told long ago does not either */
	CHECK_STR(decide(), "c waits");
	tear_down();
}

static void the_dead_and_drained_hold_nobody_up(void)
{
	set_up(false);
	all_are_idle();
	psid_members_set_state(&cluster.gossip.swim.members, node(1), PSID_NODE_DEAD);
	node(2)->drained = true;
	psid_plan_forget(plan, node(1)->id);
	CHECK_INT(want("large", 9, 1, true), ==, 0);
	CHECK_INT(want("small", 4, 2, true), ==, 0);
	CHECK_INT(want("small2", 4, 3, true), ==, 0);
	CHECK_STR(decide(), "large waits, small granted, small2 granted");
	node(2)->drained = false;
	psid_plan_unwant(plan, node(0)->id, "small");
	CHECK_STR(decide(), "large waits");
	psid_plan_unwant(plan, node(0)->id, "small2");
	CHECK_STR(decide(), "large granted");
	tear_down();
}

static void grants_that_come_to_nothing_lapse(void)
{
	set_up(false);
	all_are_idle();
	CHECK_INT(want("a", 16, 1, true), ==, 0);
	CHECK_STR(decide(), "a granted");
	CHECK(!psid_plan_is_idle(plan));
	CHECK_INT(want("a", 16, 1, true), ==, 0); /* the answer was lost */
	CHECK_STR(decide(), "a granted");
	CHECK_INT(want("b", 1, 2, true), ==, 0);
	CHECK_STR(decide(), "b waits");
	now += 5 * SEC;
	CHECK_INT(want("b", 1, 2, true), ==, 0);
	now += 6 * SEC;
	all_are_idle();
	CHECK_STR(decide(), "b granted");
	for (unsigned i = 0; i < N_NODES; i++)
		tell(i, i == 0 ? "b" : "", i == 0);
	CHECK(psid_plan_is_idle(plan));
	/* It runs: who asks once more gets nothing. */
	CHECK_INT(want("b", 1, 2, true), ==, 0);
	CHECK_STR(decide(), "");
	CHECK_INT(plan->n_tickets, ==, 0);
	tear_down();
}

static void who_is_gone_wants_nothing(void)
{
	set_up(false);
	CHECK_INT(want("a", 1, 1, true), ==, 0);
	psid_plan_forget(plan, node(0)->id);
	CHECK_INT(plan->n_tickets, ==, 0);
	CHECK_INT(want("a", 1, 1, true), ==, 0);
	now += 7 * SEC; /* not asked for again */
	all_are_idle();
	CHECK_STR(decide(), "");
	CHECK_INT(plan->n_tickets, ==, 0);
	tear_down();
}

static void nonsense_is_refused(void)
{
	Pulc__Wire__Submit submit = PULC__WIRE__SUBMIT__INIT;
	Pulc__Peer__Want message = PULC__PEER__WANT__INIT;
	static char name[200];

	set_up(false);
	memset(name, 'x', sizeof(name) - 1);
	CHECK_INT(psid_plan_want(plan, 1, &message, now), ==, -EBADMSG);
	message.submit = &submit;
	submit.n_tasks = 1;
	CHECK_INT(psid_plan_want(plan, 1, &message, now), ==, -EBADMSG); /* no name */
	message.job = name;
	CHECK_INT(psid_plan_want(plan, 1, &message, now), ==, -EBADMSG);
	message.job = (char *)"a";
	submit.n_tasks = 0;
	CHECK_INT(psid_plan_want(plan, 1, &message, now), ==, -EBADMSG);
	submit.n_tasks = 65537;
	CHECK_INT(psid_plan_want(plan, 1, &message, now), ==, -EBADMSG);
	submit.n_tasks = 1;
	submit.cpus_per_task = 5000;
	CHECK_INT(psid_plan_want(plan, 1, &message, now), ==, -EBADMSG);
	submit.cpus_per_task = 0;
	submit.n_hosts = PSID_N_PARTITION_NODES + 1;
	CHECK_INT(psid_plan_want(plan, 1, &message, now), ==, -EBADMSG);
	submit.n_hosts = 0;
	for (unsigned i = 0; i < PSID_N_TICKETS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "%u@n", i);
		message.job = name;
		REQUIRE_INT(psid_plan_want(plan, 1, &message, now), ==, 0);
	}
	message.job = (char *)"one-more";
	CHECK_INT(psid_plan_want(plan, 1, &message, now), ==, -ENOSPC);
	tear_down();
}

/* ---- limits for each user -------------------------------------------------------------------- */

static void a_user_has_so_many_cores(void)
{
	set_up(false);
	limits()->max_cores = 6;
	all_are_idle();
	CHECK_INT(want_of(7, "large", 7, 1, true), ==, 0);
	CHECK_STR(decide(), "large refused");
	CHECK_STR(said.why,
		  "limit cores=6 of partition night for each user: 7 are asked for (ask for less)");
	CHECK_INT(want_of(7, "a", 4, 1, true), ==, 0);
	CHECK_INT(want_of(7, "b", 4, 2, true), ==, 0);
	CHECK_INT(want_of(7, "c", 2, 3, true), ==, 0);
	CHECK_INT(want_of(8, "other", 6, 4, true), ==, 0);
	/* Who waits for himself is in nobody's way, his own jobs' neither. */
	CHECK_STR(decide(), "a granted, b waits, c granted, other granted");
	psid_plan_unwant(plan, node(0)->id, "b");
	CHECK_INT(want_of(7, "now", 1, 5, false), ==, 0);
	CHECK_STR(decide(), "now refused");
	CHECK_STR(said.why, "limit cores=6 of partition night for each user: 6 are in use (--wait "
			    "waits for that)");
	/* What runs counts as what was granted did, and other partitions' jobs don't. */
	CHECK_INT(want_of(7, "d", 4, 6, true), ==, 0);
	psid_plan_unwant(plan, node(0)->id, "a");
	psid_plan_unwant(plan, node(0)->id, "c");
	psid_plan_unwant(plan, node(0)->id, "other");
	tell_of(7, "night", 0, "a", 4);
	tell_of(7, "day", 1, "elsewhere", 2);
	tell_of(7, "night", 2, "c", 2);
	tell_of(8, "night", 3, "other", 4);
	CHECK_STR(decide(), "d waits");
	CHECK_STR(said.why, "limit cores=6 of partition night for each user: 6 are in use");
	tell(0, "", 0);
	CHECK_STR(decide(), "d granted");
	tear_down();
}

static void a_user_has_so_many_jobs(void)
{
	set_up(false);
	limits()->max_jobs = 2;
	all_are_idle();
	tell_of(7, "night", 0, "a", 1); /* one job on two nodes */
	tell_of(7, "night", 1, "a", 1);
	CHECK_INT(want_of(7, "b", 1, 1, true), ==, 0);
	CHECK_INT(want_of(7, "c", 1, 2, true), ==, 0);
	CHECK_INT(want_of(8, "d", 1, 3, true), ==, 0);
	CHECK_STR(decide(), "b granted, c waits, d granted");
	CHECK_INT(want_of(7, "e", 1, 4, false), ==, 0);
	CHECK_STR(decide(), "e refused");
	CHECK_STR(said.why,
		  "limit jobs=2 of partition night for each user: 2 run (--wait waits for that)");
	tell(0, "", 0);
	tell(1, "", 0);
	CHECK_STR(decide(), "c granted");
	tear_down();
}

static void a_user_has_so_many_nodes(void)
{
	set_up(false);
	limits()->max_nodes = 2;
	all_are_idle();
	CHECK_INT(want_of(7, "large", 9, 1, true), ==, 0);
	CHECK_STR(decide(), "large refused");
	CHECK_STR(said.why,
		  "limit nodes=2 of partition night for each user: so many have room for 8"
		  " tasks of this kind (ask for less)");
	/* Least loaded would be one task on each. */
	CHECK_INT(want_of(7, "a", 4, 1, true), ==, 0);
	CHECK_STR(decide(), "a granted");
	CHECK_INT(said.n_nodes, ==, 2);
	CHECK_INT(want_of(7, "b", 5, 2, true), ==, 0);
	CHECK_STR(decide(), "b waits");
	CHECK_STR(said.why,
		  "limit nodes=2 of partition night for each user: 2 are in use, and there "
		  "is room for 4 of 5 tasks now");
	CHECK_INT(want_of(7, "c", 4, 3, true), ==, 0);
	CHECK_INT(want_of(8, "d", 1, 4, true), ==, 0);
	CHECK_STR(decide(), "c granted, d granted");
	tear_down();
}

static void a_user_has_so_many_that_wait(void)
{
	set_up(false);
	limits()->max_queued = 1;
	all_are_idle();
	tell(0, "stranger", 4);
	CHECK_INT(want_of(7, "a", 16, 1, true), ==, 0);
	CHECK_INT(want_of(7, "b", 16, 2, true), ==, 0);
	CHECK_INT(want_of(8, "c", 16, 3, true), ==, 0);
	CHECK_STR(decide(), "a waits, b refused, c waits");
	CHECK_INT(want_of(7, "d", 16, 4, true), ==, 0);
	CHECK_STR(decide(), "d refused");
	CHECK_STR(said.why,
		  "limit queued=1 of partition night for each user: 1 wait (try again when"
		  " one has begun)");
	CHECK_INT(want_of(7, "fits", 1, 5, true), ==, 0); /* it would not have to wait */
	CHECK_STR(decide(), "fits granted");
	tear_down();
}

/* A node that decides since a moment ago does not know what users have on those that have not
 * told. */
static void nobody_gets_anything_before_all_have_told(void)
{
	set_up(false);
	limits()->max_cores = 2;
	CHECK_INT(want_of(7, "a", 1, 1, true), ==, 0);
	tell(0, "", 0);
	tell(1, "", 0);
	tell(2, "", 0);
	CHECK_STR(decide(), "");
	tell_of(7, "night", 3, "old", 2);
	CHECK_STR(decide(), "a waits");
	/* But the dead need not tell. */
	psid_members_set_state(&cluster.gossip.swim.members, node(3), PSID_NODE_DEAD);
	psid_plan_forget(plan, node(3)->id);
	CHECK_STR(decide(), "a granted");
	tear_down();
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* Node i has so many processors reserved, of which a job in the reservation has some. */
static void tell_reserved(unsigned i, uint32_t n_reserved, uint32_t n_used)
{
	Pulc__Peer__Use use = PULC__PEER__USE__INIT;
	Pulc__Peer__UsedBy by[3], *list[] = { &by[0], &by[1], &by[2] };
	static const char *const jobs[] = { "1@n0", "5@n0", "6@n1" };

	for (size_t k = 0; k < ARRAY_SIZE(by); k++) {
		pulc__peer__used_by__init(&by[k]);
		by[k].job = (char *)jobs[k];
	}
	by[0].n_cpus = n_reserved;
	by[1].n_cpus = n_used;
	by[1].reservation = (char *)"1@n0";
	by[2].n_cpus = 1; /* a stranger */
	use.jobs = list;
	use.n_jobs = ARRAY_SIZE(by);
	CHECK_INT(psid_plan_told(plan, node(i)->id, &use, now), ==, 0);
}

static void a_reservation_has_what_it_holds(void)
{
	set_up(false);
	plan = psid_plan_free(plan);
	plan = psid_plan_new("1@n0");
	REQUIRE(plan != NULL);
	CHECK_INT(want("early", 3, 1, false), ==, 0);
	tell_reserved(0, 2, 0);
	CHECK_STR(decide(), ""); /* what the others hold is not known */
	tell_reserved(1, 1, 0);
	tell(2, "", 0);
	tell(3, "", 0);
	CHECK_STR(decide(), "early granted");
	psid_plan_unwant(plan, node(0)->id, "early");
	CHECK_INT(want("large", 4, 2, true), ==, 0);
	CHECK_STR(decide(), "large refused");
	CHECK_STR(said.why, "the reservation has room for 3 tasks of this kind");
	tell_reserved(0, 2, 1);
	CHECK_INT(want("three", 3, 3, true), ==, 0);
	CHECK_INT(want("two", 2, 4, true), ==, 0);
	CHECK_STR(decide(), "three waits, two granted");
	CHECK_STR(said.why, "");
	/* Drained nodes are used, for they are reserved; dead ones have taken their part with
	 * them. */
	psid_plan_unwant(plan, node(0)->id, "two");
	node(1)->drained = true;
	tell_reserved(0, 2, 0);
	CHECK_STR(decide(), "three granted");
	psid_plan_unwant(plan, node(0)->id, "three");
	psid_members_set_state(&cluster.gossip.swim.members, node(1), PSID_NODE_DEAD);
	psid_plan_forget(plan, node(1)->id);
	CHECK_INT(want("again", 3, 5, true), ==, 0);
	CHECK_STR(decide(), "again refused");
	CHECK_STR(said.why, "the reservation has room for 2 tasks of this kind");
	tear_down();
}

/* To all others a job in a reservation uses nothing: the reservation does. */
static void what_is_in_a_reservation_counts_once(void)
{
	set_up(false);
	all_are_idle();
	tell_reserved(0, 3, 3);
	tell_reserved(1, 3, 3);
	tell_reserved(2, 3, 3);
	CHECK_INT(want("a", 5, 1, true), ==, 0);
	CHECK_STR(decide(), "a waits");
	CHECK_INT(want("b", 4, 2, true), ==, 0);
	CHECK_STR(decide(), "b granted"); /* all of n3 */
	tear_down();
}

static const struct test tests[] = {
	TEST(first_come_first_served),
	TEST(the_small_pass_and_not_for_ever),
	TEST(an_exclusive_node_is_taken_as_a_whole),
	TEST(what_never_fits_is_refused),
	TEST(the_silent_are_not_used),
	TEST(the_dead_and_drained_hold_nobody_up),
	TEST(grants_that_come_to_nothing_lapse),
	TEST(who_is_gone_wants_nothing),
	TEST(nonsense_is_refused),
	TEST(a_user_has_so_many_cores),
	TEST(a_user_has_so_many_jobs),
	TEST(a_user_has_so_many_nodes),
	TEST(a_user_has_so_many_that_wait),
	TEST(nobody_gets_anything_before_all_have_told),
	TEST(a_reservation_has_what_it_holds),
	TEST(what_is_in_a_reservation_counts_once),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
