/*
 * A process that psid takes, which learns its number; and one that psid does not take: every call
 * says why, and the next one says the same.
 */
#include <pulc/block.h>
#include <pulc/sem.h>
#include <pulc/tag.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "paths.h"
#include "psid/fake_client.h"
#include "psid/native_case.h"

/* All within the half second in which no psid is looked for again. */
static void every_call_says(int e)
{
	const struct pulc_tag any = { .peer = PULC_ANY_PEER };
	struct pulc_address a = { .port = 1 };
	struct pulc_tag_path path;
	struct pulc_tagged m;
	const void *lent;
	char buf[8];
	pulc_port *p;
	pulc_sem *sem;
	pulc_op *op;
	uint32_t n;
	void *block;

	for (unsigned i = 0; i < 3; i++)
		MUST_IS(pulc_attach(), e);
	MUST_IS(pulc_port_open(PULC_D, 0, NULL, &p), e);
	MUST_IS(pulc_port_take(1, 0, &p), e);
	MUST_IS(pulc_find("nobody", &a), e);
	MUST_IS(pulc_node(&n), e);
	MUST_IS(pulc_process(&n), e);
	MUST_IS(pulc_peer_find(&a, &n), e);
	MUST_IS(pulc_progress(&(uint64_t){ 0 }, 0), e);
	MUST_IS(pulc_progress_thread(true), e);
	MUST_IS(pulc_fd(), e);
	MUST_IS(pulc_select(&(struct pulc_wait){ .tag = &any }, 1, NULL, 0, 0), e);
	MUST_IS(pulc_tag_send(0, 1, "x", 1), e);
	MUST_IS(pulc_tag_isend(0, 1, "x", 1, &op), e);
	MUST_IS(pulc_tag_receive(&any, buf, 8, &m), e);
	MUST_IS(pulc_tag_ireceive(&any, buf, 8, &op), e);
	MUST_IS(pulc_tag_take(&any, 8, &lent, &m), e);
	MUST_IS(pulc_tag_probe(&any, 0, &m), e);
	MUST_IS(pulc_tag_path(0, &path), e);
	MUST_IS(pulc_alloc(100, 0, &block), e);
	MUST_IS(pulc_sem_open("sem", 1, 0, &sem), e);
	MUST_IS(pulc_attach(), e);
}

/* Nobody accepts there any more. */
static void await_end_of(const char *socket_path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd, e;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", socket_path);
	do {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		e = connect(fd, (struct sockaddr *)&a, sizeof(a));
		(void)close(fd);
	} while (e == 0);
}

static void without_psid(void)
{
	MUST_IS(kill(native_psid(), SIGKILL), 0);
	await_end_of(native_daemon()->socket);
	every_call_says(-ENOENT);
}

static void no_psid(void)
{
	native_role *const roles[] = { without_psid };

	native_run_lost(roles, 1);
}

/* With a port of its own: to which it can send, and from which it can receive, as ever. */
static void after_its_end(void)
{
	const struct pulc_address other = { .port = 12345 };
	pulc_port *p = native_open(PULC_D, NULL), *q;
	struct pulc_address own = pulc_port_address(p);
	struct iovec iov = { &(char){ 0 }, 1 };
	pulc_op *op;
	int e;

	MUST_IS(kill(native_psid(), SIGKILL), 0);
	await_end_of(native_daemon()->socket);
	do
		e = pulc_port_take(7, 0, &q);
	while (e == -ENOTCONN);
	MUST_IS(e, -ENOENT);
	MUST_IS(pulc_send(p, &other, "x", 1, 0), -ENOENT);
	MUST_IS(pulc_isend(p, &other, "x", 1, &op), -ENOENT);
	MUST_IS(pulc_receivev(p, &iov, 1, &other, NULL, 0), -ENOENT);
	MUST_IS(pulc_send(p, &own, "x", 1, 0), 1);
	MUST_IS(pulc_receive(p, iov.iov_base, 1, NULL, 0), 1);
	MUST_IS(pulc_port_close(p), 0);
	every_call_says(-ENOENT);
}

static void a_psid_that_has_ended(void)
{
	native_role *const roles[] = { after_its_end };

	native_run_lost(roles, 1);
}

/* ---- under a psid of these cases' own -------------------------------------------------------- */

/* In a process that looks for a psid in that folder only. */
static void run_alone(const char *dir, native_role *role)
{
	int status;
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)unsetenv("PULC_SOCKET");
		(void)setenv("PULC_RUNTIME_DIR", dir, 1);
		wire_remember();
		role();
		_exit(0);
	}
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
}

static void one_too_many(void)
{
	every_call_says(-EPERM);
}

static void a_psid_that_is_full(void)
{
	static const char *const settings[] = { "PULC_MAX_CLIENTS_PER_USER=1", NULL };
	struct fake_client c;
	struct daemon d;

	daemon_start(&d, false, settings);
	fake_attach(&c, &d, FAKE_SELF);
	run_alone(d.dir, one_too_many);
	fake_close(&c);
	CHECK_INT(daemon_stop(&d), ==, 0);
}

static int listener;

/* As many as it lets wait. */
static void fill(const struct sockaddr_un *a)
{
	int fd, e;

	do {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		e = connect(fd, (const struct sockaddr *)a, sizeof(*a));
	} while (e == 0);
	REQUIRE_INT(errno, ==, EAGAIN);
	(void)close(fd);
}

static void hang_up_on_everybody(void)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		(void)close(accept(listener, NULL, NULL));
}

/* Too busy to accept; and then one that closes the channel without a word. */
static void called_in_vain(void)
{
	pid_t pid;

	MUST_IS(pulc_attach(), -ETIMEDOUT);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
		hang_up_on_everybody();
	MUST_IS(pulc_attach(), -ENOENT);
	MUST_IS(kill(pid, SIGKILL), 0);
	MUST_IS(waitpid(pid, NULL, 0), pid);
}

static void a_psid_that_does_not_accept(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char dir[] = "/tmp/pulc-attach-test.XXXXXX";

	REQUIRE(mkdtemp(dir) != NULL);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/psid.sock", dir);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	REQUIRE_INT(bind(listener, (struct sockaddr *)&a, sizeof(a)), ==, 0);
	REQUIRE_INT(listen(listener, 0), ==, 0);
	fill(&a);
	run_alone(dir, called_in_vain);
	(void)close(listener);
	REQUIRE_INT(unlink(a.sun_path), ==, 0);
	REQUIRE_INT(rmdir(dir), ==, 0);
}

/* ---- a process's own number ------------------------------------------------------------------ */

static void tell_own_number(void)
{
	uint32_t own = 0, again = 0;
	pulc_port *p = native_open(PULC_D, "told");
	uint32_t peer = native_peer_named("asks");

	MUST_IS(pulc_process(&own), 0);
	MUST(own != 0 && own != peer);
	MUST_IS(pulc_tag_send(peer, 1, &own, sizeof(own)), sizeof(own));
	MUST_IS(pulc_process(&again), 0);
	MUST_IS(again, own);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

/* What the others see, each in its way. */
static void ask_for_it(void)
{
	const struct pulc_tag want = { .tag = 1, .mask = PULC_TAG_EXACT, .peer = PULC_ANY_PEER };
	pulc_port *p = native_open(PULC_D, "asks");
	struct pulc_tagged m;
	uint32_t told;

	MUST_IS(pulc_tag_receive(&want, &told, sizeof(told), &m), sizeof(told));
	MUST_IS(m.peer, told);
	MUST_IS(native_peer_named("told"), told);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

#define N_THREADS 8u

static pthread_barrier_t at_once;
static uint32_t numbers[N_THREADS];

static void *attach_at_once(void *number)
{
	(void)pthread_barrier_wait(&at_once);
	MUST_IS(pulc_process(number), 0);
	return NULL;
}

/* The first call of the process, in each of them. */
static void attach_in_threads(void)
{
	pthread_t threads[N_THREADS];

	MUST_IS(pthread_barrier_init(&at_once, NULL, N_THREADS), 0);
	for (unsigned i = 0; i < N_THREADS; i++)
		MUST_IS(pthread_create(&threads[i], NULL, attach_at_once, &numbers[i]), 0);
	for (unsigned i = 0; i < N_THREADS; i++)
		MUST_IS(pthread_join(threads[i], NULL), 0);
	for (unsigned i = 0; i < N_THREADS; i++)
		MUST(numbers[i] != 0 && numbers[i] == numbers[0]);
}

static void threads_attach_as_one(void)
{
	for (unsigned i = 0; i < 20; i++)
		NATIVE_RUN(attach_in_threads);
}

static void a_process_knows_its_number(void)
{
	NATIVE_RUN(tell_own_number, ask_for_it);
}

static const struct test tests[] = {
	TEST(a_process_knows_its_number),  TEST(no_psid),
	TEST(a_psid_that_has_ended),	   TEST(a_psid_that_is_full),
	TEST(a_psid_that_does_not_accept), TEST(threads_attach_as_one),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
