/*
 * A peer closes a port and opens one of the same number, while what it has sent is on its way and
 * psid's news come a bit at a time: the end concerns what was before it, and nothing that was begun
 * since; and nobody waits for ever for the one that was closed.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"
#include "harness.h"
#include "port.h"
#include "tcp_connect.h"
#include "tcp_link.h"

#define OURS 70000u
#define THEIRS 80u
#define NODE 5u

static struct hal_link *speaker;
static struct port *port;
static struct peer *peer;
static char got[8];
static const struct iovec buffer = { got, sizeof(got) };

static void begin(void)
{
	struct hal_link *link;
	int fd[2];

	(void)protocol_register(PROTOCOL_PORT, &port_protocol);
	(void)protocol_register(PROTOCOL_GUEST, &guest_protocol);
	tcp_connect_pair(fd, AF_INET);
	REQUIRE_INT(hal_tcp_open(fd[0], HAL_TCP_PLAIN, &link), ==, 0);
	REQUIRE_INT(hal_tcp_open(fd[1], HAL_TCP_PLAIN, &speaker), ==, 0);
	peer = peer_new(link, 7);
	port = port_new(OURS, PORT_D);
	REQUIRE(peer != NULL && port != NULL);
	peer->node = NODE;
	peer->conn = 7;
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
}

static void end(void)
{
	peer_break(peer, -ECONNRESET);
	guest_forked();
	port_moves_forked();
	port_forget(port);
	peer_unref(peer);
	speaker->ops->close(speaker);
	protocol_tell_forget();
}

static void say(uint64_t word, unsigned protocol, unsigned kind, const void *data, size_t len)
{
	const struct hal_frame f = { .word = word,
				     .protocol = (uint16_t)protocol,
				     .kind = (uint16_t)kind,
				     .len = (uint32_t)len };
	const struct iovec iov = { (void *)data, len };

	REQUIRE_INT(speaker->ops->send(speaker, &f, &iov, 1), ==, 0);
}

static void say_begin(uint64_t life)
{
	const struct port_about about = { life, PORT_D };

	say((uint64_t)OURS << 32 | THEIRS, PROTOCOL_PORT, PORT_BEGIN, &about, sizeof(about));
}

static void say_word(const char *word)
{
	say((uint64_t)OURS << 32 | THEIRS, PROTOCOL_PORT, PORT_FIRST | PORT_LAST, word,
	    strlen(word));
}

static void say_move(unsigned kind, uint64_t id)
{
	say((uint64_t)THEIRS << 32, PROTOCOL_PORT, kind, &id, sizeof(id));
}

/* The end is told twice: by the peer itself, behind all that it has sent, and by psid, whose word
 * may come earlier or later. */
static void say_over(void)
{
	say_move(PORT_OVER, 0);
}

static void they_close(void)
{
	say_over();
	peer_revoke(peer, THEIRS);
}

/* All of it is there, and taken. */
static void serve(void)
{
	for (unsigned i = 0; i < 1000; i++) {
		CHECK(!peer_serve(peer, 64));
		port_push_queued();
		guest_move_on();
	}
}

static void want(struct port_request *r)
{
	port_request_init(r, &buffer, 1, sizeof(got));
	r->from = THEIRS;
	r->from_node = NODE;
}

/* A source that has not begun. */
static void await_theirs(struct port_request *r)
{
	REQUIRE(port_in_new(port, peer, THEIRS) != NULL);
	want(r);
	port_post(port, r);
}

static int receive(void)
{
	struct port_request r;

	want(&r);
	return port_take(port, &r);
}

static void expect(const char *word)
{
	memset(got, 0, sizeof(got));
	CHECK_INT(receive(), ==, 0);
	CHECK_MEM(got, word, strlen(word) + 1);
}

/* ---- sources --------------------------------------------------------------------------------- */

/* Its first frames come while psid has told of the end only. */
static void what_has_begun_since_goes_on(void)
{
	begin();
	say_begin(1);
	say_word("one");
	serve();
	they_close();
	say_begin(2);
	say_word("two");
	serve();
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	say_word("three");
	serve();
	expect("one");
	expect("two");
	expect("three");
	CHECK_INT(receive(), ==, -EAGAIN);
	end();
}

/* The same, and nobody has heard of the end before. */
static void nor_what_began_before_the_news(void)
{
	begin();
	say_over();
	say_begin(2);
	say_word("two");
	serve();
	peer_revoke(peer, THEIRS);
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	serve();
	say_word("three");
	serve();
	expect("two");
	expect("three");
	end();
}

static void what_had_begun_ends(void)
{
	begin();
	say_begin(1);
	say_word("one");
	serve();
	they_close();
	serve();
	expect("one");
	CHECK_INT(receive(), ==, -EPIPE);
	end();
}

/* Psid's word goes another way than what was sent, and may be the faster. */
static void what_was_sent_before_is_awaited(void)
{
	begin();
	say_begin(1);
	serve();
	peer_revoke(peer, THEIRS);
	serve();
	CHECK_INT(receive(), ==, -EAGAIN);
	say_word("one");
	say_over();
	serve();
	expect("one");
	CHECK_INT(receive(), ==, -EPIPE);
	CHECK(!peer_has(peer, THEIRS));
	end();
}

/* All that it ever sent is on its way. */
static void and_what_has_not_begun(void)
{
	struct port_request r;

	begin();
	await_theirs(&r);
	peer_revoke(peer, THEIRS);
	serve();
	CHECK(!r.complete);
	say_begin(1);
	say_word("one");
	say_over();
	serve();
	CHECK(r.complete && r.error == 0);
	CHECK_MEM(got, "one", 3);
	CHECK_INT(receive(), ==, -EPIPE);
	end();
}

/* Opened and closed again before psid has told of either. */
static void who_is_over_early_is_closed_when_psid_says_so(void)
{
	struct port_request r;

	begin();
	they_close();
	serve();
	CHECK(!peer_has(peer, THEIRS));
	say_over();
	serve();
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	await_theirs(&r);
	serve();
	CHECK(!r.complete);
	peer_revoke(peer, THEIRS);
	serve();
	CHECK(r.complete);
	CHECK_INT(r.error, ==, -EPIPE);
	CHECK(!peer_has(peer, THEIRS));
	end();
}

/* A second and a third one, of which psid tells late. */
static void each_one_is_over_by_its_own_word(void)
{
	begin();
	they_close();
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	peer_revoke(peer, THEIRS);
	serve();
	CHECK(peer_has(peer, THEIRS));
	say_begin(2);
	say_word("two");
	say_over();
	serve();
	expect("two");
	CHECK_INT(receive(), ==, -EPIPE);
	CHECK(!peer_has(peer, THEIRS));
	end();
}

/* Who never says that a port is over makes us remember no more than so many. */
static void a_liar_makes_us_remember_a_bounded_number(void)
{
	enum { N = 6000 };
	unsigned n = 0;

	begin();
	for (uint32_t i = 0; i < N; i++) {
		REQUIRE_INT(peer_grant(peer, THEIRS + 1 + i), ==, 0);
		peer_revoke(peer, THEIRS + 1 + i);
		CHECK(!peer_serve(peer, 1));
	}
	for (uint32_t i = 0; i < N; i++)
		n += peer_has(peer, THEIRS + 1 + i);
	CHECK_INT(n, >, 0);
	CHECK_INT(n, <=, 4096);
	end();
}

/* Who waits for the former one, which has never sent anything. */
static void nobody_waits_for_ever(void)
{
	struct port_request before, after;

	begin();
	await_theirs(&before);
	they_close();
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	serve();
	CHECK(before.complete);
	CHECK_INT(before.error, ==, -EPIPE);
	await_theirs(&after);
	serve();
	CHECK(!after.complete);
	say_begin(2);
	say_word("two");
	serve();
	CHECK(after.complete);
	CHECK_INT(after.error, ==, 0);
	CHECK_MEM(got, "two", 3);
	end();
}

/* Who waits for the next one, of which psid has told before the link was empty. */
static void who_waits_for_the_next_one_waits_on(void)
{
	struct port_request r;

	begin();
	they_close();
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	await_theirs(&r);
	serve();
	CHECK(!r.complete);
	say_begin(2);
	say_word("two");
	serve();
	CHECK(r.complete && r.error == 0);
	end();
}

/* ---- destinations ---------------------------------------------------------------------------- */

static void destinations_end_and_new_ones_do_not(void)
{
	struct port_out *before, *after;

	begin();
	before = port_out_new(port, THEIRS, PORT_D, peer);
	REQUIRE(before != NULL);
	they_close();
	serve();
	CHECK_INT(before->error, ==, -ECONNREFUSED);
	port_out_free(before);
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	they_close();
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	after = port_out_new(port, THEIRS, PORT_D, peer);
	REQUIRE(after != NULL);
	serve();
	CHECK_INT(after->error, ==, 0);
	end();
}

/* ---- a port that has passed, and has come back ----------------------------------------------- */

/* It is about to pass once more, and then stays. */
static void a_later_hand_over_is_another_one(void)
{
	begin();
	say_begin(1);
	say_word("one");
	serve();
	say_move(PORT_MOVE, 1);
	say_move(PORT_MOVED, 1);
	serve();
	peer_revoke(peer, THEIRS);
	say_begin(2);
	say_word("two");
	say_move(PORT_MOVE, 2);
	serve();
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	say_move(PORT_STAYS, 2);
	say_word("three");
	serve();
	expect("one");
	expect("two");
	expect("three");
	end();
}

/* The owner of now has been asked already: asked twice, it would lend one message for nobody. */
static void nor_does_a_guest_ask_twice(void)
{
	struct guest_call call = { .number = THEIRS, .iov = &buffer, .n = 1, .size = sizeof(got) };

	begin();
	they_close();
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
	guest_call_begin(&call);
	guest_call_at(&call, peer);
	guest_calls_move_on();
	CHECK_INT(call.stage, ==, GUEST_ASKED);
	serve();
	CHECK_INT(call.stage, ==, GUEST_ASKED);
	they_close();
	serve();
	CHECK_INT(call.stage, ==, GUEST_PARKED);
	end();
}

static const struct test tests[] = {
	TEST(what_has_begun_since_goes_on),
	TEST(nor_what_began_before_the_news),
	TEST(what_had_begun_ends),
	TEST(what_was_sent_before_is_awaited),
	TEST(and_what_has_not_begun),
	TEST(who_is_over_early_is_closed_when_psid_says_so),
	TEST(each_one_is_over_by_its_own_word),
	TEST(a_liar_makes_us_remember_a_bounded_number),
	TEST(nobody_waits_for_ever),
	TEST(who_waits_for_the_next_one_waits_on),
	TEST(destinations_end_and_new_ones_do_not),
	TEST(a_later_hand_over_is_another_one),
	TEST(nor_does_a_guest_ask_twice),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
