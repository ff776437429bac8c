/*
 * Frames: what travels between the owner of a job and its keepers, over any byte stream.
 *
 * A frame is a header of 12 bytes and up to FRAME_SIZE_MAX bytes: an encoded job.Message, bytes of
 * a standard stream of one rank, or credit for more of them.
 */
#ifndef PULC_KEEPER_FRAME_H
#define PULC_KEEPER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "job.pb-c.h"

#define FRAME_SIZE_HEADER 12u
#define FRAME_SIZE_MAX (16u << 20) /* bytes behind a header: arguments and environment fit */
#define FRAME_SIZE_DATA 65536u	   /* of a stream's bytes in one frame */
#define FRAME_ALL_RANKS UINT32_MAX

enum frame_kind {
	FRAME_MESSAGE = 1, /* job.Message */
	FRAME_DATA = 2,	   /* bytes of a stream; none: it has ended */
	FRAME_CREDIT = 3,  /* 4 bytes: so many more bytes of the stream may be sent */
};

enum frame_stream { FRAME_STDIN = 0, FRAME_STDOUT = 1, FRAME_STDERR = 2 };

struct frame {
	enum frame_kind kind;
	enum frame_stream stream;
	uint32_t rank;
	const uint8_t *data; /* the pipe's, until the next frame_read or frame_next */
	size_t len;
};

/* How bytes move. Both answer as read(2) and writev(2) do, but with a negative errno. */
struct frame_ops {
	ssize_t (*read)(void *context, void *buf, size_t len);
	ssize_t (*write)(void *context, const struct iovec *iov, int n);
};

struct frame_chunk;

struct frame_pipe {
	const struct frame_ops *ops;
	void *context;
	int fd; /* for the plain ops */

	uint8_t *in; /* received, from in_start to in_end */
	size_t size_in, in_start, in_end;

	struct frame_chunk *out_first, *out_last, *out_free;
	unsigned n_free;
	size_t size_out; /* bytes not sent yet */
};

/* A pipe over fd, a non-blocking stream socket; the descriptor stays the caller's. Allocates
 * nothing. */
void frame_pipe_init(struct frame_pipe *pipe, int fd);
/* The same over something else. */
void frame_pipe_init_ops(struct frame_pipe *pipe, const struct frame_ops *ops, void *context);
void frame_pipe_deinit(struct frame_pipe *pipe);

/*
 * Reads what there is, once. Returns 0: something came; -EAGAIN: nothing there; -EPIPE: the end;
 * other negative errno. Never blocks.
 */
int frame_read(struct frame_pipe *pipe);
/* The next whole frame. Returns 1 with *ret_frame; 0: none yet; -EBADMSG: what came is no frame. */
int frame_next(struct frame_pipe *pipe, struct frame *ret_frame);
/* The job.Message of a frame, to be freed with pulc__job__message__free_unpacked. NULL: it is
 * none, or there is no memory for it. */
Pulc__Job__Message *frame_unpack(const struct frame *frame);

/*
 * Room for a frame of up to `len` bytes at the end of what is to be sent. NULL: no memory. Write
 * there, then frame_commit what has become of it, or reserve anew to forget it.
 */
uint8_t *frame_reserve(struct frame_pipe *pipe, size_t len);
void frame_commit(struct frame_pipe *pipe, const struct frame *frame);

/* Queues a frame, or a message in one. Returns 0, -ENOMEM, -EMSGSIZE. */
int frame_put(struct frame_pipe *pipe, const struct frame *frame);
int frame_put_message(struct frame_pipe *pipe, const Pulc__Job__Message *msg);
int frame_put_credit(struct frame_pipe *pipe, enum frame_stream stream, uint32_t rank, uint32_t n);
uint32_t frame_credit(const struct frame *frame);

/* Sends what is queued as far as it goes. Returns 0: all of it; -EAGAIN: the rest waits; negative
 * errno. */
int frame_flush(struct frame_pipe *pipe);

/* Shorthand for a message and its body. */
#define JOB_MESSAGE(name, kind, body)                                                              \
	Pulc__Job__Message name = PULC__JOB__MESSAGE__INIT;                                        \
	name.body_case = PULC__JOB__MESSAGE__BODY_##kind;                                          \
	name.body

#endif
