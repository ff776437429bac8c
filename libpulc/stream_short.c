/*
 * Short messages of a TCP stream: send and recv of up to a kilobyte between two who answer each
 * other, or many of them one way.
 *
 * Nothing in such an exchange takes long, so that what counts is how many instructions lie between
 * the moment in which the peer's bytes can be seen and the moment in which the answer can be. So
 * the usual case has a way of its own, that asks only what it must, waits only for the first turns,
 * and knows neither errors nor time-outs nor signals: whatever is not the usual case goes the long
 * way (transfer.c) as if this one had not been tried. A handler that runs in those turns has run
 * before the call, for all that the program can tell.
 */
#include "macros.h"
#include "order.h"
#include "private.h"
#include "tcp_short.h"

/* Flags that mean something only for a send that is not the usual one. */
#define UNUSUAL_SEND (MSG_OOB | MSG_FASTOPEN)
/* Flags that change nothing of how a receive takes its bytes. */
#define PLAIN_RECEIVE (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC)

/* Is somebody to be told, or is what lies in the ring to be sent again? */
static void __attribute__((noinline)) send_heeds(struct pulc_stream *s, int fd)
{
	stream_tell(s, TCP_SENT);
	(void)tcp_return(&s->tcp, fd);
}

USUAL bool stream_send_short(struct pulc_stream *s, int fd, const void *buf, size_t len, int flags)
{
	struct shm_stream *ring = &s->tcp.ring;
	uint64_t notice, ticks;

	if (UNLIKELY(!stream_is_attached(s)) || UNLIKELY(flags & UNUSUAL_SEND) ||
	    len - 1 >= SHM_SHORT_MOST)
		return false;
	ticks = order_sending(s);
	if (!tcp_push_short(&s->tcp, buf, len))
		return false;
	turn_sent_at(&s->turn, ticks);
	notice = shm_peer_notice(ring);
	if (UNLIKELY(shm_due_rx(ring, notice) || (notice & SHM_LEFT)))
		send_heeds(s, fd);
	return true;
}

USUAL ssize_t stream_send(pulc_stream *s, int fd, const void *buf, size_t len, int flags)
{
	const struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };

	if (LIKELY(stream_send_short(s, fd, buf, len, flags)))
		return (ssize_t)len;
	return stream_send_pieces(s, fd, &iov, 1, len, flags);
}

/* A receive that is made here must neither leave bytes behind that others would have added nor wait
 * for more than one byte. */
static inline bool is_plain(struct pulc_stream *s, int flags)
{
	return LIKELY(stream_is_attached(s)) && LIKELY(!(flags & ~PLAIN_RECEIVE)) &&
	       LIKELY(atomic_load_explicit(&s->tcp.ring.own->rcvlowat, memory_order_relaxed) <= 1);
}

static inline bool may_wait(const struct pulc_stream *s, int flags)
{
	return !(flags & MSG_DONTWAIT) &&
	       !atomic_load_explicit(&s->tcp.ring.own->nonblock, memory_order_relaxed);
}

/* From a backlog that has all that is wanted: a stream of short messages, which no look is needed
 * for. */
static inline size_t receive_known(struct pulc_stream *s, void *buf, size_t len)
{
	unsigned did = 0;
	size_t got = LIKELY(len - 1 < COPY_LONG - 1) ? tcp_pull_known(&s->tcp, buf, len, &did) : 0;

	if (LIKELY(got))
		order_heard();
	if (UNLIKELY(did))
		stream_tell(s, did);
	return got;
}

/*
 * All that can be asked before the look is asked before it, and the look is the taking itself: a
 * processor goes on past a load that takes the way of a line by some hundred instructions, and what
 * comes after these waits.
 */
USUAL size_t stream_receive_short(struct pulc_stream *s, void *buf, size_t len, int flags)
{
	struct shm_stream *ring = &s->tcp.ring;
	bool waited = false;
	unsigned did = 0;
	size_t got;

	if (UNLIKELY(!is_plain(s, flags)))
		return 0;
	if (shm_rx_has_more(ring, shm_taken(ring)))
		return receive_known(s, buf, len);
	if (shm_rx_gathers(ring, shm_taken(ring)) && may_wait(s, flags))
		wait_gather(wait_budget(s));
	if (LIKELY(turn_is_peers(&s->turn)) && may_wait(s, flags))
		waited = stream_wait_turn(s);
	got = tcp_pull_short(&s->tcp, buf, len, waited, &did);
	if (!got && may_wait(s, flags) && stream_wait_briefly(s, waited))
		got = tcp_pull_short(&s->tcp, buf, len, true, &did);
	if (LIKELY(got)) {
		turn_received(&s->turn);
		order_heard();
	}
	if (UNLIKELY(did))
		stream_tell(s, did);
	return got;
}

USUAL ssize_t stream_recv(pulc_stream *s, int fd, void *buf, size_t len, int flags)
{
	const struct iovec iov = { .iov_base = buf, .iov_len = len };
	size_t got = stream_receive_short(s, buf, len, flags);

	return LIKELY(got) ? (ssize_t)got : stream_receive_pieces(s, fd, &iov, 1, len, flags);
}
