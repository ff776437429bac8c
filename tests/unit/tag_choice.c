/*
 * The choice between asking for the bytes of long messages and fetching them
 * (protocols/tag_pull.c), in a time of the test's own: each way takes so long for a byte as the
 * test says, and what is chosen in the end is to be the one that takes less.
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "harness.h"
#include "macros.h"
#include "tag.h"

/* Real time goes on meanwhile, and is nothing beside these, be it that another program has the
 * processor for seconds. */
#define NSEC_FAST (1000 * NSEC_PER_SEC)
#define NSEC_SLOW (2 * NSEC_FAST)
#define N_UNDER_WAY_MAX 8u
#define MIB (1ull << 20)

static struct tag_peer tags;
static struct peer peer;
static struct tag_receive receive;
static uint64_t nsec_per_mib[2]; /* by way */

static void begin(uint64_t nsec_push, uint64_t nsec_pull)
{
	memset(&tags, 0, sizeof(tags));
	peer = (struct peer){ .pid = 1, .tags = &tags };
	tags.peer = &peer;
	nsec_per_mib[TAG_WAY_PUSH] = nsec_push;
	nsec_per_mib[TAG_WAY_PULL] = nsec_pull;
}

static struct tag_message offer(uint64_t size)
{
	return (struct tag_message){
		.peer = &peer, .size = size, .place.address = 1, .receive = &receive
	};
}

static void arrive(struct tag_message *m, enum tag_way way)
{
	receive.done = m->size;
	m->nsec_begun = nsec_now() - m->size / 1024 * (nsec_per_mib[way] / 1024);
	tags.rates[way].nsec_last = 0;
	tag_rate(m, way);
}

/* So many bytes in messages of this size, n of them always under way. Returns the bytes that were
 * pushed. */
static uint64_t play(uint64_t bytes, uint64_t size, unsigned n)
{
	struct tag_message m[N_UNDER_WAY_MAX];
	enum tag_way ways[N_UNDER_WAY_MAX];
	uint64_t pushed = 0, i;

	for (i = 0; i * size < bytes + n * size; i++) {
		if (i >= n)
			arrive(&m[i % n], ways[i % n]);
		if (i * size >= bytes)
			continue;
		m[i % n] = offer(size);
		ways[i % n] = tag_choose(&m[i % n]);
		if (ways[i % n] == TAG_WAY_PUSH)
			pushed += size;
	}
	return pushed;
}

static const uint64_t sizes[] = { 64 << 10, 1 << 20, 4 << 20, 16 << 20 };

/* Whatever their size, one at a time or several: nine tenths go the faster way. */
static void the_faster_way_is_found(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
		for (unsigned n = 1; n <= N_UNDER_WAY_MAX; n += 7) {
			begin(NSEC_FAST, NSEC_SLOW);
			(void)play(2048 * MIB, sizes[i], n);
			CHECK(play(8192 * MIB, sizes[i], n) > 8192 * MIB / 10 * 9);
			begin(NSEC_SLOW, NSEC_FAST);
			(void)play(2048 * MIB, sizes[i], n);
			CHECK(play(8192 * MIB, sizes[i], n) < 8192 * MIB / 10);
		}
}

/* A ring that grows, memory that nobody has touched yet. */
static void a_slow_beginning_decides_nothing(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		begin(5 * NSEC_FAST, NSEC_SLOW);
		(void)play(MIN(8 * MIB, sizes[i]), sizes[i], 1);
		nsec_per_mib[TAG_WAY_PUSH] = NSEC_FAST;
		(void)play(MAX(48 * MIB, 8 * sizes[i]), sizes[i], 1);
		CHECK_INT(play(256 * MIB, sizes[i], 1) / sizes[i], ==,
			  (256 * MIB + sizes[i] - 1) / sizes[i]);
	}
}

/* The first trial goes badly as a whole: the next one finds it out, whatever was known before. */
static void a_bad_trial_lasts_until_the_next_one(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		begin(20 * NSEC_FAST, NSEC_SLOW);
		(void)play(MAX(64 * MIB, 8 * sizes[i]), sizes[i], 1);
		nsec_per_mib[TAG_WAY_PUSH] = NSEC_FAST;
		(void)play(MAX(640 * MIB, 16 * sizes[i]), sizes[i], 1);
		CHECK_INT(play(256 * MIB, sizes[i], 1) / sizes[i], ==,
			  (256 * MIB + sizes[i] - 1) / sizes[i]);
	}
}

/* What was the faster way is so no more; and a single message that took long changes nothing. */
static void a_change_is_followed(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		begin(NSEC_FAST, NSEC_SLOW);
		(void)play(1024 * MIB, sizes[i], 1);
		nsec_per_mib[TAG_WAY_PUSH] = 50 * NSEC_FAST;
		(void)play(sizes[i], sizes[i], 1);
		nsec_per_mib[TAG_WAY_PUSH] = NSEC_FAST;
		CHECK(play(400 * MIB, sizes[i], 1) >= 300 * MIB);
		nsec_per_mib[TAG_WAY_PUSH] = 4 * NSEC_FAST;
		(void)play(512 * MIB, sizes[i], 1);
		CHECK(play(2048 * MIB, sizes[i], 1) < 2048 * MIB / 5);
	}
}

static const struct test tests[] = {
	TEST(the_faster_way_is_found),
	TEST(a_slow_beginning_decides_nothing),
	TEST(a_bad_trial_lasts_until_the_next_one),
	TEST(a_change_is_followed),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
