/*
 * The connection between two processes of different nodes is cut at a byte: whatever was under way
 * ends with the error that is documented, nothing comes in part or twice, and over the next
 * connection all goes on.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "macros.h"
#include "port.h"
#include "tag.h"
#include "tcp_link.h"

#define SENDER 80u
#define RECEIVER 70000u
#define NODE 5u
#define LEN 100000u
/* BEGIN, and the head of the message's first frame. */
#define SIZE_BEGIN (16u + sizeof(struct port_about) + 16u + sizeof(uint64_t))
#define N_TURNS 100000u
#define STRIDE 211u
#define N_CLOSELY 40u
#define WHOLE UINT32_MAX

enum side { SENDS, RECEIVES, N_SIDES };

struct scene {
	struct port *port[N_SIDES];
	struct peer *peer[N_SIDES]; /* as that side sees the other one */
	int cable[N_SIDES];	    /* the other ends of both links; -1: cut */
	uint64_t n_left[N_SIDES];   /* bytes of that side's until it is cut */
	struct port_sending s;
	struct port_request r;
	int sent, received; /* -EAGAIN: it is under way */
};
static struct scene scene;
static enum hal_tcp_way way;
static uint64_t size_all; /* of the bytes that a message takes */
static unsigned char from[LEN], to[2 * LEN];
static const struct iovec out_of = { from, LEN }, into = { to, sizeof(to) };

/* ---- the cable ------------------------------------------------------------------------------- */

static void connect_side(enum side side, uint32_t port)
{
	struct hal_link *link;
	int fd[2];

	REQUIRE_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), ==, 0);
	REQUIRE_INT(hal_tcp_open(fd[0], way, &link), ==, 0);
	scene.cable[side] = fd[1];
	scene.peer[side] = peer_new(link, 7 + side);
	REQUIRE(scene.peer[side] != NULL);
	scene.peer[side]->node = NODE;
	scene.peer[side]->conn = 7 + side;
	REQUIRE_INT(peer_grant(scene.peer[side], port), ==, 0);
}

static void join(uint64_t n_left, uint64_t n_left_back)
{
	connect_side(SENDS, RECEIVER);
	connect_side(RECEIVES, SENDER);
	scene.n_left[SENDS] = n_left;
	scene.n_left[RECEIVES] = n_left_back;
}

static void cut(void)
{
	for (unsigned i = 0; i < N_SIDES; i++) {
		if (scene.cable[i] >= 0)
			(void)close(scene.cable[i]);
		scene.cable[i] = -1;
	}
}

static void part(void)
{
	cut();
	for (unsigned i = 0; i < N_SIDES; i++) {
		peer_break(scene.peer[i], -ECONNRESET);
		tag_forget_peer(scene.peer[i]);
		peer_unref(scene.peer[i]);
	}
	protocol_tell_forget();
}

static void carry(enum side side)
{
	static char buf[32768];
	ssize_t n;

	if (scene.cable[side] < 0)
		return;
	n = recv(scene.cable[side], buf, MIN(scene.n_left[side], sizeof(buf)), MSG_DONTWAIT);
	if (n <= 0)
		return;
	REQUIRE_INT(send(scene.cable[!side], buf, (size_t)n, 0), ==, n);
	scene.n_left[side] -= (uint64_t)n;
	if (!scene.n_left[side])
		cut();
}

static void move_on(void)
{
	carry(SENDS);
	carry(RECEIVES);
	for (unsigned i = 0; i < N_SIDES; i++)
		(void)peer_serve(scene.peer[i], 64);
	port_push_queued();
	tag_move_on();
}

/* ---- the two --------------------------------------------------------------------------------- */

static void begin(enum port_kind kind)
{
	(void)protocol_register(PROTOCOL_PORT, &port_protocol);
	(void)protocol_register(PROTOCOL_TAG, &tag_protocol);
	for (unsigned i = 0; i < LEN; i++)
		from[i] = (unsigned char)(i * 7 + (i >> 8));
	scene.port[SENDS] = port_new(SENDER, PORT_D);
	scene.port[RECEIVES] = port_new(RECEIVER, kind);
	REQUIRE(scene.port[SENDS] && scene.port[RECEIVES]);
}

static void end(void)
{
	for (unsigned i = 0; i < N_SIDES; i++)
		port_forget(scene.port[i]);
}

static void send_on(struct port_out *out)
{
	if (scene.sent == -EAGAIN)
		scene.sent = port_push(out, &scene.s);
}

static void receive_on(bool posts)
{
	struct port_request *r = &scene.r;

	if (scene.received != -EAGAIN)
		return;
	if (!posts)
		scene.received = port_take(scene.port[RECEIVES], r);
	else if (r->complete)
		scene.received = r->error;
}

/* A message of the sender's; posts: its receive is there before it comes. Until nothing is under
 * way any more. */
static void play(bool posts)
{
	enum port_kind kind = scene.port[RECEIVES]->kind;
	struct port_out *out = port_out_new(scene.port[SENDS], RECEIVER, kind, scene.peer[SENDS]);
	unsigned n = 0;

	REQUIRE(out && port_in_new(scene.port[RECEIVES], scene.peer[RECEIVES], SENDER));
	memset(to, 0, sizeof(to));
	scene.s = (struct port_sending){ .iov = &out_of, .n = 1, .size = LEN };
	port_request_init(&scene.r, &into, 1, sizeof(to));
	scene.r.from = SENDER;
	scene.r.from_node = NODE;
	scene.r.once = true;
	scene.sent = scene.received = -EAGAIN;
	if (posts)
		port_post(scene.port[RECEIVES], &scene.r);
	while ((scene.sent == -EAGAIN || scene.received == -EAGAIN) && n++ < N_TURNS) {
		send_on(out);
		move_on();
		receive_on(posts);
	}
	CHECK_INT(n, <, N_TURNS);
}

/* Nothing more of it is kept. */
static void nothing_is_left(void)
{
	struct port_request r;

	port_request_init(&r, &into, 1, sizeof(to));
	CHECK_INT(port_take(scene.port[RECEIVES], &r), ==, -EAGAIN);
	CHECK_INT(port_budget_used(), ==, 0);
}

static void datagram_cut_at(uint64_t at, bool posts)
{
	join(at, WHOLE);
	play(posts);
	CHECK(scene.sent == 0 || scene.sent == -ECONNRESET);
	if (at < size_all) {
		CHECK_INT(scene.received, ==, -ECONNRESET);
	} else {
		CHECK_INT(scene.received, ==, 0);
		CHECK_INT(scene.r.size_whole, ==, LEN);
		CHECK_MEM(to, from, LEN);
	}
	nothing_is_left();
	part();
	join(WHOLE, WHOLE);
	play(posts);
	CHECK_INT(scene.sent, ==, 0);
	CHECK_INT(scene.received, ==, 0);
	CHECK_INT(scene.r.size_whole, ==, LEN);
	CHECK_MEM(to, from, LEN);
	nothing_is_left();
	part();
}

static bool is_close_to(uint64_t at, uint64_t place)
{
	return at + N_CLOSELY >= place && at <= place + N_CLOSELY;
}

/* Where something begins or ends, and here and there in between. */
static bool is_worth_it(uint64_t at)
{
	return at % STRIDE == 0 || at < SIZE_BEGIN + N_CLOSELY || is_close_to(at, size_all) ||
	       is_close_to(at, size_all / 3) || is_close_to(at, size_all / 3 * 2);
}

/* Nothing is cut. */
static void measure(void)
{
	join(WHOLE, WHOLE);
	play(false);
	for (unsigned n = 0; n < N_TURNS && WHOLE - scene.n_left[SENDS] < LEN; n++)
		move_on();
	for (unsigned n = 0; n < 100; n++)
		move_on();
	size_all = WHOLE - scene.n_left[SENDS];
	part();
	port_request_init(&scene.r, &into, 1, sizeof(to));
	while (port_take(scene.port[RECEIVES], &scene.r) == 0)
		scene.r.done = 0;
}

static void datagrams_by(enum hal_tcp_way by)
{
	way = by;
	begin(PORT_D);
	measure();
	for (uint64_t at = 1; at <= size_all; at++)
		if (is_worth_it(at)) {
			datagram_cut_at(at, false);
			datagram_cut_at(at, true);
		}
	end();
}

static void datagrams(void)
{
	datagrams_by(HAL_TCP_PLAIN);
	datagrams_by(HAL_TCP_BEST);
}

/* What came before the cut is received, in order, and then the end. */
static void stream_cut_at(uint64_t at)
{
	size_t done = 0;

	join(at, WHOLE);
	play(false);
	while (scene.received == 0) {
		CHECK_MEM(to, from + done, scene.r.done);
		done += scene.r.done;
		REQUIRE_INT(done, <=, LEN);
		if (done == LEN)
			break;
		scene.r.done = 0;
		scene.r.complete = false;
		scene.received = -EAGAIN;
		for (unsigned n = 0; scene.received == -EAGAIN && n < N_TURNS; n++) {
			move_on();
			receive_on(false);
		}
	}
	CHECK(scene.sent == 0 || scene.sent == -ECONNRESET);
	CHECK(done == LEN || scene.received == -ECONNRESET);
	CHECK(done <= at);
	nothing_is_left();
	part();
}

static void streams(void)
{
	way = HAL_TCP_PLAIN;
	begin(PORT_M);
	measure();
	for (uint64_t at = 1; at <= size_all; at++)
		if (is_worth_it(at))
			stream_cut_at(at);
	end();
}

/* ---- messages with tags ---------------------------------------------------------------------- */

#define TAG 42u

/* A long one: offered, asked for, sent and confirmed. Whoever was told that it was received, is
 * right. */
static void tagged(int expected_send, int expected_receive)
{
	struct tag_receive r;
	struct tag_send s;
	unsigned n = 0;

	memset(to, 0, sizeof(to));
	tag_send_init(&s, TAG, from, LEN);
	s.peer = scene.peer[SENDS];
	tag_receive_init(&r, TAG, UINT64_MAX, scene.peer[RECEIVES]->client);
	r.buf = to;
	r.size = sizeof(to);
	tag_post(&r);
	REQUIRE_INT(tag_send_begin(&s), ==, 0);
	while (!(s.complete && r.complete) && n++ < N_TURNS)
		move_on();
	CHECK_INT(n, <, N_TURNS);
	CHECK(s.error == 0 || s.error == expected_send);
	CHECK(r.error == 0 || r.error == expected_receive);
	CHECK(s.error != 0 || r.error == 0);
	if (r.error == 0) {
		CHECK_INT(r.done, ==, LEN);
		CHECK_MEM(to, from, LEN);
	}
}

static void tagged_cut_at(uint64_t at, uint64_t at_back)
{
	join(at, at_back);
	tagged(-ECONNRESET, -ECONNRESET);
	part();
	join(WHOLE, WHOLE);
	tagged(0, 0);
	part();
}

static void tagged_ones(void)
{
	uint64_t sent, sent_back;

	way = HAL_TCP_PLAIN;
	begin(PORT_D);
	join(WHOLE, WHOLE);
	tagged(0, 0);
	sent = size_all = WHOLE - scene.n_left[SENDS];
	sent_back = WHOLE - scene.n_left[RECEIVES];
	part();
	CHECK_INT(sent, >, LEN);
	CHECK_INT(sent_back, >, 0);
	for (uint64_t at = 1; at <= sent; at++)
		if (is_worth_it(at))
			tagged_cut_at(at, WHOLE);
	for (uint64_t at = 1; at <= sent_back; at++)
		tagged_cut_at(WHOLE, at);
	CHECK(!tag_any_set());
	end();
}

static const struct test tests[] = {
	TEST(tagged_ones),
	TEST(datagrams),
	TEST(streams),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
