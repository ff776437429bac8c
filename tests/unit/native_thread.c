/*
 * The progress thread: operations become complete while nobody calls, handlers run in it, it ends
 * when it is told to, and a program that has not asked for it has none.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "psid/native_case.h"
#include "races.h"

#define LEN_LONG (4u << 20)
#define NUMBER 20u

static unsigned char buf[LEN_LONG];
static _Atomic unsigned n_arrived;

static unsigned n_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	MUST(dir != NULL);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n - 2;
}

/* The thread sanitizer has some of its own. */
static bool has_threads(unsigned n)
{
	return RACES_SOUGHT || n_threads() == n;
}

static void nap(void)
{
	const struct timespec turn = { .tv_nsec = 1000000 };

	(void)nanosleep(&turn, NULL);
}

/* ---- one process ----------------------------------------------------------------------------- */

static int count(void *arg, const struct pulc_frame *f)
{
	(void)arg, (void)f;
	/* From a handler it is neither begun nor ended. */
	if (pulc_progress_thread(true) != -EDEADLK || pulc_progress_thread(false) != -EDEADLK)
		return -EBADMSG;
	n_arrived++;
	return 0;
}

static void begin_and_end(void)
{
	const struct pulc_protocol protocol = { .arrived = count };
	const struct pulc_frame f = { .protocol = NUMBER };

	MUST_IS(pulc_protocol_register(NUMBER, &protocol), 0);
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	MUST_IS(n_arrived, 1);
	MUST(has_threads(1));
	MUST_IS(pulc_progress_thread(false), 0);
	for (unsigned i = 0; i < 20; i++) {
		MUST_IS(pulc_progress_thread(true), 0);
		MUST_IS(pulc_progress_thread(true), 0);
		MUST(has_threads(2));
		MUST_IS(pulc_progress_thread(false), 0);
		/* The kernel takes a joined thread out of the list a moment later. */
		while (!has_threads(1))
			nap();
	}
}

static void begins_and_ends(void)
{
	NATIVE_RUN(begin_and_end);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Begins a send that needs its receiver, and then makes no call until the receiver has it all. */
static void send_and_look_away(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, "source");
	pulc_op *op;

	MUST_IS(pulc_progress_thread(true), 0);
	native_fill(buf, LEN_LONG, 3);
	op = native_send_begin(p, &to, buf, LEN_LONG);
	native_await(1);
	MUST_IS(pulc_op_test(op), 1);
	MUST_IS(pulc_op_end(op, NULL), LEN_LONG);
	MUST_IS(pulc_progress_thread(false), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_all(void)
{
	pulc_port *p = native_open(PULC_D, "sink");

	MUST_IS(pulc_receive(p, buf, LEN_LONG, NULL, 0), LEN_LONG);
	MUST(native_holds(buf, LEN_LONG, 3));
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

/* The buffer fills while nobody looks; the other one writes without anybody's help. */
static void receive_and_look_away(void)
{
	pulc_port *p = native_open(PULC_D, "filled");
	pulc_op *op;

	MUST_IS(pulc_progress_thread(true), 0);
	op = native_receive_begin(p, buf, LEN_LONG, NULL);
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_op_end(op, NULL), LEN_LONG);
	MUST(native_holds(buf, LEN_LONG, 4));
	/* Still running at the end. */
}

static void send_all(void)
{
	struct pulc_address to;
	pulc_port *p = native_open(PULC_D, NULL);

	native_await(1);
	to = native_find("filled");
	native_fill(buf, LEN_LONG, 4);
	MUST_IS(pulc_send(p, &to, buf, LEN_LONG, 0), LEN_LONG);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void messages_move_on_alone(void)
{
	NATIVE_RUN(send_and_look_away, receive_all);
	NATIVE_RUN(receive_and_look_away, send_all);
}

/* ---- beside other threads -------------------------------------------------------------------- */

#define N_TURNS 3000u

static void ask(void)
{
	struct pulc_address to = native_find("echo");
	pulc_port *p = native_open(PULC_D, NULL);
	unsigned got;

	MUST_IS(pulc_progress_thread(true), 0);
	for (unsigned i = 0; i < N_TURNS; i++) {
		MUST_IS(pulc_send(p, &to, &i, sizeof(i), 0), sizeof(i));
		MUST_IS(pulc_receive(p, &got, sizeof(got), NULL, 0), sizeof(got));
		MUST_IS(got, i);
		if (i % 500 == 0)
			MUST_IS(pulc_progress_thread(i % 1000 != 0), 0);
	}
	MUST_IS(pulc_progress_thread(false), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void answer(void)
{
	pulc_port *p = native_open(PULC_D, "echo");
	struct pulc_address from;
	unsigned got;

	MUST_IS(pulc_progress_thread(true), 0);
	for (unsigned i = 0; i < N_TURNS; i++) {
		MUST_IS(pulc_receive(p, &got, sizeof(got), &from, 0), sizeof(got));
		MUST_IS(pulc_send(p, &from, &got, sizeof(got), 0), sizeof(got));
	}
	MUST_IS(pulc_progress_thread(false), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void the_program_waits_as_ever(void)
{
	NATIVE_RUN(ask, answer);
}

static const struct test tests[] = {
	TEST(begins_and_ends),
	TEST(messages_move_on_alone),
	TEST(the_program_waits_as_ever),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
