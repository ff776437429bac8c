/*
 * The model of a transfer: the size of pieces is the best of the powers of two, by the model's own
 * formula; what is measured moves the costs, within bounds.
 */
#include "harness.h"
#include "macros.h"
#include "model.h"

#define MOST (1u << 20)

static double time_of(const struct hal_costs *c, double size, double f)
{
	double fast = MIN(c->psec_in, c->psec_out), slow = MAX(c->psec_in, c->psec_out);

	return slow * size + fast * f + 1000.0 * c->nsec_frame * size / f;
}

static void pieces_are_the_best_ones(void)
{
	static const struct hal_costs costs[] = {
		{ 150, 70, 60 },   { 150, 30, 300 }, { 4500, 250, 250 },
		{ 1, 2000, 2000 }, { 9000, 10, 10 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(costs); i++)
		for (uint64_t size = 20000; size <= 16u << 20; size += size / 3) {
			uint32_t piece = hal_piece(&costs[i], size, MOST);

			REQUIRE_INT(piece, >=, HAL_PIECE_LEAST);
			REQUIRE_INT(piece & (piece - 1), ==, 0);
			for (uint32_t f = HAL_PIECE_LEAST; f <= MOST; f *= 2)
				CHECK(time_of(&costs[i], (double)size, piece) <=
				      time_of(&costs[i], (double)size, f) * 1.000001);
		}
}

static void pieces_fit_the_frame(void)
{
	const struct hal_costs costs = { 150, 70, 60 }, nothing = { 0, 0, 0 };

	CHECK_INT(hal_piece(&costs, 1u << 20, 20000), ==, 20000);
	CHECK_INT(hal_piece(&costs, 1u << 20, 64), ==, 64);
	CHECK_INT(hal_piece(&nothing, 1u << 20, MOST), ==, HAL_PIECE_LEAST);
	CHECK_INT(hal_piece(&costs, 0, MOST), ==, HAL_PIECE_LEAST);
}

static void longer_messages_have_larger_pieces(void)
{
	const struct hal_costs costs = { 150, 70, 60 };
	uint32_t last = 0;

	for (uint64_t size = 1024; size <= 16u << 20; size *= 2) {
		CHECK_INT(hal_piece(&costs, size, MOST), >=, last);
		last = hal_piece(&costs, size, MOST);
	}
	CHECK_INT(last, >, HAL_PIECE_LEAST);
}

static void what_is_measured_moves_the_costs(void)
{
	struct hal_costs c = { 0, 70, 60 };

	for (unsigned i = 0; i < 100; i++)
		hal_costs_learn(&c, &c.psec_in, 10000, 3000);
	CHECK_INT(c.psec_in, >=, 290);
	CHECK_INT(c.psec_in, <=, 300);
	CHECK_INT(c.psec_out, ==, 60);
	for (unsigned i = 0; i < 100; i++)
		hal_costs_learn(&c, &c.psec_in, 10000, UINT64_MAX);
	CHECK_INT(c.psec_in, <=, HAL_PSEC_MOST);
	for (unsigned i = 0; i < 100; i++)
		hal_costs_learn(&c, &c.psec_in, 0, 0);
	CHECK_INT(c.psec_in, >=, HAL_PSEC_LEAST);
	CHECK_INT(c.psec_in, <=, HAL_PSEC_LEAST + 8);
	for (unsigned i = 0; i < 100; i++)
		hal_costs_learn_frame(&c, c.psec_out, 4000, UINT64_MAX);
	CHECK_INT(c.nsec_frame, <=, HAL_NSEC_MOST);
	for (unsigned i = 0; i < 100; i++)
		hal_costs_learn_frame(&c, c.psec_out, 4000, 0);
	CHECK_INT(c.nsec_frame, >=, HAL_NSEC_LEAST);
	CHECK_INT(c.nsec_frame, <=, HAL_NSEC_LEAST + 8);
}

/* Frames of two lengths, whose time is a line: what each costs and what its bytes cost are found,
 * whatever was believed before. */
static void a_frame_and_its_bytes_are_told_apart(void)
{
	static const struct hal_costs before[] = { { 150, 70, 60 },
						   { 20, 10, 10 },
						   { 2000, 2000, 2000 } };
	static const struct {
		unsigned nsec, psec;
	} lines[] = { { 300, 40 }, { 80, 120 }, { 900, 20 } };

	for (unsigned i = 0; i < ARRAY_SIZE(before); i++)
		for (unsigned k = 0; k < ARRAY_SIZE(lines); k++) {
			struct hal_costs c = before[i];
			unsigned nsec = lines[k].nsec, psec = lines[k].psec;

			for (unsigned n = 0; n < 400; n++) {
				hal_costs_learn(&c, &c.psec_in, 16384, nsec + psec * 16384 / 1000);
				hal_costs_learn_frame(&c, c.psec_in, 4096,
						      nsec + psec * 4096 / 1000);
			}
			CHECK_INT(c.psec_in, >=, psec - 5);
			CHECK_INT(c.psec_in, <=, psec + 5);
			CHECK_INT(c.nsec_frame, >=, nsec - 30);
			CHECK_INT(c.nsec_frame, <=, nsec + 30);
		}
}

static const struct test tests[] = {
	TEST(pieces_are_the_best_ones),
	TEST(pieces_fit_the_frame),
	TEST(longer_messages_have_larger_pieces),
	TEST(what_is_measured_moves_the_costs),
	TEST(a_frame_and_its_bytes_are_told_apart),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
