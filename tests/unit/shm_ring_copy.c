/*
 * Copying into and out of a ring: every offset of both sides within two lines, lengths around every
 * boundary, and nothing beside it.
 */
#include <string.h>

#include "harness.h"
#include "ring.h"

#define SIZE_ROOM 5000u
#define N_OFFSETS 130u

static unsigned char from[SIZE_ROOM], to[SIZE_ROOM], expected[SIZE_ROOM];

typedef void copier(void *to, const void *from, size_t len);

static void copy(copier *copies, size_t at, size_t from_at, size_t len)
{
	memset(to, 0xee, sizeof(to));
	memset(expected, 0xee, sizeof(expected));
	memcpy(expected + at, from + from_at, len);
	copies(to + at, from + from_at, len);
	CHECK(memcmp(to, expected, sizeof(to)) == 0);
}

static void all_places_and_lengths(copier *copies)
{
	static const size_t lengths[] = { 0,   1,   15,	 16,   63,   64,   65,
					  100, 127, 128, 2047, 2048, 2049, 4096 };

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 7 + (i >> 8));
	for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
		for (size_t at = 0; at < N_OFFSETS; at++) {
			copy(copies, at, 0, lengths[l]);
			copy(copies, at, (at * 13) % N_OFFSETS, lengths[l]);
		}
}

static void past(void)
{
	all_places_and_lengths(ring_copy_past);
}

static void copy_near(void *t, const void *f, size_t len)
{
	ring_copy_ahead(t, f, len, false);
}

static void copy_behind(void *t, const void *f, size_t len)
{
	ring_copy_ahead(t, f, len, true);
}

static void ahead(void)
{
	all_places_and_lengths(copy_near);
}

static void ahead_in_a_backlog(void)
{
	all_places_and_lengths(copy_behind);
}

static const struct test tests[] = {
	TEST(past),
	TEST(ahead),
	TEST(ahead_in_a_backlog),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
