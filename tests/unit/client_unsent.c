/* libpulc/unsent.c, waitset.c: what a psid that does not read has no room for it hears later. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/pulc.h>

#include "private.h"
#include "psid/fake_client.h"
#include "unsent.h"

/* More messages than the channel holds. */
#define N_PORTS 64u
#define NUMBER_FIRST 100u

static struct daemon psid;
static pulc_port *ports[N_PORTS];

/* One psid for all: the library remembers where it found it. */
static void open_all(void)
{
	if (!psid.pid)
		daemon_start(&psid, false, NULL);
	(void)unsetenv("PULC_SOCKET");
	(void)setenv("PULC_RUNTIME_DIR", psid.dir, 1);
	for (unsigned i = 0; i < N_PORTS; i++)
		REQUIRE_INT(pulc_port_open(PULC_D, NUMBER_FIRST + i, NULL, &ports[i]), ==, 0);
}

/* psid stands still until it is told to go on, and its channel has little room. */
static void stop_psid(void)
{
	int status, little = 1;

	REQUIRE(setsockopt(client_channel(), SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)) == 0);

	REQUIRE(kill(psid.pid, SIGSTOP) == 0);
	REQUIRE(waitpid(psid.pid, &status, WUNTRACED) == psid.pid && WIFSTOPPED(status));
}

static void close_all(void)
{
	for (unsigned i = 0; i < N_PORTS; i++)
		CHECK_INT(pulc_port_close(ports[i]), ==, 0);
}

static void closed_ports_are_given_back(void)
{
	open_all();
	stop_psid();
	close_all();
	CHECK(unsent_any());
	REQUIRE(kill(psid.pid, SIGCONT) == 0);
	/* Had one of them not been given back it would be taken. */
	open_all();
	CHECK(!unsent_any());
	close_all();
}

/* A process that tells psid to go on, once nobody else holds the other end of `until`. */
static pid_t start_waker(const int until[2])
{
	pid_t pid = fork();
	char none;

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)close(until[1]);
	(void)!read(until[0], &none, 1);
	_exit(kill(psid.pid, SIGCONT) == 0 ? 0 : 1);
}

static void a_question_waits_for_room(void)
{
	int hold[2], status;
	struct pulc_address a;
	pid_t pid;

	open_all();
	REQUIRE(pipe2(hold, O_CLOEXEC) == 0);
	stop_psid();
	close_all();
	CHECK(unsent_any());
	pid = start_waker(hold);
	REQUIRE(pid > 0);
	(void)close(hold[1]);
	CHECK_INT(pulc_find("nobody", &a), ==, -ENOENT);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, ==, 0);
	(void)close(hold[0]);
}

static void look_until_told(void)
{
	for (unsigned i = 0; client_owes() && i < 30000; i++) {
		(void)poll(NULL, 0, 1);
		REQUIRE(client_lock());
		client_look();
		client_unlock();
	}
}

static void who_looks_sends_what_was_kept(void)
{
	open_all();
	stop_psid();
	close_all();
	REQUIRE(client_lock());
	unsent_say(PULC__WIRE__FROM_CLIENT__BODY_CLOSED, 4711);
	client_unlock();
	CHECK(client_owes());
	REQUIRE(kill(psid.pid, SIGCONT) == 0);
	look_until_told();
	CHECK(!unsent_any());
}

/* A thread that first sleeps while the channel is full: its peers are to know its bell, though none
 * is made later. */
static void bells_are_announced_later(void)
{
	pulc_waitset *set, *again;

	open_all();
	stop_psid();
	close_all();
	REQUIRE_INT(pulc_waitset_new(&set), ==, 0);
	CHECK_INT(set->generation, !=, client_generation());
	/* One that goes idle before, and is used again. */
	(void)pulc_waitset_free(set);
	REQUIRE_INT(pulc_waitset_new(&again), ==, 0);
	CHECK(again == set);
	CHECK(client_owes());
	REQUIRE(kill(psid.pid, SIGCONT) == 0);
	look_until_told();
	CHECK_INT(set->generation, ==, client_generation());
	(void)pulc_waitset_free(set);
}

static void psid_was_well(void)
{
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

static const struct test tests[] = {
	TEST(closed_ports_are_given_back),
	TEST(a_question_waits_for_room),
	TEST(who_looks_sends_what_was_kept),
	TEST(bells_are_announced_later),
	TEST(psid_was_well),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
