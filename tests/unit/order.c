/*
 * libpulc/order.h: which sends bear a time of their own.
 */
#include "harness.h"
#include "order.h"

static struct shm_side own, peer, others_own, others_peer;
static struct pulc_stream s, other;

static void begin(void)
{
	own = peer = others_own = others_peer = (struct shm_side){ 0 };
	s = (struct pulc_stream){ .tcp.ring = { .own = &own, .peer = &peer } };
	other = (struct pulc_stream){ .tcp.ring = { .own = &others_own, .peer = &others_peer } };
	order_heard();
}

/* Sends something. Returns the time that it bears. */
static uint32_t send_to(struct pulc_stream *to)
{
	turn_sent_at(&to->turn, order_sending(to));
	(void)atomic_fetch_add(&to->tcp.ring.own->head, 8);
	return shm_tx_noted(&to->tcp.ring);
}

static void peer_reads(void)
{
	atomic_store(&peer.rx_taken, atomic_load(&own.head));
}

static void hear(struct pulc_stream *from)
{
	turn_received(&from->turn);
	order_heard();
}

/* Until the clock shows another time. */
static void pass(void)
{
	uint32_t before = pulc_when();

	while (pulse_ticks() && pulc_when() == before)
		;
}

static bool has_clock(void)
{
	return pulse_ticks() != 0;
}

static void the_first_message_bears_a_time(void)
{
	begin();
	CHECK((send_to(&s) != 0) == has_clock());
}

static void a_row_of_messages_has_the_first_ones(void)
{
	uint32_t first;

	begin();
	first = send_to(&s);
	pass();
	peer_reads();
	CHECK_INT(send_to(&s), ==, first);
}

static void an_answer_bears_a_new_one(void)
{
	uint32_t first;

	begin();
	first = send_to(&s);
	pass();
	hear(&s);
	CHECK((send_to(&s) != first) == has_clock());
}

static void what_is_unread_began_when_it_began(void)
{
	uint32_t first;

	begin();
	first = send_to(&s);
	pass();
	(void)send_to(&other);
	CHECK_INT(send_to(&s), ==, first);
	peer_reads();
	(void)send_to(&other);
	CHECK((send_to(&s) != first) == has_clock());
}

static void who_has_heard_something_looks_again(void)
{
	uint32_t first;

	begin();
	first = send_to(&s);
	pass();
	peer_reads();
	hear(&other);
	CHECK((send_to(&s) != first) == has_clock());
}

static const struct test tests[] = {
	TEST(the_first_message_bears_a_time),	   TEST(a_row_of_messages_has_the_first_ones),
	TEST(an_answer_bears_a_new_one),	   TEST(what_is_unread_began_when_it_began),
	TEST(who_has_heard_something_looks_again),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
