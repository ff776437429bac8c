/*
 * Messages of nothing, without any buffer: they come one by one, in order, between others, with
 * their source and their tag; and a stream knows none.
 */
#include <errno.h>
#include <string.h>

#include "psid/native_case.h"

#define N_TURNS 3000u

/* Every third one is a word, every seventh one longer than what comes in a line. */
static size_t len_of(unsigned i)
{
	return i % 7 == 6 ? 100 : i % 3 == 2 ? 8 : 0;
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static void send_number(pulc_port *p, const struct pulc_address *to, unsigned i)
{
	unsigned char buf[100];
	size_t len = len_of(i);

	native_fill(buf, len, i);
	MUST_IS(pulc_send(p, to, len ? buf : NULL, len, 0), len);
}

/* With a buffer, or, if there is nothing to come, without one. */
static struct pulc_address receive_number(pulc_port *p, unsigned i)
{
	unsigned char buf[100] = { 0 };
	struct pulc_address from;
	size_t len = len_of(i);
	bool none = len == 0 && i % 2;

	MUST_IS(pulc_receive(p, none ? NULL : buf, none ? 0 : sizeof(buf), &from, 0), len);
	MUST(native_holds(buf, len, i));
	return from;
}

static void answer_datagrams(void)
{
	pulc_port *p = native_open(PULC_D, "answers");
	struct pulc_address from;

	for (unsigned i = 0; i < N_TURNS; i++) {
		from = receive_number(p, i);
		send_number(p, &from, i + 1);
	}
	/* What does not fit is cut, be it to nothing. */
	MUST_IS(pulc_receive(p, NULL, 0, &from, 0), 0);
	MUST_IS(pulc_receive(p, NULL, 0, &from, PULC_TRUNC), 100);
	for (unsigned i = 0; i < N_TURNS; i++)
		(void)receive_number(p, i);
	MUST_IS(pulc_receive(p, NULL, 0, NULL, PULC_DONTWAIT), -EAGAIN);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void ask_with_datagrams(void)
{
	struct pulc_address to = native_find("answers");
	pulc_port *p = native_open(PULC_D, NULL);
	unsigned char buf[100] = { 0 };

	for (unsigned i = 0; i < N_TURNS; i++) {
		send_number(p, &to, i);
		MUST_IS(receive_number(p, i + 1).port, to.port);
	}
	MUST_IS(pulc_send(p, &to, buf, 8, 0), 8);
	MUST_IS(pulc_send(p, &to, buf, sizeof(buf), 0), sizeof(buf));
	for (unsigned i = 0; i < N_TURNS; i++)
		send_number(p, &to, i);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void datagrams_of_nothing(void)
{
	NATIVE_RUN(answer_datagrams, ask_with_datagrams);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Nothing is sent, and nothing is received, be there something or not. */
static void read_stream(enum pulc_kind kind)
{
	pulc_port *p = native_open(kind, "stream");
	char buf[16];

	MUST_IS(pulc_receive(p, buf, 1, NULL, 0), 1);
	MUST_IS(pulc_receive(p, NULL, 0, NULL, 0), 0);
	native_await(1);
	MUST_IS(pulc_receive(p, buf, 0, NULL, 0), 0);
	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), 2);
	MUST(memcmp(buf, "bc", 2) == 0);
	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, PULC_DONTWAIT), -EAGAIN);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void read_s(void)
{
	read_stream(PULC_S);
}

static void read_m(void)
{
	read_stream(PULC_M);
}

static void write_stream(void)
{
	struct pulc_address to = native_find("stream");
	pulc_port *p = native_open(PULC_D, NULL);

	for (unsigned i = 0; i < 3; i++) {
		MUST_IS(pulc_send(p, &to, NULL, 0, 0), 0);
		MUST_IS(pulc_send(p, &to, &"abc"[i], 1, 0), 1);
	}
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void a_stream_has_none(void)
{
	NATIVE_RUN(read_s, write_stream);
	NATIVE_RUN(read_m, write_stream);
}

/* ---- tags ------------------------------------------------------------------------------------ */

static void send_tag(uint32_t peer, unsigned i)
{
	unsigned char buf[100];
	size_t len = len_of(i);

	native_fill(buf, len, i);
	MUST_IS(pulc_tag_send(peer, i, len ? buf : NULL, len), len);
}

static uint32_t receive_tag(unsigned i)
{
	const struct pulc_tag anything = { .peer = PULC_ANY_PEER },
			      this = { .tag = i, .mask = PULC_TAG_EXACT, .peer = PULC_ANY_PEER };
	unsigned char buf[100] = { 0 };
	struct pulc_tagged m;
	size_t len = len_of(i);
	bool none = len == 0 && i % 2;

	MUST_IS(pulc_tag_receive(i % 5 ? &this : &anything, none ? NULL : buf,
				 none ? 0 : sizeof(buf), &m),
		len);
	MUST(m.tag == i && m.size == len);
	MUST(native_holds(buf, len, i));
	return m.peer;
}

static void answer_tags(void)
{
	const struct pulc_tag anything = { .peer = PULC_ANY_PEER };
	pulc_port *p = native_open(PULC_D, "answers");
	struct pulc_tagged m;

	for (unsigned i = 0; i < N_TURNS; i++)
		send_tag(receive_tag(i), i + 1);
	MUST_IS(pulc_tag_receive(&anything, NULL, 0, &m), 0);
	MUST_IS(m.size, 8);
	for (unsigned i = 0; i < N_TURNS; i++)
		(void)receive_tag(i);
	MUST_IS(pulc_tag_probe(&anything, 0, &m), 0);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void ask_with_tags(void)
{
	uint32_t peer = native_peer_named("answers");

	for (unsigned i = 0; i < N_TURNS; i++) {
		send_tag(peer, i);
		MUST_IS(receive_tag(i + 1), peer);
	}
	MUST_IS(pulc_tag_send(peer, 1, "12345678", 8), 8);
	for (unsigned i = 0; i < N_TURNS; i++)
		send_tag(peer, i);
	native_await(1);
}

static void tagged_messages_of_nothing(void)
{
	NATIVE_RUN(answer_tags, ask_with_tags);
}

/* ---- to oneself ------------------------------------------------------------------------------ */

static void alone(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address own = pulc_port_address(p);

	for (unsigned i = 0; i < 100; i++) {
		send_number(p, &own, i);
		MUST_IS(receive_number(p, i).port, own.port);
		send_tag(0, i);
		MUST_IS(receive_tag(i), 0);
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void to_oneself(void)
{
	NATIVE_RUN(alone);
}

static const struct test tests[] = {
	TEST(datagrams_of_nothing),
	TEST(a_stream_has_none),
	TEST(tagged_messages_of_nothing),
	TEST(to_oneself),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
