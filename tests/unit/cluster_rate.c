/* Rates in one byte, and the news of a load that carries them. */
#include "codec.h"
#include "harness.h"
#include "rate.h"

static void every_byte_comes_back(void)
{
	uint64_t last = 0;

	for (unsigned i = 0; i <= UINT8_MAX; i++) {
		uint64_t bytes = psid_rate_unpack((uint8_t)i);

		CHECK_INT(psid_rate_pack(bytes), ==, i);
		CHECK(i == 0 ? bytes == 0 : bytes > last);
		last = bytes;
	}
	CHECK(last == PSID_RATE_MAX);
	CHECK(last < 1ull << 40);
}

static void it_is_near(void)
{
	for (uint64_t bytes = 1; bytes < PSID_RATE_MAX; bytes += 1 + bytes / 97) {
		uint64_t back = psid_rate_unpack(psid_rate_pack(bytes));
		uint64_t off = back > bytes ? back - bytes : bytes - back;

		REQUIRE(off <= PSID_RATE_UNIT / 2 || off <= bytes / 16 + 1);
	}
}

static void limits(void)
{
	CHECK_INT(psid_rate_pack(0), ==, 0);
	CHECK_INT(psid_rate_pack(PSID_RATE_UNIT / 2 - 1), ==, 0);
	CHECK_INT(psid_rate_pack(PSID_RATE_UNIT / 2), ==, 1);
	CHECK_INT(psid_rate_pack(PSID_RATE_MAX), ==, UINT8_MAX);
	CHECK_INT(psid_rate_pack(PSID_RATE_MAX + 1), ==, UINT8_MAX);
	CHECK_INT(psid_rate_pack(UINT64_MAX), ==, UINT8_MAX);
}

static void a_factor_of_two_is_eight_steps(void)
{
	for (unsigned i = 8; i + 8 <= UINT8_MAX; i++)
		CHECK(psid_rate_unpack((uint8_t)(i + 8)) == 2 * psid_rate_unpack((uint8_t)i));
}

static const struct psid_load example = {
	.number = 3,
	.centi_foreign = 250,
	.n_tasks = 4,
	.n_cpus = 8,
	.percent_memory = 60,
	.percent_stall = { 1, 2, 255 },
	.rate = 200,
};

static void check_load(const struct psid_load *load)
{
	CHECK_INT(load->number, ==, example.number);
	CHECK_INT(load->centi_foreign, ==, example.centi_foreign);
	CHECK_INT(load->n_tasks, ==, example.n_tasks);
	CHECK_INT(load->n_cpus, ==, example.n_cpus);
	CHECK_INT(load->percent_memory, ==, example.percent_memory);
	CHECK_MEM(load->percent_stall, example.percent_stall, sizeof(load->percent_stall));
	CHECK_INT(load->rate, ==, example.rate);
}

static void loads_carry_it(void)
{
	uint8_t bytes[PSID_SIZE_NEWS_MAX];
	struct psid_writer w = { .at = bytes, .end = bytes + sizeof(bytes) };
	struct psid_news news = {
		.kind = PSID_NEWS_LOAD, .id = 12345, .load = example, .msec_load = 320
	};
	struct psid_news back;
	struct psid_reader r;
	struct psid_load load;

	psid_put_load(&w, &example);
	psid_put_news(&w, &news);
	REQUIRE(!w.full);
	r = (struct psid_reader){ .at = bytes, .end = w.at };
	psid_get_load(&r, &load);
	check_load(&load);
	REQUIRE(psid_get_news(&r, &back));
	CHECK_INT(back.id, ==, 12345);
	CHECK_INT(back.msec_load, ==, 320);
	check_load(&back.load);
	CHECK(r.at == r.end);
}

/* Wherever it is cut off, nothing is read beyond, and nothing of it counts. */
static void what_is_cut_off_is_bad(void)
{
	uint8_t bytes[PSID_SIZE_NEWS_MAX];
	struct psid_writer w = { .at = bytes, .end = bytes + sizeof(bytes) };
	struct psid_news news = { .kind = PSID_NEWS_LOAD, .id = 12345, .load = example };

	psid_put_news(&w, &news);
	for (uint8_t *end = bytes + 1; end < w.at; end++) {
		struct psid_reader r = { .at = bytes, .end = end };
		struct psid_news back;

		CHECK(!psid_get_news(&r, &back));
		CHECK(r.bad);
	}
}

static const struct test tests[] = {
	TEST(every_byte_comes_back),	      TEST(it_is_near),	    TEST(limits),
	TEST(a_factor_of_two_is_eight_steps), TEST(loads_carry_it), TEST(what_is_cut_off_is_bad),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
