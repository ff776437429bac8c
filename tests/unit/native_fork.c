/*
 * Processes that fork in the middle of things: beside threads that are inside of calls, in a chain
 * of which one is killed and another one becomes the owner, and to become another program. What
 * they share goes on, and nothing of it is lost or comes twice.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include <pulc/sem.h>

#include "psid/native_guests.h"

#define N_CHILDREN 24u
#define N_MESSAGES 300u
#define MSEC_PATIENCE 40000

static struct {
	_Atomic unsigned char had[N_MESSAGES];
	_Atomic uint32_t n_had;
	_Atomic pid_t killed;
} * shared;

static void begin(void)
{
	shared = native_share(sizeof(*shared));
}

static void end(void)
{
	native_unshare(shared, sizeof(*shared));
}

static void become_another_program(void)
{
	(void)execl("/bin/sleep", "sleep", "50", (char *)NULL);
	_exit(1);
}

static void end_program(pid_t pid)
{
	int status;

	MUST_IS(kill(pid, SIGKILL), 0);
	MUST_IS(waitpid(pid, &status, 0), pid);
	MUST(WIFSIGNALED(status));
}

/* ---- beside threads -------------------------------------------------------------------------- */

static atomic_bool enough;

/* Two ports of its own, which it uses all the time. */
static void *talk(void *arg)
{
	pulc_port *a = native_open(PULC_D, NULL), *b = native_open(PULC_D, NULL);
	struct pulc_address to = pulc_port_address(b);
	static char bytes[2][60000];
	char *buf = bytes[arg != NULL];
	size_t len = arg ? sizeof(bytes[1]) : 8;

	while (!atomic_load(&enough)) {
		MUST_IS(pulc_send(a, &to, buf, len, 0), (ssize_t)len);
		MUST_IS(pulc_receive(b, buf, len, NULL, 0), (ssize_t)len);
	}
	MUST_IS(pulc_port_close(a), 0);
	MUST_IS(pulc_port_close(b), 0);
	return NULL;
}

/* Is inside of a receive on the port that is shared. */
static void *wait_for_the_end(void *p)
{
	char byte;

	MUST_IS(pulc_receive(p, &byte, 1, NULL, 0), 1);
	return NULL;
}

static uint32_t number_of_child;

/* As a guest, and with a port of its own. */
static void speak_up(pulc_port *p)
{
	struct pulc_address to = native_find("sink");
	pulc_port *own = native_open(PULC_D, NULL);

	MUST_IS(pulc_send(p, &to, &number_of_child, sizeof(number_of_child), 0), 4);
	MUST_IS(pulc_send(own, &to, &number_of_child, sizeof(number_of_child), 0), 4);
	MUST_IS(pulc_port_close(own), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void fork_beside_threads(void)
{
	pulc_port *p = native_open(PULC_D, "shared");
	struct pulc_address self = pulc_port_address(p);
	pthread_t threads[3];
	int status;
	pid_t pid;

	MUST_IS(pthread_create(&threads[0], NULL, talk, NULL), 0);
	MUST_IS(pthread_create(&threads[1], NULL, talk, p), 0);
	MUST_IS(pthread_create(&threads[2], NULL, wait_for_the_end, p), 0);
	for (number_of_child = 0; number_of_child < N_CHILDREN; number_of_child++) {
		pid = start(speak_up, p);
		MUST_IS(waitpid(pid, &status, 0), pid);
		MUST_IS(status, 0);
	}
	MUST_IS(pulc_send(p, &self, ".", 1, 0), 1);
	atomic_store(&enough, true);
	for (unsigned i = 0; i < 3; i++)
		MUST_IS(pthread_join(threads[i], NULL), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void hear_of_all(void)
{
	pulc_port *sink = native_open(PULC_D, "sink");
	unsigned n[N_CHILDREN] = { 0 };
	uint32_t child;

	for (unsigned i = 0; i < 2 * N_CHILDREN; i++) {
		MUST_IS(pulc_receive(sink, &child, sizeof(child), NULL, 0), sizeof(child));
		MUST(child < N_CHILDREN && n[child]++ < 2);
	}
	MUST_IS(pulc_port_close(sink), 0);
}

/* A fork beside a thread that allocates leaves the sanitizer's allocator locked in the child. */
#ifdef __SANITIZE_ADDRESS__
#define FORKS_BESIDE_THREADS false
#else
#define FORKS_BESIDE_THREADS true
#endif

static void beside_threads(void)
{
	if (FORKS_BESIDE_THREADS)
		NATIVE_RUN(fork_beside_threads, hear_of_all);
	else
		test_skip("the sanitizer's allocator is locked in the children");
}

/* ---- a chain --------------------------------------------------------------------------------- */

#define ALL_ARE_THERE 1u
#define ONE_IS_KILLED 2u
#define IT_PASSES 3u
#define SHARED_OUT 4u

static void take_some(pulc_port *p, unsigned until)
{
	struct pulc_wait w = { .port = p };
	uint32_t i;

	while (!native_is_reached(until)) {
		if (pulc_select(&w, 1, NULL, 0, 5) <= 0 ||
		    pulc_receive(p, &i, sizeof(i), NULL, PULC_DONTWAIT) < 0)
			continue;
		MUST(i < N_MESSAGES);
		MUST_IS(atomic_exchange(&shared->had[i], 1), 0);
		if (atomic_fetch_add(&shared->n_had, 1) + 1 == N_MESSAGES)
			native_reach(SHARED_OUT);
	}
}

/* The last one becomes the owner. */
static void be_last(pulc_port *p)
{
	native_known_as(3);
	native_reach(ALL_ARE_THERE);
	take_some(p, IT_PASSES);
	MUST_IS(pulc_port_inherit(p, MSEC_PATIENCE), 0);
	take_some(p, SHARED_OUT);
}

static void be_third(pulc_port *p)
{
	pid_t pid = start(be_last, p);
	int status;

	native_known_as(2);
	take_some(p, SHARED_OUT);
	MUST_IS(waitpid(pid, &status, 0), pid);
	_exit(status != 0);
}

/* Is killed in the middle, and its child goes on. */
static void be_second(pulc_port *p)
{
	(void)start(be_third, p);
	native_known_as(1);
	take_some(p, SHARED_OUT);
}

static void found_a_family(void)
{
	pulc_port *p = native_open(PULC_D, "family");
	pid_t pid = start(be_second, p);
	int status;

	serve_until(ALL_ARE_THERE);
	while (atomic_load(&shared->n_had) < N_MESSAGES / 4)
		serve();
	MUST_IS(pid, native_pid_of(1));
	MUST_IS(kill(pid, SIGKILL), 0);
	MUST_IS(waitpid(pid, &status, 0), pid);
	native_reach(ONE_IS_KILLED);
	while (atomic_load(&shared->n_had) < N_MESSAGES / 3)
		serve();
	native_reach(IT_PASSES);
	MUST_IS(pulc_port_give(p, native_pid_of(3), MSEC_PATIENCE), 0);
}

static void feed_the_family(void)
{
	struct pulc_address to = native_find("family");
	pulc_port *p = native_open(PULC_D, NULL);

	native_await(ALL_ARE_THERE);
	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		MUST_IS(pulc_send(p, &to, &i, sizeof(i), 0), sizeof(i));
		(void)usleep(500);
	}
	while (!native_is_reached(SHARED_OUT))
		serve();
	MUST_IS(pulc_port_close(p), 0);
}

static void a_chain(void)
{
	begin();
	NATIVE_RUN(found_a_family, feed_the_family);
	CHECK_INT(shared->n_had, ==, N_MESSAGES);
	end();
}

/* ---- another program ------------------------------------------------------------------------- */

static char byte;

static void ask_and_go(pulc_port *p)
{
	(void)native_receive_begin(p, &byte, 1, NULL);
	know_that_all_is_asked(p);
	native_reach(1);
	native_await(2);
	become_another_program();
}

static void owner_of_one_that_goes(void)
{
	pulc_port *p = native_open(PULC_D, NULL), *other = native_open(PULC_D, NULL);
	struct pulc_address to = pulc_port_address(p);
	pid_t pid = start(ask_and_go, p);
	char got = 0;

	serve_until(1);
	/* It is lent, and not taken. */
	MUST_IS(pulc_send(other, &to, "a", 1, 0), 1);
	MUST_IS(pulc_receive(p, &got, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	native_reach(2);
	MUST_IS(pulc_receive(p, &got, 1, NULL, 0), 1);
	MUST_IS(got, 'a');
	end_program(pid);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(other), 0);
}

/* What it was lent comes back. */
static void a_guest_becomes_another_program(void)
{
	NATIVE_RUN(owner_of_one_that_goes);
}

static void hear_of_the_end(pulc_port *p)
{
	ssize_t n;
	char got;

	while ((n = pulc_receive(p, &got, 1, NULL, 0)) >= 0)
		;
	MUST_IS(n, -EPIPE);
	native_reach(2);
}

static void own_and_go(void)
{
	pulc_port *p = native_open(PULC_D, "goes");

	native_known_as(0);
	(void)start(hear_of_the_end, p);
	serve_until(1);
	become_another_program();
}

static void send_to_one_that_goes(void)
{
	struct pulc_address to = native_find("goes");
	pulc_port *p = native_open(PULC_D, NULL);
	ssize_t n;

	MUST_IS(pulc_send(p, &to, "", 0, 0), 0);
	native_reach(1);
	while ((n = pulc_send(p, &to, "", 0, PULC_DONTWAIT)) >= 0 || n == -EAGAIN)
		serve();
	MUST_IS(n, -ECONNRESET);
	MUST_IS(pulc_send(p, &to, "", 0, 0), -ECONNREFUSED);
	/* Its name is free again. */
	MUST_IS(pulc_port_close(native_open(PULC_D, "goes")), 0);
	native_await(2);
	MUST_IS(kill(native_pid_of(0), SIGKILL), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void look_on(const pid_t *pids)
{
	(void)pids;
}

static void an_owner_becomes_another_program(void)
{
	native_role *const roles[] = { own_and_go, send_to_one_that_goes };

	native_run_with(roles, 2, look_on);
}

static void hold_and_go(void)
{
	pulc_sem *sem;

	native_known_as(0);
	MUST_IS(pulc_sem_open("goes", 1, PULC_SEM_HELD, &sem), 1);
	MUST_IS(pulc_sem_wait(sem, -1), 0);
	native_reach(1);
	native_await(2);
	become_another_program();
}

static void wait_for_one_that_goes(void)
{
	pulc_sem *sem;

	native_await(1);
	MUST_IS(pulc_sem_open("goes", 1, PULC_SEM_HELD, &sem), 0);
	MUST_IS(pulc_sem_wait(sem, 0), -ETIMEDOUT);
	native_reach(2);
	MUST_IS(pulc_sem_wait(sem, MSEC_PATIENCE), 0);
	MUST_IS(pulc_sem_post(sem), 0);
	MUST_IS(pulc_sem_close(sem), 0);
	MUST_IS(kill(native_pid_of(0), SIGKILL), 0);
}

static void a_holder_becomes_another_program(void)
{
	native_role *const roles[] = { hold_and_go, wait_for_one_that_goes };

	native_run_with(roles, 2, look_on);
}

static const struct test tests[] = {
	TEST(beside_threads),
	TEST(a_chain),
	TEST(a_guest_becomes_another_program),
	TEST(an_owner_becomes_another_program),
	TEST(a_holder_becomes_another_program),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
