/*
 * The choice between ordinary stores and those past the caches, on processors that are near each
 * other, far from each other, and change: both ends are played, with times that the test makes up.
 * So it is the same on every machine.
 */
#include "harness.h"
#include "pace.h"

#define MIB (1ull << 20)
#define SIZE_PIECE 16384u
#define SIZE_RING (4 * MIB)
/* Enough for each way to have been tried, and for a change to be seen. */
#define SIZE_LONG_RUN (1100 * MIB)

/* ps for a byte, ordinary and past the caches. */
struct machine {
	uint32_t in[2], out[2];
};

static const struct machine near = { { 40, 35 }, { 40, 110 } };
static const struct machine far = { { 350, 40 }, { 100, 110 } };

struct pair {
	struct shm_pace writer;
	struct shm_pace_reader reader;
	uint64_t head, told, size_past;
};

static void send_piece(struct pair *p, const struct machine *m)
{
	bool past = p->writer.past;
	uint64_t since = p->writer.since;
	struct shm_timed t = { .at = p->head, .size = SIZE_PIECE, .size_ring = SIZE_RING };
	uint64_t answer = 0;

	p->size_past += past ? SIZE_PIECE : 0;
	p->head += SIZE_PIECE;
	if (shm_pace_is_due(&p->writer.n)) {
		t.nsec = (uint64_t)m->in[past] * SIZE_PIECE / 1000;
		CHECK_INT(shm_pace_wrote(&p->writer, &t, p->told), ==, p->writer.past != past);
	}
	if (shm_pace_is_due(&p->reader.n)) {
		t.nsec = (uint64_t)m->out[past] * SIZE_PIECE / 1000;
		answer = shm_pace_read(&p->reader, &t, since);
	}
	if (answer)
		p->told = answer;
}

/* Returns how many of a hundred bytes went past the caches. */
static uint64_t send(struct pair *p, const struct machine *m, uint64_t size)
{
	uint64_t end = p->head + size;

	p->size_past = 0;
	while (p->head < end)
		send_piece(p, m);
	return 100 * p->size_past / size;
}

static void near_processors_get_ordinary_stores(void)
{
	struct pair p = { 0 };

	CHECK_INT(send(&p, &near, 64 * MIB), ==, 0);
	CHECK_INT(send(&p, &near, SIZE_LONG_RUN), <=, 3);
}

static void far_ones_get_stores_past_the_caches(void)
{
	struct pair p = { 0 };

	CHECK_INT(send(&p, &far, 64 * MIB), >=, 80);
	CHECK_INT(send(&p, &far, SIZE_LONG_RUN), >=, 97);
}

static void a_change_is_followed(void)
{
	struct pair p = { 0 };

	(void)send(&p, &far, SIZE_LONG_RUN);
	(void)send(&p, &near, SIZE_LONG_RUN);
	CHECK_INT(send(&p, &near, SIZE_LONG_RUN), <=, 3);
	(void)send(&p, &far, 64 * MIB);
	CHECK_INT(send(&p, &far, SIZE_LONG_RUN), >=, 97);
}

/* A way that was found slow for a while, by whatever disturbance, is soon tried again. */
static void a_wrong_turn_is_soon_taken_back(void)
{
	struct pair p = { 0 };

	CHECK_INT(send(&p, &far, 16 * MIB), >, 0);
	CHECK(p.writer.past);
	(void)send(&p, &near, 128 * MIB);
	CHECK_INT(send(&p, &near, 32 * MIB), <=, 20);
}

/* Nor does a trial stay that is only a little worse than what was before. */
static void a_trial_must_be_better(void)
{
	static const struct machine one_core = { { 46, 46 }, { 50, 60 } };
	struct pair p = { 0 };

	(void)send(&p, &one_core, SIZE_LONG_RUN);
	CHECK_INT(send(&p, &one_core, SIZE_LONG_RUN), <=, 3);
}

static void a_pause_decides_nothing(void)
{
	struct pair p = { 0 };
	struct shm_timed t = { .size = SIZE_PIECE, .size_ring = SIZE_RING, .nsec = 1000000000 };

	(void)send(&p, &near, 24 * MIB);
	t.at = p.head;
	CHECK(!shm_pace_wrote(&p.writer, &t, p.told));
	CHECK_INT(send(&p, &near, 24 * MIB), ==, 0);
}

/* The reader's word is any number, and for a way that was never told. */
static void a_liar_is_believed_up_to_a_bound(void)
{
	struct pair p = { 0 };
	struct shm_timed t = { .size = SIZE_PIECE, .size_ring = SIZE_RING, .nsec = 1000 };

	for (uint64_t i = 0; i < 10000; i++) {
		t.at = i * MIB;
		(void)shm_pace_wrote(&p.writer, &t, i % 3 ? i << 32 | UINT32_MAX : UINT32_MAX);
		CHECK_INT(p.writer.psec[0], <=, 2 * SHM_PSEC_MOST);
		CHECK_INT(p.writer.psec[1], <=, 2 * SHM_PSEC_MOST);
	}
}

/* What it timed for another way, or before the ring had been written through, is no answer. */
static void a_reader_answers_for_the_present_way(void)
{
	struct shm_pace_reader r = { 0 };
	struct shm_timed t = { .size = SIZE_PIECE, .size_ring = SIZE_RING, .nsec = 1000 };
	uint64_t answer = 0;

	for (t.at = 100 * MIB; t.at < 104 * MIB; t.at += SIZE_PIECE)
		CHECK_INT(shm_pace_read(&r, &t, 100 * MIB), ==, 0);
	for (unsigned i = 0; i < 8; i++, t.at += SIZE_PIECE)
		answer = shm_pace_read(&r, &t, 100 * MIB);
	CHECK_INT(answer >> 32, ==, 100 * MIB);
	CHECK_INT((uint32_t)answer, ==, 61);
	CHECK_INT(shm_pace_read(&r, &t, t.at), ==, 0);
	CHECK_INT(shm_pace_read(&r, &t, t.at + MIB), ==, 0);
}

static const struct test tests[] = {
	TEST(near_processors_get_ordinary_stores),
	TEST(far_ones_get_stores_past_the_caches),
	TEST(a_change_is_followed),
	TEST(a_wrong_turn_is_soon_taken_back),
	TEST(a_trial_must_be_better),
	TEST(a_pause_decides_nothing),
	TEST(a_liar_is_believed_up_to_a_bound),
	TEST(a_reader_answers_for_the_present_way),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
