/*
 * A semaphore whose counts have holders, between two processes; and one of them, a child that it
 * has forked, or psid is killed at each named point. Then the other one has all counts, whoever had
 * them, and sleeps for none of them in vain.
 */
#include <pulc/process.h>
#include <pulc/sem.h>

#include <errno.h>
#include <sys/wait.h>

#include "psid/native_case.h"
#include "steps/walk.h"

#define MSEC_PATIENCE 30000
#define N_COUNTS 3u

/* Points. */
#define ALL_TAKEN 1u /* the survivor has all counts, */
#define ALL_FREE 2u  /* and has given them back; */
#define ALL_HELD 3u  /* the other one has them */

enum who { HOLDER, CHILD, PSID };

static enum who victim;

/* ---- the holder ------------------------------------------------------------------------------ */

static void use(pulc_sem *sem)
{
	/* There is none: it sleeps, and the survivor sees to that. */
	MUST_IS(pulc_sem_wait(sem, MSEC_PATIENCE), 0);
	native_await(ALL_FREE);
	for (unsigned i = 1; i < N_COUNTS; i++)
		MUST_IS(pulc_sem_wait(sem, MSEC_PATIENCE), 0);
	native_reach(ALL_HELD);
	/* Now the survivor sleeps. */
	step_await_others(STEP_SEM_SLEEPS);
	MUST_IS(pulc_sem_post(sem), 0);
}

static void use_in_child(pulc_sem *sem)
{
	int status;
	pid_t pid;

	/* Of the same object as what sees to a fork, which is linked for its sake. */
	pulc_process_threads();
	pid = fork();
	if (pid == 0) {
		step_victim(getpid());
		use(sem);
		_exit(pulc_sem_close(sem) != 0);
	}
	MUST_IS(waitpid(pid, &status, 0), pid);
	MUST(status == 0 || step_is_killed());
}

/* When psid is the one there may be nobody to ask. */
static bool open_sem(const char *name, pulc_sem **ret_sem)
{
	int e = pulc_sem_open(name, N_COUNTS, PULC_SEM_HELD, ret_sem);

	MUST(e >= 0 || victim == PSID);
	return e >= 0;
}

static void hold(void)
{
	pulc_sem *sem, *other;

	native_await(ALL_TAKEN);
	if (victim == HOLDER)
		step_victim(getpid());
	else if (victim == PSID)
		step_victim(native_psid());
	if (open_sem("another", &other))
		MUST_IS(pulc_sem_close(other), 0);
	if (!open_sem("steps", &sem))
		return;
	if (victim == CHILD)
		use_in_child(sem);
	else
		use(sem);
	MUST_IS(pulc_sem_close(sem), 0);
}

/* ---- the survivor ---------------------------------------------------------------------------- */

static void take_all(pulc_sem *sem)
{
	for (unsigned i = 0; i < N_COUNTS; i++)
		MUST_IS(pulc_sem_wait(sem, MSEC_PATIENCE), 0);
	MUST_IS(pulc_sem_wait(sem, 0), -ETIMEDOUT);
}

static void survive(void)
{
	pulc_sem *sem = NULL;

	MUST(open_sem("steps", &sem));
	take_all(sem);
	native_reach(ALL_TAKEN);
	if (victim == PSID)
		step_await_others(STEP_SEM_SLEEPS);
	else
		step_await_victim(STEP_SEM_SLEEPS);
	for (unsigned i = 0; i < N_COUNTS; i++)
		MUST_IS(pulc_sem_post(sem), 0);
	native_reach(ALL_FREE);
	while (!native_is_reached(ALL_HELD) && !step_is_killed())
		(void)usleep(1000);
	take_all(sem);
	MUST_IS(pulc_sem_close(sem), 0);
}

/* ---- the scene ------------------------------------------------------------------------------- */

/* Who is killed is no failure. */
static void look_on(const pid_t *pids)
{
	(void)pids;
}

static void scene(void)
{
	native_role *const roles[] = { hold, survive };

	if (victim == PSID)
		native_run_lost(roles, 2);
	else
		native_run_with(roles, 2, look_on);
}

static void walk(enum who who, const char *name)
{
	victim = who;
	steps_walk(name, scene, STEPS_OF_SEMS);
}

static void the_holder(void)
{
	walk(HOLDER, "the holder");
}

static void its_child(void)
{
	walk(CHILD, "its child");
}

static void psid(void)
{
	walk(PSID, "psid");
}

static void every_point_was_reached(void)
{
	steps_end(STEPS_OF_SEMS);
}

static const struct test tests[] = {
	TEST(the_holder),
	TEST(its_child),
	TEST(psid),
	TEST(every_point_was_reached),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
