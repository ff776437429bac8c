/*
 * hal/repair*.c over tests/fake_hal.c: the same frames come out, whatever the HAL below does to
 * them, as out of shared memory; windows are bounded; what is lost goes again, soon; and nobody
 * waits for the dead.
 *
 * All time is the fake's. Whatever has to happen must happen within a number of steps.
 */
#include <stdlib.h>

#include "harness.h"
#include "macros.h"
#include "repair_bed.h"
#include "shm_links.h"
#include "tcp_pair.h"

#define N_STEPS 2000000u

static void await_bytes(struct bed *b, int to, uint64_t word, uint32_t len)
{
	struct hal_frame f;
	int e = 0;

	for (unsigned i = 0; i < N_STEPS && e == 0; i++) {
		bed_step(b);
		e = b->link[to]->ops->next(b->link[to], &f);
	}
	REQUIRE_INT(e, ==, 1);
	bed_expect(b->link[to], word, len);
}

/* Until next() says this. */
static void await_end(struct bed *b, int at, int error)
{
	struct hal_frame f;
	int e = 0;

	for (unsigned i = 0; i < N_STEPS && e == 0; i++) {
		bed_step(b);
		e = b->link[at]->ops->next(b->link[at], &f);
	}
	CHECK_INT(e, ==, error);
}

/* ---- equal results --------------------------------------------------------------------------- */

#define N_FRAMES 400u
#define SIZE_MOST 3000u

static uint64_t mix(uint64_t digest, uint64_t value)
{
	return (digest ^ value) * 0x100000001b3ull;
}

/* Sends when it may. */
static void script_send(struct hal_link *link, uint32_t *random, uint64_t *word)
{
	uint32_t len = *random % SIZE_MOST;
	int e;

	if (*word == N_FRAMES)
		return;
	e = bed_send(link, *word, *random % 5 ? len % 50 : len);
	if (e == -EAGAIN)
		return;
	REQUIRE_INT(e, ==, 0);
	*random = *random * 1664525u + 1013904223u;
	++*word;
}

static void script_take(struct hal_link *link, uint64_t *digest, unsigned *n)
{
	static unsigned char buf[65536];
	struct iovec iov = { buf, sizeof(buf) };
	struct hal_frame f;
	int e = link->ops->next(link, &f);

	REQUIRE(e == 0 || e == 1);
	if (e == 0)
		return;
	*digest = mix(mix(*digest, f.word), (uint64_t)f.kind << 16 | f.protocol);
	REQUIRE_INT(link->ops->copy(link, &iov, 1), ==, f.len);
	for (uint32_t i = 0; i < f.len; i++)
		*digest = mix(*digest, buf[i]);
	link->ops->drop(link);
	++*n;
}

/* The same traffic in both directions over any link; what came out is the answer. */
static uint64_t script(struct hal_link *const link[2], void (*pass)(void *arg), void *arg)
{
	uint64_t digest[2] = { 14695981039346656037ull, 1 }, word[2] = { 0 };
	uint32_t random[2] = { 17, 23 };
	unsigned n[2] = { 0 };

	for (unsigned i = 0; i < N_STEPS && n[0] + n[1] < 2 * N_FRAMES; i++) {
		for (int side = 0; side < 2; side++) {
			script_send(link[side], &random[side], &word[side]);
			script_take(link[side], &digest[side], &n[side]);
		}
		pass(arg);
	}
	REQUIRE_INT(n[0], ==, N_FRAMES);
	REQUIRE_INT(n[1], ==, N_FRAMES);
	return mix(digest[0], digest[1]);
}

static void nothing_passes(void *arg)
{
	(void)arg;
}

static uint64_t digest_of_shm(void)
{
	struct shm_links p;
	uint64_t digest;

	shm_links_init(&p, tcp_pair_usual_rings);
	digest = script(p.link, nothing_passes, NULL);
	shm_links_deinit(&p);
	return digest;
}

static uint64_t digest_of(const struct fake_config *fake, const struct hal_repair_config *repair,
			  struct hal_repair_counts *ret_counts)
{
	struct bed b;
	uint64_t digest;

	bed_init(&b, fake, repair);
	REQUIRE(b.link[0]->caps.frame_max >= SIZE_MOST);
	digest = script(b.link, bed_step, &b);
	hal_repair_count(b.link[0], ret_counts);
	bed_deinit(&b);
	return digest;
}

/* What a real HAL may be like. */
static const struct fake_config kinds[] = {
	/* loses, doubles, reorders */
	{ .frame_max = 1024,
	  .n_queue = 4096,
	  .n_lost = 100,
	  .n_twice = 100,
	  .n_late = 200,
	  .nsec_delay = MSEC / 10,
	  .nsec_late = MSEC },
	/* loses nearly everything, and holds little */
	{ .frame_max = 1472, .n_queue = 5, .n_lost = 500, .nsec_delay = MSEC / 10 },
	/* reliable, not in order, frames as small as may be */
	{ .flags = HAL_RELIABLE,
	  .frame_max = HAL_FRAME_LEAST,
	  .n_queue = 64,
	  .n_late = 300,
	  .nsec_delay = MSEC / 10,
	  .nsec_late = MSEC },
	/* in order, not reliable, own buffers */
	{ .flags = HAL_ORDERED | HAL_OWN_BUFFERS,
	  .frame_max = 500,
	  .alignment = 64,
	  .n_queue = 100,
	  .n_lost = 50,
	  .n_twice = 50,
	  .nsec_delay = MSEC },
	/* nothing wrong with it but small frames, and hardly room for one */
	{ .flags = HAL_ORDERED | HAL_RELIABLE, .frame_max = 128, .n_queue = 1 },
	/* the same with own buffers */
	{ .flags = HAL_ORDERED | HAL_RELIABLE | HAL_OWN_BUFFERS,
	  .frame_max = 256,
	  .alignment = 64,
	  .n_queue = 3,
	  .nsec_delay = MSEC / 10 },
	/* long way */
	{ .frame_max = 8192,
	  .n_gather = 4,
	  .alignment = 8,
	  .n_queue = 4096,
	  .n_lost = 20,
	  .n_late = 20,
	  .nsec_delay = 50 * MSEC,
	  .nsec_late = 10 * MSEC },
};

static void results_are_those_of_shm(void)
{
	const uint64_t wanted = digest_of_shm();
	struct hal_repair_counts counts;
	struct fake_config fake;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		for (uint64_t seed = 1; seed <= 6; seed++) {
			fake = kinds[i];
			fake.seed = seed;
			CHECK_INT(digest_of(&fake, NULL, &counts), ==, wanted);
			if (fake.n_lost)
				CHECK_INT(counts.n_fast + counts.n_late, >, 0);
		}
	}
}

/* Windows of every size, and numbers that begin again at 0. */
static void numbers_wrap(void)
{
	const uint64_t wanted = digest_of_shm();
	struct hal_repair_config config = { .seq_first = UINT32_MAX - 100 };
	struct hal_repair_counts counts;

	for (config.n_slots = 8; config.n_slots <= 4096; config.n_slots *= 8)
		CHECK_INT(digest_of(&kinds[0], &config, &counts), ==, wanted);
	CHECK_INT(counts.n_packets, >, 101);
	CHECK_INT(counts.n_duplicates, >, 0);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void full_until_the_peer_takes(void)
{
	struct hal_repair_config config = { .n_slots = 8 };
	struct bed b;
	unsigned n = 0;
	int e = 0;

	bed_init(&b, &bed_usual, &config);
	for (unsigned i = 0; i < 1000 && (e = bed_send(b.link[0], n, 100)) != -EAGAIN; i++) {
		REQUIRE_INT(e, ==, 0);
		n++;
		bed_step(&b);
	}
	for (unsigned i = 0; i < 1000; i++)
		bed_step(&b);
	while (bed_send(b.link[0], n, 100) == 0)
		n++;
	/* A window there and one here, both bounded. */
	CHECK_INT(n, ==, 16);
	CHECK_INT(hal_link_flush(b.link[0]), ==, -EAGAIN);
	for (unsigned i = 0; i < n; i++)
		await_bytes(&b, 1, i, 100);
	for (unsigned i = 0; i < 20; i++)
		bed_step(&b);
	CHECK_INT(hal_link_flush(b.link[0]), ==, 0);
	CHECK_INT(bed_send(b.link[0], 1, b.link[0]->caps.frame_max + 1), ==, -EMSGSIZE);
	bed_deinit(&b);
}

/* The news of new room are lost: the sender asks. */
static void lost_news_of_room_are_asked_for(void)
{
	struct hal_repair_config config = { .n_slots = 8 };
	struct bed b;
	unsigned n = 0;

	bed_init(&b, &bed_usual, &config);
	for (unsigned i = 0; i < 1000; i++) {
		n += bed_send(b.link[0], n, 100) == 0;
		bed_step(&b);
	}
	CHECK_INT(n, ==, 16);
	b.fake.black_hole = true;
	for (unsigned i = 0; i < 8; i++)
		bed_expect(b.link[1], i, 100);
	for (unsigned i = 0; i < 10; i++)
		bed_step(&b);
	b.fake.black_hole = false;
	CHECK_INT(b.fake.n_lost, >, 0);
	for (unsigned i = 8; i < n; i++)
		await_bytes(&b, 1, i, 100);
	bed_deinit(&b);
}

/* ---- repeating ------------------------------------------------------------------------------- */

static void exchange(struct bed *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		REQUIRE_INT(bed_send(b->link[0], i, 10), ==, 0);
		await_bytes(b, 1, i, 10);
	}
	for (unsigned i = 0; i < 10; i++)
		bed_step(b);
}

static void overtaken_packets_go_again_at_once(void)
{
	struct hal_repair_counts counts;
	struct bed b;

	bed_init(&b, &bed_usual, NULL);
	exchange(&b, 50);
	b.fake.nsec_look = 1;
	b.fake.black_hole = true;
	REQUIRE_INT(bed_send(b.link[0], 100, 10), ==, 0);
	b.fake.black_hole = false;
	for (unsigned i = 101; i < 105; i++)
		REQUIRE_INT(bed_send(b.link[0], i, 10), ==, 0);
	/* There, back, and there again; the timeout is 2 ms at least. */
	for (unsigned i = 0; i < 6; i++)
		bed_step(&b);
	for (unsigned i = 100; i < 105; i++)
		bed_expect(b.link[1], i, 10);
	hal_repair_count(b.link[0], &counts);
	CHECK_INT(counts.n_fast, ==, 1);
	CHECK_INT(counts.n_late, ==, 0);
	bed_deinit(&b);
}

static void the_last_packet_goes_again_in_time(void)
{
	struct hal_repair_counts counts;
	struct bed b;
	unsigned i = 0;

	bed_init(&b, &bed_usual, NULL);
	exchange(&b, 50);
	b.fake.black_hole = true;
	REQUIRE_INT(bed_send(b.link[0], 100, 10), ==, 0);
	b.fake.black_hole = false;
	/* Nobody does anything, and pending() says when it is time. */
	for (; i < 1000 && !b.link[0]->ops->pending(b.link[0]); i++)
		b.fake.nsec_now += MSEC / 10;
	CHECK_INT(i, >=, 15);
	CHECK_INT(i, <=, 50);
	await_bytes(&b, 1, 100, 10);
	hal_repair_count(b.link[0], &counts);
	CHECK_INT(counts.n_fast, ==, 0);
	CHECK_INT(counts.n_late, ==, 1);
	bed_deinit(&b);
}

/* A way longer than the first guess costs repetitions at first, and none later. */
static void the_timeout_follows_the_way(void)
{
	struct fake_config fake = bed_usual;
	struct hal_repair_counts before, after;
	struct bed b;

	fake.nsec_delay = 40 * MSEC;
	bed_init(&b, &fake, NULL);
	exchange(&b, 20);
	hal_repair_count(b.link[0], &before);
	exchange(&b, 50);
	hal_repair_count(b.link[0], &after);
	CHECK_INT(before.n_late, >, 0);
	CHECK_INT(after.n_late, ==, before.n_late);
	bed_deinit(&b);
}

/* What travels with data needs no packet of its own. */
static void answers_ride_along(void)
{
	struct hal_repair_counts counts;
	struct bed b;

	bed_init(&b, &bed_usual, NULL);
	for (unsigned i = 0; i < 100; i++) {
		REQUIRE_INT(bed_send(b.link[i & 1], i, 10), ==, 0);
		await_bytes(&b, ~i & 1, i, 10);
	}
	hal_repair_count(b.link[0], &counts);
	CHECK_INT(counts.n_acks, <=, 5);
	CHECK_INT(counts.n_late, ==, 0);
	bed_deinit(&b);
}

/* Whoever sleeps on such a link is told of answers and repetitions, which nobody has asked for, and
 * knows by when to look. */
static void the_owner_knows_when(void)
{
	struct hal_link *link;
	struct bed b;
	uint64_t due;

	bed_init(&b, &bed_usual, NULL);
	link = b.link[0];
	CHECK(atomic_load(link->nsec_due) == UINT64_MAX);
	REQUIRE_INT(bed_send(link, 1, 10), ==, 0);
	due = atomic_load(link->nsec_due);
	REQUIRE(due > b.fake.nsec_now && due != UINT64_MAX);
	await_bytes(&b, 1, 1, 10);
	b.link[1]->did_send = false;
	for (unsigned i = 0; i < 10 && !b.link[1]->did_send; i++)
		(void)b.link[1]->ops->progress(b.link[1]);
	CHECK(b.link[1]->did_send);
	for (unsigned i = 0; i < 100; i++)
		bed_step(&b);
	CHECK(atomic_load(link->nsec_due) == UINT64_MAX);
	b.fake.black_hole = true;
	REQUIRE_INT(bed_send(link, 2, 10), ==, 0);
	link->did_send = false;
	CHECK(!link->ops->pending(link));
	b.fake.nsec_now = atomic_load(link->nsec_due);
	CHECK(link->ops->pending(link));
	(void)link->ops->progress(link);
	CHECK(link->did_send);
	bed_deinit(&b);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void silence_is_death_if_so_agreed(void)
{
	struct hal_repair_config config = { .nsec_dead = NSEC_PER_SEC };
	struct bed b;

	for (int agreed = 0; agreed < 2; agreed++) {
		bed_init(&b, &bed_usual, agreed ? &config : NULL);
		exchange(&b, 3);
		b.fake.black_hole = true;
		/* A minute of silence with nothing to say proves nothing. */
		b.fake.nsec_now += 60 * NSEC_PER_SEC;
		bed_step(&b);
		REQUIRE_INT(bed_send(b.link[0], 1, 10), ==, 0);
		for (unsigned i = 0; i < 9000; i++)
			bed_step(&b);
		CHECK_INT(bed_send(b.link[0], 2, 10), ==, 0);
		for (unsigned i = 0; i < 100000; i++)
			bed_step(&b);
		CHECK_INT(bed_send(b.link[0], 3, 10), ==, agreed ? -EPIPE : 0);
		if (agreed)
			await_end(&b, 0, -EPIPE);
		bed_deinit(&b);
	}
}

static void the_end_comes_behind_the_last_frame(void)
{
	struct bed b;

	bed_init(&b, &bed_usual, NULL);
	REQUIRE_INT(bed_send(b.link[0], 1, 3000), ==, 0);
	REQUIRE_INT(bed_send(b.link[0], 2, 10), ==, 0);
	bed_step(&b);
	fake_kill_end(&b.fake, 0);
	for (unsigned i = 0; i < 10; i++)
		bed_step(&b);
	bed_expect(b.link[1], 1, 3000);
	bed_expect(b.link[1], 2, 10);
	await_end(&b, 1, -EPIPE);
	CHECK_INT(bed_send(b.link[1], 2, 10), ==, -EPIPE);
	bed_deinit(&b);
}

/* close() cannot wait, but what was sent has been sent. */
static void close_sends_what_is_left(void)
{
	struct bed b;

	bed_init(&b, &bed_usual, NULL);
	b.fake.black_hole = true;
	REQUIRE_INT(bed_send(b.link[0], 1, 3000), ==, 0);
	b.fake.black_hole = false;
	b.link[0]->ops->close(b.link[0]);
	/* The fake's own close ends the queue in one direction only. */
	b.fake.nsec_now += MSEC;
	CHECK_INT(b.link[1]->ops->progress(b.link[1]), ==, 0);
	bed_expect(b.link[1], 1, 3000);
	b.link[1]->ops->close(b.link[1]);
}

/* ---- remote memory, own self ----------------------------------------------------------------- */

static void remote_writes_pass(void)
{
	static _Alignas(64) char there[64], here[64];
	const struct hal_frame note = { .word = 8, .protocol = 7, .kind = 8 };
	const struct fake_config fake = {
		.flags = HAL_ORDERED | HAL_RELIABLE | HAL_REMOTE_WRITE | HAL_REMOTE_NOTIFY |
			 HAL_REMOTE_KEYS,
		.frame_max = 256,
		.alignment = 64,
		.n_queue = 2,
		.nsec_delay = MSEC,
	};
	struct iovec iov = { here, 64 };
	struct hal_link *writer;
	struct bed b;
	uint64_t key;
	bool done;
	int e = -EAGAIN;

	bed_init(&b, &fake, NULL);
	writer = b.link[0];
	CHECK_INT(writer->caps.flags, ==, fake.flags);
	CHECK_INT(writer->caps.alignment, ==, 64);
	REQUIRE_INT(b.link[1]->ops->expose(b.link[1], there, 64, &key), ==, 0);
	memset(here, 1, 64);
	/* The frame before it is still being cut and sent. */
	REQUIRE_INT(bed_send(writer, 7, 2000), ==, 0);
	CHECK_INT(writer->ops->write(writer, key, 0, &iov, 1, &note, &done), ==, -EAGAIN);
	for (unsigned i = 0; i < N_STEPS && e == -EAGAIN; i++) {
		bed_step(&b);
		e = writer->ops->write(writer, key, 0, &iov, 1, &note, &done);
	}
	REQUIRE_INT(e, ==, 0);
	await_bytes(&b, 1, 7, 2000);
	await_bytes(&b, 1, 8, 0);
	CHECK(done && there[63] == 1);
	b.link[1]->ops->conceal(b.link[1], key);
	CHECK_INT(writer->ops->write(writer, key, 0, &iov, 1, NULL, &done), ==, -EPIPE);
	bed_deinit(&b);
}

static void to_oneself_in_pieces(void)
{
	const struct fake_config fake = {
		.flags = HAL_ORDERED | HAL_RELIABLE | HAL_IMMEDIATE,
		.frame_max = 64,
		.n_queue = 8,
	};
	struct hal_repair_config config = { .n_slots = 32 };
	struct hal_link *link;
	struct fake_pair p;
	unsigned n = 0;

	fake_pair_init(&p, &fake);
	REQUIRE_INT(hal_repair_open(p.link[0], &config, &link), ==, 0);
	CHECK(!(link->caps.flags & HAL_IMMEDIATE));
	while (n < 100 && bed_send(link, n, 100) == 0)
		n++;
	CHECK_INT(n, ==, 21); /* three packets each: a window there and one here */
	CHECK(link->ops->pending(link));
	for (unsigned i = 0; i < n; i++) {
		bed_expect(link, i, 100);
		CHECK_INT(link->ops->progress(link), ==, 0);
	}
	link->ops->close(link);
	CHECK_INT(p.n_violations, ==, 0);
}

static void unfit_windows_and_frames_are_refused(void)
{
	static const uint32_t n_slots[] = { 1, 4, 9, 8192, UINT32_MAX };
	struct hal_repair_config config = { 0 };
	struct fake_config fake = bed_usual;
	struct hal_link *link;
	struct fake_pair p;

	fake_pair_init(&p, &fake);
	for (size_t i = 0; i < ARRAY_SIZE(n_slots); i++) {
		config.n_slots = n_slots[i];
		CHECK_INT(hal_repair_open(p.link[0], &config, &link), ==, -EINVAL);
	}
	fake_pair_deinit(&p);
	fake.frame_max = HAL_FRAME_LEAST - 1;
	fake_pair_init(&p, &fake);
	CHECK_INT(hal_repair_open(p.link[0], NULL, &link), ==, -EINVAL);
	fake_pair_deinit(&p);
}

static void good_hals_need_no_repair(void)
{
	struct hal_caps caps = {
		.flags = HAL_ORDERED | HAL_RELIABLE,
		.frame_max = 65536,
		.n_gather = 16,
		.alignment = 1,
	};

	CHECK(!hal_repair_is_needed(&caps));
	caps.flags = HAL_RELIABLE;
	CHECK(hal_repair_is_needed(&caps));
	caps.flags = HAL_ORDERED;
	CHECK(hal_repair_is_needed(&caps));
	caps.flags = HAL_ORDERED | HAL_RELIABLE | HAL_OWN_BUFFERS;
	CHECK(hal_repair_is_needed(&caps));
	caps.flags = HAL_ORDERED | HAL_RELIABLE;
	caps.n_gather = 1;
	CHECK(hal_repair_is_needed(&caps));
	caps.n_gather = 16;
	caps.frame_max = 1500;
	CHECK(hal_repair_is_needed(&caps));
}

static const struct test tests[] = {
	TEST(results_are_those_of_shm),
	TEST(numbers_wrap),
	TEST(full_until_the_peer_takes),
	TEST(lost_news_of_room_are_asked_for),
	TEST(overtaken_packets_go_again_at_once),
	TEST(the_last_packet_goes_again_in_time),
	TEST(the_timeout_follows_the_way),
	TEST(answers_ride_along),
	TEST(the_owner_knows_when),
	TEST(silence_is_death_if_so_agreed),
	TEST(the_end_comes_behind_the_last_frame),
	TEST(close_sends_what_is_left),
	TEST(remote_writes_pass),
	TEST(to_oneself_in_pieces),
	TEST(unfit_windows_and_frames_are_refused),
	TEST(good_hals_need_no_repair),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
