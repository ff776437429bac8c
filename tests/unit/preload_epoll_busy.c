/* The shim's epoll sets, on a fake libpulc: who polls without waiting, and in vain, gives way to a
 * peer on the same processor. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "preload_epoll_bed.h"
#include "rawsys.h"

/* More than it takes to be taken for one who polls busily. */
#define N_CALLS 500
#define N_RESTS 10

static volatile sig_atomic_t n_yields;

static void count(int signal)
{
	(void)signal;
	n_yields++;
}

/* From now on a sched_yield is a signal, and nothing else. */
static bool count_yields(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { ARRAY_SIZE(code), code };

	/* Past the shim, which would step aside. */
	return signal(SIGSYS, count) != SIG_ERR &&
	       raw_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       raw_syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* A filter stays: each test has a process of its own. Its result is the exit status. */
static void in_child(int (*run)(struct bed *b))
{
	struct bed b;
	int status;
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0) {
		begin(&b, EPOLLIN);
		if (!count_yields())
			_exit(100);
		_exit(run(&b));
	}
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	REQUIRE(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), ==, 0);
}

static void poll_often(struct bed *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		(void)wait_now(b);
}

static int beside_a_neighbour(struct bed *b)
{
	b->s->here = true;
	poll_often(b, N_CALLS);
	return n_yields > 0 && n_yields < N_CALLS / 10 ? 0 : 1;
}

static void a_neighbour_is_let_run(void)
{
	in_child(beside_a_neighbour);
}

static int beside_strangers(struct bed *b)
{
	poll_often(b, N_CALLS);
	return n_yields;
}

static void strangers_are_not(void)
{
	in_child(beside_strangers);
}

static int not_in_vain(struct bed *b)
{
	char c;

	b->s->here = true;
	for (unsigned i = 0; i < N_CALLS; i += N_RESTS) {
		poll_often(b, N_RESTS);
		fake_arrive(b->s, 1);
		if (wait_now(b) != 1 || recv(b->fds[0], &c, 1, 0) != 1)
			return 101;
	}
	return n_yields;
}

static void who_finds_something_now_and_then_goes_on(void)
{
	in_child(not_in_vain);
}

/* A neighbour that is another one's business has no part in it: a set without rings asks nobody. */
static int without_rings(struct bed *b)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	b->s->here = true;
	for (unsigned i = 0; i < N_CALLS; i++)
		(void)epoll_wait(ep, b->events, N_EVENTS, 0);
	return n_yields;
}

static void a_set_without_rings_is_the_kernels(void)
{
	in_child(without_rings);
}

static const struct test tests[] = {
	TEST(a_neighbour_is_let_run),
	TEST(strangers_are_not),
	TEST(who_finds_something_now_and_then_goes_on),
	TEST(a_set_without_rings_is_the_kernels),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
