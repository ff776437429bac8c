/*
 * A receive that is taken back at each stage of a message on its way to it: whatever was in its
 * buffer is received whole by the next one, in its place, and costs its source what it did.
 */
#include <string.h>

#include "macros.h"
#include "port_bed.h"

#define N_PIECES 5u
#define LEN_PIECE 1000u
#define LEN ((size_t)(N_PIECES * LEN_PIECE))
/* Of it and of a short one, too little to be told of. */
#define COST (LEN + PORT_OVERHEAD + 4 + PORT_OVERHEAD)

static unsigned char message[LEN], buf[LEN], other[LEN];

static void arrive(unsigned kind, const void *data, size_t len)
{
	bed_arrive(WORD, kind, data, len);
}

static void begin(enum port_kind kind)
{
	const struct port_about about = { .life = 1, .value = kind };

	for (size_t i = 0; i < LEN; i++)
		message[i] = (unsigned char)(i * 7 + i / 251);
	memset(buf, 0, LEN);
	memset(other, 0, LEN);
	bed_begin(kind, 64);
	arrive(PORT_BEGIN, &about, sizeof(about));
}

/* size: what the source still counts as unread. */
static void end(uint64_t size)
{
	CHECK_INT(peer->size_here, ==, size);
	CHECK_INT(port_budget_used(), ==, 0);
	bed_end();
}

static void arrive_piece(unsigned i)
{
	unsigned char first[sizeof(uint64_t) + LEN_PIECE];
	const uint64_t size = LEN;

	if (i > 0) {
		arrive(i == N_PIECES - 1 ? PORT_LAST : 0, message + i * LEN_PIECE, LEN_PIECE);
		return;
	}
	memcpy(first, &size, sizeof(size));
	memcpy(first + sizeof(size), message, LEN_PIECE);
	arrive(PORT_FIRST, first, sizeof(first));
}

static void expect(struct port_request *r, unsigned char *to, const void *bytes, size_t len)
{
	CHECK(r->complete);
	CHECK_INT(r->error, ==, 0);
	CHECK_INT(r->done, ==, len);
	CHECK_INT(r->source, ==, THEIRS);
	CHECK_MEM(to, bytes, len);
}

/* Before anything has come, after each piece, and when all is there. */
static void cancel_after(unsigned n_pieces, bool again_at_once)
{
	struct iovec iov = { buf, LEN }, next_iov = { other, LEN };
	struct port_request r, next;
	unsigned i;

	begin(PORT_D);
	port_request_init(&r, &iov, 1, LEN);
	port_request_init(&next, &next_iov, 1, LEN);
	port_post(port, &r);
	for (i = 0; i < n_pieces; i++)
		arrive_piece(i);
	CHECK_INT(r.complete, ==, n_pieces == N_PIECES);
	CHECK_INT(r.bound != NULL, ==, n_pieces > 0 && n_pieces < N_PIECES);
	CHECK_INT(r.done, ==, n_pieces * LEN_PIECE);
	if (again_at_once)
		port_post(port, &next);
	if (!r.complete) {
		CHECK_INT(port_unpost(port, &r), ==, 0);
		memset(buf, 0xee, LEN);
	}
	for (; i < N_PIECES; i++)
		arrive_piece(i);
	arrive(PORT_FIRST | PORT_LAST, "next", 4);
	if (!again_at_once)
		port_post(port, &next);
	port_serve_posted(port);
	if (n_pieces < N_PIECES) {
		expect(&next, other, message, LEN);
		for (i = 0; i < LEN; i++)
			CHECK(buf[i] == 0xee);
		port_request_init(&next, &next_iov, 1, LEN);
		CHECK_INT(port_take(port, &next), ==, 0);
	} else {
		expect(&r, buf, message, LEN);
	}
	expect(&next, other, "next", 4);
	CHECK_INT(port_take(port, &next), ==, -EAGAIN);
	end(COST);
}

static void each_stage(void)
{
	for (unsigned n = 0; n <= N_PIECES; n++)
		for (int again_at_once = 0; again_at_once < 2; again_at_once++)
			cancel_after(n, again_at_once);
}

/* Taken back, given back, and half-way again: any number of times. */
static void again_and_again(void)
{
	struct iovec iov = { buf, LEN };
	struct port_request r;

	begin(PORT_D);
	for (unsigned i = 0; i < N_PIECES; i++) {
		port_request_init(&r, &iov, 1, LEN);
		port_post(port, &r);
		arrive_piece(i);
		if (!r.complete)
			CHECK_INT(port_unpost(port, &r), ==, 0);
	}
	/* The last one stood there when all of it had come. */
	expect(&r, buf, message, LEN);
	arrive(PORT_FIRST | PORT_LAST, "next", 4);
	port_request_init(&r, &iov, 1, LEN);
	CHECK_INT(port_take(port, &r), ==, 0);
	end(COST);
}

/* The source ends while the message is half-way in the queue again: nobody gets the half of it. */
static void a_half_that_will_never_be_whole(void)
{
	struct iovec iov = { buf, LEN };
	struct port_request r;

	begin(PORT_D);
	port_request_init(&r, &iov, 1, LEN);
	port_post(port, &r);
	arrive_piece(0);
	arrive_piece(1);
	CHECK_INT(port_unpost(port, &r), ==, 0);
	arrive(PORT_CLOSED, NULL, 0);
	port_request_init(&r, &iov, 1, LEN);
	CHECK_INT(port_take(port, &r), ==, -EAGAIN);
	r.from = THEIRS;
	CHECK_INT(port_take(port, &r), ==, -EPIPE);
	end(0);
}

static const struct test tests[] = {
	TEST(each_stage),
	TEST(again_and_again),
	TEST(a_half_that_will_never_be_whole),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
