/*
 * Errors that the headers promise of every call, call by call: from a protocol's handler,
 * interrupted by a signal, beyond a limit, with arguments that make no sense. And tagged messages
 * for a process that is stopped: nothing fails, nothing is lost, nobody else waits.
 */
#include <pulc/block.h>
#include <pulc/sem.h>
#include <pulc/tag.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "psid/native_case.h"

#define NUMBER 20u
#define N_PORTS_MAX 2000u
#define N_SEMS_MAX 1000u
#define N_PIECES_MAX 1024

static const struct pulc_tag anything = { .peer = PULC_ANY_PEER };
static char buf[PULC_TAG_SHORT + 1];

/* ---- from a handler -------------------------------------------------------------------------- */

/* What the handler may try; the rest is the main program's. */
static struct {
	pulc_port *port;
	pulc_op *op, *tag_op;
	pulc_sem *sem;
	void *block;
	unsigned n_runs;
} given;

static void try_ports(void)
{
	struct pulc_address self = pulc_port_address(given.port);
	struct iovec iov = { buf, 1 };
	pulc_port *port;
	pulc_op *op;
	uint32_t n;

	MUST_IS(pulc_node(&n), -EDEADLK);
	MUST_IS(pulc_process(&n), -EDEADLK);
	MUST_IS(pulc_port_give(given.port, 1, 0), -EDEADLK);
	MUST_IS(pulc_port_take(0, 0, &port), -EDEADLK);
	MUST_IS(pulc_port_inherit(given.port, 0), -EDEADLK);
	MUST_IS(pulc_sendv(given.port, &self, &iov, 1, 0), -EDEADLK);
	MUST_IS(pulc_receivev(given.port, &iov, 1, NULL, NULL, 0), -EDEADLK);
	MUST_IS(pulc_isend(given.port, &self, buf, 1, &op), -EDEADLK);
	MUST_IS(pulc_isendv(given.port, &self, &iov, 1, &op), -EDEADLK);
	MUST_IS(pulc_ireceive(given.port, buf, 1, &op), -EDEADLK);
	MUST_IS(pulc_ireceivev(given.port, &iov, 1, NULL, 0, &op), -EDEADLK);
	MUST_IS(pulc_op_test(given.op), -EDEADLK);
	MUST_IS(pulc_op_wait(&given.op, 1, 0), -EDEADLK);
	MUST_IS(pulc_op_cancel(given.op), -EDEADLK);
	MUST_IS(pulc_op_end(given.op, NULL), -EDEADLK);
	MUST_IS(pulc_fd(), -EDEADLK);
	MUST_IS(pulc_arm(&(uint64_t){ 0 }), -EDEADLK);
}

static void try_tags(void)
{
	struct pulc_tag_path path;
	struct pulc_tagged m;
	const void *lent;
	pulc_op *op;

	MUST_IS(pulc_tag_send(0, 1, buf, 1), -EDEADLK);
	MUST_IS(pulc_tag_isend(0, 1, buf, 1, &op), -EDEADLK);
	MUST_IS(pulc_tag_receive(&anything, buf, 1, &m), -EDEADLK);
	MUST_IS(pulc_tag_ireceive(&anything, buf, 1, &op), -EDEADLK);
	MUST_IS(pulc_tag_end(given.tag_op, &m), -EDEADLK);
	MUST_IS(pulc_tag_probe(&anything, 0, &m), -EDEADLK);
	MUST_IS(pulc_tag_path(0, &path), -EDEADLK);
	MUST_IS(pulc_tag_take(&anything, 1, &lent, &m), -EDEADLK);
}

static int try_all(void *arg, const struct pulc_frame *f)
{
	struct pulc_alloc_state state;
	pulc_sem *sem;
	void *block;

	(void)arg, (void)f;
	try_ports();
	try_tags();
	MUST_IS(pulc_alloc(1, 0, &block), -EDEADLK);
	MUST_IS(pulc_free(given.block), -EDEADLK);
	MUST_IS(pulc_tag_give(0, 1, given.block, 1), -EDEADLK);
	MUST_IS(pulc_alloc_state(&state), -EDEADLK);
	MUST_IS(pulc_sem_open("other", 1, 0, &sem), -EDEADLK);
	MUST_IS(pulc_sem_close(given.sem), -EDEADLK);
	given.n_runs++;
	return 0;
}

/* All that was given to it is as it was. */
static void have_a_handler_try(void)
{
	const struct pulc_protocol p = { .arrived = try_all };
	struct pulc_frame f = { .protocol = NUMBER };

	given.port = native_open(PULC_D, NULL);
	given.op = native_receive_begin(given.port, buf, 1, NULL);
	given.tag_op = native_tag_receive(anything, buf, 1);
	MUST_IS(pulc_alloc(1, 0, &given.block), 0);
	MUST_IS(pulc_sem_open("sem", 1, 0, &given.sem), 1);
	MUST_IS(pulc_protocol_register(NUMBER, &p), 0);
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	MUST_IS(given.n_runs, 1);
	MUST_IS(pulc_op_cancel(given.op), 0);
	MUST_IS(pulc_op_end(given.op, NULL), -ECANCELED);
	MUST_IS(pulc_op_cancel(given.tag_op), 0);
	MUST_IS(pulc_tag_end(given.tag_op, NULL), -ECANCELED);
	MUST_IS(pulc_free(given.block), 0);
	MUST_IS(pulc_sem_close(given.sem), 0);
	MUST_IS(pulc_port_close(given.port), 0);
}

static void a_handler_may_not_wait(void)
{
	NATIVE_RUN(have_a_handler_try);
}

/* ---- interrupted ----------------------------------------------------------------------------- */

static void nothing(int number)
{
	(void)number;
}

/* Again and again, so that one comes while the call waits. */
static timer_t begin_signals(void)
{
	const struct itimerspec often = { { .tv_nsec = 2000000 }, { .tv_nsec = 2000000 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct sigaction action = { .sa_handler = nothing };
	timer_t timer;

	MUST_IS(sigaction(SIGUSR1, &action, NULL), 0);
	MUST_IS(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	MUST_IS(timer_settime(timer, 0, &often, NULL), 0);
	return timer;
}

static void be_interrupted_in_ports(pulc_port *p)
{
	struct pulc_wait wait = { .port = p };
	struct iovec iov = { buf, 1 };
	pulc_op *op = native_receive_begin(p, buf, 1, NULL);
	uint64_t seen = 0;
	pulc_port *other;

	MUST_IS(pulc_op_wait(&op, 1, -1), -EINTR);
	MUST_IS(pulc_op_end(op, NULL), -EINTR);
	MUST_IS(pulc_op_cancel(op), 0);
	MUST_IS(pulc_op_end(op, NULL), -ECANCELED);
	MUST_IS(pulc_receive(p, buf, 1, NULL, 0), -EINTR);
	MUST_IS(pulc_receivev(p, &iov, 1, NULL, NULL, 0), -EINTR);
	MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_PEEK), -EINTR);
	MUST_IS(pulc_select(&wait, 1, NULL, 0, -1), -EINTR);
	MUST_IS(pulc_progress(&seen, -1), -EINTR);
	MUST_IS(pulc_port_take(0, -1, &other), -EINTR);
	MUST_IS(pulc_port_give(p, native_pid_of(1), -1), -EINTR);
}

/* No more is taken of it before it reads. */
static void be_interrupted_in_sends(pulc_port *p)
{
	struct pulc_address to = native_find("unread");
	ssize_t n;

	do
		n = pulc_send(p, &to, buf, sizeof(buf), PULC_DONTWAIT);
	while (n > 0);
	MUST_IS(n, -EAGAIN);
	MUST_IS(pulc_send(p, &to, buf, 1, 0), -EINTR);
}

static void be_interrupted(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_tagged m;
	const void *lent;
	timer_t timer;
	pulc_sem *sem;
	pulc_op *op;

	MUST_IS(pulc_sem_open("none", 0, 0, &sem), 1);
	timer = begin_signals();
	be_interrupted_in_ports(p);
	be_interrupted_in_sends(p);
	MUST_IS(pulc_tag_take(&anything, 1, &lent, &m), -EINTR);
	op = native_tag_receive(anything, buf, 1);
	MUST_IS(pulc_tag_end(op, &m), -EINTR);
	MUST_IS(pulc_op_cancel(op), 0);
	MUST_IS(pulc_tag_end(op, &m), -ECANCELED);
	MUST_IS(pulc_sem_wait(sem, -1), -EINTR);
	MUST_IS(timer_delete(timer), 0);
	native_reach(1);
	MUST_IS(pulc_sem_close(sem), 0);
	MUST_IS(pulc_port_close(p), 0);
}

/* Joined with the other one, never read, and wanting no port. */
static void leave_unread(void)
{
	pulc_port *p = native_open(PULC_M, "unread");

	native_known_as(1);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void a_signal_ends_what_waits(void)
{
	NATIVE_RUN(be_interrupted, leave_unread);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void open_too_many(void)
{
	static pulc_port *ports[N_PORTS_MAX];
	static pulc_sem *sems[N_SEMS_MAX];
	unsigned n = 0;
	int e;

	while (n < N_PORTS_MAX && (e = pulc_port_open(PULC_D, 0, NULL, &ports[n])) == 0)
		n++;
	MUST_IS(e, -EMFILE);
	MUST_IS(pulc_port_close(ports[--n]), 0);
	MUST_IS(pulc_port_open(PULC_D, 0, NULL, &ports[n++]), 0);
	while (n > 0)
		MUST_IS(pulc_port_close(ports[--n]), 0);
	while (n < N_SEMS_MAX && (e = pulc_sem_open(NULL, 1, 0, &sems[n])) == 1)
		n++;
	MUST_IS(e, -EMFILE);
	while (n > 0)
		MUST_IS(pulc_sem_close(sems[--n]), 0);
}

static void count_too_far(void)
{
	pulc_sem *sem;

	MUST_IS(pulc_sem_open("many", PULC_SEM_MAX, 0, &sem), 1);
	MUST_IS(pulc_sem_post(sem), -EOVERFLOW);
	MUST_IS(pulc_sem_wait(sem, 0), 0);
	MUST_IS(pulc_sem_post(sem), 0);
	MUST_IS(pulc_sem_post(sem), -EOVERFLOW);
	MUST_IS(pulc_sem_close(sem), 0);
}

static void limits_are_told(void)
{
	NATIVE_RUN(open_too_many);
	NATIVE_RUN(count_too_far);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void ask_for_nonsense(void)
{
	static struct iovec iov[N_PIECES_MAX + 1];
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address self = pulc_port_address(p);
	const size_t too_long = (size_t)SSIZE_MAX + 1;
	pulc_op *op = native_receive_begin(p, buf, 1, NULL), *none = NULL;
	struct pulc_tagged m;
	void *block;

	MUST_IS(pulc_sendv(p, &self, iov, N_PIECES_MAX + 1, 0), -EINVAL);
	MUST_IS(pulc_sendv(p, &self, iov, -1, 0), -EINVAL);
	MUST_IS(pulc_receivev(p, iov, N_PIECES_MAX + 1, NULL, NULL, 0), -EINVAL);
	MUST_IS(pulc_receivev(p, iov, -1, NULL, NULL, 0), -EINVAL);
	MUST_IS(pulc_receive(p, buf, 1, NULL, 64), -EINVAL);
	MUST_IS(pulc_isendv(p, &self, iov, N_PIECES_MAX + 1, &none), -EINVAL);
	MUST_IS(pulc_op_test(NULL), -EINVAL);
	MUST_IS(pulc_op_cancel(NULL), -EINVAL);
	MUST_IS(pulc_op_end(NULL, NULL), -EINVAL);
	MUST_IS(pulc_op_wait(&none, 1, 0), -EINVAL);
	MUST_IS(pulc_op_wait(NULL, 0, 0), -EINVAL);
	MUST_IS(pulc_tag_end(NULL, &m), -EINVAL);
	MUST_IS(pulc_tag_end(op, &m), -EINVAL); /* a port's */
	MUST_IS(pulc_op_wait(&op, 1, 0), -ETIMEDOUT);
	MUST_IS(pulc_tag_send(0, 1, buf, too_long), -EINVAL);
	MUST_IS(pulc_tag_isend(0, 1, buf, too_long, &none), -EINVAL);
	MUST_IS(pulc_tag_receive(&anything, buf, too_long, &m), -EINVAL);
	MUST_IS(pulc_tag_ireceive(&anything, buf, too_long, &none), -EINVAL);
	MUST_IS(pulc_alloc(0, 0, &block), -EINVAL);
	MUST_IS(pulc_alloc(1, PULC_PEEK, &block), -EINVAL);
	MUST_IS(pulc_op_cancel(op), 0);
	MUST_IS(pulc_op_end(op, NULL), -ECANCELED);
	MUST_IS(pulc_port_close(p), 0);
}

static void nonsense_is_refused(void)
{
	NATIVE_RUN(ask_for_nonsense);
}

/* ---- two threads in one call ----------------------------------------------------------------- */

static _Atomic int taken;

static void *take_for_ever(void *arg)
{
	pulc_port *p;

	(void)arg;
	taken = pulc_port_take(0, -1, &p);
	return NULL;
}

/* Until the other thread is inside there is nothing to be taken. */
static void take_twice(void)
{
	struct sigaction action = { .sa_handler = nothing };
	pthread_t thread;
	pulc_port *p;
	int e;

	MUST_IS(sigaction(SIGUSR1, &action, NULL), 0);
	MUST_IS(pulc_attach(), 0);
	taken = 1;
	MUST_IS(pthread_create(&thread, NULL, take_for_ever, NULL), 0);
	do
		e = pulc_port_take(0, 0, &p);
	while (e == -ETIMEDOUT && taken == 1);
	/* It may have met ours, and then is not inside. */
	MUST(e == -EBUSY || taken == -EBUSY);
	while (taken == 1)
		(void)pthread_kill(thread, SIGUSR1);
	MUST_IS(pthread_join(thread, NULL), 0);
	MUST(taken == -EINTR || taken == -EBUSY);
}

static _Atomic pid_t sleeper;

static void *sleep_for(void *sem)
{
	sleeper = gettid();
	taken = pulc_sem_wait(sem, -1);
	return NULL;
}

static bool sleeps_in_the_kernel(pid_t thread)
{
	char path[64], text[64] = "";
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
	f = fopen(path, "re");
	MUST(f != NULL && fgets(text, sizeof(text), f) != NULL);
	(void)fclose(f);
	return strtol(text, NULL, 10) == SYS_futex;
}

static void close_what_another_one_sleeps_for(void)
{
	pthread_t thread;
	pulc_sem *sem;

	MUST_IS(pulc_sem_open("sem", 0, 0, &sem), 1);
	taken = 1;
	MUST_IS(pthread_create(&thread, NULL, sleep_for, sem), 0);
	while (!sleeper || !sleeps_in_the_kernel(sleeper))
		(void)sched_yield();
	MUST_IS(pulc_sem_close(sem), -EBUSY);
	MUST_IS(pulc_sem_post(sem), 0);
	MUST_IS(pthread_join(thread, NULL), 0);
	MUST_IS(taken, 0);
	MUST_IS(pulc_sem_close(sem), 0);
}

static void another_thread_is_inside(void)
{
	NATIVE_RUN(take_twice);
	NATIVE_RUN(close_what_another_one_sleeps_for);
}

/* ---- stopped --------------------------------------------------------------------------------- */

#define N_OPS 200u

static void be_stopped(void)
{
	pulc_port *p = native_open(PULC_D, "stopped");
	uint32_t peer = native_peer_named("sender");

	MUST_IS(pulc_tag_send(peer, 1, "ready", 5), 5);
	native_reach(1);
	native_await(3); /* going on */
	for (uint64_t i = 0; i < N_OPS; i++) {
		const struct pulc_tag this = { i, PULC_TAG_EXACT, PULC_ANY_PEER };

		MUST_IS(pulc_tag_receive(&this, buf, sizeof(buf), NULL),
			PULC_TAG_SHORT + (i == N_OPS - 1));
	}
	native_reach(4);
	MUST_IS(pulc_port_close(p), 0);
}

static void be_well(void)
{
	pulc_port *p = native_open(PULC_D, "well");
	struct pulc_tagged m;

	for (unsigned i = 0; i < 100; i++) {
		MUST_IS(pulc_tag_receive(&anything, buf, 8, &m), 8);
		MUST_IS(pulc_tag_send(m.peer, 2, buf, 8), 8);
	}
	native_await(4);
	MUST_IS(pulc_port_close(p), 0);
}

/* The last one is long, and waits for its receiver anyway. */
static void send_to_the_stopped(void)
{
	pulc_port *p = native_open(PULC_D, "sender");
	uint32_t stopped = native_peer_named("stopped"), well = native_peer_named("well");
	struct pulc_tag from_stopped = { 1, PULC_TAG_EXACT, stopped };
	struct pulc_tag_path path;
	pulc_op *ops[N_OPS];
	unsigned n_complete = 0;

	native_await(2);
	for (uint64_t i = 0; i < N_OPS; i++)
		ops[i] = native_tag_send(stopped, i, buf, PULC_TAG_SHORT + (i == N_OPS - 1));
	for (unsigned i = 0; i < N_OPS; i++)
		n_complete += pulc_op_test(ops[i]) == 1;
	MUST(n_complete > 10 && n_complete < N_OPS / 2); /* 1 MiB */
	MUST_IS(pulc_op_wait(&ops[N_OPS - 1], 1, 20), -ETIMEDOUT);
	/* What it had sent is there, its path is known, and nobody else waits. */
	MUST_IS(pulc_tag_receive(&from_stopped, buf, 8, NULL), 5);
	MUST_IS(pulc_tag_probe(&from_stopped, 1, NULL), 0);
	MUST_IS(pulc_tag_path(stopped, &path), 0);
	for (unsigned i = 0; i < 100; i++) {
		MUST_IS(pulc_tag_send(well, 2, buf, 8), 8);
		MUST_IS(pulc_tag_receive(&anything, buf, 8, NULL), 8);
	}
	MUST_IS(pulc_op_test(ops[N_OPS - 1]), 0);
	MUST_IS(kill(native_pid_of(0), SIGCONT), 0);
	native_reach(3);
	for (unsigned i = 0; i < N_OPS; i++)
		MUST_IS(pulc_op_end(ops[i], NULL), PULC_TAG_SHORT + (i == N_OPS - 1));
	MUST_IS(pulc_port_close(p), 0);
}

static void name_and_be_stopped(void)
{
	native_known_as(0);
	be_stopped();
}

static void stop_the_first(const pid_t *pids)
{
	int status;

	while (!native_is_reached(1))
		(void)sched_yield();
	(void)kill(pids[0], SIGSTOP);
	REQUIRE_INT(waitpid(pids[0], &status, WUNTRACED), ==, pids[0]);
	REQUIRE(WIFSTOPPED(status));
	native_reach(2);
}

static void a_stopped_peer_makes_its_senders_wait(void)
{
	native_role *const roles[] = { name_and_be_stopped, be_well, send_to_the_stopped };

	native_run_with(roles, sizeof(roles) / sizeof(roles[0]), stop_the_first);
}

static const struct test tests[] = {
	TEST(a_handler_may_not_wait),	TEST(a_signal_ends_what_waits),
	TEST(limits_are_told),		TEST(nonsense_is_refused),
	TEST(another_thread_is_inside), TEST(a_stopped_peer_makes_its_senders_wait),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
