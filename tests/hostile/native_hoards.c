/*
 * A process with many ports that begins on each of them as if it were the only one, and heeds
 * nothing that it is told: what it makes us keep has an end, its link ends for it, and an honest
 * process next to it notices nothing. And honest ones come nowhere near that end: whatever is
 * unread of their other ports, one that is read goes on.
 *
 * Over both transports, and where it is about frames of which each waits for others over one that
 * loses them as well. Both processes are this one: each end of the link is a peer of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "harness.h"
#include "macros.h"
#include "port.h"
#include "repair_bed.h"
#include "shm_links.h"
#include "tcp_connect.h"
#include "tcp_link.h"
#include "tcp_pair.h"

#define PORT_UNREAD 70000u
#define PORT_READ 70001u
#define PORT_SOURCE 1000u /* and so on */
#define N_SOURCES 1024u
#define LEN 16000u
#define LEN_LONG (1u << 20)
#define N_TURNS_MAX 1000000u

enum transport { SHM, TCP, N_TRANSPORTS, LOSSY = N_TRANSPORTS, N_WITH_LOSSY };

struct pair {
	struct hal_link *link[2]; /* 0: the sources' */
	struct shm_links shm;
	struct bed lossy;
};
static struct pair pair;
static struct peer *sources, *sink; /* as the sink sees the sources, and they it */
static struct port *unread, *read_one;
static unsigned char bytes[65536];

static void connect_ends(enum transport transport)
{
	const struct fake_config lossy = { .frame_max = 4000,
					   .n_queue = 4096,
					   .seed = 3,
					   .n_lost = 20,
					   .n_twice = 20,
					   .n_late = 50,
					   .nsec_delay = MSEC / 10,
					   .nsec_late = MSEC / 2 };
	int fd[2];

	if (transport == LOSSY) {
		bed_init(&pair.lossy, &lossy, NULL);
		memcpy(pair.link, pair.lossy.link, sizeof(pair.link));
		return;
	}

	if (transport == SHM) {
		shm_links_init(&pair.shm, tcp_pair_usual_rings);
		memcpy(pair.link, pair.shm.link, sizeof(pair.link));
		return;
	}
	tcp_connect_pair(fd, AF_INET);
	for (int i = 0; i < 2; i++)
		REQUIRE_INT(hal_tcp_open(fd[i], HAL_TCP_PLAIN, &pair.link[i]), ==, 0);
}

static struct peer *peer_of(struct hal_link *link, uint32_t client)
{
	struct peer *peer = peer_new(link, client);

	REQUIRE(peer != NULL);
	peer->conn = client;
	return peer;
}

static void begin(enum transport transport)
{
	(void)protocol_register(PROTOCOL_PORT, &port_protocol);
	port_budget_set(1ull << 40);
	connect_ends(transport);
	sources = peer_of(pair.link[1], 7);
	for (unsigned i = 0; i < N_SOURCES; i++)
		REQUIRE_INT(peer_grant(sources, PORT_SOURCE + i), ==, 0);
	unread = port_new(PORT_UNREAD, PORT_D);
	read_one = port_new(PORT_READ, PORT_D);
	REQUIRE(unread && read_one);
}

static void end(enum transport transport)
{
	port_forget(unread);
	port_forget(read_one);
	CHECK_INT(port_budget_used(), ==, 0);
	peer_break(sources, -ECONNRESET);
	peer_unref(sources);
	protocol_tell_forget();
	if (pair.link[0])
		pair.link[0]->ops->close(pair.link[0]);
	pair.shm.link[0] = pair.shm.link[1] = NULL;
	if (transport == SHM)
		shm_links_deinit(&pair.shm);
	if (transport == LOSSY)
		CHECK_INT(pair.lossy.fake.n_violations, ==, 0);
	pair.lossy.link[0] = NULL;
	port_budget_set(0);
}

/* ---- the one that heeds nothing -------------------------------------------------------------- */

/* Sends by itself, and never looks at what comes. False: the link has ended. */
static bool say(unsigned source, unsigned kind, const void *head, size_t n_head, size_t len)
{
	struct iovec iov[2] = { { (void *)head, n_head }, { bytes, len } };
	const struct hal_frame f = {
		.word = (uint64_t)PORT_UNREAD << 32 | (PORT_SOURCE + source),
		.len = (uint32_t)(n_head + len),
		.protocol = PROTOCOL_PORT,
		.kind = (uint16_t)kind,
	};
	int e;

	for (unsigned i = 0; i < N_TURNS_MAX; i++) {
		e = pair.link[0]->ops->send(pair.link[0], &f, n_head ? iov : &iov[1],
					    n_head ? 2 : 1);
		if (e == 0)
			return !peer_serve(sources, 64);
		if (e != -EAGAIN || peer_serve(sources, 64))
			return false;
		(void)pair.link[0]->ops->progress(pair.link[0]);
	}
	REQUIRE(false);
	return false;
}

static bool say_begin(unsigned source)
{
	const struct port_about about = { 1 + source, PORT_D };

	return say(source, PORT_BEGIN, &about, sizeof(about), 0);
}

/* All that its window lets a way send, on each. */
static bool fill_windows(unsigned source)
{
	for (unsigned i = 0; i < PORT_WINDOW / LEN; i++)
		if (!say(source, PORT_FIRST | PORT_LAST, NULL, 0, LEN))
			return false;
	return true;
}

/* The longest of all, which only begins. */
static bool begin_the_longest(unsigned source)
{
	const uint64_t size = PORT_MESSAGE_MAX;

	return say(source, PORT_FIRST, &size, sizeof(size), 8);
}

/* What is left to each way beyond the common window. */
static bool say_one(unsigned source)
{
	return say(source, PORT_FIRST | PORT_LAST, NULL, 0, LEN);
}

static uint64_t hoard(bool (*speak)(unsigned source), unsigned *ret_n)
{
	uint64_t most = 0;
	unsigned n = 0;

	while (n < N_SOURCES && say_begin(n) && speak(n)) {
		most = MAX(most, port_budget_used());
		n++;
	}
	for (unsigned i = 0; sources->link && i < 1000; i++) {
		(void)peer_serve(sources, 64);
		most = MAX(most, port_budget_used());
	}
	*ret_n = n;
	return most;
}

static void what_one_process_makes_us_keep_has_an_end(void)
{
	uint64_t most;
	unsigned n;

	for (int transport = 0; transport < N_TRANSPORTS; transport++) {
		begin(transport);
		most = hoard(fill_windows, &n);
		CHECK(!sources->link);
		CHECK_INT(sources->error, ==, -EBADMSG);
		CHECK_INT(most, >=, PORT_PEER_WINDOW - (1u << 20));
		CHECK_INT(most, <, PORT_PEER_WINDOW + (1u << 20));
		end(transport);
		begin(transport);
		most = hoard(begin_the_longest, &n);
		CHECK(!sources->link);
		CHECK_INT(sources->error, ==, -EBADMSG);
		CHECK_INT(n, >=, PORT_PEER_LONG / PORT_MESSAGE_MAX);
		CHECK_INT(most, <=, PORT_PEER_LONG + PORT_MESSAGE_MAX + (1u << 20));
		end(transport);
	}
}

static bool want_leave(unsigned source)
{
	const struct port_about about = { 1 + source, 1 };

	return say(source, PORT_WANTS, &about, sizeof(about), 0);
}

/* The port's reader looks once, and all sources ask. */
static void leave_is_for_one(void)
{
	enum { N = PORT_PEER_LONG / PORT_MESSAGE_MAX, N_ASKING = 20 };

	for (int transport = 0; transport < N_TRANSPORTS; transport++) {
		begin(transport);
		for (unsigned i = 0; i < N; i++)
			CHECK(say_begin(i) && begin_the_longest(i));
		for (unsigned i = N; i < N_ASKING; i++)
			CHECK(say_begin(i) && want_leave(i));
		for (unsigned i = 0; i < 1000; i++)
			(void)peer_serve(sources, 64);
		CHECK(!port_look(unread) && sources->link);
		for (unsigned i = N; sources->link && i < N_ASKING; i++)
			(void)begin_the_longest(i);
		for (unsigned i = 0; sources->link && i < 1000; i++)
			(void)peer_serve(sources, 64);
		CHECK_INT(sources->error, ==, -EBADMSG);
		CHECK_INT(sources->n_long_here, ==, 1);
		end(transport);
	}
}

/* Each way has room for one message, as ever. */
static void each_way_has_room_for_one(void)
{
	uint64_t most;

	for (int transport = 0; transport < N_TRANSPORTS; transport++) {
		begin(transport);
		for (unsigned i = 0; i < PORT_PEER_WINDOW / PORT_WINDOW; i++)
			CHECK(say_begin(i) && fill_windows(i));
		for (unsigned i = PORT_PEER_WINDOW / PORT_WINDOW; i < N_SOURCES; i++)
			CHECK(say_begin(i) && say_one(i));
		most = port_budget_used();
		CHECK_INT(most, <, PORT_PEER_WINDOW + N_SOURCES * (LEN + 256ull));
		CHECK(sources->link != NULL);
		(void)say_one(N_SOURCES - 1);
		for (unsigned i = 0; sources->link && i < 1000; i++)
			(void)peer_serve(sources, 64);
		CHECK_INT(sources->error, ==, -EBADMSG);
		end(transport);
	}
}

/* ---- honest ones ----------------------------------------------------------------------------- */

static struct port *from[N_SOURCES];
static struct port_out *to_unread[N_SOURCES], *to_read;
static unsigned char *message;

static void begin_honest(enum transport transport, unsigned n)
{
	begin(transport);
	message = calloc(1, LEN_LONG);
	REQUIRE(message != NULL);
	sink = peer_of(pair.link[0], 8);
	REQUIRE_INT(peer_grant(sink, PORT_UNREAD), ==, 0);
	REQUIRE_INT(peer_grant(sink, PORT_READ), ==, 0);
	for (unsigned i = 0; i < n; i++) {
		from[i] = port_new(PORT_SOURCE + i, PORT_D);
		REQUIRE(from[i] != NULL);
		to_unread[i] = port_out_new(from[i], PORT_UNREAD, PORT_D, sink);
	}
	to_read = port_out_new(from[0], PORT_READ, PORT_D, sink);
}

static void end_honest(enum transport transport, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		port_forget(from[i]);
	CHECK_INT(sink->size_there, ==, 0);
	peer_break(sink, -ECONNRESET);
	pair.link[0] = NULL;
	peer_unref(sink);
	free(message);
	end(transport);
}

static void serve(void)
{
	if (pair.lossy.link[0])
		pair.lossy.fake.nsec_now += MSEC / 20;
	CHECK(!peer_serve(sink, 64) && !peer_serve(sources, 64));
	port_push_queued();
	protocol_set_unfinished(false);
}

static size_t receive(struct port *port)
{
	const struct iovec iov = { message, LEN_LONG };
	struct port_request r;

	port_request_init(&r, &iov, 1, LEN_LONG);
	return port_take(port, &r) == 0 ? r.done : 0;
}

/* All of it, or as much as may be; true: all. Reads what it is told to meanwhile. */
static bool send_all(struct port_out *out, size_t len, struct port *reads)
{
	const struct iovec iov = { message, len };
	struct port_sending s = { .iov = &iov, .n = 1, .size = len };

	for (unsigned idle = 0; idle < 2000; idle++) {
		if (port_push(out, &s) == 0)
			return true;
		serve();
		while (reads && receive(reads) > 0)
			;
		idle = s.begun ? 0 : idle;
	}
	return false;
}

static void settle(void)
{
	for (unsigned i = 0; i < 200; i++)
		serve();
}

static unsigned read_all(struct port *port, size_t len)
{
	unsigned n = 0;

	for (unsigned idle = 0; idle < 2000; idle++) {
		serve();
		for (size_t got; (got = receive(port)) > 0; idle = 0, n++)
			CHECK_INT(got, ==, len);
	}
	return n;
}

/* Until each way waits. Then another port of theirs is read: short and long ones, any number. */
static void a_port_that_is_read_goes_on(void)
{
	enum { N = 60 };
	unsigned n = 0;

	for (int transport = 0; transport < N_TRANSPORTS; transport++) {
		n = 0;
		begin_honest(transport, N);
		for (unsigned i = 0; i < N; i++)
			while (port_may_begin(to_unread[i]) || i == 0 || to_unread[i]->held) {
				if (!send_all(to_unread[i], LEN, NULL))
					break;
				n++;
			}
		settle();
		CHECK_INT(port_budget_used(), >=, PORT_PEER_WINDOW - (1u << 20));
		CHECK_INT(port_budget_used(), <,
			  PORT_PEER_WINDOW + N * (LEN + 256ull) + (1u << 20));
		for (unsigned i = 0; i < 500; i++)
			CHECK(send_all(to_read, LEN, read_one));
		for (unsigned i = 0; i < 20; i++)
			CHECK(send_all(to_read, LEN_LONG, read_one));
		CHECK(!send_all(to_unread[0], LEN, NULL));
		CHECK_INT(read_all(unread, LEN), ==, n);
		CHECK(send_all(to_unread[0], LEN_LONG, NULL));
		CHECK_INT(read_all(unread, LEN_LONG), ==, 1);
		end_honest(transport, N);
	}
}

/* Nothing is unread, and of none of a thousand ways so much was taken that it is told of. */
static void what_is_not_told_of_holds_nobody(void)
{
	enum { N_EACH = (PORT_TOLD - 1) / (LEN + PORT_OVERHEAD) };

	for (int transport = 0; transport < N_TRANSPORTS; transport++) {
		begin_honest(transport, N_SOURCES);
		for (unsigned k = 0; k < 2 * N_EACH; k++)
			for (unsigned i = 0; i < N_SOURCES; i++)
				CHECK(send_all(to_unread[i], LEN, unread));
		settle();
		(void)read_all(unread, LEN);
		CHECK_INT(port_budget_used(), ==, 0);
		CHECK_INT(sink->size_there, <, PORT_PEER_WINDOW);
		end_honest(transport, N_SOURCES);
	}
}

/* A way that ends leaves the account of its process on both sides, whoever ends it. */
static void ways_that_end_count_no_more(void)
{
	enum { N = 40 };

	for (int transport = 0; transport < N_TRANSPORTS; transport++) {
		begin_honest(transport, N);
		for (unsigned k = 0; k < 100; k++) {
			struct port *port = port_new(PORT_SOURCE + N, PORT_D);
			struct port_out *out = port_out_new(port, PORT_UNREAD, PORT_D, sink);

			CHECK(send_all(out, LEN_LONG, unread));
			CHECK(send_all(out, LEN_LONG, NULL));
			port_free(port);
		}
		settle();
		CHECK_INT(sources->size_here, ==, 0);
		CHECK_INT(sink->size_there, ==, 0);
		for (unsigned i = 0; i < N; i++)
			CHECK(send_all(to_unread[i], LEN_LONG, NULL));
		settle();
		CHECK_INT(sink->size_there, ==, N * (LEN_LONG + 64ull));
		CHECK_INT(sources->size_here, ==, N * (LEN_LONG + 64ull));
		port_free(unread);
		settle();
		CHECK_INT(sink->size_there, ==, 0);
		CHECK_INT(sources->size_here, ==, 0);
		unread = port_new(PORT_UNREAD, PORT_D);
		end_honest(transport, N);
	}
}

/* Who waits with a long datagram, beyond the longer bound, hears of nothing but the end of another
 * way. */
static void a_way_that_ends_wakes_who_waits(void)
{
	enum { N = PORT_PEER_LONG / LEN_LONG + 1 };
	uint64_t seen;

	for (int transport = 0; transport < N_TRANSPORTS; transport++) {
		begin_honest(transport, N);
		for (unsigned i = 0; i < N - 1; i++)
			CHECK(send_all(to_unread[i], LEN_LONG, NULL));
		settle();
		CHECK(!send_all(to_unread[N - 1], LEN_LONG, NULL));
		CHECK(send_all(to_unread[N - 1], LEN, NULL));
		seen = protocol_events_now();
		port_free(from[1]);
		CHECK(protocol_events_now() != seen);
		from[1] = port_new(PORT_SOURCE + 1, PORT_D);
		CHECK(send_all(to_read, LEN_LONG, NULL));
		CHECK_INT(read_all(read_one, LEN_LONG), ==, 1);
		end_honest(transport, N);
	}
}

/* Long ones of a port that is read, whatever the others have unread; short ones in between. */
static void a_port_that_is_read_has_long_ones(void)
{
	enum { N = PORT_PEER_LONG / LEN_LONG };

	for (int transport = 0; transport < N_WITH_LOSSY; transport++) {
		begin_honest(transport, N);
		for (unsigned i = 0; i < N; i++)
			CHECK(send_all(to_unread[i], LEN_LONG, NULL));
		settle();
		for (unsigned i = 0; i < 10; i++) {
			CHECK(send_all(to_read, LEN_LONG, read_one));
			CHECK(send_all(to_read, LEN, read_one));
		}
		CHECK_INT(sink->n_long_there, ==, 10);
		CHECK_INT(sources->n_long_here, ==, 10);
		CHECK_INT(read_all(unread, LEN_LONG), ==, N);
		end_honest(transport, N);
	}
}

static const struct test tests[] = {
	TEST(what_one_process_makes_us_keep_has_an_end),
	TEST(leave_is_for_one),
	TEST(each_way_has_room_for_one),
	TEST(a_port_that_is_read_goes_on),
	TEST(what_is_not_told_of_holds_nobody),
	TEST(ways_that_end_count_no_more),
	TEST(a_way_that_ends_wakes_who_waits),
	TEST(a_port_that_is_read_has_long_ones),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
