/*
 * Standard input on its way to the tasks.
 *
 * It is read when there is a job, and only as far as the tasks have room (the keeper's credit), so
 * what pulcrun takes from a shared input is what the tasks took, or will. From a terminal nothing
 * is read while pulcrun is in the background: that would stop it (terminal.c).
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "macros.h"
#include "run.h"

#define SIZE_WINDOW 65536u /* as the keeper's (keeper/input.h) */

static void end(struct run *run)
{
	struct input *in = &run->input;

	if (in->ended)
		return;
	in->ended = true;
	if (in->reading)
		(void)uv_poll_stop(&in->poll);
	in->reading = false;
	channel_put_frame(&run->keeper, &(struct frame){ .kind = FRAME_DATA,
							 .stream = FRAME_STDIN,
							 .rank = run->options->input_rank });
}

/* Reads once. Returns whether there may be more at once. */
static bool read_once(struct run *run)
{
	struct input *in = &run->input;
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	uint8_t bytes[SIZE_WINDOW];
	ssize_t n;

	if (in->ended || in->credit == 0 || run_terminal_is_others(run) || poll(&p, 1, 0) <= 0)
		return false;
	n = read(STDIN_FILENO, bytes, MIN(in->credit, sizeof(bytes)));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n < 0 && errno != EIO) /* which a terminal that has gone gives */
		run_note(run, "standard input: %s", strerror(errno));
	if (n <= 0) {
		end(run);
		return false;
	}
	in->credit -= (uint32_t)n;
	channel_put_frame(&run->keeper, &(struct frame){ .kind = FRAME_DATA,
							 .stream = FRAME_STDIN,
							 .rank = run->options->input_rank,
							 .data = bytes,
							 .len = (size_t)n });
	return true;
}

static void on_readable(uv_poll_t *poll, int status, int events);

static void arm(struct run *run)
{
	struct input *in = &run->input;
	bool wanted = !in->ended && in->credit > 0 && !run_terminal_is_others(run);

	if (!in->polls) { /* a file: there is always something */
		while (read_once(run))
			;
		return;
	}
	if (wanted == in->reading)
		return;
	in->reading = wanted;
	if (wanted)
		(void)uv_poll_start(&in->poll, UV_READABLE, on_readable);
	else
		(void)uv_poll_stop(&in->poll);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct run *run = CONTAINER_OF(poll, struct run, input.poll);

	(void)status;
	(void)events;
	(void)read_once(run);
	arm(run);
}

void run_input_credit(struct run *run, uint32_t n)
{
	run->input.credit += n;
	arm(run);
}

void run_input_again(struct run *run)
{
	if (run->input.credit > 0)
		arm(run);
}

void run_input_start(struct run *run)
{
	struct input *in = &run->input;
	struct stat st;

	if (run->options->input == PULC__JOB__INPUT__INPUT_NONE)
		return;
	if (fstat(STDIN_FILENO, &st) < 0) {
		end(run);
		return;
	}
	in->polls = run_poll_init(run, &in->poll, STDIN_FILENO) == 0;
	in->credit = SIZE_WINDOW;
	arm(run);
}
