/*
 * Signals.
 *
 * What is sent to pulcrun is meant for the job: it is passed on to every task, with the processes
 * that the task has in its group. pulcrun itself ends when the tasks have; while there is no job
 * yet, it ends by a signal that would have ended it anyway. SIGUSR1 and SIGUSR2 wait for the job:
 * blocked until a psid was asked for it, kept until one has begun it.
 * A second interrupt within a second means it: the job is killed. When an interrupt has ended the
 * job pulcrun ends by it, too: a shell goes on with its script or loop after a program that does
 * not. A stop reaches the tasks as SIGSTOP, for they have no shell above them that could stop them
 * otherwise, and then pulcrun stops itself.
 *
 * SIGPIPE is the one that the kernel would send to pulcrun alone. It ends the job as any death of
 * pulcrun does, but pulcrun lives until the job is gone.
 */
#include <signal.h>
#include <unistd.h>

#include "clock.h"
#include "macros.h"
#include "run.h"

static const int passed_on[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
				 SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH };

static void send_signal(struct run *run, int number)
{
	Pulc__Job__Signal signal = PULC__JOB__SIGNAL__INIT;
	JOB_MESSAGE(msg, SIGNAL, signal) = &signal;

	signal.number = number;
	channel_put(&run->keeper, &msg);
}

/* For whoever begins the job: who was told so far may die before that. */
static void keep(struct run *run, int number)
{
	if (!run->id)
		(void)sigaddset(&run->kept, number);
	send_signal(run, number);
}

void run_signals_again(struct run *run)
{
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
		if (sigismember(&run->kept, passed_on[i]) == 1)
			send_signal(run, passed_on[i]);
}

void run_signals_block(struct run *run)
{
	sigset_t awaited;

	(void)sigemptyset(&run->kept);
	(void)sigemptyset(&awaited);
	(void)sigaddset(&awaited, SIGUSR1);
	(void)sigaddset(&awaited, SIGUSR2);
	(void)sigprocmask(SIG_BLOCK, &awaited, &run->unblocked);
}

void run_kill(struct run *run)
{
	Pulc__Job__Kill end = PULC__JOB__KILL__INIT;
	JOB_MESSAGE(msg, KILL, kill) = &end;

	if (!run->id) /* there will be none: whoever begins it yet finds us gone */
		run->done = true;
	channel_put(&run->keeper, &msg);
}

/* With --output, and in a reservation, it is not what the tasks say that is lost. */
void run_reader_left(struct run *run)
{
	if (run->options->output || run->options->reserve)
		return;
	if (run->status == 0)
		run->status = 128 + SIGPIPE;
	if (!run->done)
		run_kill(run);
}

static void interrupt(struct run *run, int number)
{
	uint64_t now = nsec_now();

	run->interrupted |= number == SIGINT;
	if (run->done) { /* only output is left, and nobody takes it */
		run->abandoned = number;
		return;
	}
	if (!run->id) {
		run_kill(run);
		run->status = 128 + number;
		return;
	}
	if (number == SIGINT && run->nsec_interrupted &&
	    now - run->nsec_interrupted < NSEC_PER_SEC) {
		run->gave_up = true;
		run_kill(run);
	} else {
		send_signal(run, number);
	}
	run->nsec_interrupted = now;
}

static void stop(struct run *run)
{
	send_signal(run, SIGSTOP);
	channel_flush(&run->keeper);
	run_terminal_restore(run);
	(void)raise(SIGSTOP);
}

static void on_signal(uv_signal_t *signal, int number)
{
	struct run *run = signal->data;

	if (run_reserve_signal(run, number))
		return;
	switch (number) {
	case SIGINT:
	case SIGTERM:
		interrupt(run, number);
		break;
	case SIGHUP:
	case SIGQUIT:
		if (run->id && !run->done)
			send_signal(run, number);
		else
			interrupt(run, number);
		break;
	case SIGTSTP:
		stop(run);
		break;
	case SIGWINCH: /* the terminal of rank 0, if it has one, is as large as ours; the signal is for all */
		run_terminal_window(run);
		send_signal(run, number);
		break;
	case SIGCONT:
		run_terminal_again(run);
		send_signal(run, number);
		break;
	case SIGUSR1:
	case SIGUSR2:
		keep(run, number);
		break;
	default:
		send_signal(run, number);
	}
}

/* What pulcrun was told to ignore (nohup) it goes on ignoring. */
static bool is_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int run_signals_start(struct run *run)
{
	int r = 0;

	_Static_assert(ARRAY_SIZE(passed_on) == ARRAY_SIZE(((struct run *)0)->signals), "one each");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(passed_on); i++) {
		if (is_ignored(passed_on[i]))
			continue;
		r = uv_signal_init(&run->loop, &run->signals[i]);
		run->signals[i].data = run;
		if (r == 0)
			r = uv_signal_start(&run->signals[i], on_signal, passed_on[i]);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigprocmask(SIG_SETMASK, &run->unblocked, NULL);
	return r;
}
