/* Room and credit: who waits for them is told, and who waits for something else is not kept awake
 * by them. */
#include <errno.h>
#include <stdio.h>

#include "native.h"
#include "psid/native_case.h"

#define LEN_SHORT 4000u
#define LEN_HUGE (12u << 20)

static unsigned char buf[LEN_SHORT], other_buf[LEN_SHORT], huge[LEN_HUGE];

/* ---- room ------------------------------------------------------------------------------------ */

#define N_SINKS 8u

/* One that still fits: whoever waits for the room of a longer one is to say so again, for nobody is
 * told of room that is not wanted. */
static void send_what_fits(struct peer *peer)
{
	const struct hal_frame nobodys = { .protocol = PROTOCOLS_MAX - 1 };
	uint64_t seen;

	MUST(native_lock());
	seen = protocol_events_now();
	MUST_IS(peer_send(peer, &nobodys, NULL, 0), 0);
	MUST(!peer->no_room);
	MUST(protocol_events_now() != seen);
	native_unlock();
}

/* More ports than a ring has room for: once there is room again, whoever waits for something else
 * is not kept awake by it. */
static void fill_the_ring(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	char name[16];
	struct pulc_address to = { 0 };
	struct peer *peer = NULL;
	pulc_op *op;

	for (unsigned i = 0; i < N_SINKS; i++) {
		(void)snprintf(name, sizeof(name), "sink%u", i);
		to = native_find(name);
		while (pulc_send(p, &to, buf, LEN_SHORT, PULC_DONTWAIT) == LEN_SHORT)
			;
		MUST(native_lock());
		peer = port_out_find(p->port, 0, to.port)->peer;
		native_unlock();
	}
	MUST(peer->no_room);
	send_what_fits(peer);
	MUST_IS(pulc_send(p, &to, buf, LEN_SHORT, PULC_DONTWAIT), -EAGAIN);
	MUST(peer->no_room);
	op = native_receive_begin(p, buf, 10, NULL);
	native_reach(1);
	while (peer->no_room)
		MUST_IS(pulc_op_wait(&op, 1, 1), -ETIMEDOUT);
	native_reach(2);
	MUST_IS(pulc_op_cancel(op), 0);
	MUST_IS(pulc_op_end(op, NULL), -ECANCELED);
	native_await(3);
	MUST_IS(pulc_port_close(p), 0);
}

static void drain_the_ring(void)
{
	struct pulc_wait wait[N_SINKS] = { { .port = NULL } };
	char name[16];

	for (unsigned i = 0; i < N_SINKS; i++) {
		(void)snprintf(name, sizeof(name), "sink%u", i);
		wait[i].port = native_open(PULC_D, name);
	}
	native_await(1);
	while (!native_is_reached(2)) {
		MUST(pulc_select(wait, N_SINKS, NULL, 0, 1) >= 0);
		for (unsigned i = 0; i < N_SINKS; i++)
			while (wait[i].ready && pulc_receive(wait[i].port, other_buf, LEN_SHORT,
							     NULL, PULC_DONTWAIT) > 0)
				;
	}
	native_reach(3);
	for (unsigned i = 0; i < N_SINKS; i++)
		MUST_IS(pulc_port_close(wait[i].port), 0);
}

static void room_is_news_once(void)
{
	NATIVE_RUN(fill_the_ring, drain_the_ring);
}

/* ---- credit ---------------------------------------------------------------------------------- */

/* A message that no ring holds: its receiver must have taken most of it before its last piece can
 * be sent, and has said so by then. */
static void send_the_huge(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);
	uint64_t freed;

	native_await(1);
	native_fill(huge, LEN_HUGE, 5);
	MUST_IS(pulc_op_end(native_send_begin(p, &to, huge, LEN_HUGE), NULL), LEN_HUGE);
	MUST(native_lock());
	freed = port_out_find(p->port, 0, to.port)->freed;
	native_unlock();
	MUST(freed > 0);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_the_huge(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	pulc_op *op = native_receive_begin(p, huge, LEN_HUGE, NULL);

	native_reach(1);
	MUST_IS(pulc_op_end(op, NULL), LEN_HUGE);
	MUST(native_holds(huge, LEN_HUGE, 5));
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void credit_comes_with_the_pieces(void)
{
	NATIVE_RUN(send_the_huge, receive_the_huge);
}

static const struct test tests[] = {
	TEST(room_is_news_once),
	TEST(credit_comes_with_the_pieces),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
