/*
 * Long copies, each way: every offset of both sides within two lines, lengths around every
 * boundary, and nothing beside it, be it that there is no memory.
 */
#include <string.h>
#include <sys/mman.h>

#include "copy.h"
#include "harness.h"

#define SIZE_ROOM 5000u
#define N_OFFSETS 130u
#define SIZE_PAGE 4096u

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

/* A page, and none before it and behind it. */
static unsigned char *lone_page(void)
{
	unsigned char *pages = mmap(NULL, (size_t)3 * SIZE_PAGE, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(pages != MAP_FAILED);
	REQUIRE_INT(mprotect(pages + SIZE_PAGE, SIZE_PAGE, PROT_READ | PROT_WRITE), ==, 0);
	return pages + SIZE_PAGE;
}

static void all_of_a_page(copier *copies)
{
	unsigned char *source = lone_page(), *target = lone_page();

	for (size_t i = 0; i < SIZE_PAGE; i++)
		source[i] = (unsigned char)(i * 11 + (i >> 8));
	for (size_t len = SIZE_PAGE - N_OFFSETS; len <= SIZE_PAGE; len++) {
		copies(target, source + SIZE_PAGE - len, len);
		CHECK(memcmp(target, source + SIZE_PAGE - len, len) == 0);
		memset(target, 0, SIZE_PAGE);
		copies(target + SIZE_PAGE - len, source, len);
		CHECK(memcmp(target + SIZE_PAGE - len, source, len) == 0);
	}
	REQUIRE_INT(munmap(source - SIZE_PAGE, (size_t)3 * SIZE_PAGE), ==, 0);
	REQUIRE_INT(munmap(target - SIZE_PAGE, (size_t)3 * SIZE_PAGE), ==, 0);
}

static void at_the_ends_of_memory(void)
{
	all_of_a_page(copy_bytes);
	all_of_a_page(copy_long);
	all_of_a_page(copy_past);
	all_of_a_page(copy_backlog);
}

static void bytes(void)
{
	all_places_and_lengths(copy_bytes);
	copy_bytes(NULL, NULL, 0);
}

static void ordinary(void)
{
	all_places_and_lengths(copy_long);
}

static void past(void)
{
	all_places_and_lengths(copy_past);
}

static void backlog(void)
{
	all_places_and_lengths(copy_backlog);
}

static const struct test tests[] = {
	TEST(bytes), TEST(ordinary), TEST(past), TEST(backlog), TEST(at_the_ends_of_memory),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
