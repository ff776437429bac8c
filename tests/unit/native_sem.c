/*
 * Semaphores between processes: found by name, and free again when their holder is killed or
 * leaves.
 */
#include <pulc/sem.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "psid/native_case.h"

#define MSEC_LONG 40000

static pulc_sem *open_sem(const char *name, unsigned count, int flags)
{
	pulc_sem *sem = NULL;

	MUST(pulc_sem_open(name, count, flags, &sem) >= 0);
	return sem;
}

/* ---- by oneself ------------------------------------------------------------------------------ */

static void use_alone(void)
{
	char name[PULC_NAME_MAX + 2];
	pulc_sem *sem, *again;

	memset(name, 'n', sizeof(name));
	name[PULC_NAME_MAX + 1] = '\0';
	MUST_IS(pulc_sem_open(name, 1, 0, &sem), -EINVAL);
	MUST_IS(pulc_sem_open("", 1, 0, &sem), -EINVAL);
	MUST_IS(pulc_sem_open("a", 0, PULC_SEM_HELD, &sem), -EINVAL);
	MUST_IS(pulc_sem_open("a", PULC_SEM_HELD_MAX + 1, PULC_SEM_HELD, &sem), -EINVAL);
	MUST_IS(pulc_sem_open("a", PULC_SEM_MAX + 1, 0, &sem), -EINVAL);
	MUST_IS(pulc_sem_open("a", 1, 4, &sem), -EINVAL);
	MUST_IS(pulc_sem_open(name + 1, 2, PULC_SEM_HELD, &sem), 1);
	MUST_IS(pulc_sem_open(name + 1, 9, PULC_SEM_HELD, &again), 0);
	MUST_IS(pulc_sem_open(name + 1, 9, 0, &again), -EADDRINUSE);
	MUST_IS(pulc_sem_value(again), 2);
	MUST_IS(pulc_sem_wait(sem, -1), 0);
	MUST_IS(pulc_sem_wait(sem, 0), 0);
	MUST_IS(pulc_sem_wait(sem, 0), -ETIMEDOUT);
	MUST_IS(pulc_sem_wait(again, 1), -ETIMEDOUT);
	MUST_IS(pulc_sem_post(again), -EPERM);
	MUST_IS(pulc_sem_post(sem), 0);
	MUST_IS(pulc_sem_wait(again, 0), 0);
	/* What is held is given back. */
	MUST_IS(pulc_sem_close(sem), 0);
	MUST_IS(pulc_sem_value(again), 1);
	MUST_IS(pulc_sem_close(again), 0);
	MUST_IS(pulc_sem_open(name + 1, 3, 0, &sem), 1);
	MUST_IS(pulc_sem_post(sem), 0);
	MUST_IS(pulc_sem_value(sem), 4);
	MUST_IS(pulc_sem_close(sem), 0);
	MUST_IS(pulc_sem_close(NULL), 0);
}

static void alone(void)
{
	NATIVE_RUN(use_alone);
}

/* ---- between processes ----------------------------------------------------------------------- */

#define N_MESSAGES 2000u

static void post_and_wait(void)
{
	pulc_sem *there = open_sem("there", 0, 0), *back = open_sem("back", 0, 0);

	for (unsigned i = 0; i < N_MESSAGES; i++) {
		MUST_IS(pulc_sem_post(there), 0);
		MUST_IS(pulc_sem_wait(back, MSEC_LONG), 0);
	}
	MUST_IS(pulc_sem_close(there), 0);
	MUST_IS(pulc_sem_close(back), 0);
}

static void wait_and_post(void)
{
	pulc_sem *there = open_sem("there", 0, 0), *back = open_sem("back", 0, 0);

	for (unsigned i = 0; i < N_MESSAGES; i++) {
		MUST_IS(pulc_sem_wait(there, MSEC_LONG), 0);
		MUST_IS(pulc_sem_post(back), 0);
	}
	MUST_IS(pulc_sem_close(there), 0);
	MUST_IS(pulc_sem_close(back), 0);
}

static void two_processes(void)
{
	NATIVE_RUN(post_and_wait, wait_and_post);
}

/* ---- killed ---------------------------------------------------------------------------------- */

static void hold_and_die(void)
{
	pulc_sem *sem = open_sem("held", 3, PULC_SEM_HELD);

	for (int i = 0; i < 3; i++)
		MUST_IS(pulc_sem_wait(sem, MSEC_LONG), 0);
	native_reach(1);
	native_await(9);
}

static void outlive(void)
{
	pulc_sem *sem;

	native_await(1);
	sem = open_sem("held", 1, PULC_SEM_HELD);
	MUST_IS(pulc_sem_value(sem), 0);
	native_reach(2);
	for (int i = 0; i < 3; i++)
		MUST_IS(pulc_sem_wait(sem, MSEC_LONG), 0);
	MUST_IS(pulc_sem_wait(sem, 0), -ETIMEDOUT);
	MUST_IS(pulc_sem_close(sem), 0);
}

static void kill_the_first(const pid_t *pids)
{
	native_await(2);
	(void)kill(pids[0], SIGKILL);
}

static void a_killed_holder(void)
{
	native_role *const roles[] = { hold_and_die, outlive };

	native_run_with(roles, 2, kill_the_first);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *wait_forever(void *arg)
{
	return (void *)(intptr_t)pulc_sem_wait(arg, -1);
}

static void have_threads(void)
{
	pulc_sem *sem = open_sem(NULL, 0, 0);
	pthread_t thread;
	void *result;

	MUST_IS(pthread_create(&thread, NULL, wait_forever, sem), 0);
	MUST_IS(pulc_sem_post(sem), 0);
	MUST_IS(pthread_join(thread, &result), 0);
	MUST_IS((intptr_t)result, 0);
	MUST_IS(pulc_sem_close(sem), 0);
}

static void threads(void)
{
	NATIVE_RUN(have_threads);
}

static const struct test tests[] = {
	TEST(alone),
	TEST(two_processes),
	TEST(a_killed_holder),
	TEST(threads),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
