/*
 * A process whose ports keep more than its budget: the senders to the port that is not read wait,
 * nobody else does, and nothing is lost.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "native.h"
#include "psid/native_case.h"

#define BUDGET "65536"
#define N_MESSAGES 60u
#define LEN_MAX 200000u
#define N_LATE 5u

static unsigned char buf[LEN_MAX];
static unsigned char out[N_MESSAGES][LEN_MAX];
static enum pulc_kind kind;
static size_t len;

/* Each answer tells that the receiver has taken what was sent before the question, and has said
 * what it has to say about it. */
static void ask(pulc_port *p, const struct pulc_address *to)
{
	struct pulc_address from;

	MUST_IS(pulc_send(p, to, "?", 1, 0), 1);
	MUST_IS(pulc_receive(p, buf, 1, &from, 0), 1);
	MUST(from.port == to->port);
}

/* Of each it is asked elsewhere whether it came. Returns how many are sent by then. */
static unsigned begin_all(pulc_port *p, const struct pulc_address *unread,
			  const struct pulc_address *heard, pulc_op **ops)
{
	unsigned n_sent = 0;

	for (unsigned i = 0; i < N_MESSAGES; i++) {
		native_fill(out[i], len, i);
		ops[i] = native_send_begin(p, unread, out[i], len);
		ask(p, heard);
	}
	for (unsigned i = 0; i < N_MESSAGES; i++)
		n_sent += pulc_op_test(ops[i]) == 1;
	return n_sent;
}

static void flood(const char *name, unsigned first_point)
{
	struct pulc_address unread = native_find("unread"), heard = native_find(name);
	pulc_port *p = native_open(PULC_D, NULL);
	pulc_op *ops[N_MESSAGES];
	unsigned n_sent;

	n_sent = begin_all(p, &unread, &heard, ops);
	/* As many as the budget has room for, one that had begun, and one more for each question
	 * that was queued for a moment. */
	MUST(n_sent >= 1 && n_sent * len <= 65536 + 3 * len);
	MUST(pulc_send(p, &unread, "x", 1, PULC_DONTWAIT) == -EAGAIN);
	native_reach(first_point);
	for (unsigned i = 0; i < N_MESSAGES; i++)
		MUST_IS(pulc_op_end(ops[i], NULL), (ssize_t)len);
	ask(p, &heard);
	native_await(first_point + 1);
	MUST_IS(pulc_port_close(p), 0);
}

static void one_sender(void)
{
	flood("heard", 1);
}

static void answer(pulc_port *p, unsigned n)
{
	struct pulc_address from;

	for (unsigned i = 0; i < n; i++) {
		MUST_IS(pulc_receive(p, buf, 1, &from, 0), 1);
		MUST_IS(pulc_send(p, &from, "!", 1, 0), 1);
	}
}

static void receive_one(pulc_port *p, unsigned number)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pulc_receive(p, buf + done, len - done, NULL, 0);

		MUST(n > 0);
		done += (size_t)n;
	}
	MUST(native_holds(buf, len, number));
}

static void read_one_port_only(void)
{
	pulc_port *unread, *heard;

	(void)setenv("PULC_QUEUE_MAX", BUDGET, 1);
	unread = native_open(kind, "unread");
	heard = native_open(PULC_D, "heard");
	answer(heard, N_MESSAGES);
	native_await(1);
	MUST(native_lock());
	MUST(port_budget_used() > 50000);
	native_unlock();
	for (unsigned i = 0; i < N_MESSAGES; i++)
		receive_one(unread, i);
	answer(heard, 1);
	MUST(native_lock());
	MUST_IS(port_budget_used(), 0);
	native_unlock();
	native_reach(2);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(heard), 0);
}

static void datagrams(void)
{
	kind = PULC_D;
	len = 5000;
	NATIVE_RUN(one_sender, read_one_port_only);
	len = LEN_MAX;
	NATIVE_RUN(one_sender, read_one_port_only);
}

static void streams(void)
{
	len = 5000;
	kind = PULC_M;
	NATIVE_RUN(one_sender, read_one_port_only);
	kind = PULC_S;
	NATIVE_RUN(one_sender, read_one_port_only);
}

/* The process of the port that is not read closes it: whoever waits for it is told. */
static void wait_in_vain(void)
{
	struct pulc_address unread = native_find("unread"), heard = native_find("heard");
	pulc_port *p = native_open(PULC_D, NULL);
	pulc_op *op = NULL;

	for (unsigned i = 0; i < N_MESSAGES; i++) {
		op = native_send_begin(p, &unread, out[0], 5000);
		ask(p, &heard);
		if (pulc_op_test(op) == 0)
			break;
		MUST_IS(pulc_op_end(op, NULL), 5000);
	}
	MUST_IS(pulc_send(p, &heard, ".", 1, 0), 1);
	MUST_IS(pulc_op_end(op, NULL), -ECONNREFUSED);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void close_it(void)
{
	pulc_port *unread, *heard;
	struct pulc_address from;

	(void)setenv("PULC_QUEUE_MAX", BUDGET, 1);
	unread = native_open(PULC_D, "unread");
	heard = native_open(PULC_D, "heard");
	for (;;) {
		MUST_IS(pulc_receive(heard, buf, 1, &from, 0), 1);
		if (buf[0] == '.')
			break;
		MUST_IS(pulc_send(heard, &from, "!", 1, 0), 1);
	}
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(port_budget_used(), 0);
	native_await(1);
	MUST_IS(pulc_port_close(heard), 0);
}

static void a_port_that_is_closed(void)
{
	NATIVE_RUN(wait_in_vain, close_it);
}

/* ---- a port that passes to another process --------------------------------------------------- */

#define MSEC_PATIENCE 40000

static void flood_what_passes(void)
{
	struct pulc_address unread = native_find("unread"), heard = native_find("heard");
	pulc_port *p = native_open(PULC_D, NULL);
	pulc_op *ops[N_MESSAGES];
	unsigned n_sent;

	n_sent = begin_all(p, &unread, &heard, ops);
	MUST(n_sent >= 1 && n_sent < N_MESSAGES);
	native_reach(1);
	for (unsigned i = 0; i < N_MESSAGES; i++)
		MUST_IS(pulc_op_end(ops[i], NULL), (ssize_t)len);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void keep_and_give(void)
{
	pulc_port *unread, *heard;

	(void)setenv("PULC_QUEUE_MAX", BUDGET, 1);
	native_known_as(0);
	unread = native_open(PULC_D, "unread");
	heard = native_open(PULC_D, "heard");
	answer(heard, N_MESSAGES);
	native_await(1);
	MUST(native_lock());
	MUST(port_budget_used() > 50000);
	native_unlock();
	MUST_IS(pulc_port_give(unread, native_pid_of(1), MSEC_PATIENCE), 0);
	MUST(native_lock());
	MUST_IS(port_budget_used(), 0);
	native_unlock();
	native_await(2);
	MUST_IS(pulc_port_close(heard), 0);
}

static void take_and_read(void)
{
	pulc_port *p;

	native_known_as(1);
	MUST_IS(pulc_port_take(0, MSEC_PATIENCE, &p), 0);
	for (unsigned i = 0; i < N_MESSAGES; i++)
		receive_one(p, i);
	MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

/* What is kept goes with it, and whoever was told to wait goes on there. */
static void a_port_that_passes(void)
{
	kind = PULC_D;
	len = 5000;
	NATIVE_RUN(keep_and_give, take_and_read, flood_what_passes);
	len = LEN_MAX;
	NATIVE_RUN(keep_and_give, take_and_read, flood_what_passes);
}

/* ---- who is waited for by name --------------------------------------------------------------- */

static void send_late(void)
{
	pulc_port *p = native_open(PULC_D, "late");
	struct pulc_address unread, heard;

	native_await(1);
	unread = native_find("unread");
	heard = native_find("heard");
	for (unsigned i = 0; i < N_LATE; i++) {
		native_fill(out[0], len, i);
		MUST_IS(pulc_send(p, &unread, out[0], len, 0), (ssize_t)len);
		ask(p, &heard);
	}
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

/* The port keeps too much of one source, and its reader wants another's messages first. */
static void read_the_late_one_first(void)
{
	struct iovec iov = { .iov_base = buf, .iov_len = LEN_MAX };
	pulc_port *unread, *heard;
	struct pulc_address late;

	(void)setenv("PULC_QUEUE_MAX", BUDGET, 1);
	unread = native_open(PULC_D, "unread");
	heard = native_open(PULC_D, "heard");
	late = native_find("late");
	answer(heard, N_MESSAGES);
	for (unsigned i = 0; i < N_LATE; i++) {
		answer(heard, 1);
		MUST_IS(pulc_receivev(unread, &iov, 1, &late, NULL, 0), (ssize_t)len);
		MUST(native_holds(buf, len, i));
	}
	for (unsigned i = 0; i < N_MESSAGES; i++)
		receive_one(unread, i);
	answer(heard, 1);
	native_reach(2);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(heard), 0);
}

static void a_source_that_is_waited_for(void)
{
	len = 5000;
	NATIVE_RUN(one_sender, send_late, read_the_late_one_first);
}

/* A long one is let go when somebody asks for it, by a look too. */
static void send_late_and_long(void)
{
	pulc_port *p = native_open(PULC_D, "late");
	struct pulc_address unread;

	native_await(1);
	unread = native_find("unread");
	for (unsigned i = 0; i < N_LATE; i++) {
		native_fill(out[0], LEN_MAX, i);
		MUST_IS(pulc_send(p, &unread, out[0], LEN_MAX, 0), LEN_MAX);
	}
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void read_the_long_one_first(void)
{
	struct iovec iov = { .iov_base = buf, .iov_len = LEN_MAX };
	pulc_port *unread, *heard;
	struct pulc_address late;

	(void)setenv("PULC_QUEUE_MAX", BUDGET, 1);
	unread = native_open(PULC_D, "unread");
	heard = native_open(PULC_D, "heard");
	late = native_find("late");
	answer(heard, N_MESSAGES);
	for (unsigned i = 0; i < N_LATE; i++) {
		if (i % 2)
			MUST_IS(pulc_receivev(unread, &iov, 1, &late, NULL, PULC_PEEK), LEN_MAX);
		MUST_IS(pulc_receivev(unread, &iov, 1, &late, NULL, 0), LEN_MAX);
		MUST(native_holds(buf, LEN_MAX, i));
	}
	for (unsigned i = 0; i < N_MESSAGES; i++)
		receive_one(unread, i);
	answer(heard, 1);
	native_reach(2);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(heard), 0);
}

static void a_long_one_that_is_waited_for(void)
{
	len = 5000;
	NATIVE_RUN(one_sender, send_late_and_long, read_the_long_one_first);
}

/* ---- many sources of one process ------------------------------------------------------------- */

#define N_SOURCES 40u
#define LARGE_BUDGET "4194304"
#define LEN_LARGE (1u << 20)

static unsigned char large[LEN_LARGE];
static bool is_known_before;

/* Each has a way, and credit, of its own. */
static void speak_with_many_ports(void)
{
	struct pulc_address unread = native_find("unread"), heard = native_find("heard");
	pulc_port *p = native_open(PULC_D, NULL), *sources[N_SOURCES];
	unsigned n_sent = 0, n_first = 0;
	pulc_op *ops[N_SOURCES];

	for (unsigned i = 0; i < N_SOURCES; i++) {
		sources[i] = native_open(PULC_D, NULL);
		if (is_known_before)
			MUST_IS(pulc_send(sources[i], &unread, "", 0, 0), 0);
	}
	for (unsigned i = 0; i < N_SOURCES; i++) {
		ops[i] = native_send_begin(sources[i], &unread, large, LEN_LARGE);
		ask(p, &heard);
	}
	for (unsigned i = 0; i < N_SOURCES; i++)
		n_first += pulc_op_test(ops[i]) == 1;
	/* The budget's, and one that had begun. */
	MUST(n_first >= 3 && n_first <= 6);
	native_reach(1);
	for (unsigned i = 0; i < N_SOURCES; i++)
		n_sent += pulc_op_end(ops[i], NULL) == LEN_LARGE;
	MUST_IS(n_sent, N_SOURCES);
	ask(p, &heard);
	native_await(2);
	for (unsigned i = 0; i < N_SOURCES; i++)
		MUST_IS(pulc_port_close(sources[i]), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void keep_what_many_say(void)
{
	pulc_port *unread, *heard;
	unsigned n = 0;

	(void)setenv("PULC_QUEUE_MAX", LARGE_BUDGET, 1);
	unread = native_open(PULC_D, "unread");
	heard = native_open(PULC_D, "heard");
	answer(heard, N_SOURCES);
	native_await(1);
	MUST(native_lock());
	MUST(port_budget_used() <= 7 * LEN_LARGE);
	native_unlock();
	while (n < N_SOURCES)
		n += pulc_receive(unread, large, LEN_LARGE, NULL, 0) == LEN_LARGE;
	answer(heard, 1);
	native_reach(2);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(heard), 0);
}

static struct {
	_Atomic unsigned n_sent, n_kept;
} * shared;

static void await_kept(unsigned n)
{
	while (atomic_load(&shared->n_kept) < n)
		(void)usleep(100);
}

/* The link has room each time, so nobody waits and nothing is looked for. */
static void never_look(void)
{
	struct pulc_address unread = native_find("unread");
	pulc_port *sources[N_SOURCES];
	unsigned n = 0;

	for (unsigned i = 0; i < N_SOURCES; i++) {
		sources[i] = native_open(PULC_D, NULL);
		MUST_IS(pulc_send(sources[i], &unread, "", 0, 0), 0);
	}
	while (n < N_SOURCES &&
	       pulc_send(sources[n], &unread, large, LEN_LARGE, PULC_DONTWAIT) == LEN_LARGE) {
		atomic_store(&shared->n_sent, ++n);
		await_kept(n);
	}
	MUST(n >= 3 && n <= 6);
	native_reach(1);
	while (n < N_SOURCES)
		MUST_IS(pulc_send(sources[n++], &unread, large, LEN_LARGE, 0), LEN_LARGE);
	for (unsigned i = 0; i < N_SOURCES; i++)
		MUST_IS(pulc_port_close(sources[i]), 0);
}

static void take_what_comes(void)
{
	uint64_t seen = 0, kept;
	pulc_port *unread;
	unsigned n = 0;

	(void)setenv("PULC_QUEUE_MAX", LARGE_BUDGET, 1);
	unread = native_open(PULC_D, "unread");
	while (!native_is_reached(1)) {
		(void)pulc_progress(&seen, 1);
		MUST(native_lock());
		kept = port_budget_used() / LEN_LARGE;
		native_unlock();
		if (kept >= atomic_load(&shared->n_sent))
			atomic_store(&shared->n_kept, (unsigned)kept);
	}
	while (n < N_SOURCES)
		n += pulc_receive(unread, large, LEN_LARGE, NULL, 0) == LEN_LARGE;
	MUST_IS(pulc_port_close(unread), 0);
}

static void many_sources_of_one_process(void)
{
	NATIVE_RUN(speak_with_many_ports, keep_what_many_say);
	is_known_before = true;
	NATIVE_RUN(speak_with_many_ports, keep_what_many_say);
	shared = native_share(sizeof(*shared));
	NATIVE_RUN(never_look, take_what_comes);
	native_unshare(shared, sizeof(*shared));
}

/* ---- all that one process may have unread at another ----------------------------------------- */

/* Each has used up what it may; then one that is read has all that it wants. */
static void send_all_that_may_be(void)
{
	struct pulc_address unread = native_find("unread"), heard = native_find("heard");
	pulc_port *p = native_open(PULC_D, NULL), *sources[N_SOURCES];
	uint64_t n_sent = 0;
	ssize_t n;

	for (unsigned i = 0; i < N_SOURCES; i++)
		sources[i] = native_open(PULC_D, NULL);
	for (unsigned i = 0; i < N_SOURCES; i++) {
		while ((n = pulc_send(sources[i], &unread, large, 60000, PULC_DONTWAIT)) == 60000)
			n_sent++;
		MUST_IS(n, -EAGAIN);
		ask(p, &heard);
		if (pulc_send(sources[i], &unread, large, 60000, PULC_DONTWAIT) == 60000 &&
		    ++n_sent)
			i--;
	}
	MUST(n_sent * 60000 >= PORT_PEER_WINDOW - LEN_LARGE);
	MUST(n_sent * 60000 <= PORT_PEER_WINDOW + N_SOURCES * 64000ull);
	MUST_IS(pulc_send(p, &heard, &n_sent, sizeof(n_sent), 0), sizeof(n_sent));
	for (unsigned i = 0; i < 100; i++)
		MUST_IS(pulc_send(p, &heard, large, LEN_LARGE, 0), LEN_LARGE);
	for (unsigned i = 0; i < N_SOURCES; i++)
		MUST_IS(pulc_send(sources[i], &unread, large, LEN_LARGE, 0), LEN_LARGE);
	for (unsigned i = 0; i < N_SOURCES; i++)
		MUST_IS(pulc_port_close(sources[i]), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void keep_all_that_may_be(void)
{
	pulc_port *unread, *heard;
	struct pulc_address from;
	uint64_t n = 0;
	ssize_t got;

	(void)setenv("PULC_QUEUE_MAX", "1073741824", 1);
	unread = native_open(PULC_D, "unread");
	heard = native_open(PULC_D, "heard");
	while ((got = pulc_receive(heard, &n, sizeof(n), &from, 0)) == 1)
		MUST_IS(pulc_send(heard, &from, "!", 1, 0), 1);
	MUST_IS(got, sizeof(n));
	for (unsigned i = 0; i < 100; i++)
		MUST_IS(pulc_receive(heard, large, LEN_LARGE, NULL, 0), LEN_LARGE);
	for (; n > 0; n--)
		MUST_IS(pulc_receive(unread, large, LEN_LARGE, NULL, 0), 60000);
	for (unsigned i = 0; i < N_SOURCES; i++)
		MUST_IS(pulc_receive(unread, large, LEN_LARGE, NULL, 0), LEN_LARGE);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(heard), 0);
}

static void one_process_has_so_much_unread(void)
{
	NATIVE_RUN(send_all_that_may_be, keep_all_that_may_be);
}

enum { N_EMPTY = 40000 };

static void send_empty_ones(void)
{
	struct pulc_address unread = native_find("unread"), heard = native_find("heard");
	pulc_port *p = native_open(PULC_D, NULL);

	for (unsigned i = 0; i < N_EMPTY; i++)
		MUST_IS(pulc_send(p, &unread, "", 0, 0), 0);
	ask(p, &heard);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void keep_empty_ones(void)
{
	pulc_port *unread = native_open(PULC_D, "unread"), *heard = native_open(PULC_D, "heard");

	answer(heard, 1);
	MUST(native_lock());
	MUST(port_budget_used() >= N_EMPTY * 64ull);
	MUST(port_budget_used() < N_EMPTY * 128ull);
	native_unlock();
	for (unsigned i = 0; i < N_EMPTY; i++)
		MUST_IS(pulc_receive(unread, buf, 1, NULL, 0), 0);
	MUST(native_lock());
	MUST_IS(port_budget_used(), 0);
	native_unlock();
	native_reach(1);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(heard), 0);
}

/* The credit of one source is no more than about that much memory, whatever it sends. */
static void small_ones_take_about_what_they_cost(void)
{
	NATIVE_RUN(send_empty_ones, keep_empty_ones);
}

static const struct test tests[] = {
	TEST(small_ones_take_about_what_they_cost),
	TEST(datagrams),
	TEST(streams),
	TEST(a_port_that_is_closed),
	TEST(a_port_that_passes),
	TEST(a_source_that_is_waited_for),
	TEST(a_long_one_that_is_waited_for),
	TEST(many_sources_of_one_process),
	TEST(one_process_has_so_much_unread),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
