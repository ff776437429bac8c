/*
 * Input, with credit.
 *
 * The job has one stream of input; this node keeps the part of it that some task here has not read,
 * INPUT_SIZE_WINDOW bytes at most, in one buffer. Each task has a position in it. What everyone has
 * read is credit for the owner to send more. A task that has closed its input, or ended, counts as
 * having read everything; when none is left the rest is swallowed, so that the owner never waits.
 */
#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "head.h"
#include "macros.h"
#include "pty.h"

bool keeper_input_wanted(const struct keeper *k, const struct task *task)
{
	switch (k->spec->input) {
	case PULC__JOB__INPUT__INPUT_ALL:
		return true;
	case PULC__JOB__INPUT__INPUT_RANK:
		return k->spec->input_rank == task->rank;
	default:
		return false;
	}
}

/* Gives back as credit what every task has read. */
static void release(struct keeper *k)
{
	struct input *input = &k->input;
	uint64_t begin = input->end;
	uint32_t n;

	if (!k->launched)
		return;
	for (uint32_t i = 0; i < k->n_tasks; i++)
		if (k->tasks[i].in.fd >= 0)
			begin = MIN(begin, k->tasks[i].in.at);
	if (begin == input->begin)
		return;
	n = (uint32_t)(begin - input->begin);
	input->begin = begin;
	keeper_head_input_read(k, n);
}

void keeper_input_close(struct task *task)
{
	struct sink *in = &task->in;

	if (in->fd < 0)
		return;
	uv_close((uv_handle_t *)&in->poll, NULL);
	in->fd = close_own(in->fd);
	release(task->keeper);
}

static void on_writable(uv_poll_t *poll, int status, int events);

static void arm(struct sink *in, bool wanted)
{
	if (in->fd < 0 || wanted == in->writing)
		return;
	in->writing = wanted;
	if (wanted)
		(void)uv_poll_start(&in->poll, UV_WRITABLE, on_writable);
	else
		(void)uv_poll_stop(&in->poll);
}

/* Everything has come. Returns whether the task knows: a terminal may have no room. */
static bool has_ended(struct task *task)
{
	const struct input *input = &task->keeper->input;
	uint8_t last = '\n';

	if (!keeper_is_pty(task))
		return true;
	if (input->end > 0)
		last = input->bytes[(input->end - 1) % INPUT_SIZE_WINDOW];
	return keeper_pty_end_input(task, last) != -EAGAIN;
}

static void feed(struct task *task)
{
	struct keeper *k = task->keeper;
	struct input *input = &k->input;
	struct sink *in = &task->in;
	ssize_t n = 0;

	while (in->fd >= 0 && in->at < input->end) {
		size_t from = (size_t)(in->at % INPUT_SIZE_WINDOW);
		size_t len = MIN((size_t)(input->end - in->at), INPUT_SIZE_WINDOW - from);

		n = write(in->fd, input->bytes + from, len);
		if (n < 0)
			break;
		in->at += (uint64_t)n;
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		keeper_input_close(task);
	else if (in->fd >= 0 && in->at == input->end && input->eof && has_ended(task))
		keeper_input_close(task);
	arm(in, in->at < input->end || input->eof);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
	struct task *task = CONTAINER_OF(poll, struct task, in.poll);

	(void)status;
	(void)events;
	feed(task);
	release(task->keeper);
}

void keeper_input_open(struct task *task, int fd)
{
	struct keeper *k = task->keeper;

	if (uv_poll_init(&k->loop, &task->in.poll, fd) < 0)
		keeper_fail("input", -ENOMEM);
	task->in.fd = fd;
	task->in.at = k->input.begin;
	task->in.writing = false;
}

void keeper_input_begin(struct keeper *k)
{
	for (uint32_t i = 0; i < k->n_tasks; i++)
		feed(&k->tasks[i]);
	release(k);
}

static void store(struct input *input, const struct frame *frame)
{
	size_t at = (size_t)(input->end % INPUT_SIZE_WINDOW);
	size_t first = MIN(frame->len, INPUT_SIZE_WINDOW - at);

	if (frame->len > 0) {
		memcpy(input->bytes + at, frame->data, first);
		memcpy(input->bytes, frame->data + first, frame->len - first);
	}
	input->end += frame->len;
}

void keeper_input(struct keeper *k, const struct frame *frame)
{
	struct input *input = &k->input;

	if (!input->bytes)
		input->bytes = malloc(INPUT_SIZE_WINDOW);
	if (!input->bytes)
		keeper_fail("the input", -ENOMEM);
	if (input->eof || frame->stream != FRAME_STDIN ||
	    frame->len > INPUT_SIZE_WINDOW - (input->end - input->begin))
		return;
	input->eof = frame->len == 0;
	store(input, frame);
	keeper_input_begin(k);
}
