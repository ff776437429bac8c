/*
 * --reserve: a command of ours, in processors that are held for it.
 *
 * The job holds them: its tasks sleep. When all of them do, the command is started here, as our
 * child, and learns from PULC_RESERVATION which job that is; a pulcrun that finds this in its
 * environment runs its own job inside of it. The end of the command is the end of the job, and so
 * of all that runs in it; the other way round the command gets a hang-up, and is killed if it does
 * not care. Nodes that die take their part with them, and the command goes on with the rest.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "run.h"

#define MSEC_HANG_UP 5000 /* from the hang-up to the kill */

char *const reserve_tasks[] = { (char *)"sleep", (char *)"infinity", NULL };

static void on_exit_of_command(uv_process_t *process, int64_t code, int signal)
{
	struct run *run = CONTAINER_OF(process, struct run, reserve.process);

	run->reserve.state = RESERVE_OVER;
	if (!run->done)
		run->status = signal ? 128 + signal : (int)code;
	uv_close((uv_handle_t *)process, NULL);
	run_kill(run);
}

static int spawn(struct run *run)
{
	uv_stdio_container_t streams[3];
	uv_process_options_t options = { .exit_cb = on_exit_of_command,
					 .file = run->options->program[0],
					 .args = run->options->program,
					 .cwd = run->options->directory,
					 .stdio_count = 3,
					 .stdio = streams };

	for (int i = 0; i < 3; i++)
		streams[i] = (uv_stdio_container_t){ .flags = UV_INHERIT_FD, .data.fd = i };
	if (setenv("PULC_RESERVATION", run->id, 1) < 0)
		return -errno;
	return uv_spawn(&run->loop, &run->reserve.process, &options);
}

static void start(struct run *run)
{
	int r = spawn(run);

	if (r == 0) {
		run->reserve.state = RESERVE_RUNS;
		return;
	}
	run->reserve.state = RESERVE_OVER;
	run->status = r == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	run_note(run, "%s: %s", run->options->program[0], strerror(-r));
	run_kill(run);
}

/* Tasks have begun to sleep, or never will. */
static void look(struct run *run)
{
	struct reserve *reserve = &run->reserve;

	if (reserve->state != RESERVE_COMES ||
	    reserve->n_started + reserve->n_failed < run->n_ranks)
		return;
	if (reserve->n_failed == 0) {
		if (!run->options->quiet)
			run_note(run, "reservation %s: %u tasks of room", run->id, run->n_ranks);
		start(run);
		return;
	}
	reserve->state = RESERVE_OVER;
	run->status = EXIT_OWN;
	run_kill(run);
}

void run_reserve_started(struct run *run, uint32_t n)
{
	run->reserve.n_started += n;
	look(run);
}

/* The end of a task is news only if it was not we who have ended it. */
void run_reserve_exited(struct run *run, const Pulc__Job__Exited *exited)
{
	struct reserve *reserve = &run->reserve;

	if (reserve->state == RESERVE_OVER || exited->rank >= run->n_ranks)
		return;
	if (exited->error)
		run_note(run, "%s: %s", reserve_tasks[0], strerror((int)exited->error));
	else
		run_note(run, "rank %u on %s is lost to the reservation%s", exited->rank,
			 run->ranks[exited->rank].node, exited->lost ? ": the node is gone" : "");
	if (reserve->state == RESERVE_COMES) {
		reserve->n_failed++;
		look(run);
	}
}

bool run_reserve_signal(struct run *run, int number)
{
	if (run->reserve.state != RESERVE_RUNS)
		return false;
	switch (number) {
	case SIGTSTP:
		(void)raise(SIGSTOP); /* with the command, which has had it from the terminal too */
		break;
	case SIGTERM:
	case SIGHUP:
	case SIGUSR1:
	case SIGUSR2:
		(void)uv_process_kill(&run->reserve.process, number);
		break;
	default: /* the terminal gives it to the command itself */
		break;
	}
	return true;
}

static void on_patience(uv_timer_t *timer)
{
	struct run *run = CONTAINER_OF(timer, struct run, reserve.patience);

	(void)uv_process_kill(&run->reserve.process, SIGKILL);
}

void run_reserve_finish(struct run *run)
{
	if (run->reserve.state != RESERVE_RUNS)
		return;
	if (!run->timed_out)
		run_note(run, "the reservation has ended, and with it %s",
			 run->options->program[0]);
	if (run->status == 0)
		run->status = EXIT_OWN;
	(void)uv_process_kill(&run->reserve.process, SIGHUP);
	(void)uv_process_kill(&run->reserve.process, SIGCONT);
	(void)uv_timer_init(&run->loop, &run->reserve.patience);
	(void)uv_timer_start(&run->reserve.patience, on_patience, MSEC_HANG_UP, 0);
	while (run->reserve.state == RESERVE_RUNS)
		(void)uv_run(&run->loop, UV_RUN_ONCE);
}
