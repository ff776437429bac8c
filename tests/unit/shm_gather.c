/*
 * When a reader had better let short messages gather before it looks again (shm/stream.h): after
 * looks that found several, to which nothing was answered, and only once all that was found is
 * taken. Nothing is hidden by that: what comes is there at the next look.
 */
#include "harness.h"
#include "queue.h"
#include "shm_links.h"
#include "tcp_pair.h"

static const uint32_t rings[] = { 16384, 65536, 256 << 10, 1 << 20, 4 << 20 };

/* ---- frames of a link ------------------------------------------------------------------------ */

static struct shm_links p;

static void send_frames(int side, unsigned n, size_t len)
{
	static unsigned char buf[2100];
	struct hal_frame f = { .len = (uint32_t)len, .protocol = 7, .kind = 9 };
	struct iovec iov = { buf, len };

	for (unsigned i = 0; i < n; i++) {
		f.word = i;
		REQUIRE_INT(p.link[side]->ops->send(p.link[side], &f, &iov, 1), ==, 0);
	}
}

/* All n, and it is as given after the last of them; never before. */
static void take_frames(int side, unsigned n, bool gathers)
{
	struct hal_link *link = p.link[side];
	struct hal_frame f;

	for (unsigned i = 0; i < n; i++) {
		REQUIRE_INT(link->ops->next(link, &f), ==, 1);
		CHECK_INT(f.word, ==, i);
		link->ops->drop(link);
		CHECK_INT(link->gathers, ==, gathers && i + 1 == n);
	}
}

/* Without a line for both and with one, once each has found it. */
static void each_way(void (*play)(void))
{
	for (unsigned with_line = 0; with_line < 2; with_line++) {
		shm_links_init(&p, rings);
		if (with_line)
			shm_links_share(&p);
		for (unsigned i = 0; i < 100; i++) {
			send_frames(i & 1, 1, 8);
			take_frames(~i & 1, 1, false);
		}
		play();
		shm_links_deinit(&p);
	}
}

static void play_several(void)
{
	send_frames(0, 5, 8);
	take_frames(1, 5, false);
	for (unsigned n = 2; n < 20; n++) {
		send_frames(0, n, 8);
		take_frames(1, n, true);
	}
	/* One alone: it is a stream no more. */
	send_frames(0, 1, 8);
	take_frames(1, 1, false);
	send_frames(0, 5, 8);
	take_frames(1, 5, false);
}

static void several_at_each_look_gather(void)
{
	each_way(play_several);
}

static void play_answer(void)
{
	for (unsigned i = 0; i < 2; i++) {
		send_frames(0, 3, 8);
		take_frames(1, 3, i > 0);
	}
	send_frames(1, 1, 8);
	CHECK(!p.link[1]->gathers);
	take_frames(0, 1, false);
	send_frames(0, 3, 8);
	take_frames(1, 3, false);
}

static void an_answer_ends_it(void)
{
	each_way(play_answer);
}

static void play_much(void)
{
	for (unsigned i = 0; i < 4; i++) {
		send_frames(0, 2, 2100);
		take_frames(1, 2, false);
	}
	for (unsigned i = 0; i < 4; i++) {
		send_frames(0, SHM_RUN_MOST_RECORDS / 32 + 1, 8);
		take_frames(1, SHM_RUN_MOST_RECORDS / 32 + 1, false);
	}
}

static void who_finds_much_is_behind(void)
{
	each_way(play_much);
}

/* As many as come between the looks of a reader who lets some gather: he goes on doing so. */
static void play_a_hundred(void)
{
	for (unsigned i = 0; i < 4; i++) {
		send_frames(0, 100, 8);
		take_frames(1, 100, i > 0);
	}
}

static void a_hundred_short_ones_gather(void)
{
	each_way(play_a_hundred);
}

/* ---- bytes of a stream ----------------------------------------------------------------------- */

static struct tcp_pair t;
static uint64_t at;

static void send_bytes(unsigned n_sends, size_t len)
{
	for (unsigned i = 0; i < n_sends; i++)
		pair_send(&t, 0, at + i * len, len);
}

static bool reader_gathers(void)
{
	return shm_rx_gathers(&t.tcp[1].ring, shm_taken(&t.tcp[1].ring));
}

static void take_bytes(size_t len, unsigned n)
{
	for (unsigned i = 0; i < n; i++, at += len)
		pair_expect(&t, 1, at, len);
}

static void begin_bytes(void)
{
	at = 0;
	tcp_pair_init(&t, tcp_pair_usual_rings);
	tcp_pair_watch(&t);
	for (unsigned i = 0; i < 20; i++) {
		send_bytes(1, 8);
		take_bytes(8, 1);
		CHECK(!reader_gathers());
	}
}

static void a_stream_of_short_sends_gathers(void)
{
	begin_bytes();
	for (unsigned i = 0; i < 10; i++) {
		send_bytes(4, 8);
		take_bytes(8, 3);
		CHECK(!reader_gathers());
		take_bytes(8, 1);
		CHECK_INT(reader_gathers(), ==, i > 0);
	}
	/* Who has room for all of it finds as many. */
	for (unsigned i = 0; i < 10; i++) {
		send_bytes(4, 8);
		take_bytes(32, 1);
		CHECK(reader_gathers());
	}
	pair_send(&t, 1, 0, 8);
	CHECK(!reader_gathers());
	pair_expect(&t, 0, 0, 8);
	tcp_pair_deinit(&t);
}

static void a_short_send_alone_does_not(void)
{
	begin_bytes();
	for (unsigned i = 0; i < 10; i++) {
		send_bytes(1, 40);
		take_bytes(8, 5);
		CHECK(!reader_gathers());
	}
	tcp_pair_deinit(&t);
}

static const struct test tests[] = {
	TEST(several_at_each_look_gather),     TEST(an_answer_ends_it),
	TEST(who_finds_much_is_behind),	       TEST(a_hundred_short_ones_gather),
	TEST(a_stream_of_short_sends_gathers), TEST(a_short_send_alone_does_not),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
