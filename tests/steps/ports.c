/*
 * A port passes from one process to another while a third one sends to it; and the giver, the
 * taker, the sender or psid is killed at each named point. Then nobody hangs, the port is one's
 * alone or has ended with its owner, and whoever has it has all that was sent.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "psid/native_case.h"
#include "steps/walk.h"

#define MSEC_PATIENCE 30000
#define N_UNREAD 12u
#define N_MORE 20u
#define SIZE_LONG 20000u /* more than a frame */

enum who { GIVER, TAKER, SENDER, N_WHO, PSID = N_WHO };

static enum who victim;
static unsigned char buf[SIZE_LONG];

/* Shared over fork. */
static struct {
	_Atomic uint32_t n_sent;
	_Atomic uint32_t n_taken; /* by the owner, when it has enough */
	_Atomic bool sender_ended;
	_Atomic bool is_done[N_WHO];
	_Atomic int given, taken; /* what the two calls said; 1: nothing */
} * shared;

static size_t size_of(uint32_t number)
{
	return number % 4 ? 100 : SIZE_LONG;
}

/* ---- everybody ------------------------------------------------------------------------------- */

static void become(enum who who)
{
	native_known_as(who);
	if (victim == who)
		step_victim(getpid());
}

static bool all_are_done(void)
{
	for (unsigned i = 0; i < N_WHO; i++)
		if (!shared->is_done[i])
			return false;
	return true;
}

/* Others may need an answer of this process. */
static void serve(void)
{
	uint64_t seen = 0;

	(void)pulc_progress(&seen, 2);
}

static void finish(enum who who)
{
	shared->is_done[who] = true;
	while (!all_are_done())
		serve();
}

/* Also what pulc_attach says of it. */
static bool is_end_of_psid(int e)
{
	return e == -ENOTCONN || e == -EPERM || e == -ENOENT || e == -ECONNREFUSED || e == -EAGAIN;
}

/* ---- the sender ------------------------------------------------------------------------------ */

/* It hears of the port's end, or of psid's without whom it cannot find it again. */
static bool is_end(ssize_t n)
{
	return n == -ECONNRESET || n == -ECONNREFUSED || (victim == PSID && is_end_of_psid((int)n));
}

static bool send_number(pulc_port *p, const struct pulc_address *to, uint32_t number)
{
	ssize_t n;

	memcpy(buf, &number, sizeof(number));
	n = pulc_send(p, to, buf, size_of(number), 0);
	if (is_end(n))
		return false;
	MUST_IS(n, size_of(number));
	shared->n_sent = number + 1;
	return true;
}

static void sender(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = native_find("passing");
	uint32_t number = 0;

	while (number < N_UNREAD)
		MUST(send_number(p, &to, number++));
	become(SENDER);
	while (shared->n_taken < N_UNREAD + N_MORE && send_number(p, &to, number))
		number++;
	/* It may have been between two of them while the port went. */
	(void)send_number(p, &to, number);
	shared->sender_ended = true;
	finish(SENDER);
	MUST_IS(pulc_port_close(p), 0);
}

/* ---- the owner ------------------------------------------------------------------------------- */

static bool take_number(pulc_port *p, uint32_t expected)
{
	ssize_t n = pulc_receive(p, buf, sizeof(buf), NULL, PULC_DONTWAIT);
	uint32_t number;

	if (n == -EAGAIN)
		return false;
	MUST_IS(n, size_of(expected));
	memcpy(&number, buf, sizeof(number));
	MUST_IS(number, expected);
	return true;
}

/* All that was sent, in order, and nothing twice. Of the dead sender's last message nobody knows
 * whether it was sent. */
static void take_all(pulc_port *p)
{
	uint32_t n = 0;

	while (!shared->sender_ended || n < shared->n_sent) {
		if (take_number(p, n))
			shared->n_taken = ++n;
		else
			serve();
	}
	if (take_number(p, n))
		MUST(victim == SENDER);
	MUST(!take_number(p, n + 1));
	MUST_IS(pulc_port_close(p), 0);
}

static bool may_fail(int e, enum who other)
{
	if (victim == PSID)
		return e == -ECONNRESET || is_end_of_psid(e);
	return victim == other && (e == -ECONNRESET || e == -ENOENT);
}

static void giver(void)
{
	pulc_port *p = native_open(PULC_D, "passing");
	int e;

	native_known_as(GIVER);
	while (shared->n_sent < N_UNREAD)
		serve();
	(void)native_pid_of(TAKER);
	(void)native_pid_of(SENDER);
	become(GIVER);
	if (victim == PSID)
		step_victim(native_psid());
	native_reach(1);
	shared->given = e = pulc_port_give(p, native_pid_of(TAKER), MSEC_PATIENCE);
	MUST(e == 0 || may_fail(e, TAKER));
	if (e < 0)
		take_all(p);
	finish(GIVER);
}

static void taker(void)
{
	pulc_port *p, *own = native_open(PULC_D, NULL);
	struct pulc_address at = native_find("passing");
	int e;

	become(TAKER);
	native_await(1);
	shared->taken = e = pulc_port_take(at.port, MSEC_PATIENCE, &p);
	MUST(e == 0 || may_fail(e, GIVER));
	if (e == 0)
		take_all(p);
	finish(TAKER);
	MUST_IS(pulc_port_close(own), 0);
}

/* ---- the scene ------------------------------------------------------------------------------- */

/* Who is dead sends no more, and has done all that it will. */
static void bury(const pid_t *pids)
{
	const struct timespec turn = { .tv_nsec = 1000000 };

	while (!all_are_done()) {
		for (unsigned i = 0; i < N_WHO; i++)
			if (step_has_ended(pids[i])) {
				shared->is_done[i] = true;
				if (i == SENDER)
					shared->sender_ended = true;
			}
		(void)nanosleep(&turn, NULL);
	}
}

static void scene(void)
{
	native_role *const roles[] = { giver, taker, sender };

	shared = native_share(sizeof(*shared));
	shared->given = shared->taken = 1;
	if (victim == PSID)
		native_run_lost(roles, N_WHO);
	else
		native_run_with(roles, N_WHO, bury);
	if (victim == PSID || victim == SENDER)
		CHECK_INT(shared->given == 0, ==, shared->taken == 0);
	CHECK(shared->given != 0 || shared->taken != 1 || victim == TAKER);
	native_unshare(shared, sizeof(*shared));
}

static void walk(enum who who, const char *name)
{
	victim = who;
	steps_walk(name, scene, STEPS_OF_PORTS);
}

static void the_giver(void)
{
	walk(GIVER, "the giver");
}

static void the_taker(void)
{
	walk(TAKER, "the taker");
}

static void the_sender(void)
{
	walk(SENDER, "the sender");
}

static void psid(void)
{
	walk(PSID, "psid");
}

static void every_point_was_reached(void)
{
	steps_end(STEPS_OF_PORTS);
}

static const struct test tests[] = {
	TEST(the_giver),
	TEST(the_taker),
	TEST(the_sender),
	TEST(psid),
	TEST(every_point_was_reached),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
