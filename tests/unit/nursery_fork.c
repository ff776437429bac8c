/* libpulc/nursery.c, forks.c: children that are late to say that they run. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "harness.h"
#include "private.h"

/* A child that says that it runs when it is told to. */
static pid_t late_child(int *ret_tell, bool is_known)
{
	int fds[2];
	char c;
	pid_t pid;

	REQUIRE_INT(pipe(fds), ==, 0);
	nursery_fork_begins(is_known);
	pid = _Fork();
	if (pid == 0) {
		(void)close(fds[1]);
		(void)!read(fds[0], &c, 1);
		nursery_fork_done();
		_exit(0);
	}
	REQUIRE(pid > 0);
	if (is_known)
		nursery_fork_told(pid);
	(void)close(fds[0]);
	*ret_tell = fds[1];
	return pid;
}

static uint64_t msec_clock(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Is a fork noticed that begins before a child of another says what it should have said long
 * before? False, too, if that took so long that it is over. */
static bool is_noticed_beside_a_late_child(uint32_t entry, uint64_t *ret_msec)
{
	int status, tell;
	pid_t pid = late_child(&tell, false);
	bool alone;

	while (!nursery_alone(entry))
		(void)usleep(1000);
	*ret_msec = msec_clock();
	nursery_fork_begins(false);
	(void)close(tell);
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	REQUIRE_INT(status, ==, 0);
	alone = nursery_alone(entry);
	*ret_msec = msec_clock() - *ret_msec;
	nursery_fork_done();
	return !alone;
}

static void a_late_child_speaks_for_itself_only(void)
{
	uint32_t entry = nursery_enter();
	uint64_t msec;
	bool noticed;

	do
		noticed = is_noticed_beside_a_late_child(entry, &msec);
	while (!noticed && msec > 500);
	CHECK(noticed);
	CHECK(nursery_alone(entry));
	/* Nor is one missed that begins after a child that nobody has counted. */
	nursery_fork_done();
	nursery_fork_begins(false);
	CHECK(!nursery_alone(entry));
	nursery_fork_done();
	nursery_leave(entry);
}

/* Is this process never alone with the entry, for longer than a child is waited for that nobody
 * knows? */
static bool is_shared_for_long(uint32_t entry)
{
	uint64_t begun = msec_clock();

	while (msec_clock() - begun < 1500) {
		if (nursery_alone(entry))
			return false;
		(void)usleep(10000);
	}
	return true;
}

static void a_child_that_gets_no_processor_is_waited_for_as_long_as_it_lives(void)
{
	uint32_t entry = nursery_enter();
	int status, tell[2];
	pid_t late = late_child(&tell[0], true), dead = late_child(&tell[1], true);

	CHECK(is_shared_for_long(entry));
	(void)kill(dead, SIGKILL);
	REQUIRE_INT(waitpid(dead, NULL, 0), ==, dead);
	CHECK(!nursery_alone(entry));
	(void)close(tell[1]);
	(void)close(tell[0]);
	REQUIRE_INT(waitpid(late, &status, 0), ==, late);
	CHECK_INT(status, ==, 0);
	CHECK(nursery_alone(entry));
	nursery_leave(entry);
}

/* One that is about to tell is there, and so may his child be. */
static void a_fork_whose_child_is_not_told_yet_is_under_way(void)
{
	uint32_t entry = nursery_enter();

	nursery_fork_begins(true);
	CHECK(is_shared_for_long(entry));
	nursery_fork_told(0);
	CHECK(nursery_alone(entry));
	nursery_leave(entry);
}

static const struct test tests[] = {
	TEST(a_late_child_speaks_for_itself_only),
	TEST(a_child_that_gets_no_processor_is_waited_for_as_long_as_it_lives),
	TEST(a_fork_whose_child_is_not_told_yet_is_under_way),
};

int main(int argc, char **argv)
{
	client_prepare();
	return TESTS_RUN(tests, argc, argv);
}
