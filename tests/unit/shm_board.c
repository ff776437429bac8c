/* shm/board.c: no bit is lost between publishers and an owner that takes, also when a publisher
 * died half-way. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"
#include "harness.h"
#include "macros.h"

static struct shm_board board;

static void bits_come_out_once(void)
{
	uint32_t bit;

	shm_board_clear(&board);
	CHECK(!shm_board_pending(&board));
	CHECK(!shm_board_set(&board, 5));
	CHECK(!shm_board_set(&board, SHM_BOARD_BITS - 1));
	CHECK(!shm_board_set(&board, 5));
	CHECK(shm_board_pending(&board));
	REQUIRE(shm_board_take(&board, &bit));
	CHECK_INT(bit, ==, 5);
	REQUIRE(shm_board_take(&board, &bit));
	CHECK_INT(bit, ==, SHM_BOARD_BITS - 1);
	CHECK(!shm_board_take(&board, &bit));
	CHECK(!shm_board_pending(&board));
}

static void armed_means_ring(void)
{
	shm_board_clear(&board);
	shm_board_arm(&board);
	CHECK(shm_board_set(&board, 1));
	shm_board_disarm(&board);
	CHECK(!shm_board_set(&board, 2));
}

/* A publisher that died between word and summary: the next one of that word repairs it. */
static void half_set_bits_are_repaired(void)
{
	uint32_t bit;

	shm_board_clear(&board);
	board.words[0] = 1ull << 7;
	CHECK(!shm_board_take(&board, &bit));
	CHECK(!shm_board_set(&board, 8));
	REQUIRE(shm_board_take(&board, &bit));
	CHECK_INT(bit, ==, 8);
	REQUIRE(shm_board_take(&board, &bit));
	CHECK_INT(bit, ==, 7);
	CHECK(!shm_board_take(&board, &bit));
	CHECK(!shm_board_pending(&board));
}

static void order_of_setting_is_kept(void)
{
	static const uint32_t order[] = { 700, 3, 64, 16383, 0, 65, 2 };
	uint32_t bit;

	shm_board_clear(&board);
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
			(void)shm_board_set(&board, order[i]);
			(void)shm_board_set(&board, order[i / 2]); /* set already: no news */
		}
		for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
			REQUIRE(shm_board_take(&board, &bit));
			CHECK_INT(bit, ==, order[i]);
		}
		CHECK(!shm_board_take(&board, &bit));
		CHECK(!shm_board_pending(&board));
	}
}

/* More than are noted, and notes that lie: each bit comes out once all the same. */
static void notes_are_a_hint(void)
{
	enum { N = 3 * SHM_BOARD_NOTES };
	bool came[N] = { false };
	uint32_t bit;

	for (int round = 0; round < 3; round++) {
		shm_board_clear(&board);
		memset(came, 0, sizeof(came));
		for (uint32_t i = 0; i < N; i++)
			(void)shm_board_set(&board, N - 1 - i);
		if (round > 0)
			board.n_taken = round == 1 ? board.n_noted - 7 : board.n_noted + 5;
		board.noted[0] = round == 2 ? UINT16_MAX : 1;
		for (uint32_t i = 0; i < N; i++) {
			REQUIRE(shm_board_take(&board, &bit));
			REQUIRE_INT(bit, <, N);
			CHECK(!came[bit]);
			came[bit] = true;
		}
		CHECK(!shm_board_take(&board, &bit));
		CHECK(!shm_board_pending(&board));
	}
}

#define N_ROUNDS 20000
#define N_BITS 300
static _Atomic uint32_t wanted[N_BITS], seen[N_BITS];

static void *publisher(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg;

	for (int i = 0; i < N_ROUNDS; i++) {
		uint32_t bit = (uint32_t)rand_r(&seed) % N_BITS;

		wanted[bit]++;
		(void)shm_board_set(&board, bit * 50);
	}
	return NULL;
}

/* Each publication must be followed by a take of its bit: compare the counts a take saw with the
 * final ones. */
static void no_publication_is_lost(void)
{
	pthread_t threads[2];
	uint32_t bit, n_alive = 2;

	shm_board_clear(&board);
	for (size_t i = 0; i < 2; i++)
		REQUIRE_INT(pthread_create(&threads[i], NULL, publisher, (void *)(i + 1)), ==, 0);
	while (n_alive) {
		while (shm_board_take(&board, &bit))
			seen[bit / 50] = wanted[bit / 50];
		if (pthread_tryjoin_np(threads[n_alive - 1], NULL) == 0)
			n_alive--;
	}
	while (shm_board_take(&board, &bit))
		seen[bit / 50] = wanted[bit / 50];
	for (int i = 0; i < N_BITS; i++)
		CHECK_INT(seen[i], ==, wanted[i]);
}

static const struct test tests[] = {
	TEST(bits_come_out_once),	TEST(armed_means_ring), TEST(half_set_bits_are_repaired),
	TEST(order_of_setting_is_kept), TEST(notes_are_a_hint), TEST(no_publication_is_lost),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
