/*
 * The choice between ordinary stores and those past the caches: ordinary ones are tried, left when they are slow, tried again much later; a
 * reader that comes near breaks a measurement off.
 */
#include "harness.h"
#include "pace.h"

#define MIB (1ull << 20)
#define SIZE_PIECE 16384u
#define SIZE_TOO_LITTLE (128ull << 10) /* for a measurement */

/* Writes so much with a reader that is 1 MiB behind. Returns the way of the last piece. */
static bool write_bytes(struct shm_pace *p, uint64_t *head, uint64_t size)
{
	bool ordinary = false;

	for (uint64_t end = *head + size; *head < end; *head += SIZE_PIECE)
		ordinary = shm_pace_is_ordinary(p, *head, *head - MIB);
	return ordinary;
}

static bool write_mib(struct shm_pace *p, uint64_t *head)
{
	return write_bytes(p, head, MIB);
}

static void ordinary_stores_are_tried_and_left(void)
{
	struct shm_pace p = { 0 };
	uint64_t head = 2 * MIB, tries = 0;

	CHECK(write_bytes(&p, &head, SIZE_TOO_LITTLE));
	/* However fast it was: it seems to have been slow. */
	p.psec[0] = 1000000000;
	for (unsigned i = 0; i < 4; i++)
		(void)write_mib(&p, &head);
	CHECK(!write_mib(&p, &head));
	CHECK(p.psec[0] > 0);
	/* So it is past the caches, but for a look now and then. */
	for (unsigned i = 0; i < 600; i++) {
		p.psec[0] = 1000000000;
		p.psec[1] = 1;
		tries += write_mib(&p, &head);
	}
	CHECK_INT(tries, >=, 2);
	CHECK_INT(tries, <=, 20);
}

static void what_is_fast_is_kept(void)
{
	struct shm_pace p = { 0 };
	uint64_t head = 2 * MIB;

	for (unsigned i = 0; i < 100; i++) {
		p.psec[0] = 1;
		p.psec[1] = 1000000000;
		CHECK(write_mib(&p, &head));
	}
}

static void a_reader_that_comes_near_breaks_it_off(void)
{
	struct shm_pace p = { 0 };
	uint64_t head = 2 * MIB;

	for (unsigned i = 0; i < 100; i++) {
		CHECK(write_bytes(&p, &head, SIZE_TOO_LITTLE));
		shm_pace_break(&p);
	}
	CHECK_INT(p.psec[0], ==, 0);
	CHECK_INT(p.psec[1], ==, 0);
	/* The same without a break is measured, and a machine that stood still meanwhile looks slow. */
	p.begun = head - SIZE_TOO_LITTLE;
	p.nsec = 0;
	(void)write_bytes(&p, &head, 2 * SIZE_TOO_LITTLE);
	CHECK_INT(p.psec[0], >, 0);
}

static const struct test tests[] = {
	TEST(ordinary_stores_are_tried_and_left),
	TEST(what_is_fast_is_kept),
	TEST(a_reader_that_comes_near_breaks_it_off),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
