/*
 * hal/shm.c and hal/self.c: frames arrive whole, in order and once; a full ring says so; what a
 * lying peer writes is refused; and the end is announced behind the last frame.
 */
#include <stdlib.h>
#include <string.h>

#include "geometry.h"
#include "harness.h"
#include "macros.h"
#include "self.h"
#include "shm_links.h"
#include "tcp_pair.h"

/* The payload of frame number n. */
static void fill(unsigned char *buf, uint64_t n, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(n * 31 + i * 7);
}

static int send_frame(struct hal_link *link, uint64_t n, size_t len)
{
	unsigned char *buf = malloc(len + 1);
	struct hal_frame f = { .word = n, .len = (uint32_t)len, .protocol = 7, .kind = 9 };
	struct iovec iov[2] = { { buf, len / 3 }, { buf + len / 3, len - len / 3 } };
	int e;

	REQUIRE(buf != NULL);
	fill(buf, n, len);
	e = link->ops->send(link, &f, iov, 2);
	free(buf);
	return e;
}

static void expect_frame(struct hal_link *link, uint64_t n, size_t len)
{
	static unsigned char buf[1 << 20], wanted[1 << 20];
	struct iovec iov[2] = { { buf, len / 2 }, { buf + len / 2, sizeof(buf) - len / 2 } };
	struct hal_frame f;

	REQUIRE_INT(link->ops->next(link, &f), ==, 1);
	CHECK_INT(f.word, ==, n);
	CHECK_INT(f.protocol, ==, 7);
	CHECK_INT(f.kind, ==, 9);
	REQUIRE_INT(f.len, ==, len);
	fill(wanted, n, len);
	CHECK_INT(link->ops->copy(link, iov, 2), ==, len);
	CHECK_MEM(buf, wanted, len);
	link->ops->drop(link);
}

static void frames_arrive_whole_and_in_order(void)
{
	static const uint32_t rings[] = { 4096, 65536, 256 << 10, 1 << 20, 4 << 20 };
	struct hal_frame f;
	struct shm_links p;
	size_t max;

	shm_links_init(&p, rings);
	max = p.link[0]->caps.frame_max;
	REQUIRE(max >= p.link[0]->caps.frame_good && max <= 65535);
	for (uint64_t n = 0; n < 3000; n++) {
		size_t len = n < 100 ? n : (size_t)(n * 7919 % max);

		REQUIRE_INT(send_frame(p.link[n & 1], n, len), ==, 0);
		CHECK(p.link[~n & 1]->ops->pending(p.link[~n & 1]));
		expect_frame(p.link[~n & 1], n, len);
	}
	CHECK_INT(p.link[0]->ops->next(p.link[0], &f), ==, 0);
	CHECK(!p.link[0]->ops->pending(p.link[0]));
	CHECK_INT(send_frame(p.link[0], 0, max + 1), ==, -EMSGSIZE);
	shm_links_deinit(&p);
	CHECK_INT(shm_links_credit, ==, 64u << 20);
}

static uint64_t fill_up(struct hal_link *link, size_t len)
{
	uint64_t n = 0;
	int e;

	while ((e = send_frame(link, n, len)) == 0)
		n++;
	CHECK_INT(e, ==, -EAGAIN);
	return n;
}

static void full_is_full_until_something_is_taken(void)
{
	struct shm_links p;
	uint64_t n;

	shm_links_init(&p, tcp_pair_small_rings);
	n = fill_up(p.link[0], 100);
	CHECK_INT(n, >, 4096 / 128);
	for (uint64_t i = 0; i < n; i++)
		expect_frame(p.link[1], i, 100);
	/* Many times around the largest ring. */
	for (uint64_t i = 0; i < 5000; i++) {
		REQUIRE_INT(send_frame(p.link[0], i, i % 1000), ==, 0);
		expect_frame(p.link[1], i, i % 1000);
	}
	shm_links_deinit(&p);
}

/* Written in one way while the reader is near, in another one when it is far. */
static void a_reader_far_behind_finds_all(void)
{
	static const uint32_t rings[] = { 4096, 65536, 256 << 10, 1 << 20, 4 << 20 };
	static const size_t len = 10007;
	struct shm_links p;
	uint64_t read = 0;

	shm_links_init(&p, rings);
	for (uint64_t n = 0; n < 1000; n++) {
		REQUIRE_INT(send_frame(p.link[0], n, len), ==, 0);
		/* Up to 3 MB behind, then back to none. */
		while (read < n && n % 300 == 299)
			expect_frame(p.link[1], read++, len);
	}
	while (read < 1000)
		expect_frame(p.link[1], read++, len);
	shm_links_deinit(&p);
}

static void what_a_byte_costs_is_measured_and_told(void)
{
	static const uint32_t rings[] = { 4096, 65536, 256 << 10, 1 << 20, 4 << 20 };
	const struct hal_costs *in, *out;
	struct shm_links p;

	shm_links_init(&p, rings);
	in = &p.link[0]->costs;
	out = &p.link[1]->costs;
	CHECK_INT(shm_slab_side(&p.own[0], 0)->psec_in, ==, 0);
	for (uint64_t n = 0; n < 1000; n++) {
		REQUIRE_INT(send_frame(p.link[0], n, 9000), ==, 0);
		expect_frame(p.link[1], n, 9000);
	}
	CHECK_INT(in->psec_in, >=, HAL_PSEC_LEAST);
	CHECK_INT(in->psec_in, <=, HAL_PSEC_MOST);
	CHECK_INT(shm_slab_side(&p.own[0], 0)->psec_in, ==, in->psec_in);
	CHECK_INT(shm_slab_side(&p.own[0], 0)->psec_out, ==, 0);
	CHECK_INT(shm_slab_side(&p.own[1], 0)->psec_out, ==, out->psec_out);
	CHECK_INT(shm_slab_side(&p.own[0], 0)->size_piece, >=, HAL_PIECE_LEAST);
	CHECK_INT(shm_slab_side(&p.own[0], 0)->size_piece, <=, p.link[0]->caps.frame_max);
	shm_links_deinit(&p);
}

/* Short and long ones: after some, what is believed of a frame is not what was believed before. */
static void what_a_frame_costs_is_measured(void)
{
	static const uint32_t rings[] = { 4096, 65536, 256 << 10, 1 << 20, 4 << 20 };
	uint32_t usual[2];
	struct shm_links p;

	shm_links_init(&p, rings);
	for (unsigned i = 0; i < 2; i++) {
		usual[i] = p.link[i]->costs.nsec_frame;
		p.link[i]->costs.nsec_frame = HAL_NSEC_MOST + 1;
	}
	for (uint64_t n = 0; n < 1000; n++) {
		REQUIRE_INT(send_frame(p.link[0], n, n % 2 ? 2048 : 16000), ==, 0);
		expect_frame(p.link[1], n, n % 2 ? 2048 : 16000);
	}
	for (unsigned i = 0; i < 2; i++) {
		CHECK_INT(usual[i], >=, HAL_NSEC_LEAST);
		CHECK_INT(p.link[i]->costs.nsec_frame, >=, HAL_NSEC_LEAST);
		CHECK_INT(p.link[i]->costs.nsec_frame, <=, HAL_NSEC_MOST);
	}
	shm_links_deinit(&p);
}

/* Room is given back in parts of the largest ring, so that a sender who waits for it need not
 * sleep; and behind a backlog pieces are as large as can be. */
static void room_comes_back_in_time(void)
{
	static const uint32_t rings[] = { 4096, 65536, 256 << 10, 1 << 20, 4 << 20 };
	static const size_t len = 32000;
	const struct hal_costs usual = { 150, 70, 60 };
	struct shm_links p;
	struct hal_link *link;

	shm_links_init(&p, rings);
	link = p.link[0];
	link->costs = usual;
	CHECK_INT(link->ops->backlog(link), ==, 0);
	CHECK_INT(hal_link_piece(link, 65536), ==, hal_piece(&usual, 65536, link->caps.frame_max));
	for (uint64_t n = 0; n < 100; n++)
		REQUIRE_INT(send_frame(link, n, len), ==, 0);
	link->costs = usual;
	CHECK_INT(link->ops->backlog(link), >=, 100 * len);
	CHECK_INT(hal_link_piece(link, 65536), ==, link->caps.frame_max);
	/* With the message's size before it a piece is still half of 64 KiB: no third frame for the
	 * rest. */
	CHECK_INT(link->caps.frame_max, >=, 32768 + sizeof(uint64_t));
	for (uint64_t n = 0; n < 100; n++) {
		expect_frame(p.link[1], n, len);
		CHECK_INT(shm_slab_side(&p.own[1], 0)->tail + 3 * len, >=, (n + 1) * len);
	}
	CHECK_INT(link->ops->backlog(link), ==, 0);
	shm_links_deinit(&p);
}

/* Without memory to grow the first ring has to do. */
static void no_credit_is_no_failure(void)
{
	static const uint32_t rings[] = { 4096, 65536, 256 << 10, 1 << 20, 4 << 20 };
	struct shm_links p;
	uint64_t n;

	shm_links_init(&p, rings);
	shm_links_credit = 0;
	n = fill_up(p.link[0], 100);
	CHECK_INT(n, ==, 4096 / 128);
	CHECK_INT(send_frame(p.link[0], n, 20000), ==, -EAGAIN);
	for (uint64_t i = 0; i < n; i++)
		expect_frame(p.link[1], i, 100);
	CHECK_INT(send_frame(p.link[0], n, 20000), ==, -EAGAIN);
	shm_links_credit = 1 << 20;
	CHECK_INT(send_frame(p.link[0], n, 20000), ==, 0);
	expect_frame(p.link[1], n, 20000);
	shm_links_deinit(&p);
}

static void the_end_comes_behind_the_last_frame(void)
{
	struct hal_frame f;
	struct shm_links p;

	shm_links_init(&p, tcp_pair_small_rings);
	CHECK_INT(p.link[1]->ops->watch(p.link[1], SHM_WATCH(5, 0, 0), HAL_WATCH_DATA), ==, 0);
	REQUIRE_INT(send_frame(p.link[0], 1, 10), ==, 0);
	p.link[0]->ops->tell(p.link[0], HAL_DID_SEND);
	CHECK_INT(shm_links_n_wakes, ==, 1);
	p.link[0]->ops->close(p.link[0]);
	p.link[0] = NULL;
	CHECK_INT(shm_links_n_wakes, ==, 2);
	expect_frame(p.link[1], 1, 10);
	CHECK(p.link[1]->ops->pending(p.link[1]));
	CHECK_INT(p.link[1]->ops->next(p.link[1], &f), ==, -EPIPE);
	CHECK_INT(send_frame(p.link[1], 2, 10), ==, -EPIPE);
	shm_links_deinit(&p);
}

/* Who makes progress for others need not be told of what nobody waits for. */
static void a_lazy_watch_sleeps_on(void)
{
	struct shm_links p;

	shm_links_init(&p, tcp_pair_small_rings);
	CHECK_INT(p.link[1]->ops->watch(p.link[1], SHM_WATCH(5, 0, 0) | HAL_WATCH_LAZY,
					HAL_WATCH_DATA),
		  ==, 0);
	REQUIRE_INT(send_frame(p.link[0], 1, 10), ==, 0);
	p.link[0]->ops->tell(p.link[0], HAL_DID_SEND_IDLY);
	CHECK_INT(shm_links_n_wakes, ==, 0);
	p.link[0]->ops->tell(p.link[0], HAL_DID_SEND);
	CHECK_INT(shm_links_n_wakes, ==, 1);
	CHECK_INT(p.link[1]->ops->watch(p.link[1], SHM_WATCH(5, 0, 1), HAL_WATCH_DATA), ==, 0);
	REQUIRE_INT(send_frame(p.link[0], 2, 10), ==, 0);
	p.link[0]->ops->tell(p.link[0], HAL_DID_SEND_IDLY);
	CHECK_INT(shm_links_n_wakes, ==, 3);
	shm_links_deinit(&p);
}

/* psid's word for a peer that was killed. */
static void the_dead_are_noticed(void)
{
	struct hal_frame f;
	struct shm_links p;

	shm_links_init(&p, tcp_pair_small_rings);
	REQUIRE_INT(send_frame(p.link[0], 1, 10), ==, 0);
	atomic_fetch_or(&shm_slab_side(&p.own[0], 0)->notice, SHM_DEAD);
	expect_frame(p.link[1], 1, 10);
	CHECK_INT(p.link[1]->ops->next(p.link[1], &f), ==, -EPIPE);
	shm_links_deinit(&p);
}

/* ---- a peer that lies ------------------------------------------------------------------------ */

static int next_after(struct shm_links *p,
		      void (*spoil)(struct shm_side *side, unsigned char *ring))
{
	struct shm_side *side = shm_slab_side(&p->own[0], 0);
	struct hal_frame f;

	spoil(side, (unsigned char *)side + shm_slot_ring_offset(p->own[0].size_ring, 0));
	return p->link[1]->ops->next(p->link[1], &f);
}

static void head_too_far(struct shm_side *side, unsigned char *ring)
{
	(void)ring;
	atomic_store(&side->head, UINT64_MAX / 2);
}

static void head_back(struct shm_side *side, unsigned char *ring)
{
	(void)ring;
	atomic_store(&side->head, UINT64_MAX - 64);
}

static void half_a_header(struct shm_side *side, unsigned char *ring)
{
	(void)ring;
	atomic_store(&side->inline_at, SHM_NO_INLINE);
	atomic_store(&side->head, 8);
}

static void len_beyond_head(struct shm_side *side, unsigned char *ring)
{
	atomic_store(&side->inline_at, SHM_NO_INLINE);
	((struct shm_record *)ring)->len = 60000;
}

static void len_huge(struct shm_side *side, unsigned char *ring)
{
	atomic_store(&side->inline_at, SHM_NO_INLINE);
	((struct shm_record *)ring)->len = UINT32_MAX;
}

static void inlined_len(struct shm_side *side, unsigned char *ring)
{
	struct shm_record record = { .len = 1u << 20 };

	(void)ring;
	memcpy(side->inlined, &record, sizeof(record));
}

static void ring_at_nonsense(struct shm_side *side, unsigned char *ring)
{
	(void)ring;
	atomic_store(&side->inline_at, SHM_NO_INLINE);
	atomic_store(&side->ring_at[1], 1);
}

static void lies_are_refused(void)
{
	static void (*const lies[])(struct shm_side *, unsigned char *) = {
		head_too_far, head_back,   half_a_header,    len_beyond_head,
		len_huge,     inlined_len, ring_at_nonsense,
	};
	struct shm_links p;

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		shm_links_init(&p, tcp_pair_usual_rings);
		REQUIRE_INT(send_frame(p.link[0], 1, 10), ==, 0);
		CHECK_INT(next_after(&p, lies[i]), ==, -EBADMSG);
		shm_links_deinit(&p);
	}
}

static void a_tail_that_lies_ends_the_sending(void)
{
	struct shm_links p;

	shm_links_init(&p, tcp_pair_small_rings);
	(void)fill_up(p.link[0], 100);
	atomic_store(&shm_slab_side(&p.own[1], 0)->tail, UINT64_MAX / 2);
	CHECK_INT(send_frame(p.link[0], 1, 100), ==, -EBADMSG);
	shm_links_deinit(&p);
}

/* Any word of a side's control page may change at any moment: no answer but these. */
static void garbage_is_survived(void)
{
	struct hal_frame f;
	struct shm_links p;
	int e;

	srandom(4711);
	for (unsigned round = 0; round < 500; round++) {
		uint64_t *words;

		shm_links_init(&p, tcp_pair_small_rings);
		words = (uint64_t *)shm_slab_side(&p.own[0], 0);
		for (uint64_t n = 0; n < 5; n++)
			REQUIRE_INT(send_frame(p.link[0], n, 30 * n), ==, 0);
		for (unsigned i = 0; i < 4; i++)
			words[(size_t)random() % (sizeof(struct shm_side) / 8)] =
				(uint64_t)random() << (random() % 40);
		for (unsigned i = 0; i < 10; i++) {
			unsigned char buf[4096];
			struct iovec iov = { buf, sizeof(buf) };

			e = p.link[1]->ops->next(p.link[1], &f);
			REQUIRE(e == 1 || e == 0 || e == -EPIPE || e == -EBADMSG);
			if (e != 1)
				break;
			REQUIRE_INT(f.len, <=, p.link[1]->caps.frame_max);
			CHECK_INT(p.link[1]->ops->copy(p.link[1], &iov, 1), ==,
				  MIN(f.len, (uint32_t)sizeof(buf)));
			p.link[1]->ops->drop(p.link[1]);
		}
		e = send_frame(p.link[1], 0, 100);
		CHECK(e == 0 || e == -EPIPE || e == -EBADMSG || e == -EAGAIN);
		shm_links_deinit(&p);
	}
}

/* ---- to oneself ------------------------------------------------------------------------------ */

static struct hal_link *self;
static uint64_t seen[8];
static unsigned n_seen;

static void on_arrival(struct hal_link *link, void *arg)
{
	bool *refuses = arg;
	struct hal_frame f;

	if (*refuses)
		return;
	REQUIRE_INT(link->ops->next(link, &f), ==, 1);
	seen[n_seen++] = f.word;
	/* The answer is taken before the question is. */
	if (f.word < 3)
		REQUIRE_INT(send_frame(link, f.word + 1, 5), ==, 0);
	expect_frame(link, f.word, f.len);
	CHECK_INT(link->ops->next(link, &f), ==, 0);
}

static void self_is_immediate(void)
{
	bool refuses = false;

	REQUIRE_INT(hal_self_open(&self), ==, 0);
	self->arrived = on_arrival;
	self->arg = &refuses;
	n_seen = 0;
	CHECK_INT(send_frame(self, 0, 100000), ==, 0);
	CHECK_INT(n_seen, ==, 4);
	for (unsigned i = 0; i < 4; i++)
		CHECK_INT(seen[i], ==, i);
	refuses = true;
	CHECK_INT(send_frame(self, 9, 10), ==, -EAGAIN);
	self->ops->close(self);
}

static const struct test tests[] = {
	TEST(frames_arrive_whole_and_in_order),
	TEST(full_is_full_until_something_is_taken),
	TEST(a_reader_far_behind_finds_all),
	TEST(what_a_byte_costs_is_measured_and_told),
	TEST(what_a_frame_costs_is_measured),
	TEST(room_comes_back_in_time),
	TEST(no_credit_is_no_failure),
	TEST(the_end_comes_behind_the_last_frame),
	TEST(a_lazy_watch_sleeps_on),
	TEST(the_dead_are_noticed),
	TEST(lies_are_refused),
	TEST(a_tail_that_lies_ends_the_sending),
	TEST(garbage_is_survived),
	TEST(self_is_immediate),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
