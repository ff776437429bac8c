/*
 * Ports between processes: numbers and names, kinds, sizes, order, waiting, and credits.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "psid/native_case.h"

#define LEN_MAX (3u << 20)

static unsigned char buf[LEN_MAX];

/* ---- addresses ------------------------------------------------------------------------------- */

static void numbers_and_names(void)
{
	char longest[PULC_NAME_MAX + 2];
	struct pulc_address a;
	pulc_port *p, *q;

	memset(longest, 'x', sizeof(longest));
	longest[PULC_NAME_MAX + 1] = '\0';
	MUST_IS(pulc_attach(), 0);
	MUST_IS(pulc_attach(), 0);
	MUST_IS(pulc_port_open(PULC_D, 77, "seven", &p), 0);
	a = pulc_port_address(p);
	MUST_IS(a.port, 77);
	MUST_IS(pulc_port_open(PULC_M, 77, NULL, &q), -EADDRINUSE);
	MUST_IS(pulc_port_open(PULC_M, 0, "seven", &q), -EADDRINUSE);
	MUST_IS(pulc_port_open(PULC_M, 65536, NULL, &q), -EINVAL);
	MUST_IS(pulc_port_open((enum pulc_kind)4, 0, NULL, &q), -EINVAL);
	MUST_IS(pulc_port_open(PULC_M, 0, longest, &q), -EINVAL);
	MUST_IS(pulc_port_open(PULC_M, 0, "", &q), -EINVAL);
	MUST_IS(pulc_find("seven", &a), 0);
	MUST_IS(a.port, 77);
	MUST_IS(pulc_find("eight", &a), -ENOENT);
	longest[PULC_NAME_MAX] = '\0';
	MUST_IS(pulc_port_open(PULC_M, 0, longest, &q), 0);
	MUST(pulc_port_address(q).port > PULC_PORT_WELL_KNOWN);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_find("seven", &a), -ENOENT);
	MUST_IS(pulc_port_open(PULC_S, 77, "seven", &p), 0);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(q), 0);
	MUST_IS(pulc_port_close(NULL), 0);
}

static void nobody_there(void)
{
	struct pulc_address nowhere = { .port = 4000000000u }, elsewhere = { .node = 9, .port = 1 };
	pulc_port *p = native_open(PULC_D, NULL);

	MUST_IS(pulc_send(p, &nowhere, "x", 1, 0), -ECONNREFUSED);
	MUST_IS(pulc_send(p, &elsewhere, "x", 1, 0), -EHOSTUNREACH);
	MUST_IS(pulc_send(p, &nowhere, "x", 1, 64), -EINVAL);
	MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_port_close(p), 0);
}

static void addresses(void)
{
	NATIVE_RUN(numbers_and_names);
	NATIVE_RUN(nobody_there);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static const size_t sizes[] = { 0,    1,     8,	    32,	    33,	     100,     1000,    4000,
				5000, 16384, 16385, 32768,  32769,   70000,   100000,  1u << 20,
				3,    7,     64,    300000, 2097152, 2097153, LEN_MAX, 0 };
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void send_sizes(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);

	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < N_SIZES; i++) {
			native_fill(buf, sizes[i], i);
			MUST_IS(pulc_send(p, &to, buf, sizes[i], 0), sizes[i]);
		}
	MUST_IS(pulc_send(p, &to, buf, (size_t)PULC_MESSAGE_MAX + 1, 0), -EMSGSIZE);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_sizes(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_address from = { 0 };
	uint32_t first = 0;

	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < N_SIZES; i++) {
			MUST_IS(pulc_receive(p, buf, LEN_MAX, &from, 0), sizes[i]);
			MUST(native_holds(buf, sizes[i], i));
			first = first ? first : from.port;
			MUST_IS(from.port, first);
		}
	MUST_IS(pulc_port_close(p), 0);
}

/* The same, but everything has to be queued first. */
static void receive_sizes_late(void)
{
	pulc_port *other = native_open(PULC_D, NULL), *p = native_open(PULC_D, "sink");
	struct pulc_wait wait = { .port = p };

	MUST_IS(pulc_select(&wait, 1, NULL, 0, -1), 1);
	for (unsigned i = 0; i < 20; i++)
		MUST_IS(pulc_receive(other, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < N_SIZES; i++) {
			struct iovec iov[3] = { { buf, 5 },
						{ buf + 5, 40000 },
						{ buf + 40005, LEN_MAX - 40005 } };

			MUST_IS(pulc_receivev(p, iov, 3, NULL, NULL, 0), sizes[i]);
			MUST(native_holds(buf, sizes[i], i));
		}
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(other), 0);
}

static void datagrams_of_all_sizes(void)
{
	NATIVE_RUN(send_sizes, receive_sizes);
	NATIVE_RUN(send_sizes, receive_sizes_late);
}

static void send_cut(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);

	native_fill(buf, 200000, 1);
	MUST_IS(pulc_send(p, &to, buf, 100, 0), 100);
	MUST_IS(pulc_send(p, &to, buf, 200000, 0), 200000);
	MUST_IS(pulc_send(p, &to, buf, 200000, 0), 200000);
	MUST_IS(pulc_send(p, &to, buf, 7, 0), 7);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_cut(void)
{
	pulc_port *p = native_open(PULC_D, "sink");

	MUST_IS(pulc_receive(p, buf, 10, NULL, PULC_PEEK), 10);
	MUST_IS(pulc_receive(p, buf, 10, NULL, PULC_PEEK | PULC_TRUNC), 100);
	MUST_IS(pulc_receive(p, buf, 10, NULL, 0), 10);
	MUST(native_holds(buf, 10, 1));
	MUST_IS(pulc_receive(p, buf, 150000, NULL, PULC_TRUNC), 200000);
	MUST(native_holds(buf, 150000, 1));
	MUST_IS(pulc_receive(p, buf, 0, NULL, PULC_TRUNC), 200000);
	MUST_IS(pulc_receive(p, buf, LEN_MAX, NULL, PULC_PEEK), 7);
	MUST_IS(pulc_receive(p, buf, LEN_MAX, NULL, 0), 7);
	MUST_IS(pulc_receive(p, buf, LEN_MAX, NULL, PULC_PEEK | PULC_DONTWAIT), -EAGAIN);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void peek_and_cut(void)
{
	NATIVE_RUN(send_cut, receive_cut);
}

#define N_PIECES 300

static void send_pieces(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);
	struct iovec iov[N_PIECES];
	size_t at = 0;

	native_fill(buf, LEN_MAX, 5);
	for (unsigned i = 0; i < N_PIECES; i++) {
		iov[i] = (struct iovec){ buf + at, i * 3 % 700 };
		at += iov[i].iov_len;
	}
	for (int n = 0; n <= N_PIECES; n += 7)
		MUST(pulc_sendv(p, &to, iov, n, 0) >= 0);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_pieces(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct iovec iov[N_PIECES];
	size_t at = 0, len;

	for (unsigned i = 0; i < N_PIECES; i++) {
		iov[i] = (struct iovec){ buf + at, i % 2 * 1000 + i };
		at += iov[i].iov_len;
	}
	for (int n = 0; n <= N_PIECES; n += 7) {
		len = 0;
		for (int i = 0; i < n; i++)
			len += (size_t)i * 3 % 700;
		MUST_IS(pulc_receivev(p, iov, N_PIECES, NULL, NULL, 0), len);
		MUST(native_holds(buf, len, 5));
	}
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void many_pieces(void)
{
	NATIVE_RUN(send_pieces, receive_pieces);
}

/* ---- streams --------------------------------------------------------------------------------- */

#define N_STREAM (8u << 20)

static unsigned char stream_byte(uint64_t at)
{
	return (unsigned char)(at * 7 + (at >> 9));
}

static void send_stream(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);
	pulc_port *m = native_open(PULC_M, NULL);
	uint64_t at = 0;
	size_t len;

	for (unsigned i = 0; at < N_STREAM; i++) {
		len = i % 5 == 0 ? 1 + i % 7 : i * 911 % 70000;
		len = len > N_STREAM - at ? N_STREAM - at : len;
		for (size_t k = 0; k < len; k++)
			buf[k] = stream_byte(at + k);
		MUST_IS(pulc_send(m, &to, buf, len, 0), len);
		at += len;
	}
	MUST_IS(pulc_port_close(m), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_stream(enum pulc_kind kind)
{
	pulc_port *p = native_open(kind, "sink");
	uint64_t at = 0;
	ssize_t n, peeked;

	MUST_IS(pulc_receive(p, buf, 0, NULL, 0), 0);
	for (unsigned i = 0; at < N_STREAM; i++) {
		peeked = i % 3 ? 0 : pulc_receive(p, buf, i * 37 % 9000 + 1, NULL, PULC_PEEK);
		n = pulc_receive(p, buf, i * 37 % 9000 + 1, NULL, 0);
		MUST(n > 0 && n >= peeked);
		for (ssize_t k = 0; k < n; k++)
			MUST_IS(buf[k], stream_byte(at + (uint64_t)k));
		at += (uint64_t)n;
	}
	MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_s(void)
{
	receive_stream(PULC_S);
}

static void receive_m(void)
{
	receive_stream(PULC_M);
}

static void streams_keep_every_byte(void)
{
	NATIVE_RUN(send_stream, receive_s);
	NATIVE_RUN(send_stream, receive_m);
}

/* ---- sources --------------------------------------------------------------------------------- */

static void send_letters(const char *name, char letter)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_M, name);

	for (unsigned i = 0; i < 1000; i++)
		MUST_IS(pulc_send(p, &to, &letter, 1, 0), 1);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void send_a(void)
{
	send_letters("a", 'a');
}

static void send_b(void)
{
	send_letters("b", 'b');
}

static void expect_letters(pulc_port *p, const struct pulc_address *from, char letter)
{
	struct iovec iov = { buf, 1 };
	struct pulc_address was;

	for (unsigned i = 0; i < 1000; i++) {
		MUST_IS(pulc_receivev(p, &iov, 1, from, &was, 0), 1);
		MUST_IS(was.port, from->port);
		MUST_IS(buf[0], letter);
	}
}

static void receive_from_one(enum pulc_kind kind)
{
	pulc_port *p = native_open(kind, "sink");
	struct pulc_address a = native_find("a"), b = native_find("b");
	struct iovec iov = { buf, 1 };

	expect_letters(p, &b, 'b');
	expect_letters(p, &a, 'a');
	MUST_IS(pulc_receivev(p, &iov, 1, &a, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	native_reach(1);
	/* Their ends are told to who asks for them. */
	MUST_IS(pulc_receivev(p, &iov, 1, &a, NULL, 0), -EPIPE);
	MUST_IS(pulc_receivev(p, &iov, 1, &b, NULL, 0), -EPIPE);
	MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_from_one_m(void)
{
	receive_from_one(PULC_M);
}

static void receive_from_one_d(void)
{
	receive_from_one(PULC_D);
}

static void receive_merged(void)
{
	pulc_port *p = native_open(PULC_S, "sink");
	struct pulc_address a = native_find("a");
	struct iovec iov = { buf, 100 };
	unsigned n_a = 0, n_b = 0;

	MUST_IS(pulc_receivev(p, &iov, 1, &a, NULL, 0), -EINVAL);
	while (n_a + n_b < 2000) {
		ssize_t n = pulc_receive(p, buf, 100, NULL, 0);

		MUST(n > 0);
		for (ssize_t i = 0; i < n; i++) {
			n_a += buf[i] == 'a';
			n_b += buf[i] == 'b';
		}
	}
	MUST_IS(n_a, 1000);
	MUST_IS(n_b, 1000);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void from_one_and_from_all(void)
{
	NATIVE_RUN(send_a, send_b, receive_from_one_m);
	NATIVE_RUN(send_a, send_b, receive_from_one_d);
	NATIVE_RUN(send_a, send_b, receive_merged);
}

/* ---- to oneself ------------------------------------------------------------------------------ */

static void talk_to_oneself(void)
{
	pulc_port *d = native_open(PULC_D, NULL), *m = native_open(PULC_M, NULL);
	struct pulc_address to_d = pulc_port_address(d), to_m = pulc_port_address(m), from;
	ssize_t n = 0, got = 0;

	for (unsigned i = 0; i < 2000; i++) {
		size_t len = i * 13 % 3000;

		native_fill(buf, len, i);
		MUST_IS(pulc_send(m, &to_d, buf, len, 0), len);
		MUST_IS(pulc_receive(d, buf, LEN_MAX, &from, 0), len);
		MUST_IS(from.port, to_m.port);
		MUST(native_holds(buf, len, i));
	}
	native_fill(buf, LEN_MAX, 3);
	MUST_IS(pulc_send(d, &to_d, buf, LEN_MAX, 0), LEN_MAX);
	MUST_IS(pulc_receive(d, buf, LEN_MAX, NULL, 0), LEN_MAX);
	MUST(native_holds(buf, LEN_MAX, 3));
	/* A stream to oneself takes what the window takes, and no more until it is read. */
	while ((n = pulc_send(d, &to_m, buf, 10000, PULC_DONTWAIT)) > 0)
		got += n;
	MUST_IS(n, -EAGAIN);
	MUST(got >= 3000000 && got < (3 << 20));
	while (got > 0) {
		n = pulc_receive(m, buf, LEN_MAX, NULL, 0);
		MUST(n > 0);
		got -= n;
	}
	MUST_IS(pulc_port_close(d), 0);
	MUST_IS(pulc_port_close(m), 0);
}

static void to_oneself(void)
{
	NATIVE_RUN(talk_to_oneself);
}

/* ---- flow control ---------------------------------------------------------------------------- */

static void fill_and_go_on(void)
{
	struct pulc_address unread = native_find("unread"), sink = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);
	unsigned n = 0;
	uint32_t total;
	ssize_t e;

	native_fill(buf, 1000, 1);
	while ((e = pulc_send(p, &unread, buf, 1000, PULC_DONTWAIT)) == 1000 && n < 100000)
		n++;
	MUST_IS(e, -EAGAIN);
	MUST(n >= 2900 && n < 3000);
	/* One port that is not read blocks no other one, of the very same process. */
	for (unsigned i = 0; i < 3000; i++)
		MUST_IS(pulc_send(p, &sink, buf, 1000, 0), 1000);
	total = n;
	MUST_IS(pulc_send(p, &sink, &total, sizeof(total), 0), sizeof(total));
	/* Waits until the other has begun to read. */
	for (unsigned i = 0; i < 3000; i++)
		MUST_IS(pulc_send(p, &unread, buf, 1000, 0), 1000);
	MUST_IS(pulc_port_close(p), 0);
}

static void read_one_first(void)
{
	pulc_port *unread = native_open(PULC_D, "unread"), *sink = native_open(PULC_D, "sink");
	uint32_t total;

	for (unsigned i = 0; i < 3000; i++)
		MUST_IS(pulc_receive(sink, buf, 2000, NULL, 0), 1000);
	MUST_IS(pulc_receive(sink, &total, sizeof(total), NULL, 0), sizeof(total));
	for (unsigned i = 0; i < total + 3000; i++)
		MUST_IS(pulc_receive(unread, buf, 2000, NULL, 0), 1000);
	MUST_IS(pulc_receive(unread, buf, 2000, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(sink), 0);
}

static void an_unread_port_blocks_itself_only(void)
{
	NATIVE_RUN(fill_and_go_on, read_one_first);
}

/* A long datagram is taken at once or not at all, even where it does not fit the rings. */
static void send_long_at_once(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);
	unsigned char *big = malloc(PULC_MESSAGE_MAX);

	MUST(big != NULL);
	native_fill(big, PULC_MESSAGE_MAX, 9);
	MUST_IS(pulc_send(p, &to, big, PULC_MESSAGE_MAX, PULC_DONTWAIT), PULC_MESSAGE_MAX);
	memset(big, 0, PULC_MESSAGE_MAX);
	MUST_IS(pulc_send(p, &to, big, PULC_MESSAGE_MAX, PULC_DONTWAIT), -EAGAIN);
	native_reach(1);
	/* What was taken is delivered: closing waits for it. */
	MUST_IS(pulc_port_close(p), 0);
	free(big);
}

static void receive_long(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	unsigned char *big = malloc(PULC_MESSAGE_MAX);

	MUST(big != NULL);
	native_await(1);
	MUST_IS(pulc_receive(p, big, PULC_MESSAGE_MAX, NULL, 0), PULC_MESSAGE_MAX);
	MUST(native_holds(big, PULC_MESSAGE_MAX, 9));
	MUST_IS(pulc_port_close(p), 0);
	free(big);
}

static void a_long_datagram_is_taken_at_once(void)
{
	NATIVE_RUN(send_long_at_once, receive_long);
}

/* Neither side ever waits inside of a call: links and ports become known all the same. */
static void poll_and_answer(void)
{
	pulc_port *p = native_open(PULC_D, "poller");
	struct pulc_address from;
	char c;

	while (pulc_receive(p, &c, 1, &from, PULC_DONTWAIT) != 1)
		;
	while (pulc_send(p, &from, &c, 1, PULC_DONTWAIT) != 1)
		;
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void ask_and_poll(void)
{
	struct pulc_address to = native_find("poller");
	pulc_port *p = native_open(PULC_D, NULL);
	pulc_op *op;
	char c;

	op = native_receive_begin(p, &c, 1, NULL);
	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	while (pulc_op_test(op) == 0)
		;
	MUST_IS(pulc_op_end(op, NULL), 1);
	MUST_IS(c, 'x');
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void who_only_polls(void)
{
	NATIVE_RUN(poll_and_answer, ask_and_poll);
}

/* ---- psid answers when nobody waits any more ------------------------------------------------- */

#define NUMBER 77
#define N_TRIES 1000

/* The port that it opens then is nobody's: it is given back, and may be opened by its number and
 * its name. */
static void open_too_late(void)
{
	pulc_port *p;
	int e;

	MUST_IS(pulc_attach(), 0);
	MUST_IS(kill(native_psid(), SIGSTOP), 0);
	MUST_IS(pulc_port_open(PULC_D, NUMBER, "late", &p), -ETIMEDOUT);
	MUST_IS(kill(native_psid(), SIGCONT), 0);
	for (unsigned i = 0; i < N_TRIES; i++) {
		e = pulc_port_open(PULC_D, NUMBER, "late", &p);
		if (e != -EADDRINUSE)
			break;
		(void)usleep(1000);
	}
	MUST_IS(e, 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void an_answer_that_comes_too_late(void)
{
	NATIVE_RUN(open_too_late);
}

static const struct test tests[] = {
	TEST(addresses),
	TEST(datagrams_of_all_sizes),
	TEST(peek_and_cut),
	TEST(many_pieces),
	TEST(streams_keep_every_byte),
	TEST(from_one_and_from_all),
	TEST(to_oneself),
	TEST(an_unread_port_blocks_itself_only),
	TEST(a_long_datagram_is_taken_at_once),
	TEST(who_only_polls),
	TEST(an_answer_that_comes_too_late),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
