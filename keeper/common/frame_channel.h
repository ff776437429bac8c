/* A frame pipe in a libuv loop: frames arrive as calls, what is queued leaves by itself. */
#ifndef PULC_KEEPER_CHANNEL_H
#define PULC_KEEPER_CHANNEL_H

#include <stdbool.h>
#include <sys/queue.h>

#pragma push_macro("MIN")
#pragma push_macro("MAX")
#include <uv.h>
#pragma pop_macro("MIN")
#pragma pop_macro("MAX")

#include "frame.h"

struct channel;

/* All channels of one loop: what was queued in a turn leaves together at its end. */
struct channels {
	uv_loop_t *loop;
	uv_prepare_t prepare;
	TAILQ_HEAD(, channel) dirty;
};

struct channel {
	struct channels *set;
	uv_poll_t poll;
	struct frame_pipe pipe;
	int fd;
	int events; /* that are waited for */
	void *data; /* the user's */
	/* A frame has come. May end the channel. */
	void (*on_frame)(struct channel *channel, const struct frame *frame);
	/* Nothing more will come or go: -EPIPE the other side closed, -EBADMSG it made no sense.
	 * Once. */
	void (*on_end)(struct channel *channel, int reason);
	/* libuv has let go of it: it may be freed. NULL: nobody wants to know. */
	void (*on_closed)(struct channel *channel);
	TAILQ_ENTRY(channel) link;
	bool dirty, mute, stalled, ended;
};

/* Returns 0, negative errno. */
int channels_start(struct channels *set, uv_loop_t *loop);

/* Takes fd, a non-blocking stream socket, and begins to listen. Returns 0; negative errno: fd is
 * closed. */
int channel_open(struct channel *channel, struct channels *set, int fd);
/* The same with another way to move bytes than send and receive (ops as in frame.h). */
int channel_open_ops(struct channel *channel, struct channels *set, int fd,
		     const struct frame_ops *ops, void *context);
/* Ends it without a word, closes the descriptor. Harmless when repeated, or never opened. */
void channel_close(struct channel *channel);

/* Queues one of these and sees that it leaves. A channel that has ended swallows it. */
void channel_put(struct channel *channel, const Pulc__Job__Message *msg);
void channel_put_frame(struct channel *channel, const struct frame *frame);
void channel_put_credit(struct channel *channel, enum frame_stream stream, uint32_t rank,
			uint32_t n);
/* The message of a frame that has come, to be freed as frame_unpack's. NULL: it is none, or there
 * is no memory for it, and the channel has ended: who goes on without it waits for ever. */
Pulc__Job__Message *channel_unpack(struct channel *channel, const struct frame *frame);
/* Something was queued past these calls. */
void channel_touch(struct channel *channel);
/* Sends now, as far as it goes. */
void channel_flush(struct channel *channel);

#endif
