/*
 * Frames over a byte stream, both directions buffered.
 *
 * In: one buffer that grows to the largest frame seen and is read from the front. A frame's bytes
 * are used where they lie, so a stream's output is copied once from the socket and nowhere else.
 * Out: a queue of chunks that are written into in place (a pipe is read straight into its frame)
 * and sent many at once.
 *
 * Invariants: a length beyond FRAME_SIZE_MAX, a kind or a stream that does not exist ends the pipe
 * (-EBADMSG) before a byte is allocated for it. Nothing here blocks. Header, little-endian: length
 * (4 bytes), kind (1), stream (1), nothing (2), rank (4).
 */
#include "frame.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "macros.h"
#include "rawsys.h"

#define SIZE_IN 262144u
#define SIZE_CHUNK (4 * (FRAME_SIZE_HEADER + FRAME_SIZE_DATA))
#define N_FREE_MAX 4u /* chunks kept for what comes next */
#define N_IOV 16

struct frame_chunk {
	struct frame_chunk *next;
	size_t size, start, end;
	uint8_t bytes[];
};

static ssize_t plain_read(void *context, void *buf, size_t len)
{
	struct frame_pipe *pipe = context;

	return raw_recv(pipe->fd, buf, len, MSG_DONTWAIT);
}

static ssize_t plain_write(void *context, const struct iovec *iov, int n)
{
	struct frame_pipe *pipe = context;
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };

	return raw_sendmsg(pipe->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static const struct frame_ops plain_ops = { .read = plain_read, .write = plain_write };

void frame_pipe_init(struct frame_pipe *pipe, int fd)
{
	*pipe = (struct frame_pipe){ .ops = &plain_ops, .context = pipe, .fd = fd };
}

void frame_pipe_init_ops(struct frame_pipe *pipe, const struct frame_ops *ops, void *context)
{
	*pipe = (struct frame_pipe){ .ops = ops, .context = context, .fd = -EBADF };
}

void frame_pipe_deinit(struct frame_pipe *pipe)
{
	struct frame_chunk *chunk;

	while ((chunk = pipe->out_first)) {
		pipe->out_first = chunk->next;
		free(chunk);
	}
	while ((chunk = pipe->out_free)) {
		pipe->out_free = chunk->next;
		free(chunk);
	}
	pipe->n_free = 0;
	free(pipe->in);
	pipe->in = NULL;
	pipe->out_last = NULL;
	pipe->size_in = pipe->in_start = pipe->in_end = pipe->size_out = 0;
}

/* ---- in -------------------------------------------------------------------------------------- */

static uint32_t get32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return le32toh(value);
}

static void put32(uint8_t *p, uint32_t value)
{
	value = htole32(value);
	memcpy(p, &value, sizeof(value));
}

/* Room for the rest of the frame that has begun, and for some more. */
static int make_room(struct frame_pipe *pipe)
{
	size_t used = pipe->in_end - pipe->in_start, wanted = SIZE_IN;
	uint8_t *in;

	if (used >= FRAME_SIZE_HEADER)
		wanted = MAX(wanted,
			     FRAME_SIZE_HEADER +
				     (size_t)MIN(get32(pipe->in + pipe->in_start), FRAME_SIZE_MAX));
	if (pipe->in_start > 0 && (used == 0 || pipe->in_start + wanted > pipe->size_in)) {
		memmove(pipe->in, pipe->in + pipe->in_start, used);
		pipe->in_start = 0;
		pipe->in_end = used;
	}
	if (pipe->size_in >= wanted)
		return 0;
	in = realloc(pipe->in, wanted);
	if (!in)
		return -ENOMEM;
	pipe->in = in;
	pipe->size_in = wanted;
	return 0;
}

int frame_read(struct frame_pipe *pipe)
{
	ssize_t n;
	int r;

	r = make_room(pipe);
	if (r < 0)
		return r;
	if (pipe->in_end == pipe->size_in)
		return -EBADMSG; /* the caller has not taken the frames that are there */
	do
		n = pipe->ops->read(pipe->context, pipe->in + pipe->in_end,
				    pipe->size_in - pipe->in_end);
	while (n == -EINTR);
	if (n < 0)
		return n == -ECONNRESET ? -EPIPE : (int)n;
	if (n == 0)
		return -EPIPE;
	pipe->in_end += (size_t)n;
	return 0;
}

static bool is_sound(const struct frame *frame)
{
	switch (frame->kind) {
	case FRAME_MESSAGE:
		return frame->len <= FRAME_SIZE_MAX;
	case FRAME_DATA:
		return frame->len <= FRAME_SIZE_DATA && frame->stream <= FRAME_STDERR;
	case FRAME_CREDIT:
		return frame->len == sizeof(uint32_t) && frame->stream <= FRAME_STDERR;
	default:
		return false;
	}
}

int frame_next(struct frame_pipe *pipe, struct frame *ret_frame)
{
	size_t used = pipe->in_end - pipe->in_start;
	const uint8_t *p = pipe->in + pipe->in_start;
	struct frame frame;

	if (used < FRAME_SIZE_HEADER)
		return 0;
	frame = (struct frame){ .len = get32(p),
				.kind = (enum frame_kind)p[4],
				.stream = (enum frame_stream)p[5],
				.rank = get32(p + 8),
				.data = p + FRAME_SIZE_HEADER };
	if (!is_sound(&frame))
		return -EBADMSG;
	if (used - FRAME_SIZE_HEADER < frame.len)
		return 0;
	pipe->in_start += FRAME_SIZE_HEADER + frame.len;
	*ret_frame = frame;
	return 1;
}

Pulc__Job__Message *frame_unpack(const struct frame *frame)
{
	return pulc__job__message__unpack(NULL, frame->len, frame->data);
}

uint32_t frame_credit(const struct frame *frame)
{
	return get32(frame->data);
}

/* ---- out ------------------------------------------------------------------------------------- */

/* An empty one. To get it from the allocator again and again is to have its pages made again and
 * again. */
static struct frame_chunk *new_chunk(struct frame_pipe *pipe, size_t size)
{
	struct frame_chunk *chunk = size == SIZE_CHUNK ? pipe->out_free : NULL;

	if (chunk) {
		pipe->out_free = chunk->next;
		pipe->n_free--;
	} else {
		chunk = malloc(sizeof(*chunk) + size);
	}
	if (chunk)
		*chunk = (struct frame_chunk){ .size = size };
	return chunk;
}

static void free_chunk(struct frame_pipe *pipe, struct frame_chunk *chunk)
{
	if (chunk->size != SIZE_CHUNK || pipe->n_free == N_FREE_MAX) {
		free(chunk);
		return;
	}
	chunk->next = pipe->out_free;
	pipe->out_free = chunk;
	pipe->n_free++;
}

uint8_t *frame_reserve(struct frame_pipe *pipe, size_t len)
{
	struct frame_chunk *chunk = pipe->out_last;
	size_t wanted = FRAME_SIZE_HEADER + len;

	if (chunk && chunk->start == chunk->end)
		chunk->start = chunk->end = 0;
	if (!chunk || chunk->size - chunk->end < wanted) {
		chunk = new_chunk(pipe, MAX(wanted, SIZE_CHUNK));
		if (!chunk)
			return NULL;
		if (pipe->out_last)
			pipe->out_last->next = chunk;
		else
			pipe->out_first = chunk;
		pipe->out_last = chunk;
	}
	return chunk->bytes + chunk->end + FRAME_SIZE_HEADER;
}

void frame_commit(struct frame_pipe *pipe, const struct frame *frame)
{
	struct frame_chunk *chunk = pipe->out_last;
	uint8_t *p = chunk->bytes + chunk->end;

	put32(p, (uint32_t)frame->len);
	p[4] = (uint8_t)frame->kind;
	p[5] = (uint8_t)frame->stream;
	p[6] = p[7] = 0;
	put32(p + 8, frame->rank);
	chunk->end += FRAME_SIZE_HEADER + frame->len;
	pipe->size_out += FRAME_SIZE_HEADER + frame->len;
}

int frame_put(struct frame_pipe *pipe, const struct frame *frame)
{
	uint8_t *room;

	if (frame->len > FRAME_SIZE_MAX)
		return -EMSGSIZE;
	room = frame_reserve(pipe, frame->len);
	if (!room)
		return -ENOMEM;
	if (frame->len > 0)
		memcpy(room, frame->data, frame->len);
	frame_commit(pipe, frame);
	return 0;
}

int frame_put_message(struct frame_pipe *pipe, const Pulc__Job__Message *msg)
{
	struct frame frame = { .kind = FRAME_MESSAGE,
			       .len = pulc__job__message__get_packed_size(msg) };
	uint8_t *room;

	if (frame.len > FRAME_SIZE_MAX)
		return -EMSGSIZE;
	room = frame_reserve(pipe, frame.len);
	if (!room)
		return -ENOMEM;
	(void)pulc__job__message__pack(msg, room);
	frame_commit(pipe, &frame);
	return 0;
}

int frame_put_credit(struct frame_pipe *pipe, enum frame_stream stream, uint32_t rank, uint32_t n)
{
	uint8_t bytes[4];

	put32(bytes, n);
	return frame_put(pipe, &(struct frame){ .kind = FRAME_CREDIT,
						.stream = stream,
						.rank = rank,
						.data = bytes,
						.len = sizeof(bytes) });
}

/* Forgets n bytes that were sent; the last chunk stays for what comes next. */
static void drop_sent(struct frame_pipe *pipe, size_t n)
{
	struct frame_chunk *chunk;

	pipe->size_out -= n;
	while ((chunk = pipe->out_first)) {
		size_t here = MIN(n, chunk->end - chunk->start);

		chunk->start += here;
		n -= here;
		if (chunk->start < chunk->end || !chunk->next)
			return;
		pipe->out_first = chunk->next;
		free_chunk(pipe, chunk);
	}
}

int frame_flush(struct frame_pipe *pipe)
{
	while (pipe->size_out > 0) {
		struct iovec iov[N_IOV];
		int n_iov = 0;
		ssize_t n;

		for (struct frame_chunk *c = pipe->out_first; c && n_iov < N_IOV; c = c->next)
			if (c->end > c->start)
				iov[n_iov++] = (struct iovec){ c->bytes + c->start,
							       c->end - c->start };
		n = pipe->ops->write(pipe->context, iov, n_iov);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		drop_sent(pipe, (size_t)n);
	}
	return 0;
}
