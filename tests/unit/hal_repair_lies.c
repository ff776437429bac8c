/* hal/repair*.c and a peer that sends what makes no sense, field by field: -EBADMSG, and nothing
 * else happens. */
#include <endian.h>
#include <string.h>

#include "harness.h"
#include "macros.h"
#include "repair_bed.h"

struct lie {
	uint32_t seq, ack, limit, flags;
	uint64_t sack;
	uint32_t len; /* with the head */
};

/* One packet from a peer that has got three packets of ours, and whose own we have not seen. */
static int tell_lie(const struct fake_config *fake, const struct lie *lie, unsigned n)
{
	unsigned char packet[1024] = { 0 };
	struct hal_frame f = { .word = 0 };
	struct hal_repair_config config = { .n_slots = 16 };
	struct bed b;
	int e = 0;

	bed_init(&b, fake, &config);
	for (unsigned i = 0; i < 3; i++)
		REQUIRE_INT(bed_send(b.link[1], i, 10), ==, 0);
	for (; n > 0; n--, lie++) {
		const uint32_t words[] = { htole32(lie->seq), htole32(lie->ack),
					   htole32(lie->limit), htole32(lie->flags) };
		const uint64_t sack = htole64(lie->sack);

		memcpy(packet, words, sizeof(words));
		memcpy(packet + sizeof(words), &sack, sizeof(sack));
		f.len = lie->len;
		fake_pair_inject(&b.fake, 1, &f, packet);
	}
	(void)b.link[1]->ops->progress(b.link[1]);
	e = b.link[1]->ops->next(b.link[1], &f);
	if (e < 0) {
		CHECK_INT(bed_send(b.link[1], 9, 10), ==, e);
		CHECK(b.link[1]->ops->pending(b.link[1]));
	}
	b.fake.n_violations = 0;
	bed_deinit(&b);
	return e;
}

#define DATA 1u
#define FIRST 2u
#define LAST 4u
#define WHOLE (DATA | FIRST | LAST)

static void lies_are_refused(void)
{
	static const struct lie honest = { 0, 3, 19, WHOLE, 0, 34 };
	static const struct lie lies[] = {
		{ 0, 0, 0, 0, 0, 0 },		     /* no head */
		{ 0, 3, 19, WHOLE, 0, 23 },	     /* half a head */
		{ 0, 3, 19, 0, 0, 34 },		     /* data where none is said to be */
		{ 0, 3, 19, WHOLE | 16, 0, 34 },     /* unknown flags */
		{ 16, 3, 19, WHOLE, 0, 34 },	     /* beyond the window */
		{ 0x7fffffff, 3, 19, WHOLE, 0, 34 }, /* far beyond */
		{ 0xffffffff, 3, 19, WHOLE, 0, 34 }, /* before the first */
		{ 0, 4, 19, WHOLE, 0, 34 },	     /* got what was never sent */
		{ 0, 0xffffffff, 19, WHOLE, 0, 34 }, /* less than nothing */
		{ 0, 3, 2, WHOLE, 0, 34 },	     /* room ends before it begins */
		{ 0, 3, 0x10000, WHOLE, 0, 34 },     /* room for more than any window */
		{ 0, 0, 16, WHOLE, 4, 34 },	     /* a single one that was never sent */
		{ 0, 0, 16, WHOLE, 1ull << 63, 34 }, /* another one */
		{ 0, 3, 19, DATA | LAST, 0, 34 },    /* a frame without beginning */
	};
	static const struct lie twice[][2] = {
		{ { 0, 3, 19, DATA | FIRST, 0, 34 }, { 1, 3, 19, WHOLE, 0, 34 } }, /* without end */
		{ { 0, 0, 16, DATA, 1, 34 }, { 1, 1, 17, DATA, 0, 34 } }, /* had come, hasn't */
	};
	struct fake_config plain = bed_usual;

	CHECK_INT(tell_lie(&bed_usual, &honest, 1), ==, 1);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++)
		CHECK_INT(tell_lie(&bed_usual, &lies[i], 1), ==, -EBADMSG);
	for (size_t i = 0; i < ARRAY_SIZE(twice); i++)
		CHECK_INT(tell_lie(&bed_usual, twice[i], 2), ==, -EBADMSG);
	/* Without numbers there is less to lie about. */
	plain.flags = HAL_ORDERED | HAL_RELIABLE;
	CHECK_INT(tell_lie(&plain, &honest, 1), ==, 1);
	CHECK_INT(tell_lie(&plain, &lies[0], 1), ==, -EBADMSG);
	CHECK_INT(tell_lie(&plain, &lies[1], 1), ==, -EBADMSG);
	CHECK_INT(tell_lie(&plain, &lies[2], 1), ==, -EBADMSG);
	CHECK_INT(tell_lie(&plain, &lies[3], 1), ==, -EBADMSG);
	CHECK_INT(tell_lie(&plain, &lies[13], 1), ==, -EBADMSG);
	CHECK_INT(tell_lie(&plain, twice[0], 2), ==, -EBADMSG);
}

/* Pieces without end fill a window, or the largest frame, and no more. */
static void endless_frames_are_refused(void)
{
	struct fake_config plain = bed_usual;
	struct lie pieces[16];

	for (unsigned i = 0; i < 16; i++)
		pieces[i] = (struct lie){ i, 3, 19, i ? DATA : DATA | FIRST, 0, 24 };
	CHECK_INT(tell_lie(&bed_usual, pieces, 15), ==, 0);
	CHECK_INT(tell_lie(&bed_usual, pieces, 16), ==, -EBADMSG);
	for (unsigned i = 0; i < 16; i++)
		pieces[i].len = 1024;
	CHECK_INT(tell_lie(&bed_usual, pieces, 8), ==, 0);
	CHECK_INT(tell_lie(&bed_usual, pieces, 9), ==, -EBADMSG);
	plain.flags = HAL_ORDERED | HAL_RELIABLE;
	CHECK_INT(tell_lie(&plain, pieces, 9), ==, -EBADMSG);
}

static const struct test tests[] = {
	TEST(lies_are_refused),
	TEST(endless_frames_are_refused),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
