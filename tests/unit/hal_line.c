/*
 * hal/shm.c with a line that both sides write (shm/exchange.h): frames arrive as without it,
 * whichever side begins when, and what a lying peer writes there is worth no more than what it
 * could write into its ring.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "macros.h"
#include "shm_links.h"
#include "tcp_pair.h"

#define N_UNTIL_FOUND 200

static const uint32_t rings[] = { 4096, 65536, 256 << 10, 1 << 20, 4 << 20 };
static struct shm_links p;

static void begin(void)
{
	shm_links_init(&p, rings);
	shm_links_share(&p);
}

static int send_frame(int side, uint64_t n, size_t len)
{
	struct hal_frame f = { .word = n, .len = (uint32_t)len, .protocol = 7, .kind = 9 };
	unsigned char buf[3000];
	struct iovec iov = { buf, len };

	memset(buf, (int)(n * 31), len);
	return p.link[side]->ops->send(p.link[side], &f, &iov, 1);
}

static void expect_frame(int side, uint64_t n, size_t len)
{
	struct hal_link *link = p.link[side];
	unsigned char buf[3000], wanted[3000];
	struct iovec iov = { buf, sizeof(buf) };
	struct hal_frame f;

	CHECK(link->ops->pending(link));
	REQUIRE_INT(link->ops->next(link, &f), ==, 1);
	CHECK_INT(f.word, ==, n);
	CHECK_INT(f.protocol, ==, 7);
	CHECK_INT(f.kind, ==, 9);
	REQUIRE_INT(f.len, ==, len);
	memset(wanted, (int)(n * 31), len);
	CHECK_INT(link->ops->copy(link, &iov, 1), ==, len);
	CHECK_MEM(buf, wanted, len);
	link->ops->drop(link);
}

static void expect_none(int side)
{
	struct hal_frame f;

	CHECK(!p.link[side]->ops->pending(p.link[side]));
	CHECK_INT(p.link[side]->ops->next(p.link[side], &f), ==, 0);
}

/* Each has sent so much that it has looked for what the other one says. */
static void agree(void)
{
	for (uint64_t n = 0; n < N_UNTIL_FOUND; n++) {
		REQUIRE_INT(send_frame(n & 1, n, 8), ==, 0);
		expect_frame(~n & 1, n, 8);
	}
	for (int i = 0; i < 2; i++)
		REQUIRE(atomic_load(&p.line.halves[i].mark) != 0);
}

static void frames_arrive_before_and_after_both_tell_there(void)
{
	begin();
	for (uint64_t n = 0; n < 20000; n++) {
		size_t len = n % 3 == 1 ? 8 : n % 3 ? n % 60 : (size_t)(n * 7919 % 2900);

		REQUIRE_INT(send_frame(n & 1, n, len), ==, 0);
		expect_frame(~n & 1, n, len);
		expect_none(~n & 1);
	}
	CHECK(atomic_load(&p.line.halves[0].mark) != 0);
	CHECK(atomic_load(&p.line.halves[1].mark) != 0);
	shm_links_deinit(&p);
}

/* The second side has much to say before it looks for the line, and finds what the first one said
 * meanwhile. */
static void one_may_begin_late(void)
{
	begin();
	for (uint64_t n = 0; n < 20; n++)
		REQUIRE_INT(send_frame(0, n, 8), ==, 0);
	for (uint64_t n = 0; n < 1000; n++) {
		REQUIRE_INT(send_frame(1, n, n % 2 ? 8 : 100), ==, 0);
		if (n % 3)
			continue;
		for (uint64_t i = n ? n - 2 : 0; i <= n; i++)
			expect_frame(0, i, i % 2 ? 8 : 100);
	}
	for (uint64_t n = 0; n < 20; n++)
		expect_frame(1, n, 8);
	expect_none(1);
	shm_links_deinit(&p);
}

/* From the fifth on whoever receives nothing in between tells of them only. */
static void a_stream_comes_without_words(void)
{
	uint64_t mark;

	begin();
	agree();
	for (uint64_t n = 1; n <= 6; n++) {
		REQUIRE_INT(send_frame(0, n, 8), ==, 0);
		mark = atomic_load(&p.line.halves[0].mark);
		CHECK_INT(mark & 63, ==, n < 5 ? SHM_TOLD : 0);
	}
	for (uint64_t n = 1; n <= 6; n++)
		expect_frame(1, n, 8);
	shm_links_deinit(&p);
}

/* Only the last of several comes with the news of it. */
static void many_under_way_are_taken_from_the_ring(void)
{
	begin();
	agree();
	for (uint64_t n = 0; n < 3000; n++)
		REQUIRE_INT(send_frame(0, n, n % 5 ? 8 : 24), ==, 0);
	for (uint64_t n = 0; n < 3000; n++)
		expect_frame(1, n, n % 5 ? 8 : 24);
	expect_none(1);
	shm_links_deinit(&p);
}

/* Stopped, or killed, in the middle of telling of the second one: what was sent is there. */
static void half_told_hides_nothing(void)
{
	uint64_t mark;

	begin();
	agree();
	expect_none(1);
	REQUIRE_INT(send_frame(0, 1, 8), ==, 0);
	REQUIRE_INT(send_frame(0, 2, 8), ==, 0);
	mark = atomic_exchange(&p.line.halves[0].mark, SHM_MARK_NONE);
	expect_frame(1, 1, 8);
	expect_frame(1, 2, 8);
	expect_none(1);
	atomic_store(&p.line.halves[0].mark, mark);
	expect_none(1);
	REQUIRE_INT(send_frame(0, 3, 8), ==, 0);
	expect_frame(1, 3, 8);
	shm_links_deinit(&p);
}

/* Stopped between the head and the word of it, when the other side has seen the head and looks for
 * the line. */
static void who_is_behind_with_telling_is_not_heard_yet(void)
{
	for (int side = 0; side < 2; side++) {
		struct shm_half *half = &p.line.halves[side];
		uint64_t told, mark;

		begin();
		if (side == 1) /* then this one tells, and its peer has still to find that out */
			for (uint64_t n = 0; n < N_UNTIL_FOUND; n++) {
				REQUIRE_INT(send_frame(1, n, 8), ==, 0);
				expect_frame(0, n, 8);
			}
		told = atomic_load(&half->mark);
		REQUIRE_INT(send_frame(side, 1, 8), ==, 0);
		mark = atomic_exchange(&half->mark, told);
		expect_frame(1 - side, 1, 8);
		for (uint64_t n = 0; n < N_UNTIL_FOUND; n++) {
			REQUIRE_INT(send_frame(1 - side, n, 8), ==, 0);
			expect_none(1 - side);
			if (n == N_UNTIL_FOUND / 2)
				atomic_store(&half->mark, mark);
			expect_frame(side, n, 8);
		}
		REQUIRE_INT(send_frame(side, 2, 8), ==, 0);
		/* By now it is: what is told there counts. */
		mark = atomic_exchange(&half->mark, mark);
		expect_none(1 - side);
		atomic_store(&half->mark, mark);
		expect_frame(1 - side, 2, 8);
		shm_links_deinit(&p);
	}
}

/* The words of another message than the mark says are not believed, nor is a mark that claims more
 * than a ring can hold, or less than was taken. */
static void lies_are_refused(void)
{
	static const int64_t off[] = {
		1, 16, 1 << 20, 64 << 20, INT64_MAX >> 7, -1, -32, -(1 << 20)
	};
	struct shm_half *half = &p.line.halves[0];
	struct hal_frame f;
	uint64_t head;
	int e;

	for (unsigned i = 0; i < ARRAY_SIZE(off); i++) {
		begin();
		agree();
		head = SHM_MARK_HEAD(atomic_load(&half->mark));
		for (unsigned n = 0; n <= SHM_TOLD; n += 8) {
			atomic_store(&half->mark, SHM_MARK(head + (uint64_t)off[i], n));
			e = p.link[1]->ops->next(p.link[1], &f);
			/* Within the ring there lies what its owner has written some time: it is
			 * its own. */
			CHECK(e == -EBADMSG || e == 0 ||
			      (e == 1 && f.len <= p.link[1]->caps.frame_max));
			CHECK(off[i] > 0 && off[i] <= 1 << 20 ? true : e <= 0);
		}
		shm_links_deinit(&p);
	}
}

static void a_length_that_is_no_word_is_refused(void)
{
	static const uint64_t lens[] = { 9, 16, 17, 1000, 65535, 65536, UINT32_MAX };
	struct shm_half *half = &p.line.halves[0];
	struct hal_frame f;

	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		begin();
		agree();
		REQUIRE_INT(send_frame(0, 1, 8), ==, 0);
		atomic_store(&half->words[1], 7ull << 48 | 9ull << 32 | lens[i]);
		if (lens[i] > 16)
			CHECK_INT(p.link[1]->ops->next(p.link[1], &f), ==, -EBADMSG);
		else
			CHECK_INT(p.link[1]->ops->next(p.link[1], &f), ==, 1);
		shm_links_deinit(&p);
	}
}

/* Names that mean nothing are no line. */
static void a_name_that_is_wrong_changes_nothing(void)
{
	static const uint64_t names[] = { 1, SHM_LINE_NAME(7, 10), SHM_LINE_NAME(6, 11),
					  UINT64_MAX };

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		begin();
		atomic_store(&shm_slab_side(&p.own[0], 0)->line, names[i]);
		for (uint64_t n = 0; n < N_UNTIL_FOUND; n++) {
			REQUIRE_INT(send_frame(n & 1, n, 8), ==, 0);
			expect_frame(~n & 1, n, 8);
		}
		CHECK_INT(atomic_load(&shm_slab_side(&p.own[1], 0)->line), ==, 0);
		shm_links_deinit(&p);
	}
}

/* The first to close cannot know whether the other one is in the middle of a send. */
static void a_line_is_free_when_the_other_side_has_closed(void)
{
	begin();
	agree();
	p.link[0]->ops->close(p.link[0]);
	p.link[0] = NULL;
	CHECK_INT(shm_links_n_returned, ==, 1);
	CHECK_INT(shm_links_n_done, ==, 0);
	p.link[1]->ops->close(p.link[1]);
	p.link[1] = NULL;
	CHECK_INT(shm_links_n_returned, ==, 2);
	CHECK_INT(shm_links_n_done, ==, 1);
	shm_links_deinit(&p);
}

static const struct test tests[] = {
	TEST(frames_arrive_before_and_after_both_tell_there),
	TEST(one_may_begin_late),
	TEST(a_stream_comes_without_words),
	TEST(many_under_way_are_taken_from_the_ring),
	TEST(half_told_hides_nothing),
	TEST(who_is_behind_with_telling_is_not_heard_yet),
	TEST(lies_are_refused),
	TEST(a_length_that_is_no_word_is_refused),
	TEST(a_name_that_is_wrong_changes_nothing),
	TEST(a_line_is_free_when_the_other_side_has_closed),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
