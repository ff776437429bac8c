/*
 * A peer of another node that lies. It has a TCP connection of psid's making, and writes bytes:
 * frames with every field wrong, honest ones with any byte changed, a stream cut off anywhere,
 * noise. Its link ends, or what it wrote is dropped; nobody crashes, and an honest peer of the same
 * port notices nothing.
 *
 * The victim is what libpulc has of a joined process: a link, its switch, ports and tags, served as
 * native_progress does.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "liar.h"
#include "port.h"
#include "tag.h"
#include "tcp_connect.h"
#include "tcp_link.h"

#define PORT_OURS 70000u
#define PORT_LIARS 900u
#define PORT_HONEST 901u
#define NODE 5u
#define LIFE 3u
#define HEAD 16u
#define SIZE_STREAM (1u << 18)
#define N_TURNS_MAX 100000u

struct scene {
	struct port *port;
	struct peer *liar, *honest;
	int liar_fd;		  /* raw bytes go in here */
	struct hal_link *speaker; /* the honest one's own end */
};
static struct scene scene;

static unsigned char stream[SIZE_STREAM];
static size_t len_stream;

/* ---- the stage ------------------------------------------------------------------------------- */

static void connect_pair(int fd[2])
{
	tcp_connect_pair(fd, AF_INET);
	REQUIRE_INT(fcntl(fd[1], F_SETFL, O_NONBLOCK), ==, 0);
}

static struct peer *joined(uint32_t client, uint32_t port, int *ret_fd)
{
	struct hal_link *link;
	struct peer *peer;
	int fd[2];

	connect_pair(fd);
	REQUIRE_INT(hal_tcp_open(fd[1], HAL_TCP_PLAIN, &link), ==, 0);
	peer = peer_new(link, client);
	REQUIRE(peer != NULL);
	peer->node = NODE;
	peer->conn = client;
	REQUIRE_INT(peer_grant(peer, port), ==, 0);
	*ret_fd = fd[0];
	return peer;
}

static void begin(enum port_kind kind)
{
	int fd;

	(void)protocol_register(PROTOCOL_PORT, &port_protocol);
	(void)protocol_register(PROTOCOL_TAG, &tag_protocol);
	scene.port = port_new(PORT_OURS, kind);
	REQUIRE(scene.port != NULL);
	scene.liar = joined(7, PORT_LIARS, &scene.liar_fd);
	scene.honest = joined(8, PORT_HONEST, &fd);
	REQUIRE_INT(hal_tcp_open(fd, HAL_TCP_PLAIN, &scene.speaker), ==, 0);
}

/* As native_progress does. True: the link has ended. */
static bool serve(struct peer *peer)
{
	bool ended = peer_serve(peer, 64);

	port_push_queued();
	protocol_set_unfinished(false);
	tag_move_on();
	return ended;
}

/* The liar has said all that it will. Until its end is noticed: the reason. */
static int serve_to_the_end(void)
{
	unsigned i = 0;

	/* psid has nothing to say of what it never granted. */
	scene.liar->orphan = true;
	while (!serve(scene.liar) && i < N_TURNS_MAX)
		i++;
	CHECK_INT(i, <, N_TURNS_MAX);
	CHECK(scene.liar->link == NULL);
	return scene.liar->error;
}

/* What an honest peer sends to the same port, comes, as soon as the liar's leavings are read. */
static void others_notice_nothing(void)
{
	struct hal_frame f = { .protocol = PROTOCOL_PORT,
			       .kind = PORT_FIRST | PORT_LAST,
			       .len = 5 };
	struct port_about about = { .life = 1, .value = scene.port->kind };
	struct hal_frame begin = { .protocol = PROTOCOL_PORT,
				   .kind = PORT_BEGIN,
				   .len = sizeof(about) };
	struct iovec life = { &about, sizeof(about) };
	struct iovec from = { (char *)"hello", 5 };
	char got[8] = "";
	struct iovec to = { got, 5 };
	struct port_request r = {
		.iov = &to, .n = 1, .size = 5, .from = PORT_HONEST, .from_node = NODE
	};

	if (scene.port->kind == PORT_S)
		return;
	f.word = begin.word = (uint64_t)PORT_OURS << 32 | PORT_HONEST;
	REQUIRE_INT(scene.speaker->ops->send(scene.speaker, &begin, &life, 1), ==, 0);
	REQUIRE_INT(scene.speaker->ops->send(scene.speaker, &f, &from, 1), ==, 0);
	while (port_take(scene.port, &r) == -EAGAIN)
		CHECK(!serve(scene.honest));
	CHECK_INT(r.done, ==, 5);
	CHECK_MEM(got, "hello", 5);
}

static void end(void)
{
	others_notice_nothing();
	(void)close(scene.liar_fd);
	peer_break(scene.liar, -ECONNRESET);
	peer_break(scene.honest, -ECONNRESET);
	scene.speaker->ops->close(scene.speaker);
	port_free(scene.port);
	peer_unref(scene.liar);
	peer_unref(scene.honest);
	tag_forget();
}

/* All of it, however little the sockets hold; a victim that has hung up is told no more. */
static void say(const void *bytes, size_t len, bool and_no_more)
{
	const char *at = bytes;
	ssize_t n;

	while (len > 0 && scene.liar->link) {
		n = send(scene.liar_fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			break;
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
		if (n < 0 && serve(scene.liar))
			break;
	}
	if (and_no_more)
		(void)shutdown(scene.liar_fd, SHUT_WR);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void put(const void *bytes, size_t len)
{
	REQUIRE(len_stream + len <= SIZE_STREAM);
	if (len > 0)
		memcpy(stream + len_stream, bytes, len);
	len_stream += len;
}

static void put_frame(uint64_t word, uint32_t claimed, unsigned protocol, unsigned kind,
		      const void *payload, size_t len)
{
	const uint32_t len_le = htole32(claimed);
	const uint16_t numbers[2] = { htole16((uint16_t)protocol), htole16((uint16_t)kind) };
	const uint64_t word_le = htole64(word);

	put(&len_le, sizeof(len_le));
	put(numbers, sizeof(numbers));
	put(&word_le, sizeof(word_le));
	put(payload, len);
}

static uint64_t our_word(void)
{
	return (uint64_t)PORT_OURS << 32 | PORT_LIARS;
}

/* For a port of this kind. */
static void put_begin(enum port_kind kind)
{
	const struct port_about about = { .life = LIFE, .value = kind };

	put_frame(our_word(), sizeof(about), PROTOCOL_PORT, PORT_BEGIN, &about, sizeof(about));
}

/* What an honest process would say: a short message, a long one in three pieces, credit, tags, the
 * end of its port. */
static void put_honest_words(void)
{
	static char text[3000];
	const uint64_t size = sizeof(text);
	const struct port_about none = { .life = 1 };
	char first[8 + 1000];

	len_stream = 0;
	memset(text, 't', sizeof(text));
	memcpy(first, &size, 8);
	memcpy(first + 8, text, 1000);
	put_begin(PORT_D);
	put_frame(our_word(), 5, PROTOCOL_PORT, PORT_FIRST | PORT_LAST, "short", 5);
	put_frame(our_word(), sizeof(first), PROTOCOL_PORT, PORT_FIRST, first, sizeof(first));
	put_frame(our_word(), 1000, PROTOCOL_PORT, 0, text, 1000);
	put_frame(7, 6, PROTOCOL_TAG, TAG_EAGER, "tagged", 6);
	put_frame(our_word(), 1000, PROTOCOL_PORT, PORT_LAST, text, 1000);
	put_frame(our_word(), sizeof(none), PROTOCOL_PORT, PORT_CREDIT, &none, sizeof(none));
	put_frame(0, 0, PROTOCOL_TAG, TAG_CREDIT, NULL, 0);
	put_frame(our_word(), 0, PROTOCOL_PORT, PORT_CLOSED, NULL, 0);
}

static unsigned n_received(void)
{
	static char got[4000];
	struct iovec iov = { got, sizeof(got) };
	unsigned n = 0;

	for (;;) {
		struct port_request r = { .iov = &iov, .n = 1, .size = sizeof(got) };

		if (port_take(scene.port, &r) < 0)
			return n;
		CHECK(r.size_whole == 5 || r.size_whole == 3000);
		n++;
	}
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void honest_words_are_understood(void)
{
	begin(PORT_D);
	put_honest_words();
	say(stream, len_stream, true);
	CHECK_INT(serve_to_the_end(), ==, -ECONNRESET);
	CHECK_INT(n_received(), ==, 2);
	end();
}

/* One field of a head at a time. */
static void lie_about(unsigned field, uint64_t value, unsigned protocol, enum port_kind kind)
{
	static const unsigned char payload[64] = { 1 };
	uint64_t word = field == 0 ? value : our_word();
	uint32_t claimed = field == 1 ? (uint32_t)value : sizeof(payload);

	begin(kind);
	len_stream = 0;
	put_begin(kind);
	for (unsigned i = 0; i < 3; i++)
		put_frame(word, claimed, field == 2 ? (unsigned)value : protocol,
			  field == 3 ? (unsigned)value : PORT_FIRST | PORT_LAST, payload,
			  sizeof(payload));
	say(stream, len_stream, true);
	(void)serve_to_the_end();
	end();
}

static void each_field_each_value(void)
{
	for (unsigned field = 0; field < 4; field++)
		for (size_t k = 0; k < LIAR_N_VALUES; k++)
			for (unsigned protocol = PROTOCOL_PORT; protocol <= PROTOCOL_TAG;
			     protocol++)
				lie_about(field, liar_values[k], protocol,
					  (enum port_kind)(1 + k % 3));
}

static void a_length_without_end_is_refused(void)
{
	begin(PORT_D);
	len_stream = 0;
	put_frame(our_word(), 65537, PROTOCOL_PORT, PORT_FIRST | PORT_LAST, NULL, 0);
	say(stream, len_stream, false);
	/* Nobody waits for so many bytes. */
	for (unsigned i = 0; i < N_TURNS_MAX && !serve(scene.liar); i++)
		;
	CHECK_INT(scene.liar->error, ==, -EBADMSG);
	end();
}

/* A port that psid has not granted to it: its own link stops, until psid has no more to say. */
static void another_ones_port_is_not_its_own(void)
{
	begin(PORT_D);
	len_stream = 0;
	put_frame((uint64_t)PORT_OURS << 32 | PORT_HONEST, 4, PROTOCOL_PORT, PORT_FIRST | PORT_LAST,
		  "fake", 4);
	say(stream, len_stream, false);
	for (unsigned i = 0; i < N_TURNS_MAX && !scene.liar->held; i++)
		CHECK(!serve(scene.liar));
	CHECK(scene.liar->held);
	CHECK_INT(n_received(), ==, 0);
	CHECK_INT(serve_to_the_end(), ==, -ECONNRESET);
	end();
}

static void any_byte_may_be_another(void)
{
	for (size_t at = 0; at < 6 * HEAD + 2100; at += at < 100 || at > 2000 ? 1 : 37) {
		begin(PORT_D);
		put_honest_words();
		REQUIRE(at < len_stream);
		stream[at] ^= (unsigned char)(1u << at % 8);
		say(stream, len_stream, true);
		(void)serve_to_the_end();
		end();
	}
}

/* Nothing that was not whole is received. */
static void cut_off_anywhere(void)
{
	unsigned n;

	for (size_t at = 0; at <= 3100; at += at < 60 || at > 3050 ? 1 : 61) {
		begin(PORT_D);
		put_honest_words();
		say(stream, at, true);
		CHECK_INT(serve_to_the_end(), ==, -ECONNRESET);
		n = n_received();
		CHECK_INT(n, ==, at < 2 * HEAD + sizeof(struct port_about) + 5 ? 0 : 1);
		end();
	}
}

static void a_byte_at_a_time(void)
{
	begin(PORT_D);
	put_honest_words();
	for (size_t i = 0; i < len_stream; i++) {
		say(stream + i, 1, false);
		(void)serve(scene.liar);
	}
	say(NULL, 0, true);
	CHECK_INT(serve_to_the_end(), ==, -ECONNRESET);
	CHECK_INT(n_received(), ==, 2);
	end();
}

static void noise(void)
{
	uint64_t x = 88172645463325252ull, words[8] = { 0 };

	for (unsigned i = 0; i < 60; i++) {
		begin((enum port_kind)(1 + i % 3));
		len_stream = 0;
		if (i % 2)
			put_begin((enum port_kind)(1 + i % 3));
		/* Pure noise; and heads that are taken, with noise in them. */
		while (len_stream < (i % 2 ? 3000u : 100000u)) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			words[x & 7] = x;
			if (i % 2)
				put(&x, 8);
			else
				put_frame(x & 1 ? our_word() : x, x >> 8 & 63, 1 + (x >> 3 & 1),
					  x >> 20 & 31, words, x >> 8 & 63);
		}
		say(stream, len_stream, true);
		(void)serve_to_the_end();
		end();
	}
}

/* One way after the other, each with something that nobody reads. */
static unsigned live_once_more(unsigned n, bool says_its_end)
{
	static char text[3000];
	int on = 1;
	unsigned i;

	/* Each word is there when it has been said. */
	(void)setsockopt(scene.liar_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	for (i = 0; i < n && !scene.liar->held; i++) {
		len_stream = 0;
		put_begin(PORT_D);
		put_frame(our_word(), sizeof(text), PROTOCOL_PORT, PORT_FIRST | PORT_LAST, text,
			  sizeof(text));
		if (says_its_end)
			put_frame(our_word(), 0, PROTOCOL_PORT, PORT_CLOSED, NULL, 0);
		say(stream, len_stream, false);
		for (unsigned k = 0; k < 50; k++)
			CHECK(!serve(scene.liar));
	}
	return i;
}

/* What is unread of them all is bounded: no other one begins, and nothing is lost. */
static void lives_take_no_more_than_the_budget(void)
{
	enum { N_MANY = 200 };
	unsigned n;

	port_budget_set(100000);
	for (unsigned says_its_end = 0; says_its_end < 2; says_its_end++) {
		begin(PORT_D);
		n = live_once_more(N_MANY, says_its_end);
		CHECK_INT(n, <, N_MANY);
		CHECK(scene.liar->held);
		CHECK_INT(port_budget_used(), <, 120000);
		for (unsigned k = 0; k < 1000; k++)
			CHECK(!serve(scene.liar));
		CHECK_INT(n_received(), ==, n - 1);
		CHECK(!scene.liar->held);
		/* The last of them stood before the bar. */
		for (unsigned k = 0; k < 50; k++)
			CHECK(!serve(scene.liar));
		CHECK_INT(n_received(), ==, 1);
		CHECK_INT(live_once_more(5, says_its_end), ==, 5);
		CHECK_INT(n_received(), ==, 5);
		say(NULL, 0, true);
		CHECK_INT(serve_to_the_end(), ==, -ECONNRESET);
		end();
	}
	port_budget_set(0);
}

/* Its link ends while it is held: what came is received, and the rest is forgotten with it. */
static void one_that_is_held_ends(void)
{
	port_budget_set(20000);
	begin(PORT_D);
	(void)live_once_more(20, true);
	CHECK(scene.liar->held);
	say(NULL, 0, true);
	CHECK_INT(n_received(), >=, 6);
	CHECK_INT(serve_to_the_end(), ==, -ECONNRESET);
	CHECK_INT(n_received(), ==, 1);
	end();
	port_budget_set(0);
}

static const struct test tests[] = {
	TEST(honest_words_are_understood),
	TEST(each_field_each_value),
	TEST(a_length_without_end_is_refused),
	TEST(another_ones_port_is_not_its_own),
	TEST(any_byte_may_be_another),
	TEST(cut_off_anywhere),
	TEST(a_byte_at_a_time),
	TEST(noise),
	TEST(lives_take_no_more_than_the_budget),
	TEST(one_that_is_held_ends),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
