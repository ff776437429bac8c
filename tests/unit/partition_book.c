/* The book of partitions: which version counts, what is refused, who may what, and the file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "book.h"
#include "book_file.h"
#include "harness.h"
#include "macros.h"
#include "node.h"

/* A record with what it points to. */
struct sample {
	Pulc__Peer__PartitionRecord record;
	Pulc__Wire__Partition partition;
	char *nodes[4];
	uint32_t users[4];
};

/* Of user 1000, with these nodes, each a letter of the text: "ab" is of the nodes a and b. */
static Pulc__Peer__PartitionRecord *sample(struct sample *s, const char *name, const char *nodes,
					   uint64_t counter, uint64_t node)
{
	static char names[26][2];

	*s = (struct sample){ .record = PULC__PEER__PARTITION_RECORD__INIT,
			      .partition = PULC__WIRE__PARTITION__INIT };
	s->record.partition = &s->partition;
	s->record.counter = counter;
	s->record.node = node;
	s->record.deleted = nodes[0] == '\0';
	s->partition.name = (char *)name;
	s->partition.owner = 1000;
	s->partition.nodes = s->nodes;
	s->partition.users = s->users;
	for (; *nodes; nodes++) {
		names[*nodes - 'a'][0] = *nodes;
		s->nodes[s->partition.n_nodes++] = names[*nodes - 'a'];
	}
	return &s->record;
}

static int take(struct psid_book *book, const char *name, const char *nodes, uint64_t counter,
		uint64_t node)
{
	struct sample s;

	return psid_book_take(book, sample(&s, name, nodes, counter, node));
}

static void the_newer_version_counts(void)
{
	struct psid_book book = { 0 };

	CHECK_INT(psid_book_digest(&book), ==, 0);
	CHECK_INT(psid_book_counter(&book, "night"), ==, 1);
	CHECK_INT(take(&book, "night", "a", 1, 5), ==, 1);
	CHECK_INT(take(&book, "night", "a", 1, 5), ==, 0);
	CHECK_INT(take(&book, "night", "b", 1, 4), ==, 0);
	CHECK_INT(take(&book, "night", "bc", 1, 6), ==, 1);
	CHECK_INT(psid_book_find(&book, "night")->n_nodes, ==, 2);
	CHECK_INT(take(&book, "night", "", 2, 1), ==, 1);
	CHECK(psid_book_find(&book, "night") == NULL);
	CHECK_INT(psid_book_counter(&book, "night"), ==, 3);
	CHECK_INT(take(&book, "night", "a", 1, 9), ==, 0); /* does not come back */
	CHECK_INT(take(&book, "night", "a", 3, 1), ==, 1);
	CHECK(psid_book_find(&book, "night") != NULL);
	CHECK(psid_book_find(&book, "nigh") == NULL);
	CHECK(psid_book_find(&book, "") == NULL);
	psid_book_deinit(&book);
}

/* Whatever order versions come in, copies and old ones among them. */
static void the_order_does_not_matter(void)
{
	static const char *const names[] = { "day", "night", "x" }, *const nodes[] = { "a", "bc",
										       "" };
	struct psid_book first = { 0 };

	for (unsigned round = 0; round < 200; round++) {
		struct psid_book book = { 0 };
		unsigned order[27];

		srand(round + 1);
		for (unsigned i = 0; i < 27; i++) {
			unsigned j = (unsigned)rand() % (i + 1);

			order[i] = order[j];
			order[j] = i;
		}
		for (unsigned i = 0; i < 54; i++) {
			unsigned n = order[i % 27];

			REQUIRE_INT(take(&book, names[n % 3], nodes[(n + n / 9) % 3], 1 + n / 3 % 3,
					 1 + n / 9),
				    >=, 0);
		}
		CHECK_INT(book.n, ==, 3);
		if (round == 0)
			first = book;
		CHECK_INT(psid_book_digest(&book), ==, psid_book_digest(&first));
		for (unsigned i = 0; i < 3; i++)
			CHECK_INT(book.items[i]->n_nodes, ==, first.items[i]->n_nodes);
		if (round > 0)
			psid_book_deinit(&book);
	}
	CHECK_INT(take(&first, "x", "a", 9, 1), ==, 1);
	psid_book_deinit(&first);
}

static void nonsense_is_refused(void)
{
	static char *many[PSID_N_PARTITION_NODES + 1];
	static uint32_t users[PSID_N_PARTITION_USERS + 1];
	struct psid_book book = { 0 };
	char longest[PSID_SIZE_NAME];
	struct sample s;

	memset(longest, 'n', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	CHECK_INT(take(&book, "", "a", 1, 1), ==, -EBADMSG);
	CHECK_INT(take(&book, "../x", "a", 1, 1), ==, -EBADMSG);
	CHECK_INT(take(&book, "a b", "a", 1, 1), ==, -EBADMSG);
	CHECK_INT(take(&book, "x", "a", 0, 1), ==, -EBADMSG);
	CHECK_INT(take(&book, "x", "a", UINT64_MAX, 1), ==, -EBADMSG);
	(void)sample(&s, "x", "a", 1, 1);
	s.record.partition = NULL;
	CHECK_INT(psid_book_take(&book, &s.record), ==, -EBADMSG);
	(void)sample(&s, "x", "a", 1, 1);
	s.record.by = 1001; /* not the owner's, and not root's */
	CHECK_INT(psid_book_take(&book, &s.record), ==, -EBADMSG);
	(void)sample(&s, "x", "a", 1, 1);
	s.record.deleted = true;
	CHECK_INT(psid_book_take(&book, &s.record), ==, -EBADMSG);
	(void)sample(&s, "x", "a", 1, 1);
	s.nodes[0] = (char *)"a\nb";
	CHECK_INT(psid_book_take(&book, &s.record), ==, -EBADMSG);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (char *)"n";
	(void)sample(&s, "x", "", 1, 1);
	s.record.deleted = false;
	s.partition.nodes = many;
	s.partition.n_nodes = ARRAY_SIZE(many);
	CHECK_INT(psid_book_take(&book, &s.record), ==, -EBADMSG);
	s.partition.n_nodes--;
	CHECK_INT(psid_book_take(&book, &s.record), ==, 1);
	s.record.counter++;
	for (size_t i = 0; i < 200; i++)
		many[i] = longest; /* more bytes than go into one message */
	CHECK_INT(psid_book_take(&book, &s.record), ==, -EBADMSG);
	(void)sample(&s, "x", "a", 9, 1);
	s.partition.users = users;
	s.partition.n_users = ARRAY_SIZE(users);
	CHECK_INT(psid_book_take(&book, &s.record), ==, -EBADMSG);
	CHECK_INT(book.n, ==, 1);
	psid_book_deinit(&book);
}

static void a_full_book_forgets_the_deleted(void)
{
	struct psid_book book = { 0 };
	struct sample s;
	char name[16];

	for (unsigned i = 0; i < PSID_N_PARTITIONS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "p%u", i);
		(void)sample(&s, name, i == 7 || i == 9 ? "" : "a", 1, 1);
		s.record.made_msec = 100 - i;
		REQUIRE_INT(psid_book_take(&book, &s.record), ==, 1);
	}
	CHECK_INT(take(&book, "q1", "a", 1, 1), ==, 1); /* in the place of p9 */
	CHECK_INT(psid_book_counter(&book, "p9"), ==, 1);
	CHECK_INT(psid_book_counter(&book, "p7"), ==, 2);
	CHECK_INT(take(&book, "q2", "a", 1, 1), ==, 1);
	CHECK_INT(take(&book, "q3", "a", 1, 1), ==, -ENOSPC);
	CHECK_INT(take(&book, "p3", "b", 2, 1), ==, 1); /* there already */
	CHECK_INT(book.n, ==, PSID_N_PARTITIONS_MAX);
	psid_book_deinit(&book);
}

static void who_may_what(void)
{
	uint64_t a = psid_node_id("a"), b = psid_node_id("b"), c = psid_node_id("c");
	struct psid_book book = { 0 };
	struct sample s;

	(void)sample(&s, "shared", "ac", 1, 1);
	REQUIRE_INT(psid_book_take(&book, &s.record), ==, 1);
	(void)sample(&s, "night", "b", 1, 1);
	s.partition.exclusive = true;
	s.partition.n_users = 1;
	s.users[0] = 2000;
	REQUIRE_INT(psid_book_take(&book, &s.record), ==, 1);
	CHECK(psid_book_holder(&book, a) == NULL);
	CHECK(psid_book_holder(&book, b) == psid_book_find(&book, "night"));
	CHECK(psid_partition_allows(psid_book_find(&book, "shared"), 77));
	CHECK(psid_book_objection(&book, a, "", 77) == NULL);
	CHECK(psid_book_objection(&book, c, "shared", 77) == NULL);
	CHECK(psid_book_objection(&book, b, "shared", 77) != NULL);
	CHECK(psid_book_objection(&book, b, "", 0) != NULL);
	CHECK(psid_book_objection(&book, b, "night", 77) != NULL);
	CHECK(psid_book_objection(&book, b, "night", 2000) == NULL);
	CHECK(psid_book_objection(&book, b, "night", 1000) == NULL);
	CHECK(psid_book_objection(&book, b, "night", 0) == NULL);
	CHECK(psid_book_objection(&book, a, "night", 2000) != NULL);
	/* One that is not known: as good as none. */
	CHECK(psid_book_objection(&book, a, "new", 77) == NULL);
	CHECK(psid_book_objection(&book, b, "new", 77) != NULL);
	psid_book_deinit(&book);
}

static void what_is_changed_and_what_stays(void)
{
	struct sample old, new;
	Pulc__Wire__Partition *p;

	(void)sample(&old, "night", "ab", 1, 1);
	old.users[old.partition.n_users++] = 77;
	old.partition.exclusive = true;
	old.partition.max_cores = 8;
	old.partition.max_sec = 60;
	(void)sample(&new, "night", "c", 1, 1);
	new.partition.owner = 5;
	p = psid_partition_change(&old.partition, &new.partition,
				  PULC__WIRE__PARTITION_PART__PART_NODES |
					  PULC__WIRE__PARTITION_PART__PART_CORES);
	REQUIRE(p != NULL);
	CHECK_STR(p->name, "night");
	CHECK_INT(p->n_nodes, ==, 1);
	CHECK_STR(p->nodes[0], "c");
	CHECK_INT(p->n_users, ==, 1);
	CHECK_INT(p->owner, ==, 1000);
	CHECK(p->exclusive);
	CHECK_INT(p->max_cores, ==, 0);
	CHECK_INT(p->max_sec, ==, 60);
	pulc__wire__partition__free_unpacked(p, NULL);
	p = psid_partition_change(&old.partition, &new.partition, 1023 & ~1u);
	REQUIRE(p != NULL);
	CHECK_INT(p->n_nodes, ==, 2);
	CHECK_INT(p->n_users, ==, 0);
	CHECK_INT(p->owner, ==, 5);
	CHECK(!p->exclusive);
	CHECK_INT(p->max_sec, ==, 0);
	pulc__wire__partition__free_unpacked(p, NULL);
}

static void one_is_for_jobs_that_name_none(void)
{
	struct psid_book book = { 0 };
	struct sample s;

	CHECK(psid_book_default(&book) == NULL);
	REQUIRE_INT(take(&book, "a", "a", 1, 1), ==, 1);
	(void)sample(&s, "c", "b", 1, 1);
	s.partition.is_default = true;
	REQUIRE_INT(psid_book_take(&book, &s.record), ==, 1);
	CHECK_STR(psid_book_default(&book)->record->partition->name, "c");
	s.partition.name = (char *)"b"; /* made elsewhere at the same time */
	REQUIRE_INT(psid_book_take(&book, &s.record), ==, 1);
	CHECK_STR(psid_book_default(&book)->record->partition->name, "b");
	REQUIRE_INT(take(&book, "b", "", 2, 1), ==, 1);
	CHECK_STR(psid_book_default(&book)->record->partition->name, "c");
	psid_book_deinit(&book);
}

static void a_file_keeps_it(void)
{
	struct psid_book book = { 0 }, again = { 0 };
	uint8_t *bytes = NULL;
	char dir[64], path[96];
	size_t len = 0;

	(void)snprintf(dir, sizeof(dir), "/tmp/pulc-book-test.XXXXXX");
	REQUIRE(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/state/partitions", dir);
	CHECK_INT(psid_book_read(&again, path), ==, -ENOENT);
	REQUIRE_INT(take(&book, "night", "ab", 3, 1), ==, 1);
	REQUIRE_INT(take(&book, "gone", "", 2, 1), ==, 1);
	REQUIRE_INT(psid_book_pack(&book, &bytes, &len), ==, 0);
	REQUIRE_INT(psid_book_write(path, bytes, len), ==, 0);
	CHECK_INT(psid_book_read(&again, path), ==, 0);
	CHECK_INT(psid_book_digest(&again), ==, psid_book_digest(&book));
	CHECK_INT(psid_book_write(path, bytes, len), ==, 0);
	/* Each byte of it counts, and so does its length. */
	for (size_t i = 0; i < len; i++) {
		struct psid_book none = { 0 };

		bytes[i] ^= 0x20;
		CHECK_INT(psid_book_unpack(&none, bytes, len), ==, -EBADMSG);
		bytes[i] ^= 0x20;
		CHECK_INT(psid_book_unpack(&none, bytes, i), ==, -EBADMSG);
		CHECK_INT(none.n, ==, 0);
		psid_book_deinit(&none);
	}
	free(bytes);
	psid_book_deinit(&book);
	psid_book_deinit(&again);
	CHECK_INT(unlink(path), ==, 0);
	(void)snprintf(path, sizeof(path), "%s/state", dir);
	CHECK_INT(rmdir(path), ==, 0);
	CHECK_INT(rmdir(dir), ==, 0);
}

static const struct test tests[] = {
	TEST(the_newer_version_counts),
	TEST(the_order_does_not_matter),
	TEST(nonsense_is_refused),
	TEST(a_full_book_forgets_the_deleted),
	TEST(who_may_what),
	TEST(what_is_changed_and_what_stays),
	TEST(one_is_for_jobs_that_name_none),
	TEST(a_file_keeps_it),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
