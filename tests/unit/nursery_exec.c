/* libpulc/nursery.c: who is about to execute a program, and may come back. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "harness.h"
#include "private.h"

static void reap(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	REQUIRE_INT(waitpid(pid, NULL, 0), ==, pid);
}

static int to_child[2], to_parent[2];

static void say(const int to[2])
{
	REQUIRE_INT(write(to[1], "", 1), ==, 1);
}

static void await(const int from[2])
{
	char byte;

	REQUIRE_INT(read(from[0], &byte, 1), ==, 1);
}

/* A child that has told what it is about to do, and waits to be told to do it. */
static pid_t executing_child(uint32_t entry)
{
	pid_t pid;

	REQUIRE(pipe2(to_child, O_CLOEXEC) == 0 && pipe2(to_parent, O_CLOEXEC) == 0);
	pid = fork();
	if (pid)
		return pid;
	/* What libpulc does first in a child of fork(). */
	nursery_forked();
	client_prepare();
	(void)nursery_inherit(entry);
	REQUIRE(client_lock());
	nursery_leave_for_now(entry);
	client_unlock();
	nursery_executes();
	say(to_parent);
	await(to_child);
	return 0;
}

static void close_pipes(void)
{
	for (int i = 0; i < 2; i++) {
		(void)close(to_child[i]);
		(void)close(to_parent[i]);
	}
}

static void whoever_may_come_back_shares(void)
{
	uint32_t entry = nursery_enter();
	pid_t pid = executing_child(entry);

	if (pid == 0) {
		REQUIRE(client_lock());
		nursery_return(entry);
		client_unlock();
		nursery_exec_failed();
		say(to_parent);
		(void)pause();
	}
	await(to_parent);
	CHECK(!nursery_alone(entry));
	say(to_child);
	await(to_parent);
	CHECK(!nursery_alone(entry));
	reap(pid);
	CHECK(nursery_alone(entry));
	nursery_leave(entry);
	close_pipes();
}

static void whoever_has_become_another_program_does_not(void)
{
	uint32_t entry = nursery_enter();
	pid_t pid = executing_child(entry);
	char byte;

	if (pid == 0) {
		(void)execl("/bin/sleep", "sleep", "1000", NULL);
		_exit(1);
	}
	await(to_parent);
	CHECK(!nursery_alone(entry));
	say(to_child);
	(void)close(to_parent[1]);
	CHECK_INT(read(to_parent[0], &byte, 1), ==, 0);
	CHECK_INT(kill(pid, 0), ==, 0);
	CHECK(nursery_alone(entry));
	reap(pid);
	nursery_leave(entry);
	close_pipes();
}

static void nor_does_whoever_is_killed_before(void)
{
	uint32_t entry = nursery_enter();

	/* More than there are words for. */
	for (int i = 0; i < 40; i++) {
		pid_t pid = executing_child(entry);

		if (pid == 0)
			_exit(1);
		await(to_parent);
		CHECK(!nursery_alone(entry));
		reap(pid);
		CHECK(nursery_alone(entry));
		close_pipes();
	}
	nursery_leave(entry);
}

static const struct test tests[] = {
	TEST(whoever_may_come_back_shares),
	TEST(whoever_has_become_another_program_does_not),
	TEST(nor_does_whoever_is_killed_before),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
