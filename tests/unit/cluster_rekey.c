/* A change of the cluster's key, step by step, while nodes talk; and steps that come too early. */
#include "cluster_bed.h"
#include "rekey.h"

/* 'a' is the key that the nodes have begun with, 'b' the other one. */
static struct psid_keyring ring_of(const char *letters)
{
	struct psid_keyring ring = { .n = strlen(letters) }, one;
	char why[192];

	for (size_t i = 0; i < ring.n; i++) {
		REQUIRE_INT(psid_keyring_read(letters[i] == 'a' ? key_path : other_key_path, "test",
					      &one, why, sizeof(why)),
			    ==, 0);
		ring.keys[i] = one.keys[0];
	}
	return ring;
}

static int check_keys(unsigned i, const char *letters)
{
	const struct psid_keyring ring = ring_of(letters);
	char why[192];

	return psid_rekey_check(nodes[i], &ring, why, sizeof(why));
}

/* As soon as nobody has anything against it. */
static void take_keys(unsigned i, const char *letters)
{
	const struct psid_keyring ring = ring_of(letters);

	RUN_UNTIL(check_keys(i, letters) == 0);
	REQUIRE_INT(psid_rekey(nodes[i], &ring), ==, 0);
}

/* The next message from i to j needs a new one. */
static void end_link(unsigned i, unsigned j)
{
	struct psid_link *link = peer_of(i, j)->link;

	psid_peers_link_broken(link);
	psid_link_end(link, NULL);
	RUN_UNTIL(!peer_of(j, i));
}

static void keys_change_without_a_break(void)
{
	static const char *const steps[] = { "ab", "ba", "b" };
	const struct psid_link *link;
	unsigned n = 0;

	set_up(3);
	REQUIRE_INT(psid_peer_hold(nodes[0], nodes[1]->self->id), ==, 0);
	RUN_UNTIL(psid_peer_is_connected(nodes[0], nodes[1]->self->id));
	link = peer_of(0, 1)->link;
	for (unsigned step = 0; step < ARRAY_SIZE(steps); step++)
		for (unsigned i = 0; i < 3; i++) {
			take_keys(i, steps[step]);
			REQUIRE_INT(say(0, 1, n, "on an old connection"), ==, 0);
			REQUIRE_INT(say(2, 0, n, "on a new one"), ==, 0);
			n++;
			RUN_UNTIL(got[1].n == n && got[0].n == n);
			end_link(2, 0);
		}
	CHECK(peer_of(0, 1)->link == link);
	CHECK_INT(got[0].n_disorder + got[1].n_disorder, ==, 0);
	CHECK_INT(seen[1].n_lost, ==, 0);
	(void)strcpy(configure(3)->key_file, other_key_path);
	start(3);
	RUN_UNTIL(all_know_all(4));
	tear_down();
}

static void keys_that_cut_off_are_refused(void)
{
	set_up(2);
	CHECK_INT(check_keys(0, "ba"), ==, -EBUSY); /* n1 does not have b */
	CHECK_INT(check_keys(0, "b"), ==, -EBUSY);
	take_keys(0, "ab");
	CHECK_INT(check_keys(0, "ba"), ==, -EBUSY);
	take_keys(1, "ab");
	take_keys(1, "ba");
	RUN_UNTIL(check_keys(0, "a") == -EBUSY); /* n1 uses b */
	kill_node(1);
	RUN_UNTIL(psid_members_of(nodes[0])->n_up == 1);
	CHECK_INT(check_keys(0, "a"), ==, 0); /* of the living only */
	tear_down();
}

static const struct test tests[] = {
	TEST(keys_change_without_a_break),
	TEST(keys_that_cut_off_are_refused),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
