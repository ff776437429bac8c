/* libpulc/upgrade.c, stream.c: what one thread has settled of a stream, another that waited must
 * not undo. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "private.h"
#include "psid/fake_client.h"
#include "upgrade.h"

static struct daemon psid;
static int fds[2];
static pulc_stream *stream;

/* One psid for all: the library remembers where it found it. */
static void begin(void)
{
	if (!psid.pid)
		daemon_start(&psid, false, NULL);
	(void)setenv("PULC_RUNTIME_DIR", psid.dir, 1);
	tcp_connect_pair(fds, AF_INET);
	REQUIRE_INT(pulc_stream_new(fds[0], PULC_CONNECTED, &stream), ==, 0);
	/* So many calls go by before a stream says anything. */
	for (unsigned i = 0; i < client_hint_after(); i++)
		upgrade_step(stream, fds[0]);
}

static void end(void)
{
	pulc_stream_closing(stream, fds[0]);
	stream = pulc_stream_unref(stream);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void psid_was_well(void)
{
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

static void *step(void *tid)
{
	atomic_store((_Atomic int *)tid, gettid());
	upgrade_step(stream, fds[0]);
	return NULL;
}

static void *unref(void *tid)
{
	atomic_store((_Atomic int *)tid, gettid());
	return pulc_stream_unref(stream);
}

/* The state letter of /proc/TID/stat. */
static char state_of_thread(int tid)
{
	char path[64], state = '?';
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = '?';
	if (f)
		(void)fclose(f);
	return state;
}

/* A thread that does what is said, asleep on the lock that the caller holds. */
static pthread_t start_waiting(void *(*what)(void *))
{
	static _Atomic int tid;
	pthread_t thread;

	tid = 0;
	REQUIRE(pthread_create(&thread, NULL, what, &tid) == 0);
	for (unsigned i = 0; i < 5000 && !(tid && state_of_thread(tid) == 'S'); i++)
		(void)poll(NULL, 0, 1);
	REQUIRE(state_of_thread(tid) == 'S');
	return thread;
}

static void a_waiting_step_keeps(int state)
{
	pthread_t thread;

	begin();
	REQUIRE(client_lock());
	thread = start_waiting(step);
	atomic_store(&stream->state, state);
	client_unlock();
	REQUIRE(pthread_join(thread, NULL) == 0);
	CHECK_INT(atomic_load(&stream->state), ==, state);
	atomic_store(&stream->state, STREAM_NEVER);
	end();
}

static void a_waiting_step_keeps_never(void)
{
	a_waiting_step_keeps(STREAM_NEVER);
}

static void a_waiting_step_keeps_attached(void)
{
	a_waiting_step_keeps(STREAM_ATTACHED);
}

static void a_step_that_did_not_wait_hints(void)
{
	begin();
	upgrade_step(stream, fds[0]);
	CHECK_INT(atomic_load(&stream->state), ==, STREAM_HINTED);
	end();
}

static bool is_listed;

static void look_for_stream(struct pulc_stream *s)
{
	is_listed |= s == stream;
}

/* As an upgrade does that arrives while the last reference is being given up. */
static void who_finds_a_stream_may_keep_it(void)
{
	pthread_t thread;

	begin();
	REQUIRE(client_lock());
	thread = start_waiting(unref);
	CHECK(pulc_stream_ref(stream) == stream);
	client_unlock();
	REQUIRE(pthread_join(thread, NULL) == 0);
	CHECK_INT(atomic_load(&stream->n_refs), ==, 1);
	is_listed = false;
	stream_list_each(look_for_stream);
	CHECK(is_listed);
	end();
}

static const struct test tests[] = {
	TEST(a_step_that_did_not_wait_hints),
	TEST(a_waiting_step_keeps_never),
	TEST(a_waiting_step_keeps_attached),
	TEST(who_finds_a_stream_may_keep_it),
	TEST(psid_was_well),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
