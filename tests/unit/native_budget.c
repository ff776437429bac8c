/*
 * A process whose ports keep more than its budget: the senders to the port that is not read wait,
 * nobody else does, and nothing is lost.
 */
#include <errno.h>
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

static void flood(const char *name, unsigned first_point)
{
	struct pulc_address unread = native_find("unread"), heard = native_find(name);
	pulc_port *p = native_open(PULC_D, NULL);
	pulc_op *ops[N_MESSAGES];
	unsigned n_sent = 0;

	for (unsigned i = 0; i < N_MESSAGES; i++) {
		native_fill(out[i], len, i);
		ops[i] = native_send_begin(p, &unread, out[i], len);
		ask(p, &heard);
	}
	for (unsigned i = 0; i < N_MESSAGES; i++)
		n_sent += pulc_op_test(ops[i]) == 1;
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
	TEST(a_source_that_is_waited_for),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
