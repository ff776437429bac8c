/*
 * The parts of PMI-1 that need no task: keys and values, their exchange, the process mapping.
 */
#include <errno.h>
#include <stdlib.h>

#include "harness.h"
#include "kvs.h"
#include "mapping.h"

static void values_are_found(void)
{
	struct kvs *kvs = kvs_new();

	REQUIRE(kvs != NULL);
	CHECK(kvs_get(kvs, "a") == NULL);
	CHECK_INT(kvs_put(kvs, "a", "1"), ==, 0);
	CHECK_INT(kvs_put(kvs, "b", ""), ==, 0);
	CHECK_STR(kvs_get(kvs, "a"), "1");
	CHECK_STR(kvs_get(kvs, "b"), "");
	CHECK_INT(kvs_put(kvs, "a", "2"), ==, 0);
	CHECK_STR(kvs_get(kvs, "a"), "2");
	kvs_free(kvs);
}

static void lengths_are_bounded(void)
{
	struct kvs *kvs = kvs_new();
	char text[KVS_SIZE_VALUE + 1];

	memset(text, 'x', sizeof(text));
	text[KVS_SIZE_VALUE] = '\0';
	CHECK_INT(kvs_put(kvs, "a", text), ==, -EMSGSIZE);
	text[KVS_SIZE_VALUE - 1] = '\0';
	CHECK_INT(kvs_put(kvs, "a", text), ==, 0);
	CHECK_INT(kvs_put(kvs, text, "a"), ==, -EMSGSIZE);
	kvs_free(kvs);
}

static void news_reach_another(void)
{
	struct kvs *a = kvs_new(), *b = kvs_new();
	const void *news;
	size_t len;

	(void)kvs_put(a, "old", "0");
	kvs_flush(a);
	(void)kvs_put(a, "x", "1");
	(void)kvs_put(a, "y", "");
	news = kvs_news(a, &len);
	CHECK_INT(kvs_merge(b, news, len), ==, 0);
	CHECK(kvs_get(b, "old") == NULL);
	CHECK_STR(kvs_get(b, "x"), "1");
	CHECK_STR(kvs_get(b, "y"), "");
	(void)kvs_news(b, &len);
	CHECK_INT(len, ==, 0);
	kvs_free(a);
	kvs_free(b);
}

static void torn_news_are_refused(void)
{
	struct kvs *kvs = kvs_new();

	CHECK_INT(kvs_merge(kvs, "k", 1), ==, -EBADMSG);
	CHECK_INT(kvs_merge(kvs, "k\0", 2), ==, -EBADMSG);
	CHECK_INT(kvs_merge(kvs, "k\0v", 3), ==, -EBADMSG);
	CHECK_INT(kvs_merge(kvs, "k\0v", 4), ==, 0);
	kvs_free(kvs);
}

/* The mapping of a job whose rank i runs on the node that the i-th digit names. */
static const char *mapping_of(const char *nodes)
{
	static char buf[256];
	static uint32_t ranks[10][64];
	Pulc__Job__Place places[10], *pointers[10];
	Pulc__Job__Start start = PULC__JOB__START__INIT;

	for (int i = 0; i < 10; i++) {
		pulc__job__place__init(&places[i]);
		places[i].ranks = ranks[i];
		pointers[i] = &places[i];
	}
	for (uint32_t i = 0; nodes[i]; i++) {
		Pulc__Job__Place *place = &places[nodes[i] - '0'];

		place->ranks[place->n_ranks++] = i;
	}
	start.places = pointers;
	start.n_places = 10;
	return mapping_of_places(&start, buf, sizeof(buf)) == 0 ? buf : "none";
}

static void mappings(void)
{
	CHECK_STR(mapping_of("0"), "(vector,(0,1,1))");
	CHECK_STR(mapping_of("0000"), "(vector,(0,1,4))");
	CHECK_STR(mapping_of("001122"), "(vector,(0,3,2))");
	CHECK_STR(mapping_of("0012"), "(vector,(0,1,2),(1,2,1))");
	CHECK_STR(mapping_of("0123"), "(vector,(0,4,1))");
	CHECK_STR(mapping_of("012012"), "(vector,(0,3,1),(0,3,1))");
	CHECK_STR(mapping_of(""), "none");
}

static const struct test tests[] = {
	TEST(values_are_found),	  TEST(lengths_are_bounded),
	TEST(news_reach_another), TEST(torn_news_are_refused),
	TEST(mappings),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
