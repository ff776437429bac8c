/*
 * What a port has to say to a peer for whom as many frames wait as may: each word that somebody
 * depends on comes, once there is room again.
 */
#include <errno.h>
#include <string.h>

#include "port_bed.h"

#define MOVE 99u
#define N_MAX 5000u
#define LIFE 1u

/* Until no more may wait. */
static void fill(void)
{
	unsigned n = 0;

	while (port_control(peer, 0, PORT_GO, 0) == 0)
		REQUIRE(++n < N_MAX);
	REQUIRE_INT(port_control(peer, 0, PORT_GO, 0), ==, -ENOBUFS);
}

/* What has come at the other end of that kind; *ret_value: the last 8 bytes of the last one. */
static unsigned count(unsigned kind, uint64_t *ret_value)
{
	struct hal_link *link = pair.link[1];
	unsigned char payload[16] = { 0 };
	struct hal_frame f;
	unsigned n = 0;

	for (unsigned idle = 0; idle < 3; idle++) {
		while (link->ops->next(link, &f) == 1) {
			struct iovec iov = { payload, sizeof(payload) };

			idle = 0;
			if (f.kind == kind) {
				n++;
				(void)link->ops->copy(link, &iov, 1);
				memcpy(ret_value, payload + f.len - sizeof(*ret_value),
				       sizeof(*ret_value));
			}
			link->ops->drop(link);
			REQUIRE(!peer_serve(peer, 1));
		}
		port_push_queued();
		REQUIRE(!peer_serve(peer, 1));
	}
	return n;
}

static void begin_to_give(void)
{
	const uint64_t move = MOVE;

	REQUIRE_INT(port_give_begin(port, peer, MOVE), ==, 0);
	REQUIRE_INT(port_give_ask(port, peer), ==, 0);
	bed_arrive((uint64_t)OURS << 32, PORT_STOPPED, &move, sizeof(move));
	fill();
}

static void who_has_stopped_hears_that_it_moved(void)
{
	uint64_t move = 0;

	bed_begin(PORT_D, 4);
	begin_to_give();
	port_give_done(port);
	CHECK_INT(count(PORT_MOVED, &move), ==, 1);
	CHECK_INT(move, ==, MOVE);
	bed_end();
}

static void who_has_stopped_hears_that_it_stays(void)
{
	uint64_t move = 0;

	bed_begin(PORT_D, 4);
	begin_to_give();
	port_give_off(port);
	CHECK_INT(count(PORT_STAYS, &move), ==, 1);
	CHECK_INT(move, ==, MOVE);
	bed_end();
}

static void say_whole(size_t len)
{
	static const unsigned char bytes[65536];

	bed_arrive(WORD, PORT_FIRST | PORT_LAST, bytes, len);
}

/* All of the source's window is taken while nothing can be said to it. */
static void a_source_gets_its_credit(void)
{
	static unsigned char buf[65536];
	const struct iovec iov = { buf, sizeof(buf) };
	const struct port_about about = { LIFE, PORT_D };
	unsigned n = PORT_WINDOW / sizeof(buf);
	struct port_request r;
	uint64_t taken = 0;

	bed_begin(PORT_D, 4);
	bed_arrive(WORD, PORT_BEGIN, &about, sizeof(about));
	for (unsigned i = 0; i < n; i++)
		say_whole(sizeof(buf));
	fill();
	for (unsigned i = 0; i < n; i++) {
		port_request_init(&r, &iov, 1, sizeof(buf));
		REQUIRE_INT(port_take(port, &r), ==, 0);
	}
	CHECK_INT(count(PORT_CREDIT, &taken), >=, 1);
	/* All but what is not worth telling of. */
	CHECK_INT(taken, >, PORT_WINDOW - PORT_TOLD);
	bed_end();
}

/* It has sent a message and ended, and has not read what waits for it here. */
static void what_it_sent_before_its_end_is_received(void)
{
	const struct hal_frame f = { .word = (uint64_t)OURS << 32 | THEIRS,
				     .protocol = PROTOCOL_PORT,
				     .kind = PORT_FIRST | PORT_LAST,
				     .len = 4 };
	const struct port_about about = { LIFE, PORT_D };
	char buf[8] = "";
	const struct iovec iov = { buf, sizeof(buf) };
	struct port_request r;

	bed_begin(PORT_D, 4);
	bed_arrive(f.word, PORT_BEGIN, &about, sizeof(about));
	fill();
	fake_pair_inject(&pair, 0, &f, "last");
	fake_kill_end(&pair, 1);
	for (unsigned i = 0; i < 3; i++)
		(void)peer_serve(peer, 1);
	CHECK(!peer->link);
	CHECK_INT(peer->error, ==, -ECONNRESET);
	port_request_init(&r, &iov, 1, sizeof(buf));
	CHECK_INT(port_take(port, &r), ==, 0);
	CHECK_MEM(buf, "last", 5);
	r.from = THEIRS;
	CHECK_INT(port_take(port, &r), ==, -ECONNRESET);
	bed_end();
}

static const struct test tests[] = {
	TEST(what_it_sent_before_its_end_is_received),
	TEST(who_has_stopped_hears_that_it_moved),
	TEST(who_has_stopped_hears_that_it_stays),
	TEST(a_source_gets_its_credit),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
