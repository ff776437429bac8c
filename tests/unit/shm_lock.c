/*
 * shm/lock.c: exclusion between processes, and the recovery of a lock whose holder was killed,
 * at its entry, inside, and while others queue for it.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "lock.h"

struct shared {
	_Atomic uint32_t lock;
	_Atomic uint32_t inside;
	uint64_t count; /* not atomic: the lock must protect it */
	_Atomic uint32_t arrived;
};

static struct shared *shared_new(void)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	REQUIRE(s != MAP_FAILED);
	return s;
}

static pid_t fork_child(void)
{
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0)
		shm_self_forget();
	return pid;
}

#define N_PROCESSES 4
#define N_TURNS 100000

static void processes_exclude_each_other(void)
{
	struct shared *s = shared_new();

	for (int i = 0; i < N_PROCESSES; i++) {
		if (fork_child() != 0)
			continue;
		for (int k = 0; k < N_TURNS; k++) {
			if (!shm_lock(&s->lock))
				_exit(1);
			s->count++;
			shm_unlock(&s->lock);
		}
		_exit(0);
	}
	for (int i = 0, status; i < N_PROCESSES; i++) {
		REQUIRE(wait(&status) > 0);
		CHECK_INT(status, ==, 0);
	}
	CHECK_INT(s->count, ==, N_PROCESSES * N_TURNS);
	CHECK_INT(s->lock, ==, 0);
	(void)munmap(s, sizeof(*s));
}

static void a_killed_holder_is_recovered(void)
{
	struct shared *s = shared_new();
	pid_t pid = fork_child();

	if (pid == 0) {
		(void)shm_lock(&s->lock);
		s->inside = 1;
		for (;;)
			pause();
	}
	while (!s->inside)
		;
	(void)kill(pid, SIGKILL);
	CHECK(shm_lock(&s->lock));
	shm_unlock(&s->lock);
	(void)waitpid(pid, NULL, 0);
	(void)munmap(s, sizeof(*s));
}

/* Children take turns and are killed at random moments; the lock must always come back. */
static void holders_killed_at_random_moments(void)
{
	struct shared *s = shared_new();

	for (int round = 0; round < 200; round++) {
		pid_t pid[2];

		for (int i = 0; i < 2; i++) {
			pid[i] = fork_child();
			if (pid[i] == 0) {
				s->arrived++;
				for (;;) {
					(void)shm_lock(&s->lock);
					s->count++;
					shm_unlock(&s->lock);
				}
			}
		}
		while (s->arrived < 2)
			;
		for (int i = 0; i < round * 10; i++)
			cpu_relax();
		(void)kill(pid[0], SIGKILL);
		REQUIRE(shm_lock(&s->lock));
		shm_unlock(&s->lock);
		(void)kill(pid[1], SIGKILL);
		REQUIRE(shm_lock(&s->lock));
		shm_unlock(&s->lock);
		(void)waitpid(pid[0], NULL, 0);
		(void)waitpid(pid[1], NULL, 0);
		s->arrived = 0;
	}
	CHECK(s->count > 0);
	(void)munmap(s, sizeof(*s));
}

static void a_thread_does_not_wait_for_itself(void)
{
	_Atomic uint32_t lock = 0;

	REQUIRE(shm_lock(&lock));
	CHECK(!shm_lock(&lock));
	shm_unlock(&lock);
	CHECK_INT(lock, ==, 0);
}

static const struct test tests[] = {
	TEST(processes_exclude_each_other),
	TEST(a_killed_holder_is_recovered),
	TEST(holders_killed_at_random_moments),
	TEST(a_thread_does_not_wait_for_itself),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
