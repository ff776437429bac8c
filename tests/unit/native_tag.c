/*
 * Tagged messages: which receive gets which message, short and long ones, early and late.
 */
#include <pulc/tag.h>

#include <errno.h>
#include <string.h>

#include "native.h"
#include "psid/native_case.h"

#define LEN_LONG (3u << 20)

static unsigned char buf[LEN_LONG], other_buf[LEN_LONG];

static const struct pulc_tag anything = { .peer = PULC_ANY_PEER };

static struct pulc_tag only(uint32_t peer, uint64_t tag)
{
	return (struct pulc_tag){ .tag = tag, .mask = PULC_TAG_EXACT, .peer = peer };
}

static ssize_t receive_now(struct pulc_tag want, void *to, size_t len)
{
	return pulc_tag_receive(&want, to, len, NULL);
}

/* ---- to oneself: everything but waiting ------------------------------------------------------ */

static void messages_that_came_early(void)
{
	const struct pulc_tag odd = { .tag = 1, .mask = 1, .peer = PULC_ANY_PEER };
	struct pulc_tagged m;
	char got[16];

	for (uint64_t tag = 0; tag < 6; tag++)
		MUST_IS(pulc_tag_send(0, tag, "0123456789", tag), (ssize_t)tag);
	MUST_IS(pulc_tag_send(0, 4, "second", 6), 6);
	MUST_IS(pulc_tag_probe(&odd, 0, &m), 1);
	MUST(m.tag == 1 && m.size == 1 && m.peer == 0);
	MUST_IS(receive_now(only(0, 4), got, sizeof(got)), 4);
	MUST_IS(receive_now(only(PULC_ANY_PEER, 4), got, sizeof(got)), 6);
	MUST(memcmp(got, "second", 6) == 0);
	MUST_IS(pulc_tag_receive(&odd, got, sizeof(got), &m), 1);
	MUST_IS(pulc_tag_receive(&odd, got, 2, &m), 2); /* cut off */
	MUST(m.tag == 3 && m.size == 3 && memcmp(got, "01", 2) == 0);
	MUST_IS(pulc_tag_receive(&anything, NULL, 0, &m), 0);
	MUST_IS(m.tag, 0);
	MUST_IS(pulc_tag_receive(&anything, got, sizeof(got), &m), 2);
	MUST_IS(pulc_tag_receive(&anything, got, sizeof(got), &m), 5);
	MUST_IS(pulc_tag_probe(&anything, 0, NULL), 0);
	MUST_IS(pulc_tag_probe(&anything, 1, NULL), 0);
}

static void receives_that_were_posted(void)
{
	const struct pulc_tag high = { .tag = 0x100, .mask = 0xff00, .peer = PULC_ANY_PEER };
	struct pulc_tagged m;
	char got[6][8];
	pulc_op *ops[6];

	ops[0] = native_tag_receive(high, got[0], 8);
	ops[1] = native_tag_receive(only(0, 0x105), got[1], 8);
	ops[2] = native_tag_receive(anything, got[2], 8);
	ops[3] = native_tag_receive(only(0, 0x105), got[3], 8);
	ops[4] = native_tag_receive(only(0, 7), got[4], 8);
	MUST_IS(pulc_tag_send(0, 0x105, "a", 1), 1); /* the masked one is older */
	MUST_IS(pulc_op_wait(ops, 5, 0), 0);
	MUST_IS(pulc_tag_send(0, 0x105, "b", 1), 1);
	MUST_IS(pulc_tag_send(0, 0x105, "c", 1), 1);
	MUST_IS(pulc_op_test(ops[3]), 0);
	MUST_IS(pulc_tag_send(0, 0x105, "d", 1), 1);
	MUST_IS(pulc_op_test(ops[4]), 0);
	MUST_IS(pulc_tag_send(0, 8, "e", 1), 1);
	MUST_IS(pulc_tag_send(0, 7, "f", 1), 1);
	for (unsigned i = 0; i < 5; i++) {
		MUST_IS(pulc_tag_end(ops[i], &m), 1);
		MUST_IS(got[i][0], "abcdf"[i]);
		MUST_IS(m.tag, i == 4 ? 7 : 0x105);
	}
	ops[5] = native_tag_receive(only(0, 8), got[5], 8);
	MUST_IS(pulc_op_test(ops[5]), 1);
	MUST_IS(pulc_op_end(ops[5], NULL), 1);
}

static void long_ones_to_oneself(void)
{
	struct pulc_tagged m;
	pulc_op *send, *receive;

	native_fill(buf, LEN_LONG, 1);
	/* Early, late, and cut off. */
	send = native_tag_send(0, 5, buf, LEN_LONG);
	MUST_IS(pulc_op_test(send), 0);
	MUST_IS(receive_now(only(0, 5), other_buf, LEN_LONG), LEN_LONG);
	MUST(native_holds(other_buf, LEN_LONG, 1));
	MUST_IS(pulc_op_end(send, NULL), LEN_LONG);
	memset(other_buf, 0, LEN_LONG);
	receive = native_tag_receive(only(0, 5), other_buf, LEN_LONG);
	MUST_IS(pulc_tag_send(0, 5, buf, LEN_LONG), LEN_LONG);
	MUST_IS(pulc_op_end(receive, NULL), LEN_LONG);
	MUST(native_holds(other_buf, LEN_LONG, 1));
	receive = native_tag_receive(only(0, 5), other_buf, 100000);
	MUST_IS(pulc_tag_send(0, 5, buf, LEN_LONG), LEN_LONG);
	MUST_IS(pulc_tag_end(receive, &m), 100000);
	MUST_IS(m.size, LEN_LONG);
	receive = native_tag_receive(only(0, 5), NULL, 0);
	MUST_IS(pulc_tag_send(0, 5, buf, LEN_LONG), LEN_LONG);
	MUST_IS(pulc_tag_end(receive, NULL), 0);
	/* Taken back. */
	send = native_tag_send(0, 5, buf, LEN_LONG);
	MUST_IS(pulc_op_cancel(send), 0);
	MUST_IS(pulc_op_end(send, NULL), -ECANCELED);
	MUST_IS(pulc_tag_probe(&anything, 0, NULL), 0);
}

#define N_SENDS 3000u

/* More than may be unread: they wait, in order, and all of them come. */
static void beyond_the_credit(void)
{
	static pulc_op *ops[N_SENDS];
	static uint32_t numbers[N_SENDS][250];
	uint32_t got[250];

	for (uint32_t i = 0; i < N_SENDS; i++) {
		numbers[i][0] = i;
		ops[i] = native_tag_send(0, i % 7, numbers[i], sizeof(numbers[i]));
	}
	MUST_IS(pulc_op_test(ops[0]), 1);
	MUST_IS(pulc_op_test(ops[N_SENDS - 1]), 0);
	/* Not begun: no trace of it. */
	MUST_IS(pulc_op_cancel(ops[N_SENDS - 1]), 0);
	MUST_IS(pulc_op_end(ops[N_SENDS - 1], NULL), -ECANCELED);
	for (uint32_t i = 0; i < N_SENDS - 1; i++) {
		MUST_IS(receive_now(i % 2 ? anything : only(0, i % 7), got, sizeof(got)),
			sizeof(got));
		MUST_IS(got[0], i);
		MUST_IS(pulc_op_end(ops[i], NULL), sizeof(got));
	}
	MUST_IS(pulc_tag_probe(&anything, 0, NULL), 0);
}

static void wrong_calls(void)
{
	const struct pulc_tag nobody = { .peer = 123456 };
	pulc_op *op;

	MUST_IS(pulc_tag_send(123456, 1, "x", 1), -ECONNRESET);
	MUST_IS(pulc_tag_send(PULC_ANY_PEER, 1, "x", 1), -ECONNRESET);
	MUST_IS(pulc_tag_isend(123456, 1, "x", 1, &op), -ECONNRESET);
	MUST_IS(pulc_tag_receive(&nobody, buf, 1, NULL), -ECONNRESET);
	MUST_IS(pulc_tag_ireceive(&nobody, buf, 1, &op), -ECONNRESET);
	MUST_IS(pulc_tag_probe(&nobody, -1, NULL), -ECONNRESET);
	MUST_IS(pulc_tag_send(0, 1, "x", SIZE_MAX), -EINVAL);
	MUST_IS(pulc_tag_ireceive(&anything, buf, SIZE_MAX, &op), -EINVAL);
	MUST_IS(pulc_tag_end(NULL, NULL), -EINVAL);
}

static void within_a_process(void)
{
	NATIVE_RUN(messages_that_came_early);
	NATIVE_RUN(receives_that_were_posted);
	NATIVE_RUN(long_ones_to_oneself);
	NATIVE_RUN(beyond_the_credit);
	NATIVE_RUN(wrong_calls);
}

/* ---- two processes --------------------------------------------------------------------------- */

/* Around every boundary between one way of sending and the next. */
static const size_t sizes[] = {
	0,     1,     8,     24,    32,	   33,	   1984,    4096, 16383,
	16384, 16385, 16400, 32768, 65536, 100001, 1 << 20, 7,	  LEN_LONG
};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define N_ROUNDS 6u

static void send_sizes(void)
{
	uint32_t peer = native_peer_named("sink");

	for (unsigned i = 0; i < N_ROUNDS * N_SIZES; i++) {
		size_t len = sizes[i % N_SIZES];

		native_fill(buf, len, i);
		MUST_IS(pulc_tag_send(peer, i, buf, len), (ssize_t)len);
	}
	native_await(1);
}

static void receive_sizes(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_tagged m;

	for (unsigned i = 0; i < N_ROUNDS * N_SIZES; i++) {
		ssize_t len = (ssize_t)sizes[i % N_SIZES];

		if (i % 3 == 0)
			MUST_IS(pulc_tag_probe(&anything, -1, &m), 1);
		MUST_IS(pulc_tag_receive(&anything, other_buf, LEN_LONG, &m), len);
		MUST(m.tag == i && m.size == (uint64_t)len && m.peer != 0);
		MUST(native_holds(other_buf, (size_t)len, i));
	}
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

/* Received in another order than sent: what stays behind is kept, or stays with its sender. */
static void send_mixed(void)
{
	uint32_t peer = native_peer_named("sink");
	pulc_op *ops[40];

	native_fill(buf, LEN_LONG, 9);
	for (unsigned i = 0; i < 40; i++)
		ops[i] = native_tag_send(peer, i, buf, i % 4 ? 500 : LEN_LONG);
	native_reach(1);
	for (unsigned i = 0; i < 40; i++)
		MUST_IS(pulc_op_end(ops[i], NULL), i % 4 ? 500 : LEN_LONG);
	native_await(2);
}

static void receive_backwards(void)
{
	pulc_port *p = native_open(PULC_D, "sink");

	native_await(1);
	for (unsigned i = 40; i-- > 0;) {
		ssize_t len = i % 4 ? 500 : LEN_LONG;

		MUST_IS(receive_now(only(PULC_ANY_PEER, i), other_buf, LEN_LONG), len);
		MUST(native_holds(other_buf, (size_t)len, 9));
	}
	MUST_IS(pulc_tag_probe(&anything, 0, NULL), 0);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

/* Both send a long message first and receive then; with operations nobody waits for the other. */
static void exchange(const char *own, const char *other)
{
	pulc_port *p = native_open(PULC_D, own);
	uint32_t peer = native_peer_named(other);
	pulc_op *ops[2];

	native_fill(buf, LEN_LONG, 2);
	for (unsigned i = 0; i < 10; i++) {
		ops[0] = native_tag_send(peer, i, buf, LEN_LONG);
		ops[1] = native_tag_receive(only(peer, i), other_buf, LEN_LONG);
		MUST_IS(pulc_op_end(ops[0], NULL), LEN_LONG);
		MUST_IS(pulc_op_end(ops[1], NULL), LEN_LONG);
		MUST(native_holds(other_buf, LEN_LONG, 2));
	}
	/* Nobody leaves before the other one has its last message. */
	MUST_IS(pulc_tag_send(peer, 99, NULL, 0), 0);
	MUST_IS(receive_now(only(peer, 99), NULL, 0), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void exchange_left(void)
{
	exchange("left", "right");
	native_reach(1);
	native_await(2);
}

static void exchange_right(void)
{
	exchange("right", "left");
	native_reach(2);
	native_await(1);
}

/* Two senders: each one's order is kept, and each is found by name. */
static void send_numbers(void)
{
	uint32_t peer = native_peer_named("sink");

	for (uint32_t i = 0; i < 500; i++)
		MUST_IS(pulc_tag_send(peer, 3, &i, sizeof(i)), sizeof(i));
	native_await(1);
}

static void receive_by_name(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_tagged m;
	uint32_t first, other = 0, got;

	MUST_IS(pulc_tag_receive(&anything, &got, sizeof(got), &m), sizeof(got));
	first = m.peer;
	for (uint32_t i = 1; i < 500; i++) {
		MUST_IS(receive_now(only(first, 3), &got, sizeof(got)), sizeof(got));
		MUST_IS(got, i);
	}
	for (uint32_t i = 0; i < 500; i++) {
		MUST_IS(pulc_tag_receive(&anything, &got, sizeof(got), &m), sizeof(got));
		MUST(got == i && m.peer != first && (other == 0 || m.peer == other));
		other = m.peer;
	}
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void between_processes(void)
{
	NATIVE_RUN(send_sizes, receive_sizes);
	NATIVE_RUN(send_mixed, receive_backwards);
	NATIVE_RUN(exchange_left, exchange_right);
	NATIVE_RUN(send_numbers, send_numbers, receive_by_name);
}

/* ---- with ports and descriptors -------------------------------------------------------------- */

static void wait_for_any(void)
{
	pulc_port *p = native_open(PULC_D, "waiter");
	const struct pulc_tag want = only(PULC_ANY_PEER, 7), nobody = only(12345, 7);
	struct pulc_wait waits[2] = { { .port = p }, { .tag = &want } };
	struct pollfd fd = { .fd = -1 };
	char got[8];

	MUST_IS(pulc_select(waits, 2, &fd, 1, 0), 0);
	native_reach(1);
	/* Nobody has asked for this one. */
	MUST_IS(pulc_tag_probe(&anything, -1, NULL), 1);
	MUST_IS(pulc_select(waits, 2, &fd, 1, 0), 0);
	native_reach(2);
	MUST_IS(pulc_select(waits, 2, &fd, 1, -1), 1);
	MUST(!waits[0].ready && waits[1].ready);
	MUST_IS(receive_now(want, got, sizeof(got)), 5);
	native_reach(3);
	MUST_IS(pulc_select(waits, 2, NULL, 0, -1), 1);
	MUST(waits[0].ready && !waits[1].ready);
	/* A receive from a process that is not there does not wait. */
	waits[0] = (struct pulc_wait){ .tag = &nobody };
	MUST_IS(pulc_select(waits, 1, NULL, 0, -1), 1);
	MUST_IS(receive_now(nobody, got, sizeof(got)), -ECONNRESET);
	waits[0] = (struct pulc_wait){ .port = NULL };
	MUST_IS(pulc_select(waits, 2, NULL, 0, 0), 0);
}

static void send_to_any(void)
{
	struct pulc_address to = native_find("waiter");
	uint32_t peer = native_peer_named("waiter");
	pulc_port *p = native_open(PULC_D, NULL);

	native_await(1);
	MUST_IS(pulc_tag_send(peer, 8, "other", 5), 5);
	native_await(2);
	MUST_IS(pulc_tag_send(peer, 7, "first", 5), 5);
	native_await(3);
	MUST_IS(pulc_send(p, &to, "last", 4, 0), 4);
	MUST_IS(pulc_port_close(p), 0);
}

static void waited_for_with_ports(void)
{
	NATIVE_RUN(wait_for_any, send_to_any);
}

static const struct test tests[] = {
	TEST(within_a_process),
	TEST(waited_for_with_ports),
	TEST(between_processes),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
