/* libpulc/nursery.c: who holds a socket before its upgrade. */
#include <pulc/process.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "private.h"

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	REQUIRE(pid > 0);
	return pid;
}

static void reap(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	REQUIRE_INT(waitpid(pid, NULL, 0), ==, pid);
}

static void maker_is_alone(void)
{
	uint32_t entry = nursery_enter();

	REQUIRE(entry != 0);
	CHECK(nursery_alone(entry));
	nursery_leave(entry);
}

static void child_shares_until_it_is_gone(void)
{
	uint32_t entry = nursery_enter();
	pid_t pid = sleeper();

	nursery_share(entry, pid);
	CHECK(!nursery_alone(entry));
	reap(pid);
	CHECK(nursery_alone(entry));
	nursery_leave(entry);
}

static void somebody_unknown_shares_for_good(void)
{
	uint32_t entry = nursery_enter();

	nursery_share(entry, PULC_ANYBODY);
	CHECK(!nursery_alone(entry));
	nursery_leave(entry);
}

static void more_than_there_is_room_for_share_for_good(void)
{
	uint32_t entry = nursery_enter();
	pid_t pids[5];

	for (unsigned i = 0; i < 5; i++) {
		pids[i] = sleeper();
		nursery_share(entry, pids[i]);
	}
	for (unsigned i = 0; i < 5; i++)
		reap(pids[i]);
	CHECK(!nursery_alone(entry));
	nursery_leave(entry);
}

static void nothing_is_alone_while_a_program_starts(void)
{
	uint32_t entry = nursery_enter();

	nursery_spawn_begins();
	CHECK(!nursery_alone(entry));
	nursery_spawn_done();
	CHECK(nursery_alone(entry));
	nursery_leave(entry);
}

/* A server that forks for each connection, or passes each on, goes on for ever. */
static void entries_are_used_again(void)
{
	pid_t pid = sleeper();
	uint32_t entry;

	for (unsigned i = 0; i < 200000; i++) {
		entry = nursery_enter();
		REQUIRE(entry != 0);
		nursery_share(entry, i % 2 ? PULC_ANYBODY : pid);
		nursery_leave(entry);
		if (i == 60000)
			reap(pid); /* from here on it is the dead that hold half of them */
	}
	entry = nursery_enter();
	CHECK(nursery_alone(entry));
	nursery_leave(entry);
}

static const struct test tests[] = {
	TEST(maker_is_alone),
	TEST(child_shares_until_it_is_gone),
	TEST(somebody_unknown_shares_for_good),
	TEST(more_than_there_is_room_for_share_for_good),
	TEST(nothing_is_alone_while_a_program_starts),
	TEST(entries_are_used_again),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
