/*
 * Sending: a message becomes frames, as far as credit and room go.
 *
 * Credit. The receiver bounds what a source may have unread at one port: a message may begin while
 * less than PORT_WINDOW is used. Datagrams that have begun are sent to their end, so a source may
 * be over by one message; streams stop at any byte. Each message costs a little more than its
 * length. The receiver says how much it has taken, in all, whenever 256 KiB have gathered, or at
 * once where much is unread; a lost or doubled report would do no harm. What all ways between two
 * processes have unread is bounded as well (port_credit.c).
 *
 * Messages that nobody waits for inside of a call are queued, and sent by whoever makes progress. A
 * destination with such a queue lets nobody else begin; who has begun before goes on.
 *
 * A message that fits one frame is one frame; a longer one is cut so that the receiver copies a
 * piece while the next is written (hal/model.c has the size of pieces).
 *
 * Source: pulc-1998, 5.1 (flow control between pairs, with credits); bip-1997 (eager below,
 * pipelined above a size).
 */
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "port.h"

#define N_GATHER 16u
#define SIZE_LINE 64u

unsigned port_slice(const struct iovec *iov, unsigned n, size_t at, size_t len, struct iovec *to,
		    unsigned n_max, size_t *ret_len)
{
	unsigned n_to = 0;
	size_t done = 0, piece;

	for (unsigned i = 0; i < n && done < len && n_to < n_max; i++) {
		if (at >= iov[i].iov_len) {
			at -= iov[i].iov_len;
			continue;
		}
		piece = MIN(iov[i].iov_len - at, len - done);
		to[n_to++] = (struct iovec){ .iov_base = (char *)iov[i].iov_base + at,
					     .iov_len = piece };
		done += piece;
		at = 0;
	}
	*ret_len = done;
	return n_to;
}

/* One frame of a message: its pieces, ready to be sent. */
struct cut {
	struct hal_frame f;
	struct iovec iov[N_GATHER];
	uint64_t size;
	unsigned n;
	size_t len; /* of the message */
};

/*
 * Equal ones, of about the size that the model finds best: a small rest costs as much as a frame.
 * Whole lines, so that all but the last lie in the receiver's buffer as the message does; a frame
 * has room for such a piece and the message's size.
 */
static uint32_t piece_of(struct hal_link *link, size_t size)
{
	uint64_t most = link->caps.frame_max - sizeof(uint64_t), piece, n;

	if (most > SIZE_LINE)
		most -= most % SIZE_LINE;
	piece = hal_link_piece(link, size);
	n = MAX((size + piece / 2) / piece, (uint64_t)1);
	return (uint32_t)MIN(ALIGN_UP((size + n - 1) / n, SIZE_LINE), most);
}

static void cut_next(const struct port_out *out, const struct port_sending *s, struct cut *c)
{
	const struct hal_caps *caps = &out->peer->link->caps;
	bool stream = out->kind != PORT_D;
	size_t most = s->size <= caps->frame_good ? caps->frame_good
						  : piece_of(out->peer->link, s->size);
	unsigned n_max = MIN(caps->n_gather, N_GATHER), kind = 0;

	c->n = 0;
	c->f.len = 0;
	if (!stream && !s->begun && s->size > most) {
		c->size = s->size;
		c->iov[c->n++] = (struct iovec){ .iov_base = &c->size, .iov_len = sizeof(c->size) };
		c->f.len = sizeof(c->size);
	}
	c->n += port_slice(s->iov, s->n, s->at, most, c->iov + c->n, n_max - c->n, &c->len);
	kind |= stream || !s->begun ? PORT_FIRST : 0;
	kind |= stream || s->at + c->len == s->size ? PORT_LAST : 0;
	/* More pieces than a frame gathers: then this is the first of several, and must say so. */
	if (kind == PORT_FIRST && c->f.len == 0) {
		c->size = s->size;
		c->iov[0] = (struct iovec){ .iov_base = &c->size, .iov_len = sizeof(c->size) };
		c->f.len = sizeof(c->size);
		c->n = 1 + port_slice(s->iov, s->n, s->at, most - sizeof(c->size), c->iov + 1,
				      n_max - 1, &c->len);
	}
	c->f.word = (uint64_t)out->to << 32 | out->port->number;
	c->f.protocol = PROTOCOL_PORT;
	c->f.kind = (uint16_t)kind;
	c->f.len += (uint32_t)c->len;
}

/* Counted before it is sent: to oneself, the receiver's report of having taken it comes first. */
static int send_counted(struct port_out *out, const struct hal_frame *f, const struct iovec *iov,
			unsigned n, uint64_t cost)
{
	int e;

	port_count_sent(out, cost);
	e = peer_send(out->peer, f, iov, n);
	if (UNLIKELY(e < 0))
		port_count_sent(out, -cost);
	return e;
}

/* Of a datagram all when it begins. */
static uint64_t cost_of(const struct cut *c, const struct port_sending *s)
{
	size_t len = c->f.kind & PORT_LAST ? c->len : s->size;

	return c->f.kind & PORT_FIRST ? len + PORT_OVERHEAD : 0;
}

static void advance(struct port_sending *s, const struct cut *c)
{
	s->at += c->len;
	s->begun = true;
}

/* What most messages are: one piece, one frame. */
static inline int push_short(struct port_out *out, struct port_sending *s)
{
	struct hal_frame f = {
		.word = (uint64_t)out->to << 32 | out->port->number,
		.len = (uint32_t)s->size,
		.protocol = PROTOCOL_PORT,
		.kind = PORT_FIRST | PORT_LAST,
	};
	int e = send_counted(out, &f, s->iov, s->n, s->size + PORT_OVERHEAD);

	if (LIKELY(e == 0)) {
		s->at = s->size;
		s->begun = true;
	}
	return e;
}

/* A datagram of more than a frame needs leave. */
static bool is_full(const struct peer *peer)
{
	return peer->size_there >= PORT_PEER_LONG;
}

/* Not now. */
static int __attribute__((noinline)) hold_back(struct port_out *out)
{
	if (out->held || out->no_long || !port_has_credit(out) || is_full(out->peer))
		port_out_wait(out, true);
	return -EAGAIN;
}

static bool is_long(const struct port_out *out, const struct port_sending *s)
{
	return out->kind == PORT_D && s->size > out->peer->link->caps.frame_good;
}

static int push_long(struct port_out *out, struct port_sending *s)
{
	bool stream = out->kind != PORT_D;
	struct cut c;
	int e;

	do {
		if (stream && (out->held || !port_has_credit(out)))
			return hold_back(out);
		if (UNLIKELY(!out->peer->link))
			return out->peer->error;
		cut_next(out, s, &c);
		e = send_counted(out, &c.f, c.iov, c.n, cost_of(&c, s));
		if (e < 0)
			return e;
		advance(s, &c);
	} while (s->at < s->size);
	return 0;
}

/* More than a frame, where that needs leave. */
static int __attribute__((noinline)) push_with_leave(struct port_out *out, struct port_sending *s)
{
	struct peer *peer = out->peer;
	int e;

	if (out->no_long || !port_long_may(out))
		return hold_back(out);
	e = push_long(out, s);
	if (s->begun)
		port_long_began(peer);
	return e;
}

static inline bool is_its_turn(const struct port_out *out, const struct port_sending *s)
{
	const struct port_sending *head = TAILQ_FIRST(&out->queue);

	return !head || head == s;
}

/* Before anything else is sent there. -EAGAIN: not now. */
static int __attribute__((noinline)) begin(struct port_out *out)
{
	/* Another way of ours was told to wait: this one asks before it takes as much. */
	bool asks = out->kind == PORT_D && out->peer->n_holds;
	const struct port_about about = { .life = out->life,
					  .value = out->kind | (asks ? PORT_ASKS : 0) };
	int e;

	/* To oneself the answer comes before this returns. */
	if (asks)
		port_out_hold(out, PORT_HOLD_LONG);
	e = port_say(out->peer, (uint64_t)out->to << 32 | out->port->number, PORT_BEGIN, about);
	if (e == 0)
		out->held &= ~PORT_HELD_NEW;
	if (e == -EPIPE)
		return -ECONNRESET;
	return e == -ENOBUFS || e == -ENOMEM ? -EAGAIN : e;
}

int port_push(struct port_out *out, struct port_sending *s)
{
	int e = 0;

	if (UNLIKELY(out->held == PORT_HELD_NEW && !out->error))
		e = begin(out);
	if (UNLIKELY(e < 0))
		return e;
	if (UNLIKELY(out->error))
		return out->error == PORT_ELSEWHERE ? -EAGAIN : out->error;
	if (UNLIKELY(s->size > PORT_MESSAGE_MAX && out->kind == PORT_D))
		return -EMSGSIZE;
	if (LIKELY(!s->begun)) {
		if (UNLIKELY(!port_may_begin(out) || !is_its_turn(out, s)))
			return hold_back(out);
		if (LIKELY(s->n == 1 && s->size && s->size <= out->peer->link->caps.frame_good))
			e = push_short(out, s);
		else if (UNLIKELY(out->no_long || is_full(out->peer)) && is_long(out, s))
			e = push_with_leave(out, s);
		else
			e = push_long(out, s);
	} else {
		e = push_long(out, s);
	}
	if (UNLIKELY(e == -EPIPE))
		e = -ECONNRESET;
	return e;
}

int port_push_later(struct port_out *out, struct port_sending *s)
{
	struct cut c;
	int e = 0;

	while (e == 0 && s->at < s->size) {
		if (!out->peer->link)
			return out->peer->error;
		cut_next(out, s, &c);
		e = peer_send_later(out->peer, &c.f, c.iov, c.n, &out->n_waiting);
		if (e == 0) {
			port_count_sent(out, cost_of(&c, s));
			advance(s, &c);
		}
	}
	return e == -EPIPE ? -ECONNRESET : e;
}

/* ---- queued ---------------------------------------------------------------------------------- */

/* Destinations with a queue. */
struct port_row port_queued = TAILQ_HEAD_INITIALIZER(port_queued);

void port_send_queue(struct port_out *out, struct port_sending *s)
{
	if (TAILQ_EMPTY(&out->queue))
		TAILQ_INSERT_TAIL(&port_queued, out, link_queued);
	TAILQ_INSERT_TAIL(&out->queue, s, link);
	out->n_inside++;
}

void port_send_unqueue(struct port_out *out, struct port_sending *s)
{
	TAILQ_REMOVE(&out->queue, s, link);
	out->n_inside--;
	if (TAILQ_EMPTY(&out->queue))
		TAILQ_REMOVE(&port_queued, out, link_queued);
	protocol_count_event();
}

static void push_queue(struct port_out *out)
{
	struct port_sending *s;
	int e = 0;

	while (e != -EAGAIN && (s = TAILQ_FIRST(&out->queue))) {
		e = port_push(out, s);
		if (e == -EAGAIN)
			return;
		s->complete = true;
		s->error = e;
		port_send_unqueue(out, s);
	}
	/* Told to all who waited; whoever has the number by then is another one. */
	if (port_is_end(e) && !out->n_inside)
		port_out_free(out);
}

void port_push_queued(void)
{
	struct port_out *out, *next;

	port_credit_move_on();
	port_budget_move_on();
	port_moves_on();
	for (out = TAILQ_FIRST(&port_queued); out; out = next) {
		next = TAILQ_NEXT(out, link_queued);
		push_queue(out);
	}
}
