/*
 * Tagged messages: cancelling at every stage, signals, the ends of peers, and threads.
 */
#include <pulc/tag.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "native.h"
#include "psid/native_case.h"

#define LEN_LONG (3u << 20)
#define LEN_HUGE (64u << 20)

static unsigned char buf[LEN_LONG], other_buf[LEN_LONG];

static const struct pulc_tag anything = { .peer = PULC_ANY_PEER };

static struct pulc_tag only(uint32_t peer, uint64_t tag)
{
	return (struct pulc_tag){ .tag = tag, .mask = PULC_TAG_EXACT, .peer = peer };
}

/* ---- cancelling ------------------------------------------------------------------------------ */

/* A receive is cancelled at whatever stage of a long message: the next one gets all of it. */
static void send_long_ones(void)
{
	uint32_t peer = native_peer_named("sink");

	native_fill(buf, LEN_LONG, 4);
	for (unsigned i = 0; i < 20; i++)
		MUST_IS(pulc_tag_send(peer, i, buf, LEN_LONG), LEN_LONG);
	native_await(1);
}

static void cancel_receives(void)
{
	pulc_port *p = native_open(PULC_D, "sink");

	for (unsigned i = 0; i < 20; i++) {
		pulc_op *op = native_tag_receive(only(PULC_ANY_PEER, i), buf, LEN_LONG);
		ssize_t len;

		for (unsigned k = 0; k < i; k++)
			(void)pulc_op_test(op);
		MUST_IS(pulc_op_cancel(op), 0);
		len = pulc_op_end(op, NULL);
		if (len == -ECANCELED) {
			op = native_tag_receive(only(PULC_ANY_PEER, i), other_buf, LEN_LONG);
			MUST_IS(pulc_op_end(op, NULL), LEN_LONG);
			MUST(native_holds(other_buf, LEN_LONG, 4));
		} else {
			MUST_IS(len, LEN_LONG);
			MUST(native_holds(buf, LEN_LONG, 4));
		}
	}
	MUST_IS(pulc_tag_probe(&anything, 0, NULL), 0);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

/* Sends are withdrawn while they are offered, or while their bytes are under way: either the
 * receiver has all, or nothing. */
static void withdraw_sends(void)
{
	uint32_t peer = native_peer_named("sink");
	unsigned n_sent = 0;

	native_fill(buf, LEN_LONG, 5);
	for (unsigned i = 0; i < 20; i++) {
		pulc_op *op = native_tag_send(peer, 1, buf, LEN_LONG);
		ssize_t len;
		int e;

		for (unsigned k = 0; k < i * 20; k++)
			(void)pulc_op_test(op);
		e = pulc_op_cancel(op);
		MUST(e == 0 || e == 1);
		e = pulc_op_cancel(op);
		MUST(e == 0 || e == 1);
		len = pulc_op_end(op, NULL);
		MUST(len == LEN_LONG || len == -ECANCELED);
		n_sent += len == LEN_LONG;
	}
	MUST_IS(pulc_tag_send(peer, 2, &n_sent, sizeof(n_sent)), sizeof(n_sent));
	native_await(1);
}

static void receive_what_was_not_withdrawn(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_tagged m = { .tag = 1 };
	unsigned n = 0;

	while (m.tag != 2) {
		ssize_t len = pulc_tag_receive(&anything, other_buf, LEN_LONG, &m);

		if (m.tag == 1) {
			MUST_IS(len, LEN_LONG);
			MUST(native_holds(other_buf, LEN_LONG, 5));
			n++;
		}
	}
	MUST_IS(*(unsigned *)(void *)other_buf, n);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void cancelling(void)
{
	NATIVE_RUN(send_long_ones, cancel_receives);
	NATIVE_RUN(withdraw_sends, receive_what_was_not_withdrawn);
}

/* ---- signals --------------------------------------------------------------------------------- */

static void on_signal(int number)
{
	(void)number;
}

/* Interrupted calls have left nothing behind. */
static void be_interrupted(void)
{
	const struct sigaction action = { .sa_handler = on_signal };
	struct pulc_tag want = only(PULC_ANY_PEER, 1);
	uint32_t peer = native_peer_named("sink");

	MUST_IS(sigaction(SIGUSR1, &action, NULL), 0);
	native_reach(1);
	MUST_IS(pulc_tag_receive(&want, other_buf, 10, NULL), -EINTR);
	MUST_IS(pulc_tag_probe(&want, -1, NULL), -EINTR);
	MUST_IS(pulc_tag_send(peer, 1, buf, LEN_LONG), -EINTR);
	native_reach(2);
	MUST_IS(pulc_tag_send(peer, 2, "x", 1), 1);
	native_await(3);
}

static void agree_to_anything(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_tagged m;

	MUST_IS(pulc_tag_receive(&(struct pulc_tag){ 2, 2, PULC_ANY_PEER }, buf, 10, &m), 1);
	MUST_IS(pulc_tag_probe(&anything, 0, NULL), 0);
	native_reach(3);
	MUST_IS(pulc_port_close(p), 0);
}

static void interrupt_the_first(const pid_t *pids)
{
	const struct timespec turn = { .tv_nsec = 2000000 };

	native_await(1);
	while (!native_is_reached(2)) {
		(void)kill(pids[0], SIGUSR1);
		(void)nanosleep(&turn, NULL);
	}
}

static void signals_take_calls_back(void)
{
	native_role *const roles[] = { be_interrupted, agree_to_anything };

	native_run_with(roles, 2, interrupt_the_first);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void be_mortal(void)
{
	pulc_port *p = native_open(PULC_D, "mortal");
	uint32_t peer = native_peer_named("survivor");

	MUST(p);
	MUST_IS(pulc_tag_send(peer, 1, "x", 1), 1);
	(void)native_tag_send(peer, 2, buf, LEN_LONG); /* an offer */
	native_reach(1);
	native_await(9);
}

static void survive(void)
{
	pulc_port *p = native_open(PULC_D, "survivor");
	uint32_t mortal = native_peer_named("mortal");
	pulc_op *named[2], *any, *sends[4];
	struct pulc_tag want = only(mortal, 1);
	struct pulc_tagged m;

	named[0] = native_tag_receive(only(mortal, 77), buf, 10);
	any = native_tag_receive(only(PULC_ANY_PEER, 78), other_buf, 10);
	for (unsigned i = 0; i < 2; i++)
		sends[i] = native_tag_send(mortal, 1, buf, LEN_LONG);
	for (unsigned i = 2; i < 4; i++)
		do /* until one has no credit */
			sends[i] = native_tag_send(mortal, 1, buf, 10000);
		while (i == 2 && pulc_op_test(sends[i]) == 1 && pulc_op_end(sends[i], NULL) > 0);
	native_await(1);
	MUST_IS(pulc_tag_probe(&(struct pulc_tag){ 2, UINT64_MAX, mortal }, -1, &m), 1);
	MUST_IS(m.size, LEN_LONG);
	MUST_IS(pulc_op_test(sends[0]), 0);
	native_reach(2);
	for (unsigned i = 0; i < 4; i++)
		MUST_IS(pulc_op_end(sends[i], NULL), -ECONNRESET);
	MUST_IS(pulc_op_end(named[0], NULL), -ECONNRESET);
	/* What was kept here is here; what stayed with its sender is not. */
	named[1] = native_tag_receive(want, buf, 10);
	MUST_IS(pulc_op_end(named[1], NULL), 1);
	MUST_IS(pulc_tag_receive(&want, buf, 10, NULL), -ECONNRESET);
	MUST_IS(pulc_tag_probe(&anything, 0, NULL), 0);
	MUST_IS(pulc_tag_send(mortal, 1, buf, 1), -ECONNRESET);
	/* Nobody else is concerned. */
	MUST_IS(pulc_op_test(any), 0);
	MUST_IS(pulc_tag_send(0, 78, "s", 1), 1);
	MUST_IS(pulc_op_end(any, NULL), 1);
	MUST_IS(pulc_port_close(p), 0);
}

static void kill_the_first(const pid_t *pids)
{
	native_await(2);
	(void)kill(pids[0], SIGKILL);
}

/* It dies with a part of a message in the receiver's buffer: a receive from anybody waits for
 * another one. */
static void die_half_way(void)
{
	uint32_t peer = native_peer_named("survivor");
	pulc_op *op = native_tag_send(peer, 1, calloc(1, LEN_HUGE), LEN_HUGE);

	native_reach(1);
	while (pulc_op_test(op) == 0)
		if (op->tag_send.at)
			native_reach(2);
	native_await(9);
}

static void lose_the_rest(void)
{
	pulc_port *p = (setenv("PULC_PULL", "0", 1), native_open(PULC_D, "survivor"));
	unsigned char *to = malloc(LEN_HUGE);
	struct pulc_tagged m;
	pulc_op *op;

	native_await(1);
	MUST_IS(pulc_tag_probe(&anything, -1, &m), 1);
	op = native_tag_receive(anything, to, LEN_HUGE);
	/* A part comes, and the rest is left in the ring until its sender is dead. */
	MUST_IS(pulc_op_test(op), 0);
	native_await(2);
	while (native_peer(m.peer))
		MUST(pulc_op_test(op) == 0);
	MUST_IS(pulc_tag_send(0, 5, "s", 1), 1);
	MUST_IS(pulc_tag_end(op, &m), 1);
	MUST(m.peer == 0 && m.tag == 5 && m.size == 1 && to[0] == 's');
	MUST_IS(pulc_port_close(p), 0);
	free(to);
}

/* The same while its bytes are fetched out of its memory. */
static void offer_and_die(void)
{
	uint32_t peer = native_peer_named("survivor");

	(void)native_tag_send(peer, 1, calloc(1, LEN_HUGE), LEN_HUGE);
	native_reach(1);
	native_await(9);
}

static void fetch_from_the_dead(void)
{
	pulc_port *p = (setenv("PULC_PULL", "1", 1), native_open(PULC_D, "survivor"));
	unsigned char *to = malloc(LEN_HUGE);
	struct pulc_tagged m;
	struct pulc_tag want;
	pulc_op *ops[2];

	native_await(1);
	MUST_IS(pulc_tag_probe(&anything, -1, &m), 1);
	want = (struct pulc_tag){ 1, 0, m.peer };
	ops[0] = native_tag_receive(want, to, LEN_HUGE);
	ops[1] = native_tag_receive(anything, buf, 10);
	MUST_IS(pulc_op_test(ops[0]), 0);
	native_reach(2);
	while (native_peer(m.peer))
		(void)pulc_op_test(ops[1]);
	/* Whoever was faster: the whole message, or the end. */
	MUST_IS(pulc_op_test(ops[0]), 1);
	MUST(ops[0]->tag_receive.error == -ECONNRESET || ops[0]->tag_receive.done == LEN_HUGE);
	(void)pulc_op_end(ops[0], NULL);
	MUST_IS(pulc_op_test(ops[1]), 0);
	MUST_IS(pulc_tag_send(0, 5, "s", 1), 1);
	MUST_IS(pulc_op_end(ops[1], NULL), 1);
	MUST_IS(pulc_port_close(p), 0);
	free(to);
}

static void ends_of_peers(void)
{
	native_role *const roles[] = { be_mortal, survive };
	native_role *const half_way[] = { die_half_way, lose_the_rest };
	native_role *const fetched[] = { offer_and_die, fetch_from_the_dead };

	native_run_with(roles, 2, kill_the_first);
	native_run_with(half_way, 2, kill_the_first);
	native_run_with(fetched, 2, kill_the_first);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define N_MESSAGES 1500u

static void *take_some(void *arg)
{
	uintptr_t with_ops = (uintptr_t)arg, n = 0;
	ssize_t len = 1;
	uint32_t *got = malloc(40000);

	while (len > 0) {
		if (with_ops)
			len = pulc_op_end(native_tag_receive(anything, got, 40000), NULL);
		else
			len = pulc_tag_receive(&anything, got, 40000, NULL);
		MUST(len >= 0);
		n += len > 0 ? got[0] : 0;
	}
	free(got);
	return (void *)n;
}

static void two_threads_receive(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	pthread_t threads[2];
	uintptr_t total = 0;
	void *n;

	for (uintptr_t i = 0; i < 2; i++)
		MUST_IS(pthread_create(&threads[i], NULL, take_some, (void *)i), 0);
	for (unsigned i = 0; i < 2; i++) {
		MUST_IS(pthread_join(threads[i], &n), 0);
		total += (uintptr_t)n;
	}
	MUST_IS(total, N_MESSAGES * (N_MESSAGES - 1) / 2);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void send_to_threads(void)
{
	uint32_t peer = native_peer_named("sink");
	static uint32_t number[10000];

	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		number[0] = i;
		MUST(pulc_tag_send(peer, i, number, i % 50 ? 500 : sizeof(number)) > 0);
	}
	/* One end for each thread. */
	MUST_IS(pulc_tag_send(peer, 0, NULL, 0), 0);
	MUST_IS(pulc_tag_send(peer, 0, NULL, 0), 0);
	native_await(1);
}

static void threads(void)
{
	NATIVE_RUN(two_threads_receive, send_to_threads);
}

/* ---- no psid --------------------------------------------------------------------------------- */

#define NUMBER 20u

static unsigned n_handled;

static int handle(void *arg, const struct pulc_frame *f)
{
	(void)arg, (void)f;
	n_handled++;
	return 0;
}

/* Messages and frames go on between those who are joined. */
static void exchange(uint32_t peer, bool is_first)
{
	const struct pulc_frame f = { .peer = peer, .protocol = NUMBER };
	const struct pulc_tag want = only(peer, 7);
	unsigned before = n_handled;
	uint64_t seen = 0;

	if (is_first)
		MUST_IS(pulc_tag_send(peer, 7, "ping", 4), 4);
	MUST_IS(pulc_tag_receive(&want, buf, sizeof(buf), NULL), 4);
	if (!is_first)
		MUST_IS(pulc_tag_send(peer, 7, "pong", 4), 4);
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	while (n_handled == before)
		MUST(pulc_progress(&seen, -1) >= 0);
}

static uint32_t begin_exchange(const char *name, const char *other)
{
	const struct pulc_protocol protocol = { .arrived = handle };
	uint32_t peer;

	MUST_IS(pulc_protocol_register(NUMBER, &protocol), 0);
	(void)native_open(PULC_D, name);
	peer = native_peer_named(other);
	return peer;
}

static void end_psid(void)
{
	uint32_t peer = begin_exchange("first", "second");
	uint64_t seen = 0;

	exchange(peer, true);
	MUST_IS(kill(native_psid(), SIGKILL), 0);
	while (client_id())
		(void)pulc_progress(&seen, 1);
	native_reach(1);
	exchange(peer, true);
	native_await(2);
}

static void go_on(void)
{
	uint32_t peer = begin_exchange("second", "first");
	uint64_t seen = 0;

	exchange(peer, false);
	native_await(1);
	while (client_id())
		(void)pulc_progress(&seen, 1);
	exchange(peer, false);
	native_reach(2);
}

static void psid_ends_and_links_go_on(void)
{
	native_role *const roles[] = { end_psid, go_on };

	native_run_lost(roles, 2);
}

static const struct test tests[] = {
	TEST(cancelling), TEST(signals_take_calls_back),   TEST(ends_of_peers),
	TEST(threads),	  TEST(psid_ends_and_links_go_on),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
