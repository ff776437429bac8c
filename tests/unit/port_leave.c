/*
 * Long datagrams beyond what another process may have unread here: who has leave to begin one, as
 * our readers wait, and what happens to who has not. The other end is a test's.
 */
#include <string.h>

#include "macros.h"
#include "port_bed.h"

#define N_THEIRS 4u
#define LEN (1u << 20)
#define LEN_PIECE 60000u
#define LIFE 7u
#define N_FULL (PORT_PEER_LONG / PORT_MESSAGE_MAX)
#define FIRST_FULL 200u /* ports of theirs that have all that they may have unread */

static unsigned char bytes[LEN], buf[LEN];
static const struct iovec room = { buf, LEN };

static void begin_way(unsigned i)
{
	const struct port_about about = { LIFE + i, PORT_D };

	bed_arrive(word_of(i), PORT_BEGIN, &about, sizeof(about));
}

/* All that their process may have unread at a port of ours: of each the beginning. */
static void fill_up(void)
{
	const uint64_t size = PORT_MESSAGE_MAX;

	REQUIRE(port_new(OURS + 1, PORT_D) != NULL);
	for (unsigned i = 0; i < N_FULL; i++) {
		uint64_t word = (uint64_t)(OURS + 1) << 32 | (FIRST_FULL + i);
		const struct port_about about = { LIFE, PORT_D };

		REQUIRE_INT(peer_grant(peer, FIRST_FULL + i), ==, 0);
		bed_arrive(word, PORT_BEGIN, &about, sizeof(about));
		bed_arrive(word, PORT_FIRST, &size, sizeof(size));
	}
}

static void begin_receiving(void)
{
	bed_begin_among(N_THEIRS);
	fill_up();
	for (unsigned i = 0; i < N_THEIRS; i++)
		begin_way(i);
}

static void end_receiving(void)
{
	port_forget(port_find(OURS + 1));
	bed_end();
	CHECK_INT(port_budget_used(), ==, 0);
}

static void want(unsigned i, uint64_t number)
{
	const struct port_about about = { LIFE + i, number };

	bed_arrive(word_of(i), PORT_WANTS, &about, sizeof(about));
}

/* How many were given leave; of the last one the way and the number. */
static unsigned n_let(unsigned *ret_i, uint64_t *ret_number)
{
	struct port_about about = { 0 };
	uint64_t word = 0;
	unsigned n = bed_heard(PORT_MAY, &about, &word);

	*ret_i = (unsigned)(word >> 32) - THEIRS;
	*ret_number = about.value;
	if (n)
		CHECK_INT(about.life, ==, LIFE + *ret_i);
	return n;
}

static bool is_let(unsigned i, uint64_t number)
{
	uint64_t got;
	unsigned who, n = n_let(&who, &got);

	CHECK_INT(n, <=, 1);
	return n == 1 && who == i && got == number;
}

static bool is_nobody_let(void)
{
	uint64_t number;
	unsigned i;

	return n_let(&i, &number) == 0;
}

static void arrive_first(unsigned i, size_t size)
{
	unsigned char first[sizeof(uint64_t) + LEN_PIECE];
	const uint64_t whole_size = size;

	memcpy(first, &whole_size, sizeof(whole_size));
	memcpy(first + sizeof(whole_size), bytes, LEN_PIECE);
	bed_arrive(word_of(i), PORT_FIRST, first, sizeof(first));
}

static void arrive_rest(unsigned i, size_t size)
{
	for (size_t at = LEN_PIECE; at < size; at += LEN_PIECE) {
		size_t len = MIN((size_t)LEN_PIECE, size - at);

		bed_arrive(word_of(i), at + len == size ? PORT_LAST : 0, bytes + at, len);
	}
}

static void post(struct port_request *r, uint32_t from)
{
	memset(buf, 0, sizeof(buf));
	port_request_init(r, &room, 1, LEN);
	r->from = from;
	port_post(port, r);
}

static int take(uint32_t from, bool peek)
{
	struct port_request r;

	port_request_init(&r, &room, 1, LEN);
	r.from = from;
	r.peek = peek;
	return port_take(port, &r);
}

/* Before the ask, and after it. */
static void a_posted_receive_lets_it_begin(void)
{
	struct port_request r;

	for (int posted_first = 0; posted_first < 2; posted_first++)
		for (int by_name = 0; by_name < 2; by_name++) {
			begin_receiving();
			if (posted_first)
				post(&r, by_name ? THEIRS : 0);
			want(0, 5);
			CHECK(posted_first || is_nobody_let());
			if (!posted_first)
				post(&r, by_name ? THEIRS : 0);
			CHECK(is_let(0, 5));
			arrive_first(0, LEN);
			arrive_rest(0, LEN);
			CHECK(r.complete && r.done == LEN && r.error == 0);
			CHECK_MEM(buf, bytes, LEN);
			end_receiving();
		}
}

/* A receive from another source is none of its business. */
static void only_who_is_waited_for(void)
{
	struct port_request r;

	begin_receiving();
	want(0, 1);
	want(1, 1);
	post(&r, THEIRS + 1);
	CHECK(is_let(1, 1));
	CHECK_INT(port_unpost(port, &r), ==, 0);
	CHECK_INT(take(THEIRS + 2, false), ==, -EAGAIN);
	CHECK(is_nobody_let());
	CHECK_INT(take(THEIRS, false), ==, -EAGAIN);
	CHECK(is_let(0, 1));
	end_receiving();
}

static void a_look_lets_it_begin(void)
{
	begin_receiving();
	want(0, 1);
	CHECK(is_nobody_let());
	CHECK(!port_look(port));
	CHECK(is_let(0, 1));
	want(1, 1);
	CHECK_INT(take(0, true), ==, -EAGAIN);
	CHECK(is_let(1, 1));
	/* Whoever finds something has not asked for more. */
	bed_arrive(word_of(2), PORT_FIRST | PORT_LAST, bytes, 10);
	want(3, 1);
	CHECK(port_look(port));
	CHECK_INT(take(0, false), ==, 0);
	CHECK(is_nobody_let());
	CHECK(!port_look(port));
	CHECK(is_let(3, 1));
	end_receiving();
}

/* All who are waited for may; the first one does, and then nobody until all of that is there. */
static void one_at_a_time(void)
{
	struct port_request r, next;
	uint64_t number;
	unsigned i;

	begin_receiving();
	for (i = 0; i < 3; i++)
		want(i, 1);
	CHECK(!port_look(port));
	CHECK_INT(n_let(&i, &number), ==, 3);
	arrive_first(1, LEN);
	want(0, 2);
	CHECK(!port_look(port));
	post(&r, THEIRS);
	CHECK(is_nobody_let());
	arrive_rest(1, LEN);
	CHECK(is_let(0, 2));
	arrive_first(0, LEN);
	arrive_rest(0, LEN);
	CHECK(r.complete);
	CHECK_MEM(buf, bytes, LEN);
	CHECK_INT(take(THEIRS + 1, false), ==, 0);
	CHECK_MEM(buf, bytes, LEN);
	want(2, 3);
	post(&next, 0);
	CHECK(is_let(2, 3));
	CHECK_INT(port_unpost(port, &next), ==, 0);
	end_receiving();
}

/* Another one is waited for when the one under way ends, however it does. */
static void end_under_way(unsigned how)
{
	const struct port_about about = { LIFE + 10, PORT_D };
	struct port_request r;

	begin_receiving();
	want(0, 1);
	CHECK(!port_look(port) && is_let(0, 1));
	arrive_first(0, LEN);
	want(1, 2);
	post(&r, THEIRS + 1);
	CHECK(is_nobody_let());
	if (how == 0)
		bed_arrive(word_of(0), PORT_CLOSED, NULL, 0);
	else if (how == 1)
		bed_arrive(word_of(0), PORT_BEGIN, &about, sizeof(about));
	else
		peer_revoke(peer, THEIRS);
	if (how == 2)
		CHECK(!peer_serve(peer, 1));
	CHECK(is_let(1, 2));
	CHECK_INT(port_unpost(port, &r), ==, 0);
	end_receiving();
}

static void whatever_ends_the_one_under_way(void)
{
	for (unsigned how = 0; how < 3; how++)
		end_under_way(how);
}

/* It was under way to a port that is closed. */
static void its_port_is_closed(void)
{
	struct port *other;
	struct port_request r;

	begin_receiving();
	other = port_new(OURS + 2, PORT_D);
	REQUIRE(other != NULL);
	bed_arrive((uint64_t)(OURS + 2) << 32 | THEIRS, PORT_BEGIN,
		   &(struct port_about){ LIFE, PORT_D }, sizeof(struct port_about));
	bed_arrive((uint64_t)(OURS + 2) << 32 | THEIRS, PORT_WANTS, &(struct port_about){ LIFE, 1 },
		   sizeof(struct port_about));
	CHECK(!port_look(other) && is_let(0, 1));
	bed_arrive((uint64_t)(OURS + 2) << 32 | THEIRS, PORT_FIRST, &(uint64_t){ LEN }, 8);
	want(1, 2);
	post(&r, 0);
	CHECK(is_nobody_let());
	port_free(other);
	CHECK(is_let(1, 2));
	CHECK_INT(port_unpost(port, &r), ==, 0);
	end_receiving();
}

/* Taken back half-way it is still the one that is under way. */
static void a_receive_is_taken_back(void)
{
	struct port_request r, other;

	begin_receiving();
	want(0, 1);
	post(&r, 0);
	CHECK(is_let(0, 1));
	arrive_first(0, LEN);
	CHECK_INT(port_unpost(port, &r), ==, 0);
	want(1, 2);
	post(&other, THEIRS + 1);
	CHECK(is_nobody_let());
	arrive_rest(0, LEN);
	CHECK(is_let(1, 2));
	CHECK_INT(port_unpost(port, &other), ==, 0);
	CHECK_INT(take(0, false), ==, 0);
	CHECK_MEM(buf, bytes, LEN);
	end_receiving();
}

/* A former way's ask is not this one's; a way that ends asks for nothing any more. */
static void what_is_asked_of_a_way_ends_with_it(void)
{
	begin_receiving();
	bed_arrive(word_of(0), PORT_WANTS, &(struct port_about){ LIFE + 20, 1 },
		   sizeof(struct port_about));
	CHECK(!port_look(port) && is_nobody_let());
	want(0, 1);
	bed_arrive(word_of(0), PORT_CLOSED, NULL, 0);
	CHECK(!port_look(port) && is_nobody_let());
	CHECK(LIST_EMPTY(&port->wanting));
	want(1, 1);
	peer_break(peer, -ECONNRESET);
	CHECK(LIST_EMPTY(&port->wanting) && !port_look(port));
	end_receiving();
}

/* ---- lies ------------------------------------------------------------------------------------ */

static bool begins_another(unsigned i)
{
	const struct hal_frame f = { .word = word_of(i),
				     .protocol = PROTOCOL_PORT,
				     .kind = PORT_FIRST,
				     .len = sizeof(uint64_t) };

	fake_pair_inject(&pair, 0, &f, &(uint64_t){ LEN });
	return !(peer_serve(peer, 1) && peer->error == -EBADMSG);
}

static void who_has_no_leave_ends_his_link(void)
{
	struct port_request r;

	begin_receiving();
	CHECK(!begins_another(0));
	end_receiving();
	/* Nobody has answered yet. */
	begin_receiving();
	want(0, 1);
	CHECK(!begins_another(0));
	end_receiving();
	/* It was another's, and is used up. */
	begin_receiving();
	want(0, 1);
	want(1, 1);
	post(&r, 0);
	CHECK(begins_another(0));
	CHECK(!begins_another(1));
	(void)port_unpost(port, &r);
	end_receiving();
	/* Once. */
	begin_receiving();
	want(0, 1);
	post(&r, 0);
	arrive_first(0, LEN);
	arrive_rest(0, LEN);
	CHECK(r.complete);
	CHECK(!begins_another(0));
	end_receiving();
}

static void what_makes_no_sense_is_no_ask(void)
{
	begin_receiving();
	CHECK(bed_breaks(word_of(0), PORT_WANTS, (struct port_about){ LIFE, 0 }));
	end_receiving();
	bed_begin(PORT_M, 64);
	bed_arrive(WORD, PORT_BEGIN, &(struct port_about){ LIFE, PORT_M },
		   sizeof(struct port_about));
	CHECK(bed_breaks(WORD, PORT_WANTS, (struct port_about){ LIFE, 1 }));
	bed_end();
}

static const struct test tests[] = {
	TEST(a_posted_receive_lets_it_begin),
	TEST(only_who_is_waited_for),
	TEST(a_look_lets_it_begin),
	TEST(one_at_a_time),
	TEST(whatever_ends_the_one_under_way),
	TEST(its_port_is_closed),
	TEST(a_receive_is_taken_back),
	TEST(what_is_asked_of_a_way_ends_with_it),
	TEST(who_has_no_leave_ends_his_link),
	TEST(what_makes_no_sense_is_no_ask),
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < LEN; i++)
		bytes[i] = (unsigned char)(i * 7 + i / 251);
	return TESTS_RUN(tests, argc, argv);
}
