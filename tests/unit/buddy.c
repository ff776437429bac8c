/*
 * libpulc/buddy.c: runs never overlap, begin where they must, and are one again when all are given
 * back; pages are marked one by one.
 */
#include "buddy.h"

#include <stdlib.h>

#include "harness.h"

#define N_PAGES 256u
#define N_STEPS 20000u

static uint8_t owner[N_PAGES]; /* by page; 0: nobody */

static void own(uint32_t page, uint32_t n, uint8_t from, uint8_t to)
{
	for (uint32_t i = page; i < page + n; i++) {
		REQUIRE_INT(owner[i], ==, from);
		owner[i] = to;
	}
}

/* The same steps each time. */
static uint32_t next(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 16;
}

static void runs_do_not_overlap(void)
{
	struct buddy *b = buddy_new(N_PAGES);
	uint32_t pages[40], seed = 1, n;

	REQUIRE(b != NULL);
	for (unsigned i = 0; i < 40; i++)
		pages[i] = BUDDY_NONE;
	for (unsigned i = 0; i < N_STEPS; i++) {
		unsigned k = next(&seed) % 40;

		if (pages[k] != BUDDY_NONE) {
			n = buddy_size(b, pages[k]);
			REQUIRE_INT(n, >, 0);
			own(pages[k], n, (uint8_t)(k + 1), 0);
			buddy_give(b, pages[k]);
			CHECK_INT(buddy_size(b, pages[k]), ==, 0);
			pages[k] = BUDDY_NONE;
			continue;
		}
		n = 1 + next(&seed) % 24;
		pages[k] = buddy_take(b, n);
		if (pages[k] == BUDDY_NONE)
			continue;
		REQUIRE_INT(pages[k] + n, <=, N_PAGES);
		CHECK_INT(buddy_size(b, pages[k]), ==, n);
		own(pages[k], n, 0, (uint8_t)(k + 1));
	}
	for (unsigned i = 0; i < 40; i++)
		if (pages[i] != BUDDY_NONE)
			buddy_give(b, pages[i]);
	CHECK_INT(buddy_take(b, N_PAGES), ==, 0);
	CHECK_INT(buddy_take(b, 1), ==, BUDDY_NONE);
	buddy_free(b);
}

static void what_cannot_be(void)
{
	struct buddy *b = buddy_new(N_PAGES);

	REQUIRE(b != NULL);
	CHECK_INT(buddy_take(b, 0), ==, BUDDY_NONE);
	CHECK_INT(buddy_take(b, N_PAGES + 1), ==, BUDDY_NONE);
	CHECK_INT(buddy_size(b, N_PAGES), ==, 0);
	CHECK_INT(buddy_size(b, 0), ==, 0);
	CHECK_INT(buddy_take(b, 3), ==, 0);
	CHECK_INT(buddy_size(b, 1), ==, 0);
	buddy_free(b);
	buddy_free(NULL);
}

static void pages_are_marked(void)
{
	struct buddy *b = buddy_new(N_PAGES);

	REQUIRE(b != NULL);
	CHECK_INT(buddy_n_bare(b, 0, N_PAGES), ==, N_PAGES);
	buddy_mark(b, 60, 10, true);
	CHECK_INT(buddy_n_bare(b, 0, N_PAGES), ==, N_PAGES - 10);
	CHECK_INT(buddy_n_bare(b, 59, 12), ==, 2);
	buddy_mark(b, 64, 1, false);
	CHECK_INT(buddy_n_bare(b, 60, 10), ==, 1);
	buddy_free(b);
}

static const struct test tests[] = {
	TEST(runs_do_not_overlap),
	TEST(what_cannot_be),
	TEST(pages_are_marked),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
