/*
 * Channels.
 *
 * What a turn of the loop queues on a channel is sent once, just before the loop sleeps: many small
 * frames become one system call. What does not go then goes when the socket is writable. The amount
 * is bounded by those who queue: streams by credit, messages by what a job has.
 *
 * A channel ends once: by the other side, by nonsense, or by channel_close. After that nothing is
 * called any more; what is still put is forgotten. A side that has gone may have left its last
 * words: a channel that can't send any more (`mute`) is read to its end. One whose way of moving
 * bytes waits for the other side's word (`stalled`: a handshake) sends on when that has come.
 */
#include "frame_channel.h"

#include <errno.h>

#include "cleanup.h"
#include "macros.h"

static bool takes(const struct channel *channel)
{
	return channel->set && !channel->ended && !channel->mute;
}

static void end(struct channel *channel, int reason)
{
	if (channel->ended)
		return;
	channel_close(channel);
	channel->on_end(channel, reason);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void arm(struct channel *channel)
{
	bool waits = channel->pipe.size_out > 0 && !channel->mute && !channel->stalled;
	int events = UV_READABLE | (waits ? UV_WRITABLE : 0);

	if (events == channel->events)
		return;
	channel->events = events;
	(void)uv_poll_start(&channel->poll, events, on_poll);
}

static void receive(struct channel *channel)
{
	struct frame frame;
	int r = 0;

	while (r == 0 && !channel->ended) {
		r = frame_read(&channel->pipe);
		if (r < 0)
			break;
		while (!channel->ended && (r = frame_next(&channel->pipe, &frame)) > 0)
			channel->on_frame(channel, &frame);
	}
	if (r < 0 && r != -EAGAIN)
		end(channel, r);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct channel *channel = CONTAINER_OF(poll, struct channel, poll);

	if (events & UV_WRITABLE)
		channel_flush(channel);
	if (!channel->ended && ((events & UV_READABLE) || status < 0)) {
		receive(channel);
		if (channel->stalled)
			channel_touch(channel);
	}
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct channels *set = CONTAINER_OF(prepare, struct channels, prepare);
	struct channel *channel;

	while ((channel = TAILQ_FIRST(&set->dirty)))
		channel_flush(channel);
}

int channels_start(struct channels *set, uv_loop_t *loop)
{
	int r;

	set->loop = loop;
	TAILQ_INIT(&set->dirty);
	r = uv_prepare_init(loop, &set->prepare);
	return r < 0 ? r : uv_prepare_start(&set->prepare, on_prepare);
}

static int start(struct channel *channel, struct channels *set, int fd)
{
	int r = uv_poll_init(set->loop, &channel->poll, fd);

	if (r < 0) {
		(void)close_own(fd);
		channel->ended = true;
		return r;
	}
	channel->set = set;
	channel->fd = fd;
	channel->events = 0;
	channel->dirty = channel->ended = channel->mute = channel->stalled = false;
	arm(channel);
	return 0;
}

int channel_open(struct channel *channel, struct channels *set, int fd)
{
	frame_pipe_init(&channel->pipe, fd);
	return start(channel, set, fd);
}

int channel_open_ops(struct channel *channel, struct channels *set, int fd,
		     const struct frame_ops *ops, void *context)
{
	frame_pipe_init_ops(&channel->pipe, ops, context);
	return start(channel, set, fd);
}

static void on_closed(uv_handle_t *handle)
{
	struct channel *channel = CONTAINER_OF(handle, struct channel, poll);

	frame_pipe_deinit(&channel->pipe);
	if (channel->on_closed)
		channel->on_closed(channel);
}

void channel_close(struct channel *channel)
{
	if (channel->ended || !channel->set)
		return;
	channel->ended = true;
	if (channel->dirty)
		TAILQ_REMOVE(&channel->set->dirty, channel, link);
	channel->dirty = false;
	uv_close((uv_handle_t *)&channel->poll, on_closed);
	channel->fd = close_own(channel->fd);
}

void channel_touch(struct channel *channel)
{
	if (!takes(channel) || channel->dirty)
		return;
	channel->dirty = true;
	TAILQ_INSERT_TAIL(&channel->set->dirty, channel, link);
}

void channel_flush(struct channel *channel)
{
	int r;

	if (channel->ended || channel->mute)
		return;
	if (channel->dirty)
		TAILQ_REMOVE(&channel->set->dirty, channel, link);
	channel->dirty = false;
	r = frame_flush(&channel->pipe);
	channel->stalled = r == -EINPROGRESS;
	if (r == -EPIPE || r == -ECONNRESET)
		channel->mute = true;
	else if (r < 0 && r != -EAGAIN && r != -EINPROGRESS)
		end(channel, r);
	if (!channel->ended)
		arm(channel);
}

Pulc__Job__Message *channel_unpack(struct channel *channel, const struct frame *frame)
{
	Pulc__Job__Message *msg = frame_unpack(frame);

	if (!msg)
		end(channel, -EBADMSG);
	return msg;
}

/* No memory to say what must be said: the conversation is over. */
static void put(struct channel *channel, int r)
{
	if (r < 0)
		end(channel, r);
	else
		channel_touch(channel);
}

void channel_put(struct channel *channel, const Pulc__Job__Message *msg)
{
	if (takes(channel))
		put(channel, frame_put_message(&channel->pipe, msg));
}

void channel_put_frame(struct channel *channel, const struct frame *frame)
{
	if (takes(channel))
		put(channel, frame_put(&channel->pipe, frame));
}

void channel_put_credit(struct channel *channel, enum frame_stream stream, uint32_t rank,
			uint32_t n)
{
	if (takes(channel))
		put(channel, frame_put_credit(&channel->pipe, stream, rank, n));
}
