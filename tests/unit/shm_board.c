/* shm/board.c: no bit is lost between publishers and an owner that takes, also when a publisher died half-way. */
#include <pthread.h>
#include <stdlib.h>

#include "board.h"
#include "harness.h"

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
	CHECK_INT(bit, ==, 7);
	REQUIRE(shm_board_take(&board, &bit));
	CHECK_INT(bit, ==, 8);
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

/* Each publication must be followed by a take of its bit: compare the counts a take saw with the final ones. */
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
	TEST(bits_come_out_once),
	TEST(armed_means_ring),
	TEST(half_set_bits_are_repaired),
	TEST(no_publication_is_lost),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
