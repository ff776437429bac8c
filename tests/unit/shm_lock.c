/*
 * shm/lock.c: exclusion between processes, and the recovery of a lock whose holder was killed, at
 * its entry, inside, and while others queue for it; and the priority that a real-time waiter lends
 * its holder.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "lock.h"

struct shared {
	struct shm_lock lock;
	_Atomic uint32_t inside;
	uint64_t count; /* not atomic: the lock must protect it */
	_Atomic uint32_t arrived;
	_Atomic uint32_t leave, taken, refused;
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
			if (!shm_lock(&s->lock.word))
				_exit(1);
			s->count++;
			shm_unlock(&s->lock.word);
		}
		_exit(0);
	}
	for (int i = 0, status; i < N_PROCESSES; i++) {
		REQUIRE(wait(&status) > 0);
		CHECK_INT(status, ==, 0);
	}
	CHECK_INT(s->count, ==, N_PROCESSES * N_TURNS);
	CHECK_INT(s->lock.word, ==, 0);
	(void)munmap(s, sizeof(*s));
}

static void a_killed_holder_is_recovered(void)
{
	struct shared *s = shared_new();
	pid_t pid = fork_child();

	if (pid == 0) {
		(void)shm_lock(&s->lock.word);
		s->inside = 1;
		for (;;)
			pause();
	}
	while (!s->inside)
		;
	(void)kill(pid, SIGKILL);
	CHECK(shm_lock(&s->lock.word));
	shm_unlock(&s->lock.word);
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
					(void)shm_lock(&s->lock.word);
					s->count++;
					shm_unlock(&s->lock.word);
				}
			}
		}
		while (s->arrived < 2)
			;
		for (int i = 0; i < round * 10; i++)
			cpu_relax();
		(void)kill(pid[0], SIGKILL);
		REQUIRE(shm_lock(&s->lock.word));
		shm_unlock(&s->lock.word);
		(void)kill(pid[1], SIGKILL);
		REQUIRE(shm_lock(&s->lock.word));
		shm_unlock(&s->lock.word);
		(void)waitpid(pid[0], NULL, 0);
		(void)waitpid(pid[1], NULL, 0);
		s->arrived = 0;
	}
	CHECK(s->count > 0);
	(void)munmap(s, sizeof(*s));
}

static void a_thread_does_not_wait_for_itself(void)
{
	struct shm_lock lock = { 0 };

	REQUIRE(shm_lock(&lock.word));
	CHECK(!shm_lock(&lock.word));
	shm_unlock(&lock.word);
	CHECK_INT(lock.word, ==, 0);
}

/* Nor where a handler comes in between while it holds two. */
static void nor_does_one_that_holds_two(void)
{
	struct shm_lock first = { 0 }, second = { 0 };

	REQUIRE(shm_lock(&first.word));
	REQUIRE(shm_lock(&second.word));
	CHECK(!shm_lock(&first.word));
	CHECK((char *)shm_self.robust->list_op_pending + shm_self.robust->futex_offset ==
	      (char *)&second.word); /* which is recovered if we die now */
	CHECK(!shm_lock(&second.word));
	shm_unlock(&second.word);
	shm_unlock(&first.word);
	CHECK_INT(first.word | second.word, ==, 0);
}

/* ---- namesakes ------------------------------------------------------------------------------- */

/* Thread 1 of a pid namespace of its own; -1: not here, which is said. */
static pid_t child_elsewhere(void)
{
	pid_t pid;

	shm_self_init();
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		test_skip("no pid namespaces: %s", strerrorname_np(errno));
	if (pid == 0)
		(void)shm_self_cloned();
	return pid;
}

static void take_turns_elsewhere(struct shared *s)
{
	if (!shm_lock(&s->lock.word))
		_exit(1);
	shm_unlock(&s->lock.word);
	for (int k = 0; k < N_TURNS; k++) {
		if (!shm_lock(&s->lock.word))
			_exit(1);
		s->count++;
		shm_unlock(&s->lock.word);
	}
	_exit(0);
}

/* Each has the number that stands in the word when the other has the lock. */
static void namesakes_exclude_each_other(void)
{
	struct shared *s = shared_new();
	int n = 0;

	for (int i = 0; i < N_PROCESSES; i++) {
		pid_t pid = child_elsewhere();

		if (pid == 0)
			take_turns_elsewhere(s);
		n += pid > 0;
	}
	for (int i = 0, status; i < n; i++) {
		REQUIRE(wait(&status) > 0);
		CHECK_INT(status, ==, 0);
	}
	CHECK_INT(s->count, ==, n * N_TURNS);
	CHECK_INT(s->lock.word, ==, 0);
	(void)munmap(s, sizeof(*s));
}

static void hold_elsewhere(struct shared *s)
{
	(void)shm_lock(&s->lock.word);
	s->inside = 1;
	while (!s->leave)
		cpu_relax();
	shm_unlock(&s->lock.word);
	_exit(0);
}

static bool is_asleep(pid_t pid)
{
	char path[32], line[128] = "";
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	REQUIRE(file != NULL);
	(void)!fgets(line, sizeof(line), file);
	(void)fclose(file);
	return strstr(line, ") S ") != NULL;
}

/* Who is killed while he waits for a namesake takes nothing from him; a namesake that is killed
 * inside leaves it. */
static void namesakes_are_killed(void)
{
	struct shared *s = shared_new();
	pid_t holder = child_elsewhere(), waiter;

	if (holder == 0)
		hold_elsewhere(s);
	while (holder > 0 && !s->inside)
		cpu_relax();
	waiter = holder > 0 ? child_elsewhere() : -1;
	if (waiter == 0)
		_exit(!shm_lock(&s->lock.word));
	while (waiter > 0 && !is_asleep(waiter))
		cpu_relax();
	if (waiter > 0) {
		(void)kill(waiter, SIGKILL);
		(void)waitpid(waiter, NULL, 0);
		CHECK(!(s->lock.word & FUTEX_OWNER_DIED));
		CHECK((s->lock.word & FUTEX_TID_MASK) == 1);
		(void)kill(holder, SIGKILL);
		CHECK(shm_lock(&s->lock.word));
		shm_unlock(&s->lock.word);
		(void)waitpid(holder, NULL, 0);
	}
	(void)munmap(s, sizeof(*s));
}

/* ---- priority -------------------------------------------------------------------------------- */

#define SEC_PATIENCE 60

static void nap(void)
{
	const struct timespec turn = timespec_from_nsec(1000 * NSEC_PER_USEC);

	(void)nanosleep(&turn, NULL);
}

/* As the kernel has it now: below zero for real-time. */
static int priority_of(pid_t pid)
{
	char path[64];
	int priority = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	REQUIRE(f != NULL);
	/* The name is in brackets; the 18th is the priority. */
	REQUIRE(fscanf(f,
		       "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
		       "%d",
		       &priority) == 1);
	(void)fclose(f);
	return priority;
}

static pid_t start_holder(struct shared *s)
{
	pid_t pid = fork_child();

	if (pid == 0) {
		(void)shm_lock(&s->lock.word);
		s->inside = 1;
		while (!s->leave)
			nap();
		shm_unlock(&s->lock.word);
		for (;;)
			(void)pause();
	}
	while (!s->inside)
		nap();
	return pid;
}

static pid_t start_urgent(struct shared *s)
{
	const struct sched_param param = { .sched_priority = 1 };
	pid_t pid = fork_child();

	if (pid != 0)
		return pid;
	s->refused = sched_setscheduler(0, SCHED_FIFO, &param) < 0;
	if (s->refused)
		_exit(0);
	(void)shm_lock(&s->lock.word);
	s->taken = 1;
	shm_unlock(&s->lock.word);
	_exit(0);
}

/* False: nobody here may have such a priority. */
static bool await_lent(struct shared *s, pid_t holder)
{
	uint64_t end = nsec_now() + SEC_PATIENCE * 1000000 * NSEC_PER_USEC;

	while (priority_of(holder) >= 0 && !s->refused && nsec_now() < end)
		nap();
	if (s->refused) {
		test_skip("this process may not have a real-time priority");
		return false;
	}
	CHECK_INT(priority_of(holder), <, 0);
	return true;
}

static void end_child(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/* The holder has it while the other one waits, and not longer. */
static bool lend_once(struct shared *s)
{
	pid_t holder, urgent;
	bool lent;

	s->inside = s->leave = s->taken = s->refused = 0;
	holder = start_holder(s);
	urgent = start_urgent(s);
	lent = await_lent(s, holder);
	CHECK_INT(s->taken, ==, 0);
	s->leave = 1;
	(void)waitpid(urgent, NULL, 0);
	CHECK_INT(s->taken, ==, lent);
	while (lent && priority_of(holder) < 0)
		nap();
	end_child(holder);
	return lent;
}

static void a_real_time_waiter_lends_its_priority(void)
{
	struct shared *s = shared_new();

	for (unsigned i = 0; i < 5 && lend_once(s); i++)
		;
	CHECK(shm_lock(&s->lock.word));
	shm_unlock(&s->lock.word);
	CHECK_INT(s->lock.word, ==, 0);
	(void)munmap(s, sizeof(*s));
}

/* Somebody else was named by mistake, with whom a waiter was asleep: he does not leave what he does
 * not hold. */
static void somebody_else_was_named(void)
{
	struct shared *s = shared_new();
	pid_t other = fork_child(), holder, urgent;

	if (other == 0)
		for (;;)
			(void)pause();
	holder = start_holder(s);
	s->lock.boost = (uint32_t)other | FUTEX_WAITERS;
	urgent = start_urgent(s);
	if (await_lent(s, holder))
		s->leave = 1;
	else
		end_child(holder);
	(void)waitpid(urgent, NULL, 0);
	CHECK_INT(s->taken, ==, !s->refused);
	end_child(other);
	if (s->leave)
		end_child(holder);
	(void)munmap(s, sizeof(*s));
}

/* Whoever is killed while it is lent: the other one goes on, and so does the next. */
static void killed_while_priority_is_lent(void)
{
	struct shared *s = shared_new();
	pid_t holder = start_holder(s), urgent = start_urgent(s);

	if (!await_lent(s, holder)) {
		end_child(holder);
		end_child(urgent);
		return;
	}
	end_child(holder);
	(void)waitpid(urgent, NULL, 0);
	CHECK_INT(s->taken, ==, 1);

	s->inside = s->taken = 0;
	holder = start_holder(s);
	urgent = start_urgent(s);
	(void)await_lent(s, holder);
	end_child(urgent);
	while (priority_of(holder) < 0)
		nap();
	s->leave = 1;
	CHECK(shm_lock(&s->lock.word));
	shm_unlock(&s->lock.word);
	end_child(holder);
	(void)lend_once(s);
	(void)munmap(s, sizeof(*s));
}

/* Many lend at once, and to each other. */
#define N_URGENT 6u
#define N_URGENT_TURNS 100u

static void take_urgent_turns(struct shared *s)
{
	const struct sched_param param = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &param) < 0) {
		s->refused = 1;
		_exit(0);
	}
	for (unsigned i = 0; i < N_URGENT_TURNS; i++) {
		if (!shm_lock(&s->lock.word))
			_exit(1);
		s->count++;
		/* The others come and wait. */
		if (i % 4 == 0)
			nap();
		shm_unlock(&s->lock.word);
	}
	_exit(0);
}

static void many_real_time_waiters(void)
{
	struct shared *s = shared_new();
	int status;

	for (unsigned i = 0; i < N_URGENT; i++)
		if (fork_child() == 0)
			take_urgent_turns(s);
	for (unsigned i = 0; i < N_URGENT; i++) {
		REQUIRE(wait(&status) > 0);
		CHECK_INT(status, ==, 0);
	}
	if (s->refused)
		test_skip("this process may not have a real-time priority");
	else
		CHECK_INT(s->count, ==, N_URGENT * N_URGENT_TURNS);
	CHECK_INT(s->lock.word & FUTEX_TID_MASK, ==, 0);
	(void)munmap(s, sizeof(*s));
}

static const struct test tests[] = {
	TEST(processes_exclude_each_other),
	TEST(a_killed_holder_is_recovered),
	TEST(holders_killed_at_random_moments),
	TEST(a_thread_does_not_wait_for_itself),
	TEST(nor_does_one_that_holds_two),
	TEST(namesakes_exclude_each_other),
	TEST(namesakes_are_killed),
	TEST(a_real_time_waiter_lends_its_priority),
	TEST(somebody_else_was_named),
	TEST(killed_while_priority_is_lent),
	TEST(many_real_time_waiters),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
