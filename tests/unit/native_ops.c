/*
 * Operations that are begun and ended in two calls: their order, their ends, and cancelling them at
 * every stage.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "native.h"
#include "psid/native_case.h"

#define LEN_LONG (3u << 20)
#define LEN_HUGE (12u << 20)

static unsigned char buf[LEN_LONG], other_buf[LEN_LONG], huge[LEN_HUGE];

/* ---- to oneself: everything but waiting ------------------------------------------------------ */

static void receives_are_served_in_turn(void)
{
	pulc_port *p = native_open(PULC_D, NULL), *q = native_open(PULC_D, NULL),
		  *r = native_open(PULC_D, NULL);
	struct pulc_address to = pulc_port_address(p), from_q = pulc_port_address(q), who;
	char a[8], b[8], c[8], d[8];
	pulc_op *ops[4];

	MUST_IS(pulc_send(q, &to, "0", 1, 0), 1);
	ops[0] = native_receive_begin(p, a, 8, &from_q); /* is there already */
	MUST_IS(pulc_op_test(ops[0]), 1);
	ops[1] = native_receive_begin(p, b, 8, &from_q);
	ops[2] = native_receive_begin(p, c, 8, NULL);
	ops[3] = native_receive_begin(p, d, 8, NULL);
	MUST_IS(pulc_op_test(ops[1]), 0);
	MUST_IS(pulc_port_close(p), -EBUSY);
	MUST_IS(pulc_send(r, &to, "r", 1, 0), 1);
	MUST_IS(pulc_op_wait(ops + 1, 3, -1), 1);
	MUST_IS(pulc_send(q, &to, "qq", 2, 0), 2);
	MUST_IS(pulc_op_wait(ops + 1, 3, 0), 0);
	MUST_IS(pulc_op_test(ops[3]), 0);
	MUST_IS(pulc_send(q, &to, "qqq", 3, 0), 3);
	MUST_IS(pulc_op_end(ops[3], &who), 3);
	MUST_IS(who.port, from_q.port);
	MUST_IS(pulc_op_end(ops[2], &who), 1);
	MUST_IS(who.port, pulc_port_address(r).port);
	MUST_IS(pulc_op_end(ops[1], NULL), 2);
	MUST_IS(pulc_op_end(ops[0], NULL), 1);
	MUST(a[0] == '0' && memcmp(b, "qq", 2) == 0 && c[0] == 'r' && memcmp(d, "qqq", 3) == 0);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(q), 0);
	MUST_IS(pulc_port_close(r), 0);
}

static void wrong_calls(void)
{
	pulc_port *d = native_open(PULC_D, NULL), *s = native_open(PULC_S, NULL);
	struct pulc_address to = pulc_port_address(d), nowhere = { .port = 3999999999u },
			    elsewhere = { .node = 9, .port = 1 };
	struct iovec iov = { buf, 100 };
	pulc_op *none[2] = { NULL, NULL }, *op;

	MUST_IS(pulc_op_wait(none, 2, -1), -EINVAL);
	MUST_IS(pulc_op_wait(NULL, 0, -1), -EINVAL);
	MUST_IS(pulc_op_test(NULL), -EINVAL);
	MUST_IS(pulc_op_end(NULL, NULL), -EINVAL);
	MUST_IS(pulc_isend(d, &nowhere, "x", 1, &op), -ECONNREFUSED);
	MUST_IS(pulc_isend(d, &elsewhere, "x", 1, &op), -EHOSTUNREACH);
	MUST_IS(pulc_isend(d, &to, buf, (size_t)PULC_MESSAGE_MAX + 1, &op), -EMSGSIZE);
	MUST_IS(pulc_isendv(d, &to, &iov, -1, &op), -EINVAL);
	MUST_IS(pulc_ireceivev(d, &iov, 1, NULL, PULC_PEEK, &op), -EINVAL);
	MUST_IS(pulc_ireceivev(d, &iov, 2000, NULL, 0, &op), -EINVAL);
	MUST_IS(pulc_ireceivev(d, &iov, 1, &nowhere, 0, &op), -ECONNREFUSED);
	MUST_IS(pulc_ireceivev(s, &iov, 1, &to, 0, &op), -EINVAL);
	/* Nothing was begun. */
	MUST_IS(pulc_port_close(d), 0);
	MUST_IS(pulc_port_close(s), 0);
}

static void no_bytes_at_all(void)
{
	pulc_port *d = native_open(PULC_D, NULL), *s = native_open(PULC_S, NULL);
	struct pulc_address to_d = pulc_port_address(d), to_s = pulc_port_address(s);
	struct iovec iov = { buf, 4 };
	pulc_op *op;

	MUST_IS(pulc_op_end(native_send_begin(d, &to_s, NULL, 0), NULL), 0);
	MUST_IS(pulc_op_end(native_receive_begin(s, NULL, 0, NULL), NULL), 0);
	MUST_IS(pulc_op_end(native_send_begin(d, &to_d, NULL, 0), NULL), 0);
	MUST_IS(pulc_op_end(native_receive_begin(d, buf, 10, NULL), NULL), 0);
	/* Cut off, and its whole length. */
	MUST_IS(pulc_ireceivev(d, &iov, 1, NULL, PULC_TRUNC, &op), 0);
	MUST_IS(pulc_send(d, &to_d, "0123456789", 10, 0), 10);
	MUST_IS(pulc_op_end(op, NULL), 10);
	op = native_receive_begin(d, buf, 4, NULL);
	MUST_IS(pulc_send(d, &to_d, "0123456789", 10, 0), 10);
	MUST_IS(pulc_op_end(op, NULL), 4);
	MUST_IS(pulc_port_close(d), 0);
	MUST_IS(pulc_port_close(s), 0);
}

/* Bytes of several sources in one stream: what the readers get, one behind the other, is what
 * came. */
static void streams_stay_in_order(void)
{
	pulc_port *s = native_open(PULC_S, NULL), *a = native_open(PULC_D, NULL),
		  *b = native_open(PULC_D, NULL);
	struct pulc_address to = pulc_port_address(s);
	char read[5][4];
	pulc_op *ops[5];

	for (unsigned i = 0; i < 5; i++)
		ops[i] = native_receive_begin(s, read[i], sizeof(read[i]), NULL);
	MUST_IS(pulc_send(a, &to, "aa", 2, 0), 2);
	MUST_IS(pulc_send(b, &to, "bbbbb", 5, 0), 5);
	MUST_IS(pulc_send(a, &to, "AA", 2, 0), 2);
	MUST_IS(pulc_op_end(ops[0], NULL), 2);
	MUST_IS(pulc_op_end(ops[1], NULL), 4);
	MUST_IS(pulc_op_end(ops[2], NULL), 1);
	MUST_IS(pulc_op_end(ops[3], NULL), 2);
	MUST(memcmp(read[0], "aa", 2) == 0 && memcmp(read[1], "bbbb", 4) == 0 &&
	     read[2][0] == 'b' && memcmp(read[3], "AA", 2) == 0);
	MUST_IS(pulc_op_cancel(ops[4]), 0);
	MUST_IS(pulc_op_end(ops[4], NULL), -ECANCELED);
	MUST_IS(pulc_port_close(s), 0);
	MUST_IS(pulc_port_close(a), 0);
	MUST_IS(pulc_port_close(b), 0);
}

#define N_SENDS 3000u

/* More than the window holds, to oneself: nothing waits, and all of it comes. */
static void sends_beyond_the_window(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = pulc_port_address(p);
	static pulc_op *ops[N_SENDS];
	static uint32_t numbers[N_SENDS][250];
	uint32_t got[250];

	for (uint32_t i = 0; i < N_SENDS; i++) {
		numbers[i][0] = i;
		ops[i] = native_send_begin(p, &to, numbers[i], sizeof(numbers[i]));
	}
	MUST_IS(pulc_op_test(ops[0]), 1);
	MUST_IS(pulc_op_test(ops[N_SENDS - 1]), 0);
	MUST_IS(pulc_send(p, &to, buf, 1, PULC_DONTWAIT), -EAGAIN);
	for (uint32_t i = 0; i < N_SENDS; i++) {
		MUST_IS(pulc_receive(p, got, sizeof(got), NULL, 0), sizeof(got));
		MUST_IS(got[0], i);
		MUST_IS(pulc_op_end(ops[i], NULL), sizeof(got));
	}
	MUST_IS(pulc_receive(p, got, sizeof(got), NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_port_close(p), 0);
}

/* Each is taken before its send has ended. */
static void receives_before_their_sends(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = pulc_port_address(p);
	pulc_op *op;

	for (unsigned i = 0; i < 1000; i++) {
		op = native_receive_begin(p, other_buf, 20000, NULL);
		native_fill(buf, 20000, i);
		MUST_IS(pulc_send(p, &to, buf, 20000, 0), 20000);
		MUST_IS(pulc_op_end(op, NULL), 20000);
		MUST(native_holds(other_buf, 20000, i));
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void within_a_process(void)
{
	NATIVE_RUN(receives_before_their_sends);
	NATIVE_RUN(receives_are_served_in_turn);
	NATIVE_RUN(wrong_calls);
	NATIVE_RUN(no_bytes_at_all);
	NATIVE_RUN(streams_stay_in_order);
	NATIVE_RUN(sends_beyond_the_window);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

/* The reader is asleep until point 1. A ring holds less than the long message, so that has begun
 * and cannot end. */
static void cancel_sends(void)
{
	struct pulc_address to = native_find("sink"), stream = native_find("stream");
	pulc_port *p = native_open(PULC_D, NULL);
	pulc_op *begun, *behind, *bytes;
	ssize_t n;

	native_fill(huge, LEN_HUGE, 3);
	begun = native_send_begin(p, &to, huge, LEN_HUGE);
	behind = native_send_begin(p, &to, "behind", 6);
	bytes = native_send_begin(p, &stream, huge, LEN_HUGE);
	MUST_IS(pulc_op_test(begun), 0);
	MUST_IS(pulc_op_test(bytes), 0);
	MUST_IS(pulc_op_cancel(behind), 0);
	MUST_IS(pulc_op_end(behind, NULL), -ECANCELED);
	MUST_IS(pulc_op_cancel(begun), 0);
	MUST_IS(pulc_op_cancel(begun), 0);
	MUST_IS(pulc_op_end(begun, NULL), LEN_HUGE);
	memset(huge, 0, LEN_HUGE);
	MUST_IS(pulc_op_cancel(bytes), 0);
	n = pulc_op_end(bytes, NULL);
	MUST(n == -ECANCELED || (n > 0 && n < LEN_HUGE));
	native_reach(1);
	MUST_IS(pulc_send(p, &to, "last", 4, 0), 4);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void read_after_cancels(void)
{
	pulc_port *p = native_open(PULC_D, "sink"), *s = native_open(PULC_M, "stream");

	native_await(1);
	MUST_IS(pulc_receive(p, huge, LEN_HUGE, NULL, 0), LEN_HUGE);
	MUST(native_holds(huge, LEN_HUGE, 3));
	MUST_IS(pulc_receive(p, huge, LEN_HUGE, NULL, 0), 4);
	MUST(memcmp(huge, "last", 4) == 0);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(s), 0);
}

/* A receive is cancelled with half of a message in its buffer: the next one gets all of it. */
static void send_in_halves(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);

	native_fill(buf, LEN_LONG, 4);
	for (unsigned i = 0; i < 20; i++)
		MUST_IS(pulc_send(p, &to, buf, LEN_LONG, 0), LEN_LONG);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void cancel_receives(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	unsigned n = 0;

	while (n < 20) {
		pulc_op *op = native_receive_begin(p, buf, LEN_LONG, NULL);
		ssize_t len;

		(void)pulc_op_test(op);
		MUST_IS(pulc_op_cancel(op), 0);
		len = pulc_op_end(op, NULL);
		if (len == -ECANCELED) {
			op = native_receive_begin(p, other_buf, LEN_LONG, NULL);
			MUST_IS(pulc_op_end(op, NULL), LEN_LONG);
			MUST(native_holds(other_buf, LEN_LONG, 4));
		} else {
			MUST_IS(len, LEN_LONG);
			MUST(native_holds(buf, LEN_LONG, 4));
		}
		n++;
	}
	MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void cancelling(void)
{
	NATIVE_RUN(cancel_sends, read_after_cancels);
	NATIVE_RUN(send_in_halves, cancel_receives);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void be_mortal(void)
{
	pulc_port *p = native_open(PULC_D, "mortal");
	struct pulc_address to = native_find("survivor");

	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	native_await(9);
}

static void survive(void)
{
	pulc_port *p = native_open(PULC_D, "survivor");
	struct pulc_address from = native_find("mortal"), self = pulc_port_address(p);
	pulc_op *receive[3], *send[3], *any;
	ssize_t n;

	for (unsigned i = 0; i < 3; i++)
		receive[i] = native_receive_begin(p, other_buf + i, 1, &from);
	any = native_receive_begin(p, other_buf + 3, 1, NULL);
	while ((n = pulc_send(p, &from, buf, 1000, PULC_DONTWAIT)) == 1000)
		;
	MUST_IS(n, -EAGAIN);
	for (unsigned i = 0; i < 3; i++)
		send[i] = native_send_begin(p, &from, buf, LEN_LONG);
	MUST_IS(pulc_op_end(receive[0], NULL), 1);
	MUST_IS(pulc_op_test(send[0]), 0);
	native_reach(2);
	for (unsigned i = 0; i < 3; i++)
		MUST_IS(pulc_op_end(send[i], NULL), -ECONNRESET);
	for (unsigned i = 1; i < 3; i++)
		MUST_IS(pulc_op_end(receive[i], NULL), -ECONNRESET);
	MUST_IS(pulc_op_test(any), 0);
	MUST_IS(pulc_send(p, &self, "s", 1, 0), 1);
	MUST_IS(pulc_op_end(any, NULL), 1);
	MUST_IS(pulc_port_close(p), 0);
}

static void kill_the_first(const pid_t *pids)
{
	native_await(2);
	(void)kill(pids[0], SIGKILL);
}

static void close_early(void)
{
	pulc_port *p = native_open(PULC_D, "brief"), *other = native_open(PULC_D, NULL);

	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
	native_await(2);
	MUST_IS(pulc_port_close(other), 0);
}

static void need_the_closed(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address brief = native_find("brief");
	pulc_op *receive = native_receive_begin(p, other_buf, 10, &brief), *send;

	while (pulc_send(p, &brief, buf, 1000, PULC_DONTWAIT) == 1000)
		;
	send = native_send_begin(p, &brief, buf, 1000);
	native_reach(1);
	MUST_IS(pulc_op_end(receive, NULL), -EPIPE);
	MUST_IS(pulc_op_end(send, NULL), -ECONNREFUSED);
	/* Told once, then asked anew. */
	MUST_IS(pulc_send(p, &brief, buf, 1000, 0), -ECONNREFUSED);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

/* It has answered and gone before anybody asks for its answer, which is behind more frames than a
 * turn of progress takes. */
static void answer_and_go(void)
{
	pulc_port *p = native_open(PULC_D, "brief"), *other = native_open(PULC_D, NULL);
	struct pulc_address to;

	MUST_IS(pulc_receive(p, buf, 10, &to, 0), 1);
	for (unsigned i = 0; i < 500; i++)
		MUST_IS(pulc_send(other, &to, "no", 2, 0), 2);
	MUST_IS(pulc_send(p, &to, "yes", 3, 0), 3);
	MUST_IS(pulc_port_close(p), 0);
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_port_close(other), 0);
}

static void ask_the_brief(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address brief = native_find("brief");

	MUST_IS(pulc_send(p, &brief, "?", 1, 0), 1);
	native_await(1);
	MUST_IS(pulc_op_end(native_receive_begin(p, buf, 10, &brief), NULL), 3);
	MUST(memcmp(buf, "yes", 3) == 0);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void ends_of_peers(void)
{
	native_role *const roles[] = { be_mortal, survive };

	native_run_with(roles, 2, kill_the_first);
	NATIVE_RUN(close_early, need_the_closed);
	NATIVE_RUN(answer_and_go, ask_the_brief);
}

/* Garbage from a peer ends what needs it, and nothing else. */
static void send_garbage(void)
{
	struct pulc_address to = native_find("honest");
	pulc_port *p = native_open(PULC_D, "liar");
	struct hal_frame f = { .protocol = PROTOCOL_PORT, .kind = PORT_LAST, .len = 10 };
	struct iovec iov = { buf, 10 };

	MUST_IS(pulc_send(p, &to, "hello", 5, 0), 5);
	native_await(1);
	MUST(native_lock());
	f.word = (uint64_t)to.port << 32 | pulc_port_address(p).port;
	MUST_IS(peer_send(port_out_find(p->port, 0, to.port)->peer, &f, &iov, 1), 0);
	native_unlock();
	native_await(2);
}

static void need_the_liar(void)
{
	pulc_port *p = native_open(PULC_D, "honest");
	struct pulc_address liar = native_find("liar"), self = pulc_port_address(p);
	pulc_op *receive = native_receive_begin(p, buf, 10, &liar), *any = NULL, *send;

	MUST_IS(pulc_op_end(receive, NULL), 5);
	receive = native_receive_begin(p, buf, 10, &liar);
	any = native_receive_begin(p, other_buf, 10, NULL);
	while (pulc_send(p, &liar, other_buf, 1000, PULC_DONTWAIT) == 1000)
		;
	send = native_send_begin(p, &liar, other_buf, LEN_LONG);
	native_reach(1);
	MUST_IS(pulc_op_end(receive, NULL), -EBADMSG);
	MUST_IS(pulc_op_end(send, NULL), -EBADMSG);
	MUST_IS(pulc_op_test(any), 0);
	MUST_IS(pulc_send(p, &self, "s", 1, 0), 1);
	MUST_IS(pulc_op_end(any, NULL), 1);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void garbage(void)
{
	NATIVE_RUN(send_garbage, need_the_liar);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define N_ROUNDS 400u

static pulc_port *shared;

/* One waits inside of receives, the other begins and ends them: each message goes to one. */
static void *take_half(void *arg)
{
	uintptr_t with_ops = (uintptr_t)arg, n = 0;
	char got[8];
	ssize_t len = 1;

	while (len > 0) {
		if (with_ops)
			len = pulc_op_end(native_receive_begin(shared, got, 8, NULL), NULL);
		else
			len = pulc_receive(shared, got, 8, NULL, 0);
		MUST(len >= 0);
		n += len > 0;
	}
	return (void *)n;
}

static void two_threads_receive(void)
{
	pthread_t threads[2];
	uintptr_t total = 0;
	void *n;

	shared = native_open(PULC_D, "sink");
	for (uintptr_t i = 0; i < 2; i++)
		MUST_IS(pthread_create(&threads[i], NULL, take_half, (void *)i), 0);
	for (unsigned i = 0; i < 2; i++) {
		MUST_IS(pthread_join(threads[i], &n), 0);
		total += (uintptr_t)n;
	}
	MUST_IS(total, N_ROUNDS);
	native_reach(1);
	MUST_IS(pulc_port_close(shared), 0);
}

static void send_to_two_threads(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);

	for (unsigned i = 0; i < N_ROUNDS; i++)
		MUST_IS(pulc_op_end(native_send_begin(p, &to, "12345678", 8), NULL), 8);
	for (unsigned i = 0; i < 2; i++)
		MUST_IS(pulc_send(p, &to, NULL, 0, 0), 0);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void threads(void)
{
	NATIVE_RUN(two_threads_receive, send_to_two_threads);
}

static const struct test tests[] = {
	TEST(within_a_process), TEST(cancelling), TEST(ends_of_peers), TEST(garbage), TEST(threads),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
