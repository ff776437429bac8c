/*
 * Ports that are to pass from one process to another when something is against it: nobody wants
 * them, somebody does not answer, one of the two is killed. Then the port is where it was, or where
 * it was to go, with all that it has.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "psid/native_case.h"

#define MSEC_PATIENCE 45000

static unsigned char buf[32768];

/* What is known of the numbers that were sent: shared over fork. */
static struct {
	_Atomic uint32_t n_sent;
	_Atomic uint32_t next;
} * shared;

static void begin(void)
{
	shared = native_share(sizeof(*shared));
}

static void end(void)
{
	native_unshare(shared, sizeof(*shared));
}

static void expect(pulc_port *p, const char *text)
{
	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), strlen(text));
	MUST(memcmp(buf, text, strlen(text)) == 0);
}

/* ---- what cannot be -------------------------------------------------------------------------- */

static void refused_owner(void)
{
	pulc_port *p = native_open(PULC_D, "refused"), *other;
	struct pulc_address self = pulc_port_address(p);
	pulc_op *op;

	native_known_as(0);
	MUST_IS(pulc_port_give(p, getpid(), 0), -EINVAL);
	MUST_IS(pulc_port_give(p, 0, 0), -EINVAL);
	op = native_receive_begin(p, buf, 8, NULL);
	MUST_IS(pulc_port_give(p, native_pid_of(1), 0), -EBUSY);
	MUST_IS(pulc_op_cancel(op), 0);
	MUST_IS(pulc_op_end(op, NULL), -ECANCELED);
	MUST_IS(pulc_send(p, &self, "kept", 4, 0), 4);
	/* The other one does not want it yet. */
	MUST_IS(pulc_port_give(p, native_pid_of(1), 20), -ETIMEDOUT);
	MUST_IS(pulc_port_take(self.port, 0, &other), -EADDRINUSE);
	MUST_IS(pulc_port_take(999, 0, &other), -ENOENT);
	MUST_IS(pulc_port_inherit(p, 0), -EINVAL);
	native_reach(1);
	native_await(2);
	expect(p, "kept");
	MUST_IS(pulc_port_close(p), 0);
}

static void refused_taker(void)
{
	pulc_port *p = native_open(PULC_D, NULL), *other;
	struct pulc_address to = native_find("refused");

	native_known_as(1);
	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	native_await(1);
	MUST_IS(pulc_port_take(to.port, 20, &other), -ETIMEDOUT);
	MUST_IS(pulc_port_take(0, 20, &other), -ETIMEDOUT);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void refusals(void)
{
	begin();
	NATIVE_RUN(refused_owner, refused_taker);
	end();
}

/* ---- somebody does not answer ---------------------------------------------------------------- */

static void silent_owner(void)
{
	pulc_port *p = native_open(PULC_D, "silent");
	struct pulc_address self = pulc_port_address(p);

	native_known_as(0);
	MUST_IS(pulc_send(p, &self, "mine", 4, 0), 4);
	native_await(1); /* the sender has sent, and is stopped */
	MUST_IS(pulc_port_give(p, native_pid_of(1), 300), -ETIMEDOUT);
	MUST_IS(kill(native_pid_of(2), SIGCONT), 0);
	expect(p, "mine");
	expect(p, "before");
	expect(p, "after");
	/* Now it does. */
	native_reach(2);
	MUST_IS(pulc_port_give(p, native_pid_of(1), MSEC_PATIENCE), 0);
}

static void silent_taker(void)
{
	pulc_port *p;
	int e;

	native_known_as(1);
	e = pulc_port_take(0, MSEC_PATIENCE, &p);
	MUST_IS(e, -ECONNRESET);
	MUST_IS(pulc_port_take(0, MSEC_PATIENCE, &p), 0);
	expect(p, "last");
	MUST_IS(pulc_port_close(p), 0);
}

static void silent_sender(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = native_find("silent");

	native_known_as(2);
	MUST_IS(pulc_send(p, &to, "before", 6, 0), 6);
	MUST_IS(raise(SIGSTOP), 0);
	MUST_IS(pulc_send(p, &to, "after", 5, 0), 5);
	native_await(2);
	MUST_IS(pulc_send(p, &to, "last", 4, 0), 4);
	MUST(pulc_receivev(p, &(struct iovec){ buf, 1 }, 1, &to, NULL, 0) < 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void tell_when_stopped(const pid_t *pids)
{
	siginfo_t info;

	REQUIRE(waitid(P_PID, (id_t)pids[2], &info, WSTOPPED) == 0);
	native_reach(1);
}

static void who_does_not_answer(void)
{
	native_role *const roles[] = { silent_owner, silent_taker, silent_sender };

	begin();
	native_run_with(roles, 3, tell_when_stopped);
	end();
}

/* ---- killed ---------------------------------------------------------------------------------- */

#define N_ROUNDS 12u

/* Whom they kill, and when: some time after it says that it has begun. */
static unsigned victim, usec_later;

static void kill_one(const pid_t *pids)
{
	const struct timespec later = { .tv_nsec = usec_later * 1000 };

	native_await(4);
	(void)nanosleep(&later, NULL);
	REQUIRE(kill(pids[victim], SIGKILL) == 0);
	native_reach(6);
}

static size_t mortal_size(uint32_t number)
{
	return number % 4 ? 100 : 20000;
}

/* Numbers, until it has the answer, or there is nobody to have them. */
static void feed(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = native_find("mortal");
	ssize_t n;

	for (uint32_t i = 0; !native_is_reached(7); i++) {
		memcpy(buf, &i, 4);
		n = pulc_send(p, &to, buf, mortal_size(i), 0);
		if (n == -ECONNRESET || n == -ECONNREFUSED)
			break;
		MUST_IS(n, mortal_size(i));
		atomic_store(&shared->n_sent, i + 1);
	}
	native_reach(8);
	native_await(9);
	MUST_IS(pulc_port_close(p), 0);
}

static uint32_t take_number(pulc_port *p, uint32_t next)
{
	uint32_t number;

	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), mortal_size(next));
	memcpy(&number, buf, 4);
	MUST_IS(number, next);
	return next + 1;
}

/* Everything comes to this one that the sender has sent, and nothing twice. */
static void take_all(pulc_port *p, uint32_t next)
{
	struct pulc_wait wait = { .port = p };

	for (unsigned i = 0; i < 100; i++)
		next = take_number(p, next);
	native_reach(7);
	while (!native_is_reached(8))
		if (pulc_select(&wait, 1, NULL, 0, 1) > 0)
			next = take_number(p, next);
	while (next < atomic_load(&shared->n_sent))
		next = take_number(p, next);
	MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_port_close(p), 0);
}

/* Either the port was the other's, and the sender hears of its end, or it stays here with all that
 * it has. */
static void surviving_giver(void)
{
	pulc_port *p = native_open(PULC_D, "mortal");
	uint32_t next = 0;
	int e;

	while (next < 64)
		next = take_number(p, next);
	atomic_store(&shared->next, next);
	(void)native_pid_of(1);
	native_reach(4);
	e = pulc_port_give(p, native_pid_of(1), 2000);
	MUST(e == 0 || e == -ECONNRESET || e == -ETIMEDOUT);
	native_await(6);
	if (e < 0)
		take_all(p, next);
	else
		native_await(8);
	native_reach(9);
}

static void mortal_taker(void)
{
	pulc_port *p;

	native_known_as(1);
	(void)pulc_port_take(0, MSEC_PATIENCE, &p);
	for (;;)
		(void)pause();
}

static void mortal_giver(void)
{
	pulc_port *p = native_open(PULC_D, "mortal");
	uint32_t next = 0;

	while (next < 64)
		next = take_number(p, next);
	atomic_store(&shared->next, next);
	(void)native_pid_of(1);
	native_reach(4);
	(void)pulc_port_give(p, native_pid_of(1), MSEC_PATIENCE);
	for (;;)
		(void)pause();
}

static void surviving_taker(void)
{
	struct pulc_address at = native_find("mortal");
	pulc_port *p;
	int e;

	native_known_as(1);
	e = pulc_port_take(at.port, MSEC_PATIENCE, &p);
	MUST(e == 0 || e == -ECONNRESET || e == -ENOENT);
	if (e == 0)
		take_all(p, atomic_load(&shared->next));
	else
		native_await(8);
	native_reach(9);
}

static void kill_in_rounds(native_role *giver, native_role *taker, unsigned who)
{
	native_role *const roles[] = { giver, taker, feed };

	victim = who;
	for (unsigned i = 0; i < N_ROUNDS; i++) {
		usec_later = i * i * 20;
		begin();
		native_run_with(roles, 3, kill_one);
		end();
	}
}

static void takers_die(void)
{
	kill_in_rounds(surviving_giver, mortal_taker, 1);
}

static void givers_die(void)
{
	kill_in_rounds(mortal_giver, surviving_taker, 0);
}

static const struct test tests[] = {
	TEST(refusals),
	TEST(who_does_not_answer),
	TEST(takers_die),
	TEST(givers_die),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
