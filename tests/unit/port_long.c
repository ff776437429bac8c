/*
 * Long datagrams beyond what we may have unread at another process: we ask, and begin one when its
 * reader lets us. The other end is a test's.
 */
#include "port_bed.h"

#define N_THEIRS 4u
#define LEN (1u << 20)

static unsigned char bytes[LEN];
static const struct iovec whole = { bytes, LEN };

static struct port_out *out[N_THEIRS];

static void begin_sending(void)
{
	bed_begin_among(N_THEIRS);
	for (unsigned i = 0; i < N_THEIRS; i++) {
		out[i] = port_out_new(port, THEIRS + i, PORT_D, peer);
		REQUIRE(out[i] != NULL);
	}
	/* Nobody reads the last of them. */
	port_count_sent(out[N_THEIRS - 1], PORT_PEER_LONG);
}

static int push(unsigned i, size_t len)
{
	struct iovec iov = { bytes, len };
	struct port_sending s = { .iov = &iov, .n = 1, .size = len };
	int e = port_push(out[i], &s);

	CHECK(e == 0 || !s.begun);
	return e;
}

/* The number with which the way asks; 0: it does not. */
static uint64_t asked(unsigned i)
{
	struct port_about about = { 0 };
	uint64_t word = 0;
	unsigned n = bed_heard(PORT_WANTS, &about, &word);

	CHECK_INT(n, <=, 1);
	if (n == 0)
		return 0;
	CHECK_INT(word, ==, (uint64_t)(THEIRS + i) << 32 | OURS);
	CHECK_INT(about.life, ==, out[i]->life);
	return about.value;
}

static void let(unsigned i, uint64_t number)
{
	const struct port_about about = { out[i]->life, number };

	bed_arrive(word_of(i), PORT_MAY, &about, sizeof(about));
}

static void a_long_one_waits_for_leave(void)
{
	uint64_t number;

	begin_sending();
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	number = asked(0);
	CHECK_INT(number, >, 0);
	CHECK(out[0]->waits);
	/* Said once. */
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	CHECK_INT(asked(0), ==, 0);
	let(0, number);
	CHECK(!out[0]->waits);
	CHECK_INT(push(0, LEN), ==, 0);
	bed_end();
}

/* What fits a frame asks for nothing; nor does a way of which something is unread. */
static void who_needs_none_does_not_ask(void)
{
	begin_sending();
	CHECK_INT(push(0, 1000), ==, 0);
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	CHECK_INT(asked(0), ==, 0);
	port_credit_freed(out[0], out[0]->sent);
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	CHECK_INT(asked(0), ==, 1);
	/* Room has come before leave has. */
	port_credit_freed(out[N_THEIRS - 1], PORT_PEER_LONG);
	CHECK_INT(push(0, LEN), ==, 0);
	bed_end();
}

static void whoever_begins_takes_it_from_the_others(void)
{
	uint64_t numbers[3], seen;

	begin_sending();
	for (unsigned i = 0; i < 3; i++) {
		CHECK_INT(push(i, LEN), ==, -EAGAIN);
		numbers[i] = asked(i);
	}
	let(0, numbers[0]);
	let(1, numbers[1]);
	seen = protocol_events_now();
	CHECK_INT(push(1, LEN), ==, 0);
	CHECK(protocol_events_now() != seen);
	/* Leave that comes late is void as well. */
	let(2, numbers[2]);
	for (unsigned i = 0; i < 3; i += 2) {
		(void)asked(i);
		CHECK_INT(push(i, LEN), ==, -EAGAIN);
		CHECK_INT(asked(i), >, numbers[i]);
	}
	let(2, numbers[2] + 1);
	CHECK_INT(push(2, LEN), ==, 0);
	bed_end();
}

/* It was asked for by one that is sent no more: the next one of that way may use it. */
static void leave_stays_if_nobody_uses_it(void)
{
	struct port_sending s = { .iov = &whole, .n = 1, .size = LEN };

	begin_sending();
	CHECK_INT(port_push(out[0], &s), ==, -EAGAIN);
	port_send_queue(out[0], &s);
	let(0, asked(0));
	port_send_unqueue(out[0], &s);
	CHECK_INT(push(1, LEN), ==, -EAGAIN);
	CHECK_INT(asked(1), >, 0);
	CHECK_INT(push(0, LEN), ==, 0);
	bed_end();
}

static void no_room_keeps_it(void)
{
	uint64_t number;

	begin_sending();
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	number = asked(0);
	let(0, number);
	while (peer->link->ops->room(peer->link) && port_control(peer, 0, PORT_STAYS, 0) == 0 &&
	       STAILQ_EMPTY(&peer->pending))
		;
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	CHECK_INT(asked(0), ==, 0);
	CHECK(!peer_serve(peer, 1));
	CHECK_INT(push(0, LEN), ==, 0);
	bed_end();
}

static void the_way_begins_anew_without(void)
{
	uint64_t number;

	begin_sending();
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	number = asked(0);
	let(0, number);
	port_out_rebind(out[0], peer);
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	CHECK_INT(asked(0), ==, number);
	bed_end();
}

static void leave_that_nobody_asked_for(void)
{
	begin_sending();
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	CHECK(bed_breaks(word_of(1), PORT_MAY, (struct port_about){ out[1]->life, 1 }));
	bed_end();
	begin_sending();
	CHECK_INT(push(0, LEN), ==, -EAGAIN);
	CHECK(bed_breaks(word_of(0), PORT_MAY, (struct port_about){ out[0]->life, 2 }));
	bed_end();
}

static const struct test tests[] = {
	TEST(a_long_one_waits_for_leave),
	TEST(who_needs_none_does_not_ask),
	TEST(whoever_begins_takes_it_from_the_others),
	TEST(leave_stays_if_nobody_uses_it),
	TEST(no_room_keeps_it),
	TEST(the_way_begins_anew_without),
	TEST(leave_that_nobody_asked_for),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
