/*
 * libpulc/signals.c: a signal that comes while its thread holds a lock of ours waits for it, comes
 * whole, and leaves the mask as it was; faults don't wait; what ran is counted.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/signals.h>

#include "harness.h"
#include "lock.h"
#include "signals.h"

static struct shm_lock lock;
static int n_calls, n_put_off, value;
static uint32_t held_inside;
static bool restarts;
static sigjmp_buf jump;

static void handle(int signal, siginfo_t *info, void *context)
{
	uint32_t answer = pulc_signal_begins(signal, info, context, restarts);

	if (answer == PULC_SIGNAL_LATER) {
		n_put_off++;
		return;
	}
	n_calls++;
	value += info->si_value.sival_int;
	held_inside = shm_self.n_held;
	pulc_signal_done(answer);
}

static void install(int signal, void (*with)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = with, .sa_flags = SA_SIGINFO };

	n_calls = n_put_off = value = 0;
	REQUIRE_INT(sigaction(signal, &action, NULL), ==, 0);
}

static void queue(int signal, int with)
{
	REQUIRE_INT(sigqueue(getpid(), signal, (union sigval){ .sival_int = with }), ==, 0);
}

static bool mask_is(const sigset_t *expected)
{
	sigset_t now;

	sigprocmask(SIG_BLOCK, NULL, &now);
	return memcmp(&now, expected, 8) == 0;
}

static void runs_at_once_outside(void)
{
	install(SIGUSR1, handle);
	queue(SIGUSR1, 5);
	CHECK_INT(n_calls, ==, 1);
	CHECK_INT(value, ==, 5);
}

static void waits_for_the_lock(void)
{
	sigset_t before;

	install(SIGUSR1, handle);
	sigprocmask(SIG_BLOCK, NULL, &before);
	REQUIRE(shm_lock(&lock.word));
	queue(SIGUSR1, 7);
	CHECK_INT(n_calls, ==, 0);
	CHECK_INT(n_put_off, ==, 1);
	shm_unlock(&lock.word);
	CHECK_INT(n_calls, ==, 1);
	CHECK_INT(value, ==, 7);
	CHECK_INT(held_inside, ==, 0);
	CHECK(mask_is(&before));
}

static void waits_for_the_outermost(void)
{
	_Atomic uint32_t inner = 0;

	install(SIGUSR1, handle);
	REQUIRE(shm_lock(&lock.word));
	REQUIRE_INT(shm_enter(&inner, true), ==, SHM_ALONE);
	queue(SIGUSR1, 1);
	shm_leave(&inner, SHM_ALONE);
	CHECK_INT(n_calls, ==, 0);
	shm_unlock(&lock.word);
	CHECK_INT(n_calls, ==, 1);
}

/* The second one is blocked until the first has been put off and called. */
static void several_come_each_once(void)
{
	install(SIGUSR1, handle);
	install(SIGRTMIN, handle);
	REQUIRE(shm_lock(&lock.word));
	queue(SIGRTMIN, 1);
	queue(SIGRTMIN, 10);
	queue(SIGUSR1, 100);
	queue(SIGRTMIN, 1000);
	CHECK_INT(n_put_off, ==, 1);
	shm_unlock(&lock.word);
	CHECK_INT(n_calls, ==, 4);
	CHECK_INT(value, ==, 1111);
}

static void blocked_signals_stay_blocked(void)
{
	sigset_t set, before;

	install(SIGUSR1, handle);
	install(SIGUSR2, handle);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, &before);
	REQUIRE(shm_lock(&lock.word));
	queue(SIGUSR1, 1);
	queue(SIGUSR2, 10);
	shm_unlock(&lock.word);
	CHECK_INT(value, ==, 1);
	sigprocmask(SIG_SETMASK, &before, NULL);
	CHECK_INT(value, ==, 11);
}

static void jump_out(int signal, siginfo_t *info, void *context)
{
	(void)pulc_signal_begins(signal, info, context, false);
	siglongjmp(jump, 1);
}

static char *volatile nowhere = (char *)16;

static void faults_do_not_wait(void)
{
	_Atomic uint32_t left_behind = 0;

	install(SIGSEGV, jump_out);
	install(SIGUSR1, handle);
	if (sigsetjmp(jump, 1) == 0) {
		REQUIRE_INT(shm_enter(&left_behind, true), ==, SHM_ALONE);
		*nowhere = 1;
		REQUIRE(false);
	}
	signal(SIGSEGV, SIG_DFL);
	queue(SIGUSR1, 3);
	CHECK_INT(value, ==, 3);
}

static void child_is_spared(void)
{
	sigset_t before;
	int status;
	pid_t pid;

	install(SIGUSR1, handle);
	sigprocmask(SIG_BLOCK, NULL, &before);
	REQUIRE(shm_lock(&lock.word));
	queue(SIGUSR1, 1);
	pid = fork();
	if (pid == 0) {
		shm_self_forget();
		signals_forked();
		_exit(n_calls + !mask_is(&before));
	}
	shm_unlock(&lock.word);
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	CHECK_INT(n_calls, ==, 1);
}

static void says_what_ran(void)
{
	struct signal_counts then = signals_counted();

	install(SIGUSR1, handle);
	CHECK_INT(signals_since(then), ==, 0);
	restarts = true;
	queue(SIGUSR1, 0);
	CHECK_INT(signals_since(then), ==, -ERESTART);
	CHECK_INT(signals_verdict(then), ==, -ERESTART);
	restarts = false;
	queue(SIGUSR1, 0);
	CHECK_INT(signals_since(then), ==, -EINTR);
	CHECK_INT(signals_verdict(then), ==, -EINTR);
	/* Nothing is known of what ran: the handlers installed decide, and this one asks for
	 * nothing. */
	CHECK_INT(signals_verdict(signals_counted()), ==, -EINTR);
}

static const struct test tests[] = {
	TEST(runs_at_once_outside),
	TEST(waits_for_the_lock),
	TEST(waits_for_the_outermost),
	TEST(several_come_each_once),
	TEST(blocked_signals_stay_blocked),
	TEST(faults_do_not_wait),
	TEST(child_is_spared),
	TEST(says_what_ran),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
