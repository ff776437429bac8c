/*
 * shm/sem.c: counts are neither lost nor doubled between processes, with and without holders,
 * asleep and awake, and a holder that is killed at any instruction has what its number says.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "sem.h"

#define NSEC_LONG (60 * NSEC_PER_SEC)

struct shared {
	struct shm_sem sem;
	uint64_t sum; /* not atomic */
	_Atomic uint32_t n_taken, n_asleep;
};

static struct shared *shared_new(void)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	REQUIRE(s != MAP_FAILED);
	return s;
}

static void shared_free(struct shared *s)
{
	(void)munmap(s, sizeof(*s));
}

static struct shm_sem_view view_of(struct shared *s, uint32_t n, uint32_t holder)
{
	return (struct shm_sem_view){ .sem = &s->sem, .n = n, .holder = holder };
}

static pid_t fork_child(void)
{
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	return pid;
}

static void await_children(int n)
{
	for (int i = 0, status; i < n; i++) {
		REQUIRE(wait(&status) > 0);
		CHECK_INT(status, ==, 0);
	}
}

static uint64_t soon(void)
{
	return nsec_now() + NSEC_LONG;
}

static void a_plain_one_counts(void)
{
	struct shared *s = shared_new();
	struct shm_sem_view v = view_of(s, 0, 7);

	CHECK_INT(shm_sem_try(&v), ==, -EAGAIN);
	CHECK_INT(shm_sem_wait(&v, nsec_now() + NSEC_PER_USEC), ==, -ETIMEDOUT);
	CHECK_INT(shm_sem_post(&v), ==, 0);
	CHECK_INT(shm_sem_post(&v), ==, 0);
	CHECK_INT(shm_sem_value(&v), ==, 2);
	CHECK_INT(shm_sem_wait(&v, UINT64_MAX), ==, 0);
	CHECK_INT(shm_sem_try(&v), ==, 0);
	CHECK_INT(shm_sem_try(&v), ==, -EAGAIN);
	s->sem.count = SHM_SEM_MAX - 1;
	CHECK_INT(shm_sem_post(&v), ==, 0);
	CHECK_INT(shm_sem_post(&v), ==, -EOVERFLOW);
	CHECK_INT(shm_sem_value(&v), ==, SHM_SEM_MAX);
	shared_free(s);
}

static void counts_belong_to_holders(void)
{
	struct shared *s = shared_new();
	struct shm_sem_view a = view_of(s, 3, 70), b = view_of(s, 3, 71);

	CHECK_INT(shm_sem_post(&a), ==, -EPERM);
	CHECK_INT(shm_sem_try(&a), ==, 0);
	CHECK_INT(shm_sem_try(&a), ==, 0);
	CHECK_INT(shm_sem_try(&b), ==, 0);
	CHECK_INT(shm_sem_try(&b), ==, -EAGAIN);
	CHECK_INT(shm_sem_post(&b), ==, 0);
	CHECK_INT(shm_sem_post(&b), ==, -EPERM);
	CHECK_INT(shm_sem_value(&b), ==, 1);
	shm_sem_forget(&a);
	CHECK_INT(shm_sem_value(&a), ==, 3);
	shared_free(s);
}

#define N_PROCESSES 4
#define N_TURNS 20000

static void take_turns(struct shared *s, struct shm_sem_view v)
{
	for (int k = 0; k < N_TURNS; k++) {
		if (shm_sem_wait(&v, soon()) < 0)
			_exit(1);
		s->sum++;
		if (shm_sem_post(&v) < 0)
			_exit(1);
	}
	_exit(0);
}

static void one_count_excludes(uint32_t n)
{
	struct shared *s = shared_new();

	s->sem.count = 1;
	for (uint32_t i = 0; i < N_PROCESSES; i++)
		if (fork_child() == 0)
			take_turns(s, view_of(s, n, i + 1));
	await_children(N_PROCESSES);
	CHECK_INT(s->sum, ==, N_PROCESSES * N_TURNS);
	shared_free(s);
}

static void processes_exclude_each_other(void)
{
	one_count_excludes(1);
}

static void a_plain_one_excludes_too(void)
{
	one_count_excludes(0);
}

static void take_all(struct shared *s, struct shm_sem_view v)
{
	while (shm_sem_wait(&v, soon()) == 0)
		if (atomic_fetch_add(&s->n_taken, 1) >= N_TURNS)
			_exit(0);
	_exit(1);
}

/* What one posts the others take, whoever sleeps: one more for each, to end with. */
static void what_is_posted_is_taken(void)
{
	struct shared *s = shared_new();
	struct shm_sem_view v = view_of(s, 0, 1);

	for (uint32_t i = 0; i < N_PROCESSES; i++)
		if (fork_child() == 0)
			take_all(s, v);
	for (int i = 0; i < N_TURNS + N_PROCESSES; i++)
		REQUIRE_INT(shm_sem_post(&v), ==, 0);
	await_children(N_PROCESSES);
	CHECK_INT(shm_sem_value(&v), ==, 0);
	CHECK_INT(s->n_taken, ==, N_TURNS + N_PROCESSES);
	shared_free(s);
}

static void take_and_give(struct shared *s, struct shm_sem_view v)
{
	s->n_taken++;
	for (;;) {
		while (shm_sem_try(&v) == 0)
			;
		while (shm_sem_post(&v) == 0)
			;
	}
}

static void a_killed_holder_has_what_its_number_says(void)
{
	struct shared *s = shared_new();

	for (uint32_t i = 0; i < 100; i++) {
		struct shm_sem_view v = view_of(s, 5, i + 1);
		pid_t pid;

		s->n_taken = 0;
		pid = fork_child();
		if (pid == 0)
			take_and_give(s, v);
		while (!s->n_taken)
			(void)usleep(100);
		(void)usleep(i * 7);
		REQUIRE_INT(kill(pid, SIGKILL), ==, 0);
		REQUIRE(waitpid(pid, NULL, 0) == pid);
		shm_sem_forget(&v);
		CHECK_INT(shm_sem_value(&v), ==, 5);
	}
	shared_free(s);
}

/* One of two sleepers is woken and killed; the count is for the other. */
static void a_killed_sleeper_takes_nothing_along(void)
{
	struct shared *s = shared_new();
	struct shm_sem_view v = view_of(s, 1, 1), victim = view_of(s, 1, 2),
			    other = view_of(s, 1, 3);
	pid_t pids[2];

	for (unsigned i = 0; i < 20; i++) {
		s->n_asleep = 0;
		REQUIRE_INT(shm_sem_try(&v), ==, 0);
		for (unsigned k = 0; k < 2; k++) {
			pids[k] = fork_child();
			if (pids[k] == 0) {
				const struct shm_sem_view *mine = k ? &other : &victim;

				s->n_asleep++;
				/* Who has taken it keeps it; the victim sleeps on until it is
				 * killed. */
				if (shm_sem_wait(mine, soon()) < 0)
					_exit(1);
				if (k)
					_exit(0);
				for (;;)
					(void)pause();
			}
		}
		while (s->n_asleep < 2)
			(void)usleep(100);
		REQUIRE_INT(shm_sem_post(&v), ==, 0);
		REQUIRE_INT(kill(pids[0], SIGKILL), ==, 0);
		REQUIRE(waitpid(pids[0], NULL, 0) == pids[0]);
		shm_sem_forget(&victim);
		await_children(1);
		shm_sem_forget(&other);
		CHECK_INT(shm_sem_value(&v), ==, 1);
	}
	shared_free(s);
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void a_signal_ends_a_wait(void)
{
	const struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct shared *s = shared_new();
	struct shm_sem_view v = view_of(s, 0, 1);

	(void)sigaction(SIGALRM, &action, NULL);
	(void)setitimer(ITIMER_REAL, &often, NULL);
	CHECK_INT(shm_sem_wait(&v, UINT64_MAX), ==, -EINTR);
	(void)setitimer(ITIMER_REAL, &never, NULL);
	shared_free(s);
}

static const struct test tests[] = {
	TEST(a_plain_one_counts),
	TEST(counts_belong_to_holders),
	TEST(processes_exclude_each_other),
	TEST(a_plain_one_excludes_too),
	TEST(what_is_posted_is_taken),
	TEST(a_killed_holder_has_what_its_number_says),
	TEST(a_killed_sleeper_takes_nothing_along),
	TEST(a_signal_ends_a_wait),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
