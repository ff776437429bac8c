/*
 * The terminal that is our standard input.
 *
 * It is ours while we are its foreground group, or if it is not our session's: then nobody stops us
 * for using it. While others have it nothing is read from it and its modes are left alone. A shell
 * that puts us in front says so only if we were stopped, so who waits for it looks again every
 * MSEC_LOOK. With --pty it is raw while it is ours and there is a job: before that an interrupt is
 * for pulcrun.
 */
#include <sys/ioctl.h>
#include <unistd.h>

#include "macros.h"
#include "run.h"

#define MSEC_LOOK 200

static bool in_background(void)
{
	pid_t front = isatty(STDIN_FILENO) ? tcgetpgrp(STDIN_FILENO) : -1;

	return front >= 0 && front != getpgrp();
}

/* The terminal of rank 0 does all that ours would have done. After a stop the shell has put back
 * what we had found. */
static void make_raw(struct run *run)
{
	struct termios raw;

	if (!run->options->pty || !run->id || run_terminal_is_others(run) ||
	    (!run->raw && tcgetattr(STDIN_FILENO, &run->terminal) < 0))
		return;
	raw = run->terminal;
	cfmakeraw(&raw);
	run->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void on_look(uv_timer_t *timer)
{
	run_terminal_again(CONTAINER_OF(timer, struct run, look));
}

bool run_terminal_is_others(struct run *run)
{
	if (!in_background())
		return false;
	(void)uv_timer_start(&run->look, on_look, MSEC_LOOK, 0);
	return true;
}

void run_terminal_again(struct run *run)
{
	make_raw(run);
	run_input_again(run);
}

void run_terminal_window(struct run *run)
{
	Pulc__Job__WindowSize window = PULC__JOB__WINDOW_SIZE__INIT;
	JOB_MESSAGE(msg, WINDOW, window) = &window;
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
		return;
	window.rows = size.ws_row;
	window.columns = size.ws_col;
	channel_put(&run->keeper, &msg);
}

void run_terminal_restore(struct run *run)
{
	if (run->raw && !in_background())
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &run->terminal);
	run->raw = false;
}

int run_terminal_start(struct run *run)
{
	return uv_timer_init(&run->loop, &run->look);
}
