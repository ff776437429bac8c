/*
 * What else goes on in a guest while it waits for the port's owner: another thread makes it the
 * owner; a signal comes; the port passes to and fro.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <pulc/process.h>

#include "native.h"
#include "psid/native_case.h"

typedef void guest(pulc_port *p);

static pid_t start(guest *f, pulc_port *p)
{
	pid_t pid;

	/* The library's handlers of a fork are linked with this. */
	pulc_process_threads();
	pid = fork();
	if (pid != 0)
		return pid;
	f(p);
	_exit(0);
}

static void serve(void)
{
	uint64_t seen = 0;

	(void)pulc_progress(&seen, 1);
}

static int end_of(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, WNOHANG) != pid)
		serve();
	return status;
}

/* ---- another thread -------------------------------------------------------------------------- */

static void *inherit(void *p)
{
	return (void *)(intptr_t)pulc_port_inherit(p, -1);
}

static void becoming_owner(pulc_port *p)
{
	struct pulc_address to = pulc_port_address(p);
	struct pulc_wait w = { .port = p };
	bool begun = false;
	pthread_t thread;
	void *result;

	(void)alarm(50);
	MUST_IS(pthread_create(&thread, NULL, inherit, p), 0);
	while (!begun) {
		MUST(native_lock());
		begun = p->is_moving;
		native_unlock();
	}
	MUST_IS(pulc_port_close(p), -EBUSY);
	MUST_IS(pulc_select(&w, 1, NULL, 0, 0), -EBUSY);
	MUST_IS(pulc_send(p, &to, "x", 1, 0), -EBUSY);
	native_reach(1);
	MUST_IS(pthread_join(thread, &result), 0);
	MUST_IS((intptr_t)result, 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void giving_owner(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	pid_t pid = start(becoming_owner, p);

	while (!native_is_reached(1))
		serve();
	MUST_IS(pulc_port_give(p, pid, -1), 0);
	MUST_IS(end_of(pid), 0);
}

/* The others leave the port alone meanwhile, and nobody closes it. */
static void a_thread_becomes_the_owner(void)
{
	NATIVE_RUN(giving_owner);
}

/* ---- a signal -------------------------------------------------------------------------------- */

static void nothing(int sig)
{
	(void)sig;
}

static void looking_guest(pulc_port *p)
{
	struct sigaction action = { .sa_handler = nothing };
	const struct itimerval often = { { 0, 700 }, { 0, 700 } };
	struct pulc_wait w = { .port = p };

	MUST_IS(sigaction(SIGALRM, &action, NULL), 0);
	MUST_IS(setitimer(ITIMER_REAL, &often, NULL), 0);
	MUST_IS(pulc_select(&w, 1, NULL, 0, 0), -EINTR);
	native_reach(2);
	while (pulc_select(&w, 1, NULL, 0, 0) == -EINTR)
		;
}

static void silent_owner(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	pid_t pid = start(looking_guest, p);

	native_await(2);
	MUST_IS(end_of(pid), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void a_look_is_interrupted(void)
{
	NATIVE_RUN(silent_owner);
}

/* ---- the port passes to and fro -------------------------------------------------------------- */

#define N_PASSES 40u
#define N_UNDER_WAY 8u
#define LAST UINT32_MAX

static void passed_sender(pulc_port *p)
{
	struct pulc_address to = native_find("sink");
	uint32_t numbers[N_UNDER_WAY], n = 0, last = LAST;
	pulc_op *ops[N_UNDER_WAY] = { NULL };

	(void)alarm(50);
	for (; !native_is_reached(3); n++) {
		if (ops[n % N_UNDER_WAY])
			MUST_IS(pulc_op_end(ops[n % N_UNDER_WAY], NULL), 4);
		numbers[n % N_UNDER_WAY] = n;
		ops[n % N_UNDER_WAY] = native_send_begin(p, &to, &numbers[n % N_UNDER_WAY], 4);
	}
	MUST_IS(pulc_send(p, &to, &last, 4, 0), 4);
	for (unsigned i = 0; i < N_UNDER_WAY; i++)
		if (ops[i])
			MUST_IS(pulc_op_end(ops[i], NULL), 4);
}

static void passing_heir(pulc_port *p)
{
	uint32_t number = p->number;

	(void)alarm(50);
	MUST_IS(pulc_port_inherit(p, -1), 0);
	for (unsigned i = 1; i < N_PASSES; i++) {
		MUST_IS(pulc_port_give(p, getppid(), -1), 0);
		MUST_IS(pulc_port_take(number, -1, &p), 0);
	}
	MUST_IS(pulc_port_give(p, getppid(), -1), 0);
}

static void passing_owner(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	uint32_t number = p->number;
	pid_t sender = start(passed_sender, p), heir = start(passing_heir, p);

	(void)alarm(50);
	for (unsigned i = 0; i < N_PASSES; i++) {
		MUST_IS(pulc_port_give(p, heir, -1), 0);
		MUST_IS(pulc_port_take(number, -1, &p), 0);
	}
	native_reach(3);
	MUST_IS(end_of(sender), 0);
	MUST_IS(end_of(heir), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void sink(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	uint32_t number = 0;

	(void)alarm(50);
	for (uint32_t next = 0; number != LAST; next++) {
		MUST_IS(pulc_receive(p, &number, 4, NULL, 0), 4);
		MUST(number == LAST || number == next);
	}
	MUST_IS(pulc_port_close(p), 0);
}

/* Of one guest's sends none passes another. */
static void the_order_of_sends_holds(void)
{
	NATIVE_RUN(passing_owner, sink);
}

static const struct test tests[] = {
	TEST(a_thread_becomes_the_owner),
	TEST(a_look_is_interrupted),
	TEST(the_order_of_sends_holds),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
