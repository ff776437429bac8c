/*
 * The end of a link over a HAL that promises nothing: close() sends what is left, as far as the
 * peer has room, and a peer that has taken nothing for long still gets all that had come.
 */
#include <errno.h>

#include "harness.h"
#include "repair_bed.h"

#define N_STEPS 1000u
#define N_SLOTS 16u
#define LEN 500u

static void steps(struct bed *b)
{
	for (unsigned i = 0; i < N_STEPS; i++)
		bed_step(b);
}

/* The other end has read nothing: its window is full of what it has, and so is ours of what is
 * still to be sent. */
static void a_peer_without_room_loses_nothing(void)
{
	const struct hal_repair_config config = { .n_slots = N_SLOTS };
	uint64_t n_sent = 0, n_came = 0;
	struct hal_frame f;
	struct bed b;
	int e;

	bed_init(&b, &bed_usual, &config);
	for (unsigned i = 0; i < 4; i++) {
		while (bed_send(b.link[0], n_sent, LEN) == 0)
			n_sent++;
		steps(&b);
	}
	CHECK_INT(n_sent, ==, 2 * N_SLOTS);
	b.link[0]->ops->close(b.link[0]);
	b.link[0] = NULL;
	while ((e = b.link[1]->ops->next(b.link[1], &f)) == 1 || n_came < N_SLOTS) {
		REQUIRE_INT(e, ==, 1);
		bed_expect(b.link[1], n_came++, LEN);
		b.fake.nsec_now += MSEC;
		CHECK_INT(b.link[1]->ops->progress(b.link[1]), ==, 0);
	}
	CHECK_INT(n_came, ==, N_SLOTS);
	CHECK(e == 0 || e == -EPIPE);
	b.link[1]->ops->close(b.link[1]);
}

/* A peer whose window is smaller than ours. */
static void nor_does_one_with_less(void)
{
	struct hal_repair_config config = { .n_slots = N_SLOTS, .nsec_now = fake_pair_now };
	struct fake_pair fake;
	struct hal_link *link[2];
	struct hal_frame f;

	fake_pair_init(&fake, &bed_usual);
	config.arg = &fake;
	REQUIRE_INT(hal_repair_open(fake.link[0], &config, &link[0]), ==, 0);
	config.n_slots = N_SLOTS / 2;
	REQUIRE_INT(hal_repair_open(fake.link[1], &config, &link[1]), ==, 0);
	for (uint64_t i = 0; i < N_SLOTS; i++)
		REQUIRE_INT(bed_send(link[0], i, LEN), ==, 0);
	link[0]->ops->close(link[0]);
	for (uint64_t i = 0; i < N_SLOTS / 2; i++) {
		fake.nsec_now += MSEC;
		REQUIRE_INT(link[1]->ops->next(link[1], &f), ==, 1);
		bed_expect(link[1], i, LEN);
	}
	link[1]->ops->close(link[1]);
}

static const struct test tests[] = {
	TEST(a_peer_without_room_loses_nothing),
	TEST(nor_does_one_with_less),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
