/*
 * Bytes of a stream take part in the choice of stores (shm/pace.c): long pieces are timed by both
 * ends, the reader's answer reaches the writer, and what is written past the caches arrives as it
 * was sent.
 */
#include "harness.h"
#include "ring.h"
#include "tcp_pair.h"

#define MIB (1ull << 20)
#define SIZE_PIECE 4096u

static struct tcp_pair t;
static uint64_t at;

static void carry(uint64_t size, size_t len)
{
	for (uint64_t end = at + size; at < end; at += len) {
		pair_send(&t, 0, at, len);
		pair_expect(&t, 1, at, len);
	}
}

static void begin(void)
{
	at = 0;
	tcp_pair_init(&t, tcp_pair_usual_rings);
	tcp_pair_watch(&t);
	for (unsigned i = 0; i < 20; i++)
		carry(8, 8);
}

static void one_long_piece_in_eight_is_timed(void)
{
	const struct shm_pace *writer = &t.tcp[0].ring.pace;
	const struct shm_pace_reader *reader = &t.tcp[1].ring.pace_reader;

	begin();
	carry(64 * 1024, COPY_LONG / 2);
	CHECK_INT(writer->n, ==, 0);
	CHECK_INT(reader->n, ==, 0);
	for (uint32_t i = 1; i <= 3 * SHM_PACE_N; i++) {
		carry(SIZE_PIECE, SIZE_PIECE);
		CHECK_INT(writer->n, ==, i);
		CHECK_INT(writer->n_timed, ==, i / SHM_PACE_N);
		CHECK_INT(reader->n, ==, i);
	}
	tcp_pair_deinit(&t);
}

static void the_reader_answers(void)
{
	begin();
	carry(16 * MIB, SIZE_PIECE);
	CHECK_INT(t.tcp[1].ring.pace_reader.psec, >, 0);
	CHECK_INT(ring_load(&t.tcp[0].ring.peer->pace_read), >, 0);
	CHECK_INT(t.tcp[0].ring.pace.psec[0], >, 0);
	tcp_pair_deinit(&t);
}

static void bytes_past_the_caches_arrive(void)
{
	static const size_t lengths[] = { COPY_LONG, COPY_LONG + 1, 3000, 4095, 4096 };

	begin();
	for (unsigned i = 0; i < 2000; i++) {
		t.tcp[0].ring.pace.past = i % 16 < 12;
		carry(1, lengths[i % 5]);
	}
	tcp_pair_deinit(&t);
}

static const struct test tests[] = {
	TEST(one_long_piece_in_eight_is_timed),
	TEST(the_reader_answers),
	TEST(bytes_past_the_caches_arrive),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
