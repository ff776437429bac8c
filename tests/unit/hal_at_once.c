/*
 * put() and take() of hal/shm.c, and every second time the lane if there is one: they move what
 * send(), next(), copy() and drop() move, in the same order, whichever of them the other side uses
 * and whether or not both tell in one line; and they leave alone what is not wanted or makes no
 * sense.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "lane.h"
#include "macros.h"
#include "shm_links.h"
#include "tcp_pair.h"

#define N_UNTIL_FOUND 200
#define SIZE_MAX_HERE 1200u

static const uint32_t rings[] = { 4096, 65536, 256 << 10, 1 << 20, 4 << 20 };
static struct shm_links p;

/* What went by the lane. */
static unsigned n_put, n_taken;

static bool is_lanes_turn(const struct hal_link *link)
{
	static unsigned n;

	return link->lane && n++ % 2;
}

static void fill(unsigned char *buf, uint64_t n, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(n * 31 + i * 7);
}

static struct hal_frame frame(uint64_t n, size_t len)
{
	return (struct hal_frame){ .word = n, .len = (uint32_t)len, .protocol = 7, .kind = 9 };
}

static int put(int side, uint64_t n, size_t len)
{
	unsigned char buf[SIZE_MAX_HERE];
	struct hal_link *link = p.link[side];
	int e = -EAGAIN;

	fill(buf, n, len);
	if (len == HAL_LANE_WORD && is_lanes_turn(link))
		e = hal_lane_put(link, n, HAL_LANE_HEADER(7, 9), buf);
	n_put += e > 0;
	return e == -EAGAIN ? link->ops->put(link, frame(n, len), buf) : e;
}

static int send_frame(int side, uint64_t n, size_t len)
{
	unsigned char buf[SIZE_MAX_HERE];
	struct iovec iov = { buf, len };
	struct hal_frame f = frame(n, len);

	fill(buf, n, len);
	return p.link[side]->ops->send(p.link[side], &f, &iov, 1);
}

static struct hal_wanted wanted(uint64_t n, void *buf, size_t size)
{
	return (struct hal_wanted){
		.word = n,
		.mask = UINT64_MAX,
		.len_max = UINT32_MAX,
		.protocol = 7,
		.kind = 9,
		.buf = buf,
		.size = size,
	};
}

static bool take_by_lane(struct hal_link *link, const struct hal_wanted *w, struct hal_frame *f)
{
	const struct hal_lane_wanted wanted = {
		.word = w->word,
		.mask = w->mask,
		.header = HAL_LANE_HEADER(w->protocol, w->kind),
	};

	if (w->size < HAL_LANE_WORD || w->len_max < HAL_LANE_WORD || !is_lanes_turn(link) ||
	    hal_lane_take(link, wanted, w->buf, &f->word) < 0)
		return false;
	f->len = HAL_LANE_WORD;
	f->protocol = w->protocol;
	f->kind = w->kind;
	n_taken++;
	return true;
}

/* As a caller would: that it is too early is said once. */
static bool take(int side, const struct hal_wanted *w, struct hal_frame *f)
{
	struct hal_link *link = p.link[side];

	if (take_by_lane(link, w, f) || link->ops->take(link, w, f))
		return true;
	return link->ops->take(link, w, f);
}

static void expect_taken(int side, uint64_t n, size_t len)
{
	unsigned char buf[SIZE_MAX_HERE], sent[SIZE_MAX_HERE];
	struct hal_wanted w = wanted(n, buf, sizeof(buf));
	struct hal_frame f;

	REQUIRE(take(side, &w, &f));
	CHECK_INT(f.word, ==, n);
	CHECK_INT(f.protocol, ==, 7);
	CHECK_INT(f.kind, ==, 9);
	REQUIRE_INT(f.len, ==, len);
	fill(sent, n, len);
	CHECK_MEM(buf, sent, len);
}

static void expect_next(int side, uint64_t n, size_t len)
{
	struct hal_link *link = p.link[side];
	unsigned char buf[SIZE_MAX_HERE], sent[SIZE_MAX_HERE];
	struct iovec iov = { buf, sizeof(buf) };
	struct hal_frame f;

	REQUIRE_INT(link->ops->next(link, &f), ==, 1);
	CHECK_INT(f.word, ==, n);
	REQUIRE_INT(f.len, ==, len);
	fill(sent, n, len);
	CHECK_INT(link->ops->copy(link, &iov, 1), ==, len);
	CHECK_MEM(buf, sent, len);
	link->ops->drop(link);
}

static void expect_none(int side)
{
	unsigned char buf[8];
	struct hal_wanted w = wanted(0, buf, sizeof(buf));
	struct hal_frame f;

	w.mask = 0;
	CHECK(!take(side, &w, &f));
	CHECK(!p.link[side]->ops->pending(p.link[side]));
}

static void begin(bool in_one_line)
{
	shm_links_init(&p, rings);
	if (!in_one_line)
		return;
	shm_links_share(&p);
	for (uint64_t n = 0; n < N_UNTIL_FOUND; n++) {
		REQUIRE_INT(put(n & 1, n, 8), >, 0);
		expect_taken(~n & 1, n, 8);
	}
	for (int i = 0; i < 2; i++)
		REQUIRE(atomic_load(&p.line.halves[i].mark) != 0);
}

/* A word or nothing, mostly; a few bytes; and some on either side of what goes in one piece. */
static size_t len_of(uint64_t n)
{
	if (n % 5 == 2)
		return n * 37 % (SHM_SHORT_MOST + 100);
	return n % 3 ? n % 4 ? 8 : 0 : n % 11 + 1;
}

/* Up to a dozen under way in each direction, put or sent, taken in either way. */
static void both_ways_mix(void)
{
	uint64_t sent[2] = { 0 }, taken[2] = { 0 };

	srand(7);
	for (int in_one_line = 0; in_one_line < 2; in_one_line++) {
		begin(in_one_line);
		for (unsigned i = 0; i < 30000; i++) {
			int side = rand() & 1;
			uint64_t n = sent[side];

			if (n - taken[side] < 12 && rand() % 2) {
				size_t len = len_of(n);

				REQUIRE_INT(n % 5 ? put(side, n, len) : send_frame(side, n, len),
					    >=, 0);
				sent[side]++;
			} else if (taken[side] < n) {
				n = taken[side]++;
				(rand() % 4 ? expect_taken : expect_next)(1 - side, n, len_of(n));
			} else {
				expect_none(1 - side);
			}
		}
		memset(sent, 0, sizeof(sent));
		memset(taken, 0, sizeof(taken));
		shm_links_deinit(&p);
	}
	CHECK_INT(n_put, >, 1000);
	CHECK_INT(n_taken, >, 100);
}

/* With nothing in it and no buffer on either side, it comes with the news of it as a word does. */
static void nothing_goes_the_same_way(void)
{
	const struct hal_wanted w = wanted(5, NULL, 0);
	const struct hal_ops *ops;
	uint64_t mark, before;
	struct hal_frame f;

	for (int in_one_line = 0; in_one_line < 2; in_one_line++) {
		begin(in_one_line);
		ops = p.link[0]->ops;
		for (unsigned i = 0; i < 1000; i++) {
			int side = i & 1;
			struct shm_half *half = &p.line.halves[side];

			before = atomic_load(&half->mark);
			REQUIRE_INT(ops->put(p.link[side], frame(5, 0), NULL), >, 0);
			mark = atomic_load(&half->mark);
			if (in_one_line && i > 0) {
				CHECK_INT(mark & 63, ==, sizeof(struct shm_record));
				CHECK_INT(SHM_MARK_HEAD(mark) - SHM_MARK_HEAD(before), ==,
					  sizeof(struct shm_record));
			}
			REQUIRE(take(1 - side, &w, &f));
			CHECK_INT(f.len, ==, 0);
			CHECK_INT(f.word, ==, 5);
			expect_none(1 - side);
		}
		shm_links_deinit(&p);
	}
}

/* Many, in a stream, between words, until the ring is full and around its end. */
static void nothing_fills_a_ring_too(void)
{
	uint64_t n = 0, i = 0;
	int e;

	shm_links_init(&p, tcp_pair_small_rings);
	shm_links_share(&p);
	for (unsigned round = 0; round < 20; round++) {
		while ((e = put(0, n, n % 3 ? 0 : 8)) > 0)
			n++;
		CHECK_INT(e, ==, -EAGAIN);
		for (; i + round < n; i++)
			(i % 7 ? expect_taken : expect_next)(1, i, i % 3 ? 0 : 8);
		REQUIRE_INT(put(1, round, 0), >, 0);
		expect_taken(0, round, 0);
	}
	for (; i < n; i++)
		expect_taken(1, i, i % 3 ? 0 : 8);
	expect_none(1);
	shm_links_deinit(&p);
}

static void stays_if_not_wanted(size_t len)
{
	unsigned char buf[SIZE_MAX_HERE];
	struct hal_frame f;

	for (int in_one_line = 0; in_one_line < 2; in_one_line++) {
		struct hal_wanted w[5];

		begin(in_one_line);
		REQUIRE_INT(put(0, 0x12, len), >, 0);
		for (unsigned i = 0; i < ARRAY_SIZE(w); i++)
			w[i] = wanted(0x12, buf, sizeof(buf));
		w[0].word = 0x13;
		w[1].len_max = (uint32_t)len - 1;
		w[2].protocol = 8;
		w[3].kind = 8;
		w[4].word = 0x22;
		w[4].mask = 0xff0;
		for (unsigned i = 0; i < ARRAY_SIZE(w); i++)
			CHECK(!take(1, &w[i], &f));
		w[4].word = 0x1f;
		CHECK(take(1, &w[4], &f));
		CHECK_INT(f.word, ==, 0x12);
		CHECK_INT(f.len, ==, len);
		expect_none(1);
		shm_links_deinit(&p);
	}
}

static void what_is_not_wanted_stays(void)
{
	stays_if_not_wanted(8);
	stays_if_not_wanted(40);
	stays_if_not_wanted(SHM_SHORT_MOST);
}

static void gets_the_beginning(size_t len)
{
	unsigned char buf[SIZE_MAX_HERE], sent[SIZE_MAX_HERE];
	struct hal_frame f;

	for (int in_one_line = 0; in_one_line < 2; in_one_line++) {
		begin(in_one_line);
		fill(sent, 5, len);
		for (size_t size = 0; size <= len; size++) {
			struct hal_wanted w = wanted(5, buf, size);

			memset(buf, 0xee, sizeof(buf));
			REQUIRE_INT(put(0, 5, len), >, 0);
			REQUIRE(take(1, &w, &f));
			CHECK_INT(f.len, ==, len);
			CHECK_MEM(buf, sent, size);
			CHECK_INT(buf[size], ==, 0xee);
		}
		shm_links_deinit(&p);
	}
}

static void a_small_buffer_gets_the_beginning(void)
{
	gets_the_beginning(8);
	gets_the_beginning(41);
}

/* Of a frame that came by itself, and of one that is known to be there. */
static void a_header_that_makes_no_sense_is_left_to_next(void)
{
	static const uint32_t lens[] = { 49,	65,	   SHM_SHORT_MOST, SHM_SHORT_MOST + 1,
					 65535, UINT32_MAX };
	unsigned char buf[SIZE_MAX_HERE];
	struct hal_wanted w = wanted(1, buf, sizeof(buf));
	struct hal_frame f;

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		struct shm_stream *s;
		uint64_t at;

		begin(true);
		s = p.link[0]->lane;
		for (unsigned n = 0; n <= i % 2; n++) {
			at = shm_sent(s) & (s->tx_size[s->tx_cur] - 1);
			REQUIRE_INT(put(0, 1, 40), >, 0);
		}
		memcpy(s->tx_ring[s->tx_cur] + at + 8, &lens[i / 2], sizeof(lens[0]));
		if (i % 2)
			expect_taken(1, 1, 40);
		CHECK(!take(1, &w, &f));
		CHECK_INT(p.link[1]->ops->next(p.link[1], &f), ==, -EBADMSG);
		shm_links_deinit(&p);
	}
}

/* A full ring, and one that is closed. */
static void what_cannot_be_put_says_why(void)
{
	uint64_t n = 0;
	int e;

	shm_links_init(&p, tcp_pair_small_rings);
	shm_links_share(&p);
	while ((e = put(0, n, 8)) > 0)
		n++;
	CHECK_INT(e, ==, -EAGAIN);
	for (uint64_t i = 0; i < n; i++)
		expect_taken(1, i, 8);
	REQUIRE_INT(put(0, n, 8), >, 0);
	p.link[0]->ops->close(p.link[0]);
	p.link[0] = NULL;
	CHECK_INT(put(1, 0, 8), ==, -EPIPE);
	expect_taken(1, n, 8);
	shm_links_deinit(&p);
}

/* What was told of is a header alone, or a word: then its length must be that. */
static void a_length_that_is_not_what_was_told_is_not_taken(void)
{
	static const uint32_t lens[] = { 1, 8, 9, 17, 65535, UINT32_MAX };
	unsigned char buf[SIZE_MAX_HERE];
	struct hal_wanted w = wanted(1, buf, sizeof(buf));
	struct shm_half *half = &p.line.halves[0];
	struct hal_frame f;
	uint64_t taken;

	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		begin(true);
		REQUIRE_INT(put(0, 1, 0), >, 0);
		atomic_store(&half->words[1], 7ull << 48 | 9ull << 32 | lens[i]);
		CHECK(!take(1, &w, &f));
		CHECK_INT(p.link[1]->ops->next(p.link[1], &f), ==, -EBADMSG);
		shm_links_deinit(&p);
	}
	/* The other way round: less than was told. The rest is judged by itself. */
	begin(true);
	REQUIRE_INT(put(0, 1, 8), >, 0);
	taken = atomic_load(&shm_slab_side(&p.own[1], 0)->rx_taken);
	atomic_store(&half->words[1], 7ull << 48 | 9ull << 32);
	if (take(1, &w, &f))
		CHECK_INT(f.len, ==, 0);
	CHECK_INT(atomic_load(&shm_slab_side(&p.own[1], 0)->rx_taken) - taken, <=, 32);
	shm_links_deinit(&p);
}

/* It is left to next(), which judges it. */
static void a_length_that_is_no_word_is_not_taken(void)
{
	static const uint64_t lens[] = { 0, 9, 16, 17, 65535, UINT32_MAX };
	unsigned char buf[SIZE_MAX_HERE];
	struct hal_wanted w = wanted(1, buf, sizeof(buf));
	struct shm_half *half = &p.line.halves[0];
	struct hal_frame f;

	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		begin(true);
		REQUIRE_INT(put(0, 1, 8), >, 0);
		atomic_store(&half->words[1], 7ull << 48 | 9ull << 32 | lens[i]);
		if (lens[i] > 16) {
			CHECK(!take(1, &w, &f));
			CHECK_INT(p.link[1]->ops->next(p.link[1], &f), ==, -EBADMSG);
		} else if (take(1, &w, &f)) {
			CHECK_INT(f.len, ==, lens[i]);
		}
		shm_links_deinit(&p);
	}
}

/* Stopped in the middle of telling, or behind with it: the ring has it. */
static void half_told_is_not_lost(void)
{
	uint64_t mark, before;

	for (size_t len = 0; len <= 40; len += 8) {
		begin(true);
		before = atomic_load(&p.line.halves[0].mark);
		REQUIRE_INT(put(0, 1, len), >, 0);
		mark = atomic_exchange(&p.line.halves[0].mark, before);
		expect_none(1);
		atomic_store(&p.line.halves[0].mark, SHM_MARK_NONE);
		expect_taken(1, 1, len);
		atomic_store(&p.line.halves[0].mark, mark);
		expect_none(1);
		REQUIRE_INT(put(0, 2, len), >, 0);
		expect_taken(1, 2, len);
		shm_links_deinit(&p);
	}
}

/* Who has just put looks at the line at the second attempt only, unless it knows already what is
 * there. */
static void a_look_is_not_too_early(void)
{
	unsigned char buf[8];
	struct hal_wanted w = wanted(2, buf, sizeof(buf));
	const struct hal_ops *ops;
	struct hal_frame f;

	begin(true);
	ops = p.link[0]->ops;
	REQUIRE_INT(put(0, 1, 8), >, 0);
	REQUIRE_INT(put(1, 2, 8), >, 0);
	CHECK(!ops->take(p.link[0], &w, &f));
	CHECK(ops->pending(p.link[0]));
	CHECK(ops->take(p.link[0], &w, &f));
	for (unsigned i = 0; i < 3; i++)
		REQUIRE_INT(put(1, 2, 8), >, 0);
	CHECK(ops->take(p.link[0], &w, &f));
	REQUIRE_INT(put(0, 1, 8), >, 0);
	CHECK(ops->take(p.link[0], &w, &f));
	shm_links_deinit(&p);
}

/* ---- what others go by ----------------------------------------------------------------------- */

static bool is_quiet(const struct hal_link *link)
{
	uint64_t told = atomic_load(link->quiet.word);

	return told == link->quiet.idle || told == HAL_BEING_WRITTEN;
}

/* Put or sent, taken at once or not, one or two of them: the word says that there is something
 * until all is taken. */
static void a_quiet_word_tells_of_each_frame(void)
{
	for (int in_one_line = 0; in_one_line < 2; in_one_line++) {
		begin(in_one_line);
		expect_none(1);
		for (uint64_t n = 0; n < 400; n++) {
			size_t len = n % 3 ? n % 4 ? 8 : 0 : 40;
			unsigned n_more = n % 7 == 0;

			REQUIRE(p.link[1]->quiet.word);
			CHECK(is_quiet(p.link[1]));
			for (unsigned i = 0; i <= n_more; i++) {
				REQUIRE_INT(n % 5 ? put(0, n, len) : send_frame(0, n, len), >=, 0);
				CHECK(!is_quiet(p.link[1]));
			}
			for (unsigned i = 0; i <= n_more; i++)
				(n % 2 ? expect_taken : expect_next)(1, n, len);
			CHECK(!p.link[1]->quiet.is_ours_too || in_one_line);
			expect_none(1);
		}
		CHECK_INT(p.link[1]->quiet.is_ours_too, ==, in_one_line);
		shm_links_deinit(&p);
	}
}

/* Who put something is to tell of it if somebody watches, once; and the other way round for
 * room. */
static void only_who_watches_is_to_be_told(void)
{
	const hal_watch watch = SHM_WATCH(1, 2, 3);
	const struct hal_ops *ops;

	begin(true);
	ops = p.link[0]->ops;
	if (!(p.link[0]->caps.flags & HAL_BARRIER)) {
		shm_links_deinit(&p);
		return;
	}
	CHECK_INT(put(0, 1, 8), ==, HAL_DONE);
	expect_taken(1, 1, 8);
	REQUIRE_INT(ops->watch(p.link[1], watch, HAL_WATCH_DATA), ==, 0);
	CHECK_INT(put(0, 2, 8), ==, HAL_DONE_TELL);
	shm_links_n_wakes = 0;
	ops->tell(p.link[0], HAL_DID_SEND);
	CHECK_INT(shm_links_n_wakes, ==, 1);
	CHECK_INT(put(0, 3, 8), ==, HAL_DONE);
	ops->unwatch(p.link[1], watch);
	expect_taken(1, 2, 8);
	expect_taken(1, 3, 8);
	shm_links_deinit(&p);
}

static int take_next(int side, uint64_t n)
{
	unsigned char buf[8];
	struct hal_wanted w = wanted(n, buf, sizeof(buf));
	struct hal_frame f;

	return p.link[side]->ops->take(p.link[side], &w, &f);
}

static void who_waits_for_room_is_to_be_told(void)
{
	const hal_watch watch = SHM_WATCH(1, 2, 3);
	uint64_t n = 0, i = 0;
	int e = 0;

	shm_links_init(&p, tcp_pair_small_rings);
	shm_links_share(&p);
	while (put(0, n, 8) > 0)
		n++;
	REQUIRE_INT(p.link[0]->ops->watch(p.link[0], watch, HAL_WATCH_SPACE), ==, 0);
	while (e != HAL_DONE_TELL && i < n) {
		e = take_next(1, i++);
		REQUIRE(e > 0);
	}
	CHECK_INT(e, ==, HAL_DONE_TELL);
	CHECK(p.link[0]->ops->room(p.link[0]));
	shm_links_n_wakes = 0;
	p.link[1]->ops->tell(p.link[1], HAL_DID_TAKE);
	CHECK_INT(shm_links_n_wakes, ==, 1);
	p.link[0]->ops->unwatch(p.link[0], watch);
	shm_links_deinit(&p);
}

static const struct test tests[] = {
	TEST(both_ways_mix),
	TEST(nothing_goes_the_same_way),
	TEST(nothing_fills_a_ring_too),
	TEST(what_is_not_wanted_stays),
	TEST(a_small_buffer_gets_the_beginning),
	TEST(a_header_that_makes_no_sense_is_left_to_next),
	TEST(what_cannot_be_put_says_why),
	TEST(a_length_that_is_not_what_was_told_is_not_taken),
	TEST(a_length_that_is_no_word_is_not_taken),
	TEST(half_told_is_not_lost),
	TEST(a_look_is_not_too_early),
	TEST(a_quiet_word_tells_of_each_frame),
	TEST(only_who_watches_is_to_be_told),
	TEST(who_waits_for_room_is_to_be_told),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
