/*
 * Back to the kernel: for whatever can't be served from a ring.
 *
 * The tcp protocol does it (tcp_return.c): our bytes stay in our ring for the peer to read, what we
 * have not yet received the peer sends once more through the kernel when it next looks. Nothing
 * depends on when that is. But a program that has just been told of bytes expects to find them, so
 * we wake the peer and wait a moment.
 *
 * What it leaves behind can still be read by a process under PULC, if the ring's bytes are what a
 * program wants: the label stays until they have gone the other way. So it does if there is a reset
 * to be told of which the kernel does not know.
 *
 * Somebody who writes to the socket past us must not overtake what was sent before. So that has to
 * be in the kernel by then, or in a ring that has ended; where the peer gives it no chance, for
 * seconds, the connection is reset.
 *
 * With both ends in one thread nobody else could look: then we act for the other end.
 */
#include <errno.h>
#include <sys/single_threaded.h>

#include <pulc/process.h>

#include "clock.h"
#include "label.h"
#include "private.h"
#include "rawsys.h"

/* What the peer is given to make room for, or to return, bytes; and how often we look. */
#define NSEC_MOMENT (20 * 1000 * NSEC_PER_USEC)
#define NSEC_PAUSE (100 * NSEC_PER_USEC)
/* A receiver that does not come to look at its ring for so long. */
#define NSEC_BYPASSED (5 * NSEC_PER_SEC)

static struct pulc_stream *searched;

/* The two ends of a connection have neighbouring numbers; while there is no psid none has any. */
static bool is_other_end(const struct pulc_stream *other)
{
	return other != searched && other->conn == (searched->conn ? searched->conn ^ 1 : 0);
}

/* The other end of the stream that is searched for, if it is ours: under the client lock. */
static void return_here(struct pulc_stream *other)
{
	if (is_other_end(other) && pulc_stream_attached(other) && stream_owns(other, other->fd))
		(void)tcp_return(&other->tcp, other->fd);
}

static void act_for_peer(struct pulc_stream *s)
{
	if (!__libc_single_threaded || !client_lock())
		return;
	searched = s;
	stream_list_each(return_here);
	client_unlock();
}

static void pause_briefly(void)
{
	struct timespec pause = timespec_from_nsec(NSEC_PAUSE);

	(void)raw_ppoll(NULL, 0, &pause);
}

int stream_downgrade(struct pulc_stream *s, int fd, bool for_good)
{
	uint64_t deadline = nsec_now() + NSEC_MOMENT;
	int e = tcp_leave(&s->tcp, fd);

	if (for_good)
		tcp_leave_for_good(&s->tcp);

	while (e == -EAGAIN && nsec_now() < deadline) {
		pause_briefly();
		e = tcp_leave(&s->tcp, fd);
	}
	/* What a peer that gets no processor is yet to decide whoever knows rings finds out, as he
	 * needs it; not where these mean nothing any more. */
	if (e == -EBADMSG || (e == -ETIMEDOUT && for_good))
		(void)raw_shutdown(fd, SHUT_RDWR);
	if (e < 0) {
		tcp_keep_on_kernel(&s->tcp);
		return e;
	}
	stream_tell_all(s);
	act_for_peer(s);
	while (!tcp_is_returned(&s->tcp) && nsec_now() < deadline)
		pause_briefly();
	if (tcp_is_returned(&s->tcp) && !tcp_has_reset(&s->tcp))
		label_clear(fd);
	return 0;
}

PULC_EXPORT void pulc_stream_bypassed(pulc_stream *s, int fd)
{
	uint64_t deadline = nsec_now() + NSEC_BYPASSED;
	bool takes;

	if (s->handler != &stream_handler || !pulc_stream_attached(s))
		return;
	takes = leave_pay(s);
	while (takes && !tcp_has_sent(&s->tcp) && nsec_now() < deadline) {
		tcp_return_all(&s->tcp, fd);
		/* There was no room for long. */
		if (tcp_owes(&s->tcp) || stream_downgrade(s, fd, false) != -EAGAIN)
			break;
	}
	if (!tcp_has_sent(&s->tcp))
		tcp_reset(fd);
}

PULC_EXPORT bool pulc_stream_disconnected(pulc_stream *s, int fd)
{
	if (s->handler != &stream_handler || !pulc_stream_attached(s))
		return false;
	if (tcp_disconnected(&s->tcp, fd))
		return true;
	label_clear(fd);
	return false;
}

int stream_told(struct pulc_stream *s, int fd, int error)
{
	if (error && tcp_has_left(&s->tcp)) {
		tcp_end_left(&s->tcp, fd);
		if (tcp_is_returned(&s->tcp) || tcp_is_disconnected(&s->tcp))
			label_clear(fd);
	}
	return error;
}

void stream_keep_error(struct pulc_stream *s, int error)
{
	if (pulc_stream_attached(s))
		tcp_keep_error(&s->tcp, error);
}
