/*
 * Output, with credit.
 *
 * A stream is read only as far as the owner has given credit for it, straight into the frame that
 * goes to the owner. So a slow terminal stops the task that writes to it, and that task only;
 * memory is bounded by the credit; and everything else of the job passes by. A stream ends when its
 * pipe does, or, when every process of the job is gone and somebody outside still holds the pipe,
 * when it is empty.
 */
#include "output.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cleanup.h"
#include "macros.h"
#include "owner.h"

#define SIZE_EARLY                                                                                 \
	(2 * FRAME_SIZE_DATA) /* goes before the end of the turn: the owner has work meanwhile */

static void on_readable(uv_poll_t *poll, int status, int events);

/* No poll is made while the tasks begin: many have ended by then, and what they said is drained. */
static void arm(struct output *output)
{
	struct keeper *k = output->task->keeper;
	bool wanted = output->credit > 0;

	if (wanted == output->reading || !k->launched)
		return;
	if (!output->polled && uv_poll_init(&k->loop, &output->poll, output->fd) < 0)
		keeper_fail("output", -ENOMEM);
	output->polled = true;
	output->reading = wanted;
	if (wanted)
		(void)uv_poll_start(&output->poll, UV_READABLE, on_readable);
	else
		(void)uv_poll_stop(&output->poll);
}

static void end(struct output *output)
{
	struct task *task = output->task;
	struct keeper *k = task->keeper;

	if (output->polled)
		uv_close((uv_handle_t *)&output->poll, NULL);
	output->fd = close_own(output->fd);
	k->n_outputs--;
	channel_put_frame(&k->owner, &(struct frame){ .kind = FRAME_DATA,
						      .stream = output->stream,
						      .rank = task->rank });
}

/* One read. Returns 0; -EAGAIN: nothing there, or no credit; -EPIPE: the end. */
static int read_once(struct output *output)
{
	struct channel *owner = &output->task->keeper->owner;
	size_t len = MIN(output->credit, FRAME_SIZE_DATA);
	uint8_t *room;
	ssize_t n;

	if (len == 0)
		return -EAGAIN;
	room = frame_reserve(&owner->pipe, len);
	if (!room)
		keeper_fail("output", -ENOMEM);
	n = read(output->fd, room, len);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN
							 : -EPIPE; /* EIO: a terminal's end */
	if (n == 0)
		return -EPIPE;
	if (owner->ended)
		return 0; /* read by nobody */
	frame_commit(&owner->pipe, &(struct frame){ .kind = FRAME_DATA,
						    .stream = output->stream,
						    .rank = output->task->rank,
						    .len = (size_t)n });
	channel_touch(owner);
	if (owner->pipe.size_out >= SIZE_EARLY)
		channel_flush(owner);
	output->credit -= (uint32_t)n;
	return 0;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct output *output = CONTAINER_OF(poll, struct output, poll);
	struct keeper *k = output->task->keeper;

	(void)status;
	(void)events;
	if (read_once(output) == -EPIPE) {
		end(output);
		keeper_look_for_end(k);
		return;
	}
	arm(output);
}

void keeper_output_open(struct output *output, int fd)
{
	struct keeper *k = output->task->keeper;
	int yes = 1;

	if (ioctl(fd, FIONBIO, &yes) < 0)
		keeper_fail("output", -errno);
	output->fd = fd;
	output->credit = k->spec->credit;
	k->n_outputs++;
}

void keeper_output_begin(struct keeper *k)
{
	for (uint32_t i = 0; i < k->n_tasks; i++)
		for (int s = 0; s < 2; s++)
			if (k->tasks[i].out[s].fd >= 0)
				arm(&k->tasks[i].out[s]);
}

static struct output *find(struct keeper *k, const struct frame *frame)
{
	if (frame->stream == FRAME_STDIN)
		return NULL;
	for (uint32_t i = 0; i < k->n_tasks; i++)
		if (k->tasks[i].rank == frame->rank)
			return &k->tasks[i].out[frame->stream - FRAME_STDOUT];
	return NULL;
}

void keeper_output_credit(struct keeper *k, const struct frame *frame)
{
	struct output *output = find(k, frame);
	uint32_t left;

	if (!output || output->fd < 0)
		return;
	left = k->spec->credit - MIN(output->credit, k->spec->credit);
	output->credit += MIN(frame_credit(frame), left);
	if (k->childless) {
		keeper_output_last(k);
		keeper_look_for_end(k);
	} else {
		arm(output);
	}
}

static void drain(struct output *output, bool last)
{
	int r = 0;

	while (output->fd >= 0 && r == 0)
		r = read_once(output);
	if (output->fd >= 0 && (r == -EPIPE || (last && output->credit > 0)))
		end(output);
	else if (output->fd >= 0)
		arm(output);
}

void keeper_output_drain(struct task *task)
{
	drain(&task->out[0], false);
	drain(&task->out[1], false);
}

void keeper_output_last(struct keeper *k)
{
	for (uint32_t i = 0; i < k->n_tasks; i++) {
		drain(&k->tasks[i].out[0], true);
		drain(&k->tasks[i].out[1], true);
	}
}
