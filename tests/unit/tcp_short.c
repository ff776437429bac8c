/*
 * protocols/tcp_short.h: what goes the short way is what the long way would have moved, and what is
 * not the usual case does not go there.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tcp_pair.h"
#include "tcp_short.h"

static struct tcp_pair p;

static bool send_short(int end, uint64_t at, size_t len)
{
	unsigned char buf[SHM_SHORT_MOST];

	bytes_fill(buf, at, len);
	return tcp_push_short(&p.tcp[end], buf, len);
}

static size_t receive_short(int end, uint64_t at, size_t len)
{
	unsigned char buf[SHM_SHORT_MOST + 64];
	unsigned did = 0;
	size_t got = tcp_pull_short(&p.tcp[end], buf, len, at % 2, &did);

	CHECK_INT(got, <=, len);
	CHECK(bytes_match(buf, at, got));
	return got;
}

static size_t receive_known(int end, uint64_t at, size_t len)
{
	unsigned char buf[256];
	unsigned did = 0;
	size_t got = tcp_pull_known(&p.tcp[end], buf, len, &did);

	CHECK(got == 0 || got == len);
	CHECK(bytes_match(buf, at, got));
	return got;
}

/* Both directions on their rings, with nothing in them; both positions are 10 then. */
static void begin(const uint32_t rings[SHM_N_RINGS])
{
	tcp_pair_init(&p, rings);
	tcp_pair_watch(&p);
	for (int end = 0; end < 2; end++) {
		pair_send(&p, end, 0, 10);
		pair_expect(&p, !end, 0, 10);
	}
}

/* The long way sees anew what room there is. */
static void moves_bytes(void)
{
	unsigned n_short = 0;

	begin(tcp_pair_usual_rings);
	for (size_t len = 1; len <= SHM_SHORT_MOST; len++) {
		if (send_short(0, len, len))
			n_short++;
		else
			pair_send(&p, 0, len, len);
		CHECK_INT(receive_short(1, len, SHM_SHORT_MOST), ==, len);
	}
	CHECK_INT(receive_short(1, 0, 64), ==, 0);
	CHECK_INT(n_short, >, SHM_SHORT_MOST / 2);
	tcp_pair_deinit(&p);
}

/* A row of bytes by both ways in any order, through all sizes of ring and around their ends. */
static void mixes_with_the_long_way(void)
{
	uint64_t sent = 10, received = 10;
	unsigned char buf[256];
	unsigned n_known = 0;
	ssize_t got;

	begin(tcp_pair_small_rings);
	srandom(1);
	for (unsigned i = 0; i < 40000; i++) {
		size_t len = 1 + (size_t)random() % (i % 4 ? SHM_INLINE : 200);
		size_t room = 1 + (size_t)random() % (i % 5 ? 64 : 250);

		/* A ring that is full for long is left. */
		switch (sent - received < tcp_pair_small_rings[SHM_N_RINGS - 1] / 2
				? random() % 6
				: 3 + random() % 3) {
		case 0:
		case 1:
			sent += send_short(0, sent, len) ? len : 0;
			break;
		case 2:
			bytes_fill(buf, sent, len);
			got = pair_push(&p, 0, buf, len);
			sent += got > 0 ? (size_t)got : 0;
			break;
		case 3:
			received += receive_short(1, received, room);
			break;
		case 4:
			got = (ssize_t)receive_known(1, received, room);
			n_known += got > 0;
			received += (size_t)got;
			break;
		default:
			got = pair_pull(&p, 1, buf, room, 0);
			CHECK(got < 0 || bytes_match(buf, received, (size_t)got));
			received += got > 0 ? (size_t)got : 0;
		}
	}
	while (received < sent) {
		got = pair_pull(&p, 1, buf, sizeof(buf), 0);
		REQUIRE_INT(got, >, 0);
		CHECK(bytes_match(buf, received, (size_t)got));
		received += (size_t)got;
	}
	CHECK_INT(received, ==, sent);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_RING);
	CHECK_INT(n_known, >, 1000);
	tcp_pair_deinit(&p);
}

/* Two messages are taken as one; of one that is known of in part the rest is not. */
static void takes_all_or_nothing(void)
{
	begin(tcp_pair_small_rings);
	CHECK(send_short(0, 10, 8));
	CHECK(send_short(0, 18, 8));
	CHECK_INT(receive_short(1, 10, 15), ==, 0);
	CHECK_INT(receive_short(1, 10, 64), ==, 16);
	CHECK(send_short(0, 26, 8));
	CHECK_INT(receive_short(1, 26, 7), ==, 0);
	pair_expect(&p, 1, 26, 3);
	CHECK_INT(receive_short(1, 29, 64), ==, 0);
	pair_expect(&p, 1, 29, 5);
	tcp_pair_deinit(&p);
}

/* What was seen at the last look is taken without another one; what came since then is not looked
 * for. */
static void takes_what_is_known(void)
{
	begin(tcp_pair_usual_rings);
	for (uint64_t at = 10; at < 106; at += 8)
		CHECK(send_short(0, at, 8));
	CHECK_INT(receive_known(1, 10, 8), ==, 0);
	pair_expect(&p, 1, 10, 8);
	CHECK(send_short(0, 106, 8));
	for (uint64_t at = 18; at < 98; at += 8)
		CHECK_INT(receive_known(1, at, 8), ==, 8);
	CHECK_INT(receive_known(1, 98, 9), ==, 0);
	CHECK_INT(receive_known(1, 98, 8), ==, 8);
	CHECK_INT(receive_known(1, 106, 8), ==, 0);
	CHECK_INT(receive_known(1, 106, 1), ==, 0);
	pair_expect(&p, 1, 106, 8);
	tcp_pair_deinit(&p);
}

/* Neither what lies in another ring nor what lies behind the end of one is taken for what is
 * here. */
static void known_bytes_lie_in_one_ring(void)
{
	uint64_t sent = 10, at;

	begin(tcp_pair_small_rings);
	while (p.tcp[0].ring.tx_cur == 0) {
		pair_send(&p, 0, sent, 48);
		sent += 48;
	}
	pair_expect(&p, 1, 10, 48);
	for (at = 58; receive_known(1, at, 7) == 7;)
		at += 7;
	CHECK_INT(at, >, 10 + tcp_pair_small_rings[0] - 64);
	CHECK_INT(at, <, sent);
	pair_expect(&p, 1, at, sent - at);
	tcp_pair_deinit(&p);
}

static void is_not_for_the_kernels_part(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	CHECK(!send_short(0, 0, 8));
	pair_send_kernel(&p, 0, 0, 8);
	tcp_pair_watch(&p);
	CHECK(!send_short(0, 8, 8));
	pair_send(&p, 0, 8, 8);
	CHECK_INT(receive_short(1, 0, 64), ==, 0);
	pair_expect(&p, 1, 0, 16);
	CHECK(send_short(0, 16, 8));
	pair_expect(&p, 1, 16, 8);
	CHECK(send_short(0, 24, 8));
	CHECK_INT(receive_short(1, 24, 64), ==, 8);
	tcp_pair_deinit(&p);
}

static void heeds_the_end(void)
{
	begin(tcp_pair_small_rings);
	CHECK_INT(tcp_shutdown(&p.tcp[0], p.fd[0], SHUT_WR), ==, 0);
	CHECK(!send_short(0, 10, 8));
	CHECK(send_short(1, 10, 8));
	CHECK_INT(receive_short(0, 10, 64), ==, 8);
	tcp_close(&p.tcp[0], p.fd[0]);
	CHECK(!send_short(1, 18, 8));
	tcp_pair_deinit(&p);
}

static void heeds_who_leaves(void)
{
	begin(tcp_pair_small_rings);
	CHECK(send_short(1, 10, 8));
	CHECK_INT(tcp_leave(&p.tcp[0], p.fd[0]), ==, 0);
	CHECK_INT(receive_short(0, 10, 64), ==, 0);
	CHECK(!send_short(0, 10, 8));
	CHECK(!send_short(1, 18, 8));
	tcp_pair_deinit(&p);
}

static void full_is_not_sent(void)
{
	uint64_t sent = 10;

	begin(tcp_pair_small_rings);
	while (send_short(0, sent, SHM_INLINE))
		sent += SHM_INLINE;
	CHECK_INT(sent, <=, 10 + tcp_pair_small_rings[0]);
	pair_expect(&p, 1, 10, sent - 10);
	tcp_pair_deinit(&p);
}

static enum tcp_credit grant_nothing(uint64_t size)
{
	(void)size;
	return TCP_CREDIT_DENIED;
}

/* As much as can be without the sender's being told of it. */
static uint64_t exchange_untold(size_t len)
{
	uint64_t at = 10;

	begin(tcp_pair_usual_rings);
	tcp_take_credit = grant_nothing;
	for (; at + len < 10 + tcp_pair_usual_rings[0] / 8; at += len) {
		CHECK(send_short(0, at, len));
		CHECK_INT(receive_short(1, at, len), ==, len);
	}
	CHECK(shm_rx_is_untold(&p.tcp[1].ring));
	return at;
}

static void check_ring(uint32_t mode, uint32_t r)
{
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, mode);
	CHECK_INT(p.tcp[0].ring.tx_cur, ==, r);
}

/* An empty ring has room for as much as it holds, whether its sender was told so or not; nor does
 * it grow for that. */
static void an_empty_ring_takes_what_it_holds(void)
{
	static const size_t lens[] = { 8, 48, 49, 100, 400 };
	unsigned char buf[4096];
	uint64_t at;

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		at = exchange_untold(lens[i]);
		pair_send(&p, 0, at, sizeof(buf));
		check_ring(SHM_TX_RING, 0);
		pair_expect(&p, 1, at, sizeof(buf));
		tcp_pair_deinit(&p);
		at = exchange_untold(lens[i]);
		bytes_fill(buf, at, sizeof(buf));
		CHECK_INT(tcp_push(&p.tcp[0], p.fd[0],
				   (const struct iovec[]){ { buf, 3900 }, { buf + 3900, 196 } }, 2,
				   0, &(unsigned){ 0 }),
			  ==, (ssize_t)sizeof(buf));
		check_ring(SHM_TX_RING, 0);
		pair_expect(&p, 1, at, sizeof(buf));
		tcp_pair_deinit(&p);
	}
	tcp_take_credit = tcp_pair_grant_everything;
}

/* Who sends faster than is read needs a larger ring, and does not look at the reader's own count
 * again and again. */
static void who_is_ahead_goes_on_elsewhere(void)
{
	uint64_t at = exchange_untold(100);

	CHECK(send_short(0, at, 8));
	pair_expect(&p, 1, at, 7);
	tcp_take_credit = tcp_pair_grant_everything;
	pair_send(&p, 0, at + 8, tcp_pair_usual_rings[0] - 1);
	check_ring(SHM_TX_RING, 1);
	pair_expect(&p, 1, at + 7, tcp_pair_usual_rings[0]);
	tcp_pair_deinit(&p);
}

/* What the peer has not been sent it cannot have taken, nor what it has given back before. */
static void an_untold_count_is_bounded(void)
{
	uint64_t at, lie;

	for (int i = 0; i < 3; i++) {
		at = exchange_untold(100);
		lie = i == 0 ? at + 4097 : i == 1 ? 0 : UINT64_MAX;
		atomic_store(&p.tcp[1].ring.own->rx_taken, lie);
		tcp_take_credit = tcp_pair_grant_everything;
		pair_send(&p, 0, at, 4096);
		check_ring(SHM_TX_RING, 1);
		atomic_store(&p.tcp[1].ring.own->rx_taken, at);
		pair_expect(&p, 1, at, 4096);
		tcp_pair_deinit(&p);
	}
}

/* A peer's words that make no sense are left to who knows what to do with them. */
static void believes_no_nonsense(void)
{
	static const uint64_t heads[] = { 9, 10 + SHM_SHORT_MOST + 1, 1ull << 63, UINT64_MAX };
	const uint64_t most = tcp_pair_small_rings[0];
	struct shm_side *peer;

	begin(tcp_pair_small_rings);
	peer = p.tcp[1].ring.own;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		atomic_store(&peer->inline_at, 10);
		atomic_store(&peer->head, heads[i]);
		CHECK_INT(receive_short(0, 10, 64), ==, 0);
	}
	/* More than a ring can hold: the long way says so. */
	atomic_store(&peer->head, 10 + most + 1);
	CHECK_INT(receive_short(0, 10, most + 1), ==, 0);
	atomic_store(&peer->head, 10);
	/* It does not come with the news of it: the ring has it. */
	CHECK(send_short(1, 10, 8));
	atomic_store(&peer->inline_at, SHM_NO_INLINE);
	CHECK_INT(receive_short(0, 10, 64), ==, 8);
	atomic_store(&p.tcp[0].ring.head_seen, 18 + most + 1);
	CHECK_INT(receive_known(0, 18, 8), ==, 0);
	tcp_pair_deinit(&p);
}

/* As if all that there was up to this byte number had been sent by the first end, and received. */
static void move_on(uint64_t to)
{
	struct shm_stream *tx = &p.tcp[0].ring, *rx = &p.tcp[1].ring;

	atomic_store(&tx->own->head, to);
	tx->tx_head = tx->tail_seen = to;
	atomic_store(&rx->own->tail, to);
	atomic_store(&rx->own->rx_taken, to);
	atomic_store(&rx->head_seen, to);
}

/* Half of a byte number stands beside the copy: one that was made when the numbers were the same in
 * that half is none. */
static void half_a_number_comes_round(void)
{
	const uint64_t round = 1ull << 32;

	begin(tcp_pair_usual_rings);
	CHECK(send_short(0, 10, 8));
	CHECK_INT(receive_short(1, 10, 64), ==, 8);
	move_on(round + 10 - 100);
	pair_send(&p, 0, 500, 130);
	pair_expect(&p, 1, 500, 100);
	CHECK_INT(receive_short(1, 600, 64), ==, 0);
	pair_expect(&p, 1, 600, 30);
	move_on(round + UINT32_MAX);
	CHECK(send_short(0, 700, 8));
	CHECK_INT(receive_short(1, 700, 64), ==, 8);
	CHECK(send_short(0, 708, 8));
	CHECK_INT(receive_short(1, 708, 64), ==, 8);
	tcp_pair_deinit(&p);
}

static const struct test tests[] = {
	TEST(moves_bytes),
	TEST(mixes_with_the_long_way),
	TEST(takes_all_or_nothing),
	TEST(takes_what_is_known),
	TEST(known_bytes_lie_in_one_ring),
	TEST(is_not_for_the_kernels_part),
	TEST(heeds_the_end),
	TEST(heeds_who_leaves),
	TEST(full_is_not_sent),
	TEST(an_empty_ring_takes_what_it_holds),
	TEST(who_is_ahead_goes_on_elsewhere),
	TEST(an_untold_count_is_bounded),
	TEST(believes_no_nonsense),
	TEST(half_a_number_comes_round),
};

int main(int argc, char **argv)
{
	tcp_take_credit = tcp_pair_grant_everything;
	return TESTS_RUN(tests, argc, argv);
}
