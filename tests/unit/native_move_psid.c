/*
 * A psid that ends while a port passes from one process to another: it is one's alone afterwards,
 * with all that it has, whatever psid had said by then and to whom.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "native.h"
#include "psid/native_case.h"

#define MSEC_PATIENCE 45000
#define N_ROUNDS 8u

/* Points. */
#define SENT 1u	  /* the bystander has sent, and makes no call */
#define ANSWER 2u /* it may */
#define TAKEN 3u  /* pulc_port_take has returned, */
#define GIVEN 4u  /* and pulc_port_give */

static unsigned char buf[100];
static unsigned usec_later;

/* What the two calls returned: shared over fork. */
static struct {
	int given, taken;
} * shared;

static void nap(void)
{
	const struct timespec turn = { .tv_nsec = 1000000 };

	(void)nanosleep(&turn, NULL);
}

static void expect(pulc_port *p, const char *text)
{
	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), strlen(text));
	MUST(memcmp(buf, text, strlen(text)) == 0);
}

static void must_have_all(pulc_port *p)
{
	expect(p, "own");
	expect(p, "other's");
	MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
}

static void make_calls_until_both_are_done(pulc_port *p)
{
	while (!native_is_reached(TAKEN) || !native_is_reached(GIVEN)) {
		MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
		nap();
	}
}

/* ---- roles ----------------------------------------------------------------------------------- */

static void give_to_taker(pulc_port *p, void *(*beside)(void *arg))
{
	pthread_t thread;

	MUST_IS(pthread_create(&thread, NULL, beside, p), 0);
	shared->given = pulc_port_give(p, native_pid_of(1), MSEC_PATIENCE);
	MUST_IS(pthread_join(thread, NULL), 0);
	native_reach(GIVEN);
	if (shared->given == 0)
		return;
	must_have_all(p);
	make_calls_until_both_are_done(p);
	MUST_IS(pulc_port_close(p), 0);
}

static pulc_port *open_with_messages(void)
{
	pulc_port *p = native_open(PULC_D, "passing");
	struct pulc_address self = pulc_port_address(p);

	MUST_IS(pulc_send(p, &self, "own", 3, 0), 3);
	native_await(SENT);
	(void)native_pid_of(1);
	return p;
}

static void taker(void)
{
	/* Knows psid before that ends. */
	pulc_port *p, *other = native_open(PULC_D, NULL);

	native_known_as(1);
	shared->taken = pulc_port_take(0, MSEC_PATIENCE, &p);
	native_reach(TAKEN);
	if (shared->taken == 0) {
		must_have_all(p);
		make_calls_until_both_are_done(p);
		MUST_IS(pulc_port_close(p), 0);
	} else {
		make_calls_until_both_are_done(other);
	}
	MUST_IS(pulc_port_close(other), 0);
}

/* The port cannot pass before this one has answered. */
static void bystander(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = native_find("passing");

	MUST_IS(pulc_send(p, &to, "other's", 7, 0), 7);
	native_reach(SENT);
	native_await(ANSWER);
	make_calls_until_both_are_done(p);
	MUST_IS(pulc_port_close(p), 0);
}

/* With the lock. */
static void await_beginning(const pulc_port *p)
{
	MUST(native_lock());
	while (!p->port->give) {
		native_unlock();
		nap();
		MUST(native_lock());
	}
	MUST(!port_give_is_carried(p->port));
}

static void run_with(native_role *giver)
{
	native_role *const roles[] = { giver, taker, bystander };

	shared = native_share(sizeof(*shared));
	native_run_lost(roles, 3);
	CHECK_INT(shared->given == 0, ==, shared->taken == 0);
}

/* ---- before its answers ---------------------------------------------------------------------- */

static void *stop_psid_first(void *arg)
{
	pulc_port *p = arg;
	bool carried = false;

	await_beginning(p);
	native_unlock();
	MUST_IS(kill(native_psid(), SIGSTOP), 0);
	native_reach(ANSWER);
	while (!carried) {
		nap();
		MUST(native_lock());
		carried = port_give_is_carried(p->port);
		native_unlock();
	}
	MUST_IS(kill(native_psid(), SIGKILL), 0);
	return NULL;
}

static void giver_who_keeps_it(void)
{
	give_to_taker(open_with_messages(), stop_psid_first);
}

static void psid_ends_before_it_answers(void)
{
	run_with(giver_who_keeps_it);
	CHECK_INT(shared->given, ==, -ENOTCONN);
	native_unshare(shared, sizeof(*shared));
}

/* ---- between them ---------------------------------------------------------------------------- */

/* As native_unlock does, which would let others in. */
static void tell_all(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	protocol_tell();
}

/* Whatever psid has said to this process, and its end: as if it had ended before it said that. */
static void lose_its_answer(void)
{
	char text[65536];

	MUST(client_lock());
	native_await(TAKEN);
	MUST_IS(kill(native_psid(), SIGKILL), 0);
	while (recv(client_channel(), text, sizeof(text), MSG_DONTWAIT) > 0 || errno == EAGAIN) {
		errno = 0;
		nap();
	}
	client_unlock();
}

static void *hear_nothing_of_it(void *arg)
{
	pulc_port *p = arg;

	await_beginning(p);
	native_reach(ANSWER);
	do {
		nap();
		native_progress();
		(void)port_give_on(p->port);
		tell_all();
	} while (!port_give_is_carried(p->port));
	lose_its_answer();
	native_unlock();
	return NULL;
}

static void giver_who_is_not_told(void)
{
	give_to_taker(open_with_messages(), hear_nothing_of_it);
}

static void psid_ends_between_its_answers(void)
{
	run_with(giver_who_is_not_told);
	CHECK_INT(shared->given, ==, 0);
	native_unshare(shared, sizeof(*shared));
}

/* ---- at any time ----------------------------------------------------------------------------- */

static void *kill_psid_soon(void *arg)
{
	const struct timespec later = { .tv_nsec = usec_later * 1000 };

	(void)arg;
	native_reach(ANSWER);
	(void)nanosleep(&later, NULL);
	MUST_IS(kill(native_psid(), SIGKILL), 0);
	return NULL;
}

static void giver_at_any_time(void)
{
	give_to_taker(open_with_messages(), kill_psid_soon);
}

static void psid_ends_at_any_time(void)
{
	for (unsigned i = 0; i < N_ROUNDS; i++) {
		usec_later = i * i * 20;
		run_with(giver_at_any_time);
		native_unshare(shared, sizeof(*shared));
	}
}

static const struct test tests[] = {
	TEST(psid_ends_before_it_answers),
	TEST(psid_ends_between_its_answers),
	TEST(psid_ends_at_any_time),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
