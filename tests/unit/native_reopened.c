/*
 * A port's number that is closed and opened again while its peers still have something of its
 * former life to say: it concerns nobody any more, and the link goes on.
 */
#include <errno.h>
#include <string.h>

#include "native.h"
#include "psid/native_case.h"

#define N_FORMER 4u
#define LEN_FORMER 100000u
#define NUMBER 500u

static unsigned char buf[LEN_FORMER];

static pulc_port *open_number(void)
{
	pulc_port *p;

	MUST_IS(pulc_port_open(PULC_D, NUMBER, NULL, &p), 0);
	return p;
}

static void expect(pulc_port *p, const char *word)
{
	ssize_t n;

	do
		n = pulc_receive(p, buf, sizeof(buf), NULL, 0);
	while (n == LEN_FORMER);
	MUST_IS(n, strlen(word));
	MUST(memcmp(buf, word, (size_t)n) == 0);
}

/* ---- the source's ---------------------------------------------------------------------------- */

/* All of it finds room on the way, so no credit is read before the second life has begun. */
static void send_in_two_lives(void)
{
	struct pulc_address to = native_find("reader");
	pulc_port *p = open_number();

	for (unsigned i = 0; i < N_FORMER; i++)
		MUST_IS(pulc_send(p, &to, buf, LEN_FORMER, 0), LEN_FORMER);
	MUST_IS(pulc_port_close(p), 0);
	p = open_number();
	MUST_IS(pulc_send(p, &to, "again", 5, 0), 5);
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_select(NULL, 0, NULL, 0, 1), 0);
	MUST_IS(pulc_send(p, &to, "more", 4, 0), 4);
	native_await(3);
	MUST_IS(pulc_port_close(p), 0);
}

static void read_in_one_life(void)
{
	pulc_port *p = native_open(PULC_D, "reader");

	native_await(1);
	expect(p, "again");
	native_reach(2);
	expect(p, "more");
	native_reach(3);
	MUST_IS(pulc_port_close(p), 0);
}

static void credit_of_a_former_source(void)
{
	NATIVE_RUN(send_in_two_lives, read_in_one_life);
}

/* ---- the destination's ----------------------------------------------------------------------- */

static void send_in_one_life(bool is_refused)
{
	struct pulc_address to = native_find("first");
	pulc_port *p = native_open(PULC_D, NULL);
	ssize_t n;

	for (unsigned i = 0; i < N_FORMER; i++)
		MUST_IS(pulc_send(p, &to, buf, LEN_FORMER, 0), LEN_FORMER);
	native_reach(1);
	native_await(2);
	do {
		MUST_IS(pulc_select(NULL, 0, NULL, 0, 1), 0);
		n = pulc_send(p, &to, "again", 5, 0);
	} while (is_refused && n == 5);
	/* The end of the former one is told once. */
	MUST_IS(n == -ECONNREFUSED ? pulc_send(p, &to, "again", 5, 0) : n, 5);
	native_await(3);
	MUST_IS(pulc_select(NULL, 0, NULL, 0, 1), 0);
	MUST_IS(pulc_send(p, &to, "more", 4, 0), 4);
	native_await(4);
	MUST_IS(pulc_port_close(p), 0);
}

/* What was on its way to the port when it was closed may come to the next one of its number, if
 * that is of the same kind. */
static void read_in_two_lives(enum pulc_kind first, enum pulc_kind second)
{
	pulc_port *p;

	MUST_IS(pulc_port_open(first, NUMBER, "first", &p), 0);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_open(second, NUMBER, NULL, &p), 0);
	native_reach(2);
	expect(p, "again");
	native_reach(3);
	expect(p, "more");
	native_reach(4);
	MUST_IS(pulc_port_close(p), 0);
}

static void send_to_one_alike(void)
{
	send_in_one_life(false);
}

static void send_to_another_kind(void)
{
	send_in_one_life(true);
}

static void read_as_before(void)
{
	read_in_two_lives(PULC_D, PULC_D);
}

static void read_a_stream_then(void)
{
	read_in_two_lives(PULC_D, PULC_M);
}

static void messages_for_a_former_destination(void)
{
	NATIVE_RUN(send_to_one_alike, read_as_before);
	NATIVE_RUN(send_to_another_kind, read_a_stream_then);
}

static const struct test tests[] = {
	TEST(credit_of_a_former_source),
	TEST(messages_for_a_former_destination),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
