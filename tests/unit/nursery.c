/* libpulc/nursery.c: who holds a socket before its upgrade. */
#include <pulc/process.h>
#include <pulc/stream.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
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

/* What libpulc does first in a child of fork(). */
static void child_begins(void)
{
	nursery_forked();
	client_prepare();
}

/* An entry that this process keeps, for it has made enough sockets. */
static uint32_t keeper(void)
{
	uint32_t entry = 0;

	child_begins();
	for (unsigned i = 0; i < 20; i++) {
		entry = nursery_enter();
		nursery_leave(entry);
	}
	CHECK_INT(nursery_enter(), ==, entry);
	CHECK(nursery_alone(entry));
	nursery_leave(entry);
	return entry;
}

static void who_makes_many_keeps_an_entry(void)
{
	uint32_t entry = keeper(), second;

	CHECK_INT(nursery_enter(), ==, entry);
	second = nursery_enter();
	CHECK_INT(second, !=, entry);
	CHECK(nursery_alone(entry));
	CHECK(nursery_alone(second));
	nursery_leave(entry);
	nursery_leave(second);
}

static void what_is_kept_is_not_the_childs(void)
{
	uint32_t entry = keeper();
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		uint32_t other;

		child_begins();
		other = nursery_enter();
		_exit(other == entry || !nursery_alone(other));
	}
	REQUIRE(pid > 0);
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	CHECK_INT(nursery_enter(), ==, entry);
	nursery_leave(entry);
}

/* A child that closes its parent's socket takes it from its parent neither, nor one that libc has
 * not forked. */
static void a_child_gives_up_only_itself(void)
{
	uint32_t entry = keeper();
	int status;

	CHECK_INT(nursery_enter(), ==, entry);
	for (unsigned bare = 0; bare < 2; bare++) {
		pid_t pid = bare ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();

		if (pid == 0) {
			if (!bare)
				child_begins();
			nursery_leave(entry);
			_exit(nursery_alone(nursery_enter()) == bare);
		}
		REQUIRE(pid > 0);
		REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
		CHECK_INT(status, ==, 0);
		CHECK(nursery_alone(entry));
	}
	nursery_leave(entry);
}

static void what_is_shared_is_not_kept(void)
{
	uint32_t entry = keeper();
	pid_t pid = sleeper();

	CHECK_INT(nursery_enter(), ==, entry);
	nursery_share(entry, pid);
	nursery_leave(entry);
	CHECK_INT(nursery_enter(), !=, entry);
	reap(pid);
}

/* Whatever their numbers: somebody unknown, and one that has only bits of ours. */
static void numbers_are_compared_whole(void)
{
	uint32_t me = (uint32_t)getpid(), others[] = { PULC_ANYBODY, me & (me - 1), me & -me };

	for (unsigned i = 0; i < 3; i++) {
		uint32_t entry = keeper();

		if (others[i] == 0 || others[i] == me)
			continue;
		CHECK_INT(nursery_enter(), ==, entry);
		nursery_share(entry, (int)others[i]);
		nursery_leave(entry);
		CHECK_INT(nursery_alone(nursery_enter()), ==, true);
	}
}

static void nothing_is_kept_while_a_child_begins(void)
{
	uint32_t entry = keeper(), next;

	CHECK_INT(nursery_enter(), ==, entry);
	nursery_fork_begins(false);
	nursery_leave(entry);
	next = nursery_enter();
	nursery_fork_done();
	CHECK_INT(next, !=, entry);
	nursery_leave(next);
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

/* The child of a fork under way may be about to enter itself where its parent has just left. */
static void what_a_child_may_enter_yet_is_not_the_next(void)
{
	uint32_t entry = nursery_enter(), next;

	nursery_fork_begins(false);
	nursery_leave(entry);
	next = nursery_enter();
	CHECK(next != 0 && next != entry);
	nursery_fork_done();
	nursery_leave(next);
	CHECK_INT(nursery_enter(), ==, next);
	nursery_leave(next);
}

/* ---- pid namespaces -------------------------------------------------------------------------- */

/* A child that is process 1 of its own; -1: not here, which is said. */
static pid_t child_elsewhere(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);

	if (pid < 0)
		test_skip("no pid namespaces: %s", strerrorname_np(errno));
	return pid;
}

/* Neither takes the other for dead, nor for itself, whatever becomes of them. */
static void holders_in_other_namespaces_are_never_gone(void)
{
	uint32_t entry = nursery_enter();
	int status;
	pid_t pid = child_elsewhere();

	if (pid == 0) {
		uint32_t inherited, own;

		child_begins();
		inherited = nursery_inherit(entry);
		nursery_settle();
		own = nursery_enter();
		_exit(nursery_alone(inherited) || !nursery_alone(own));
	}
	if (pid > 0) {
		REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
		CHECK_INT(status, ==, 0);
		CHECK(!nursery_alone(entry));
	}
	nursery_leave(entry);
}

/* What it begins there is a family like any other. */
static void a_family_begins_in_a_namespace(void)
{
	int status;
	pid_t pid = child_elsewhere(), child;

	if (pid == 0) {
		uint32_t entry;
		bool shared, alone;

		child_begins();
		nursery_settle();
		entry = nursery_enter();
		child = sleeper();
		nursery_share(entry, child);
		shared = !nursery_alone(entry);
		reap(child);
		alone = nursery_alone(entry);
		_exit(!shared || !alone);
	}
	if (pid > 0) {
		REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
		CHECK_INT(status, ==, 0);
	}
}

static bool is_given_away(uint32_t entry)
{
	bool given = false;

	for (unsigned i = 0; i < 4; i++)
		given |= nursery_enter() == entry;
	return given;
}

/* A server that is process 1 of a container is no less somebody: what it has is not free when its
 * child has gone. */
static void process_one_is_somebody(void)
{
	int status;
	pid_t pid = child_elsewhere(), child;

	if (pid == 0) {
		uint32_t entry;

		child_begins();
		nursery_settle();
		entry = nursery_enter();
		child = fork();
		if (child == 0) {
			child_begins();
			(void)nursery_inherit(entry);
			nursery_leave(entry);
			_exit(0);
		}
		REQUIRE_INT(waitpid(child, NULL, 0), ==, child);
		_exit(!nursery_alone(entry) || is_given_away(entry));
	}
	if (pid > 0) {
		REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
		CHECK_INT(status, ==, 0);
	}
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

/* ---- streams --------------------------------------------------------------------------------- */

static _Atomic bool is_over;
static unsigned n_outside;

static void count_outside(struct pulc_stream *s)
{
	n_outside += s->nursery == 0;
}

/* Under the lock that a fork holds. */
static void *look_as_a_fork_does(void *arg)
{
	while (!is_over) {
		REQUIRE(client_lock());
		stream_list_each(count_outside);
		client_unlock();
	}
	return arg;
}

/* Where a child is to enter itself is known of each stream that a fork finds. */
static void what_a_fork_finds_is_entered(void)
{
	pulc_stream *s;
	pthread_t thread;

	REQUIRE_INT(pthread_create(&thread, NULL, look_as_a_fork_does, NULL), ==, 0);
	for (unsigned i = 0; i < 20000; i++) {
		REQUIRE_INT(pulc_stream_new(-1, PULC_CONNECTED, &s), ==, 0);
		(void)pulc_stream_unref(s);
	}
	is_over = true;
	REQUIRE_INT(pthread_join(thread, NULL), ==, 0);
	CHECK_INT(n_outside, ==, 0);
}

/* The child has that of a thread that was making it: of a socket of datagrams the rest is not there
 * yet. */
static void so_is_what_was_being_made(void)
{
	struct datagram *d;
	int fds[2], said[2], status;
	pulc_stream *s;
	char c;
	pid_t pid;

	REQUIRE_INT(pipe(fds), ==, 0);
	REQUIRE_INT(pipe(said), ==, 0);
	REQUIRE_INT(pulc_stream_new_datagram(-1, AF_INET, &s), ==, 0);
	d = s->datagram;
	s->datagram = NULL;
	pid = fork();
	if (pid == 0) {
		child_begins();
		s->handler->forked(s);
		(void)close(fds[1]);
		_exit(write(said[1], "", 1) != 1 || read(fds[0], &c, 1) != 0);
	}
	s->datagram = d;
	REQUIRE(pid > 0);
	REQUIRE_INT(read(said[0], &c, 1), ==, 1);
	CHECK(!nursery_alone(s->nursery));
	(void)close(fds[1]);
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	CHECK(nursery_alone(s->nursery));
	(void)pulc_stream_unref(s);
	(void)close(fds[0]);
	(void)close(said[0]);
	(void)close(said[1]);
}

/* How many of so many are not to be had; those that are stay in use. */
static unsigned enter_many(uint32_t *ret_entries, unsigned n)
{
	unsigned n_none = 0;

	for (unsigned i = 0; i < n; i++) {
		ret_entries[i] = nursery_enter();
		n_none += ret_entries[i] == 0;
	}
	return n_none;
}

static void leave_many(const uint32_t *entries, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		nursery_leave(entries[i]);
}

/* A server and its client, forked before, with a thousand connections each: the second one begins
 * when the first has them all. */
static void a_forked_child_finds_room_beside_its_parent(void)
{
	enum { N = 2000 };
	static uint32_t entries[N];
	int pipe_fds[2], status;
	char go;
	pid_t pid;

	nursery_leave(nursery_enter());
	REQUIRE(pipe(pipe_fds) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(read(pipe_fds[0], &go, 1) != 1 || enter_many(entries, N) > 0);
	CHECK_INT(enter_many(entries, N), ==, 0);
	REQUIRE(write(pipe_fds[1], "", 1) == 1);
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	leave_many(entries, N);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
}

/* Ten thousand that stay side by side, and many more that come and go, all the way round to them
 * and past them. */
static void entries_are_found_behind_others_that_stay(void)
{
	enum { N = 10000 };
	static uint32_t entries[N];

	CHECK_INT(enter_many(entries, N), ==, 0);
	for (unsigned i = 0; i < 70000; i++) {
		uint32_t entry = nursery_enter();

		REQUIRE(entry != 0);
		nursery_leave(entry);
	}
	leave_many(entries, N);
}

static const struct test tests[] = {
	TEST(maker_is_alone),
	TEST(who_makes_many_keeps_an_entry),
	TEST(what_is_kept_is_not_the_childs),
	TEST(a_child_gives_up_only_itself),
	TEST(what_is_shared_is_not_kept),
	TEST(numbers_are_compared_whole),
	TEST(nothing_is_kept_while_a_child_begins),
	TEST(child_shares_until_it_is_gone),
	TEST(somebody_unknown_shares_for_good),
	TEST(more_than_there_is_room_for_share_for_good),
	TEST(nothing_is_alone_while_a_program_starts),
	TEST(what_a_child_may_enter_yet_is_not_the_next),
	TEST(a_forked_child_finds_room_beside_its_parent),
	TEST(entries_are_found_behind_others_that_stay),
	TEST(holders_in_other_namespaces_are_never_gone),
	TEST(a_family_begins_in_a_namespace),
	TEST(process_one_is_somebody),
	TEST(entries_are_used_again),
	TEST(what_a_fork_finds_is_entered),
	TEST(so_is_what_was_being_made),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
