/* When a program that polls busily spares the kernel the question, and when not
 * (preload/wait.c). */
#include <errno.h>
#include <signal.h>

#include "harness.h"
#include "thread.h"

#define N_CALM 17
#define N_TRIES 10000000

static void look(struct pre_looked *l, bool news)
{
	pre_look_ends(l, pre_look_begins(l), news);
}

static void calm(struct pre_looked *l)
{
	for (int i = 0; i < N_CALM; i++)
		look(l, false);
}

/* Polls busily until it is spared: a machine that has something else to do takes its time between
 * two calls. */
static void until_spared(struct pre_looked *l)
{
	for (int i = 0; i < N_TRIES; i++) {
		if (pre_look_spared(l, true))
			return;
		look(l, false);
	}
	CHECK(false);
}

static void asked_until_it_is_calm(void)
{
	struct pre_looked l = { 0 };

	for (int i = 0; i < N_CALM; i++) {
		CHECK(!pre_look_spared(&l, true));
		look(&l, false);
	}
	until_spared(&l);
	look(&l, true);
	CHECK(!pre_look_spared(&l, true));
	calm(&l);
	until_spared(&l);
}

static void asked_after_so_many_calls(void)
{
	struct pre_looked l = { 0 };
	int n = 0;

	calm(&l);
	until_spared(&l);
	while (pre_look_spared(&l, true))
		n++;
	CHECK_INT(n, <, PRE_N_SPARED);
}

static void asked_after_some_time(void)
{
	struct pre_looked l = { 0 };
	uint64_t now;

	calm(&l);
	until_spared(&l);
	now = pre_now();
	while (pre_now() - now < 2 * PRE_NSEC_LOOK) {
	}
	CHECK(!pre_look_spared(&l, true));
}

static void asked_after_a_call_to_the_kernel(void)
{
	struct pre_looked l = { 0 };

	calm(&l);
	until_spared(&l);
	pre_stir();
	CHECK(!pre_look_spared(&l, true));
	look(&l, false);
	until_spared(&l);
}

/* A call that ends while the kernel is being asked may be too late for the answer. */
static void asked_again_if_called_meanwhile(void)
{
	struct pre_looked l = { 0 };
	struct pre_look during;

	calm(&l);
	until_spared(&l);
	during = pre_look_begins(&l);
	pre_stir();
	pre_look_ends(&l, during, false);
	CHECK(!pre_look_spared(&l, true));
}

static void asked_while_rings_have_nothing(void)
{
	struct pre_looked l = { 0 };
	uint64_t now;

	calm(&l);
	CHECK(!pre_look_spared(&l, false));
	look(&l, false);
	CHECK(!pre_look_spared(&l, false));
	until_spared(&l);
	now = pre_now();
	while (pre_now() - now < 2 * PRE_NSEC_PER_MSEC) {
	}
	for (int i = 0; i < N_CALM; i++) {
		CHECK(!pre_look_spared(&l, false));
		look(&l, false);
	}
}

static void ignore(int signal)
{
	(void)signal;
}

/* To let signals in is no such call, but a handler that has run may have made one. */
static void not_asked_because_signals_were_let_in(void)
{
	struct pre_looked l = { 0 };
	sigset_t usr1, others;
	uint32_t before;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	REQUIRE(signal(SIGUSR1, ignore) != SIG_ERR);
	REQUIRE_INT(sigprocmask(SIG_BLOCK, &usr1, &others), ==, 0);
	calm(&l);
	before = atomic_load(&pre_stirred);
	CHECK_INT(pre_signals_let_in(&others), ==, 0);
	CHECK_INT(atomic_load(&pre_stirred), ==, before);
	(void)raise(SIGUSR1);
	CHECK_INT(pre_signals_let_in(&others), ==, -EINTR);
	CHECK_INT(atomic_load(&pre_stirred), >, before);
	REQUIRE_INT(sigprocmask(SIG_SETMASK, &others, NULL), ==, 0);
}

static const struct test tests[] = {
	TEST(asked_until_it_is_calm),
	TEST(asked_after_so_many_calls),
	TEST(asked_after_some_time),
	TEST(asked_after_a_call_to_the_kernel),
	TEST(asked_again_if_called_meanwhile),
	TEST(asked_while_rings_have_nothing),
	TEST(not_asked_because_signals_were_let_in),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
