/*
 * What the tasks say, on its way out.
 *
 * Lines are never mixed: of each stream only whole lines go out, the rest waits for its end. A line
 * longer than SIZE_LINE can't wait: its stream then holds the sink, and everybody else's lines wait
 * for the end of that one, unless the holder falls silent for MSEC_HELD. One task alone needs none
 * of this: its bytes pass.
 *
 * Credit for a stream is given back when its bytes are out, or nearly: while a sink has no room
 * nobody gets any, so that a slow terminal stops the tasks and fills no memory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "macros.h"
#include "run.h"

#define SIZE_LINE 65536u
#define MSEC_HELD 2000
#define SIZE_PREFIX 128

static size_t prefix_of(const struct run *run, uint32_t rank, int i, char *buf)
{
	int n = 0;

	if (run->options->prefix == PREFIX_LABEL)
		n = snprintf(buf, SIZE_PREFIX, "[%u] ", rank);
	else if (run->options->prefix == PREFIX_TAG)
		n = snprintf(buf, SIZE_PREFIX, "[%s,%u]<%s>", run->id, rank,
			     i ? "stderr" : "stdout");
	return (size_t)MAX(MIN(n, SIZE_PREFIX - 1), 0);
}

static void pay(struct run *run, uint32_t rank, int i)
{
	struct stream *stream = &run->ranks[rank].streams[i];

	if (stream->owed == 0 || stream->ended)
		return;
	channel_put_credit(&run->keeper, FRAME_STDOUT + i, rank, stream->owed);
	stream->owed = 0;
}

/* May a stream have more, as far as its own backlog goes? */
static bool deserves(const struct stream *stream)
{
	return stream->n_rest <= SIZE_LINE && !sink_is_full(stream->sink);
}

void run_output_pay(struct run *run, struct sink *sink)
{
	if (sink_is_full(sink))
		return;
	for (uint32_t rank = 0; run->ranks && rank < run->n_ranks; rank++)
		for (int i = 0; i < 2; i++) {
			struct stream *stream = &run->ranks[rank].streams[i];

			if (stream->sink == sink && stream->owed >= run->credit / 2 &&
			    deserves(stream))
				pay(run, rank, i);
		}
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Whole lines, each with its prefix if there is one. `whole`: the last one ends here too. */
static void write_lines(struct run *run, uint32_t rank, int i, const char *text, size_t len)
{
	struct stream *stream = &run->ranks[rank].streams[i];
	char prefix[SIZE_PREFIX];
	size_t n_prefix = prefix_of(run, rank, i, prefix);

	while (n_prefix > 0 && len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) + 1 : len;

		if (!stream->in_line)
			sink_write(stream->sink, prefix, n_prefix);
		sink_write(stream->sink, text, n);
		stream->in_line = !end;
		text += n;
		len -= n;
	}
	if (len > 0) {
		sink_write(stream->sink, text, len);
		stream->in_line = text[len - 1] != '\n';
	}
}

static void keep_rest(struct run *run, struct stream *stream, const char *text, size_t len)
{
	if (stream->n_rest + len > stream->size_rest) {
		size_t size = 2 * (stream->n_rest + len) + 256;
		char *rest = realloc(stream->rest, size);

		if (!rest) {
			if (!run->output_failed)
				run_note(run, "no memory for the lines of tasks: some are lost");
			run->output_failed = true;
			return;
		}
		stream->rest = rest;
		stream->size_rest = size;
	}
	memcpy(stream->rest + stream->n_rest, text, len);
	stream->n_rest += len;
}

static void write_rest(struct run *run, uint32_t rank, int i, size_t len)
{
	struct stream *stream = &run->ranks[rank].streams[i];

	write_lines(run, rank, i, stream->rest, len);
	stream->n_rest -= len;
	memmove(stream->rest, stream->rest + len, stream->n_rest);
	if (stream->n_rest == 0 && stream->size_rest > SIZE_LINE) {
		free(stream->rest);
		stream->rest = NULL;
		stream->size_rest = 0;
	}
}

/* Up to and with the last end of a line. */
static size_t whole_lines(const char *text, size_t len)
{
	const char *end = len > 0 ? memrchr(text, '\n', len) : NULL;

	return end ? (size_t)(end - text) + 1 : 0;
}

static void hold(struct sink *sink, struct stream *stream)
{
	sink->holder = stream;
	sink->nsec_held = nsec_now();
}

/* What the stream has kept goes out, as far as it may. */
static void settle(struct run *run, uint32_t rank, int i)
{
	struct stream *stream = &run->ranks[rank].streams[i];
	struct sink *sink = stream->sink;
	size_t n = whole_lines(stream->rest, stream->n_rest);

	if (sink->holder && sink->holder != stream)
		return;
	if (stream->ended || stream->n_rest - n > SIZE_LINE || sink->holder == stream) {
		n = stream->n_rest; /* also what is no whole line */
		if (n > 0)
			write_rest(run, rank, i, n);
		if (stream->in_line && stream->ended && run->options->prefix != PREFIX_NONE)
			write_lines(run, rank, i, "\n", 1);
		if (stream->in_line && !stream->ended)
			hold(sink, stream);
		else if (sink->holder == stream)
			sink->holder = NULL;
	} else if (n > 0) {
		write_rest(run, rank, i, n);
	}
}

/* The sink is free: whoever had to wait may go on. */
static void settle_all(struct run *run, struct sink *sink)
{
	for (uint32_t rank = 0; rank < run->n_ranks && !sink->holder; rank++)
		for (int i = 0; i < 2; i++)
			if (run->ranks[rank].streams[i].sink == sink)
				settle(run, rank, i);
	run_output_pay(run, sink);
}

static void take(struct run *run, uint32_t rank, int i, const char *text, size_t len)
{
	struct stream *stream = &run->ranks[rank].streams[i];
	struct sink *sink = stream->sink;
	bool held = sink->holder != NULL;
	size_t n;

	if (stream->n_rest == 0 && !held) { /* the straight way */
		n = whole_lines(text, len);
		if (n > 0)
			write_lines(run, rank, i, text, n);
		text += n;
		len -= n;
	}
	if (len > 0)
		keep_rest(run, stream, text, len);
	settle(run, rank, i);
	if (held && !sink->holder)
		settle_all(run, sink);
}

static bool passes(const struct run *run, const struct stream *stream)
{
	return run->options->prefix == PREFIX_NONE && !stream->sink->is_shared;
}

static void end(struct run *run, uint32_t rank, int i)
{
	struct stream *stream = &run->ranks[rank].streams[i];

	if (stream->ended)
		return;
	stream->ended = true;
	stream->owed = 0;
	take(run, rank, i, "", 0);
	if (run->files)
		run_file_end(run, rank, FRAME_STDOUT + i);
}

void run_output(struct run *run, const struct frame *frame)
{
	int i = (int)frame->stream - FRAME_STDOUT;
	struct stream *stream;

	if (i < 0 || !run->ranks || frame->rank >= run->n_ranks)
		return;
	stream = &run->ranks[frame->rank].streams[i];
	if (!stream->sink)
		stream->sink = run_file(run, frame->rank, frame->stream);
	if (frame->len == 0) {
		end(run, frame->rank, i);
		return;
	}
	if (passes(run, stream))
		sink_write(stream->sink, (const char *)frame->data, frame->len);
	else
		take(run, frame->rank, i, (const char *)frame->data, frame->len);
	stream->owed += (uint32_t)frame->len;
	if (stream->owed >= run->credit / 2 && deserves(stream))
		pay(run, frame->rank, i);
}

/* ---- start and end --------------------------------------------------------------------------- */

static void on_prepare(uv_prepare_t *prepare)
{
	struct run *run = CONTAINER_OF(prepare, struct run, prepare);

	if (!run->out.waiting && run->out.n_buf > 0)
		sink_flush(&run->out);
	if (!run->err.waiting && run->err.n_buf > 0)
		sink_flush(&run->err);
	for (uint32_t i = 0; run->files && i < 2 * run->n_ranks; i++)
		if (run->files[i].n_buf > 0)
			sink_flush(&run->files[i]);
}

static void release(struct run *run, struct sink *sink)
{
	if (!sink->holder || nsec_now() - sink->nsec_held < MSEC_HELD * 1000000ull)
		return;
	sink->holder = NULL;
	settle_all(run, sink);
}

static void on_release(uv_timer_t *timer)
{
	struct run *run = CONTAINER_OF(timer, struct run, release);

	release(run, &run->out);
	release(run, &run->err);
	for (int i = 0; i < 2 && run->files; i++) /* those that ranks share, if they do */
		release(run, &run->files[i]);
}

int run_output_start(struct run *run)
{
	int r;

	r = sink_open(&run->out, run, STDOUT_FILENO);
	if (r == 0)
		r = sink_open(&run->err, run, STDERR_FILENO);
	if (r == 0)
		r = uv_prepare_init(&run->loop, &run->prepare);
	if (r == 0)
		r = uv_prepare_start(&run->prepare, on_prepare);
	if (r == 0)
		r = uv_timer_init(&run->loop, &run->release);
	if (r == 0)
		r = uv_timer_start(&run->release, on_release, MSEC_HELD, MSEC_HELD);
	return r;
}

void run_output_finish(struct run *run)
{
	run->out.holder = run->err.holder = NULL;
	for (int i = 0; i < 2 && run->files; i++)
		run->files[i].holder = NULL;
	for (uint32_t rank = 0; rank < run->n_ranks; rank++)
		for (int i = 0; i < 2; i++) {
			struct stream *stream = &run->ranks[rank].streams[i];

			stream->ended = true;
			if (stream->sink && stream->n_rest > 0)
				settle(run, rank, i);
		}
}

bool run_output_is_done(const struct run *run)
{
	for (uint32_t i = 0; run->files && i < 2 * run->n_ranks; i++)
		if (run->files[i].n_buf > 0 || run->files[i].awaits_reader)
			return false;
	return run->out.n_buf == 0 && run->err.n_buf == 0;
}
