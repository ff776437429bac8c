/*
 * Offers of long messages to two peers whose links are full: progress comes to an end, again and
 * again, and each leaves in its turn as soon as there is room for it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fake_hal.h"
#include "harness.h"
#include "tag.h"

#define N_PEERS 2u
#define N_SENDS 3u
#define SIZE_LONG (TAG_EAGER_MAX + 1u)
/* Progress that has no end. */
#define SEC_PATIENCE 20

static unsigned char bytes[SIZE_LONG];
static struct fake_pair pairs[N_PEERS];
static struct peer *peers[N_PEERS];
static struct tag_send sends[N_PEERS][N_SENDS];

static void begin(void)
{
	const struct fake_config config = { .flags = HAL_ORDERED | HAL_RELIABLE,
					    .frame_max = 65536,
					    .n_queue = 1 };

	for (unsigned i = 0; i < N_PEERS; i++) {
		fake_pair_init(&pairs[i], &config);
		peers[i] = peer_new(pairs[i].link[0], 1 + i);
		REQUIRE(peers[i] != NULL);
		for (unsigned k = 0; k < N_SENDS; k++) {
			tag_send_init(&sends[i][k], k, bytes, sizeof(bytes));
			sends[i][k].peer = peers[i];
			REQUIRE_INT(tag_send_begin(&sends[i][k]), ==, 0);
		}
	}
}

static void end(void)
{
	for (unsigned i = 0; i < N_PEERS; i++) {
		tag_protocol.gone(peers[i], PROTOCOL_TAG);
		peer_unref(peers[i]);
		fake_pair_deinit(&pairs[i]);
	}
}

static void expect_offer(unsigned i, uint64_t tag)
{
	struct hal_link *link = pairs[i].link[1];
	struct hal_frame f = { 0 };

	REQUIRE_INT(link->ops->next(link, &f), ==, 1);
	CHECK_INT(f.kind, ==, TAG_OFFER);
	CHECK_INT(f.word, ==, tag);
	link->ops->drop(link);
}

static void offers_wait_for_room_in_order(void)
{
	begin();
	(void)alarm(SEC_PATIENCE);
	for (unsigned k = 0; k < N_SENDS; k++) {
		for (unsigned n = 0; n < 3; n++)
			tag_move_on();
		CHECK(tag_any_to_move() == (k < N_SENDS - 1));
		for (unsigned i = 0; i < N_PEERS; i++)
			expect_offer(i, k);
	}
	(void)alarm(0);
	end();
}

static const struct test tests[] = {
	TEST(offers_wait_for_room_in_order),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
