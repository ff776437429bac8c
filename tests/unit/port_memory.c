/*
 * What a port has to say while there is no memory to keep it for a peer that has no room: somebody
 * waits for each of these words, so they come once there is memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "port_bed.h"

#define N_QUEUE 4u
#define LEN 16000u
#define SIZE_WORD 32u

static bool is_out_of_memory;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_RUN_OUT false
#else
#define MAY_RUN_OUT true
void *__libc_malloc(size_t size);

/* The library's, and this program's own. What the fake HAL needs for a word is there. */
void *malloc(size_t size)
{
	return is_out_of_memory && size > SIZE_WORD ? NULL : __libc_malloc(size);
}
#endif

static bool begin(void)
{
	if (!MAY_RUN_OUT) {
		test_skip("malloc is the sanitizer's");
		return false;
	}
	bed_begin(PORT_D, N_QUEUE);
	return true;
}

static void end(void)
{
	bed_end();
	port_budget_set(0);
}

static void arrive(unsigned kind, const void *data, size_t len, bool without_memory)
{
	is_out_of_memory = without_memory;
	bed_arrive(WORD, kind, data, len);
	is_out_of_memory = false;
}

static void begin_way(unsigned asks, bool without_memory)
{
	const struct port_about about = { .life = 1, .value = PORT_D | asks };

	arrive(PORT_BEGIN, &about, sizeof(about), without_memory);
}

/* The peer takes nothing, and what is said to it from now on must be kept. */
static void fill(void)
{
	while (peer->link->ops->room(peer->link) && port_control(peer, 0, PORT_STAYS, 0) == 0 &&
	       STAILQ_EMPTY(&peer->pending))
		;
}

/* What came there of that kind, as the peer reads and we make progress. */
static unsigned count(unsigned kind)
{
	struct hal_link *link = pair.link[1];
	struct hal_frame f;
	unsigned n = 0;

	for (unsigned i = 0; i < 100; i++) {
		while (link->ops->next(link, &f) == 1) {
			n += f.kind == kind;
			link->ops->drop(link);
		}
		CHECK(!peer_serve(peer, 1));
		if (port_any_to_move())
			port_push_queued();
	}
	return n;
}

static unsigned take_all(void)
{
	static unsigned char buf[LEN];
	const struct iovec iov = { buf, sizeof(buf) };
	struct port_request r;
	unsigned n = 0;

	for (;; n++) {
		port_request_init(&r, &iov, 1, sizeof(buf));
		if (port_take(port, &r) < 0)
			return n;
	}
}

static void say(unsigned n)
{
	static const unsigned char bytes[LEN];

	for (unsigned i = 0; i < n; i++)
		arrive(PORT_FIRST | PORT_LAST, bytes, sizeof(bytes), false);
}

static void a_way_that_asked_is_told(void)
{
	if (!begin())
		return;
	fill();
	begin_way(PORT_ASKS, true);
	CHECK_INT(count(PORT_GO), ==, 1);
	end();
}

static void who_has_leave_is_told(void)
{
	const struct port_about about = { .life = 1, .value = 1 };

	if (!begin())
		return;
	begin_way(0, false);
	arrive(PORT_WANTS, &about, sizeof(about), false);
	CHECK_INT(count(PORT_MAY), ==, 0);
	fill();
	is_out_of_memory = true;
	CHECK(!port_look(port));
	is_out_of_memory = false;
	CHECK_INT(count(PORT_MAY), ==, 1);
	end();
}

static void a_source_that_was_held_is_let_go(void)
{
	if (!begin())
		return;
	port_budget_set(4 * LEN);
	begin_way(0, false);
	say(6);
	CHECK_INT(count(PORT_HOLD), >=, 1);
	fill();
	is_out_of_memory = true;
	CHECK_INT(take_all(), ==, 6);
	is_out_of_memory = false;
	CHECK_INT(count(PORT_GO), ==, 1);
	end();
}

/* All of its window is taken, and nothing more comes of which it could be told. */
static void a_source_gets_its_credit(void)
{
	const unsigned n = PORT_WINDOW / (LEN + PORT_OVERHEAD);

	if (!begin())
		return;
	begin_way(0, false);
	say(n);
	fill();
	is_out_of_memory = true;
	CHECK_INT(take_all(), ==, n);
	is_out_of_memory = false;
	CHECK_INT(count(PORT_CREDIT), ==, 1);
	end();
}

static const struct test tests[] = {
	TEST(a_way_that_asked_is_told),
	TEST(who_has_leave_is_told),
	TEST(a_source_that_was_held_is_let_go),
	TEST(a_source_gets_its_credit),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
