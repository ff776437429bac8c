/*
 * The port protocol's handler: what a frame does to a port.
 *
 * A frame for somebody who waits with a buffer goes straight there, out of the transport's memory:
 * one copy. All others are queued. Nothing in a frame is believed: the source must be a port that
 * psid has granted to the peer, sizes must add up, and a source that has more on its way than its
 * credit allows has broken the rules. Each of these ends the link, but for a source unknown to us,
 * which waits for psid's news.
 *
 * Source: pulc-1998, 4.5.2 (handlers queue in single streams, multiple streams or datagrams; the
 * receive handler's posted buffers, 4.6.1).
 */
#include "macros.h"
#include "pairs.h"
#include "port.h"

/* ---- straight to the waiter ------------------------------------------------------------------ */

/* Nothing that came before is still to be taken, and a stream's bytes are of one source. */
static inline bool is_wanted(const struct port_in *in, const struct port_request *r)
{
	if (!port_is_from(in, r))
		return false;
	if (!(r->from ? TAILQ_EMPTY(&in->queue) : TAILQ_EMPTY(&in->port->messages)))
		return false;
	return r->done == 0 || (r->source == in->from && r->source_node == in->peer->node);
}

/* Whose turn it is. */
static inline struct port_request *wanted_by(const struct port_in *in)
{
	struct port_request *r;

	TAILQ_FOREACH(r, &in->port->posted, link)
		if (is_wanted(in, r))
			return r;
	return NULL;
}

/* A stream's reader takes more while it has room and nobody stands behind it. */
static void complete(struct port_in *in, struct port_request *r)
{
	r->complete = true;
	r->source = in->from;
	r->source_node = in->peer->node;
	if (r->posted &&
	    (in->port->kind == PORT_D || r->once || r->done == r->size || TAILQ_NEXT(r, link)))
		port_take_off(in->port, r);
}

/* There is more than the reader has room for. The rest is another one's, or kept. */
static int give_rest(struct port_in *in, struct port_request *r, uint32_t len, size_t room)
{
	int e;

	port_take_off(in->port, r);
	e = port_queue_frame(in, len, (uint32_t)room);
	if (e == 0) {
		complete(in, r);
		return 0;
	}
	/* The frame will be shown again, and given again. */
	r->done -= room;
	port_repost(in->port, r);
	return e;
}

/* A whole message, or a piece of a stream, of len bytes. */
static int give(struct port_in *in, struct port_request *r, uint32_t len)
{
	struct hal_link *link = in->peer->link;
	struct iovec iov[16];
	size_t room;
	unsigned n;

	if (LIKELY(r->n == 1 && r->size && r->done == 0)) {
		room = MIN(r->size, (size_t)len);
		(void)link->ops->copy(link, r->iov, 1);
	} else {
		if (port_is_borrow(r))
			return port_queue_frame(in, len, 0);
		n = port_slice(r->iov, r->n, r->done, len, iov, ARRAY_SIZE(iov), &room);
		/* More pieces than are worth naming: by way of the queue. */
		if (room < len && r->done + room < r->size)
			return port_queue_frame(in, len, 0);
		(void)link->ops->copy(link, iov, n);
	}
	r->done += room;
	in->port->in_last = in;
	if (UNLIKELY(in->port->kind != PORT_D && room < len))
		return give_rest(in, r, len, room);
	r->size_whole = in->port->kind == PORT_D ? len : r->done;
	port_taken(in, (uint64_t)len + PORT_OVERHEAD);
	complete(in, r);
	/* To keep the next one would cost a copy more than to wait for its buffer. */
	if (TAILQ_EMPTY(&in->port->posted))
		protocol_enough = true;
	return 0;
}

/* ---- to the waiter, or kept ------------------------------------------------------------------ */

static int whole(struct port_in *in, uint32_t len)
{
	const uint64_t cost = (uint64_t)len + PORT_OVERHEAD;
	struct port_request *r;
	int e;

	if (in->partial || in->direct)
		return -EBADMSG;
	/* Nothing of a stream is no piece of it: its reader would take it for more than that. */
	if (UNLIKELY(len == 0 && in->port->kind != PORT_D))
		return -EBADMSG;
	if (UNLIKELY(!port_credit_allows(in)))
		return -EBADMSG;
	/* Before it is taken, and told of. */
	port_credit_begun(in, cost);
	r = wanted_by(in);
	e = LIKELY(r) ? give(in, r, len) : port_queue_frame(in, len, 0);
	if (UNLIKELY(e < 0))
		port_credit_begun(in, -cost);
	return e;
}

/* ---- long datagrams -------------------------------------------------------------------------- */

/* The waiter's buffer takes all of it: from now on it is bound to this message. */
static void bind(struct port_in *in, struct port_request *r)
{
	port_take_off(in->port, r);
	in->direct = r;
	r->bound = in;
	r->done = 0;
}

static int direct_more(struct port_in *in, uint32_t len, uint32_t skip, bool last)
{
	struct port_request *r = in->direct;
	struct hal_link *link = in->peer->link;
	struct iovec iov[16];
	uint64_t scratch;
	size_t got;
	unsigned n;

	iov[0] = (struct iovec){ .iov_base = &scratch, .iov_len = skip };
	n = 1 + port_slice(r->iov, r->n, r->done, len - skip, iov + 1, ARRAY_SIZE(iov) - 1, &got);
	if (got < len - skip || r->done + got > in->size_long ||
	    (last && r->done + got != in->size_long))
		return -EBADMSG;
	(void)link->ops->copy(link, iov, n);
	r->done += got;
	/* Given back as it comes: a sender with a row of long messages begins the next one without
	 * a stop. */
	port_taken(in, got + (last ? PORT_OVERHEAD : 0));
	if (!last)
		return 0;
	in->direct = NULL;
	r->bound = NULL;
	r->size_whole = r->done;
	complete(in, r);
	protocol_enough = true;
	return 0;
}

static int piece(struct port_in *in, uint32_t len, uint32_t skip, bool last)
{
	return in->direct ? direct_more(in, len, skip, last) : port_queue_more(in, len, skip, last);
}

static int first(struct port_in *in, uint32_t len)
{
	struct port_request *r = wanted_by(in);
	struct hal_link *link = in->peer->link;
	uint64_t size = 0;
	struct iovec iov = { .iov_base = &size, .iov_len = sizeof(size) };
	bool needs_leave;

	if (in->port->kind != PORT_D || in->partial || in->direct || len < sizeof(size))
		return -EBADMSG;
	(void)link->ops->copy(link, &iov, 1);
	if (size > PORT_MESSAGE_MAX || len - sizeof(size) > size)
		return -EBADMSG;
	needs_leave = size > link->caps.frame_max && port_credit_is_full(in->peer);
	if (!port_credit_allows(in) || (needs_leave && !port_long_has_leave(in)))
		return -EBADMSG;
	in->size_long = size;
	/* A buffer of many pieces, or too small a one, is served from the queue. */
	if (r && r->n == 1 && r->size >= size)
		bind(in, r);
	else if (port_queue_begin(in, size) < 0)
		return -EAGAIN;
	port_credit_begun(in, size + PORT_OVERHEAD);
	if (needs_leave)
		port_long_begun(in);
	return piece(in, len, sizeof(size), false);
}

static int more(struct port_in *in, uint32_t len, bool last)
{
	int e;

	if (!in->direct && !in->partial)
		return -EBADMSG;
	e = piece(in, len, 0, last);
	if (e == 0 && last)
		port_long_ended(in);
	return e;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static int data(struct port_in *in, const struct hal_frame *f)
{
	if (LIKELY(f->kind == (PORT_FIRST | PORT_LAST)))
		return whole(in, f->len);
	if (f->kind == PORT_FIRST)
		return first(in, f->len);
	return more(in, f->len, f->kind & PORT_LAST);
}

/* The peer has the port that the frame comes from; or nothing can be said of it yet. */
static bool is_known(struct peer *peer, const struct hal_frame *f)
{
	bool self = peer->link->caps.flags & HAL_IMMEDIATE;

	if (self ? port_find((uint32_t)f->word) != NULL : peer_has(peer, (uint32_t)f->word))
		return true;
	if (!self)
		peer->held |= PEER_HELD_NEWS;
	return false;
}

static int copy_about(const struct peer *peer, const struct hal_frame *f, struct port_about *about)
{
	struct iovec iov = { .iov_base = about, .iov_len = sizeof(*about) };

	if (f->len != sizeof(*about))
		return -EBADMSG;
	(void)peer->link->ops->copy(peer->link, &iov, 1);
	return about->life ? 0 : -EBADMSG;
}

static int begin_source(struct peer *peer, struct port *port, const struct hal_frame *f,
			struct port_about about)
{
	struct port_in *before = port_in_find(port, peer, (uint32_t)f->word), *in = before;

	if (!before || before->life)
		in = port_in_new(port, peer, (uint32_t)f->word);
	if (!in)
		return -EAGAIN;
	in->life = about.life;
	in->era = protocol_era;
	in->word = f->word;
	peer->in_last = in;
	/* After that: who waits for this source waits for its new life. */
	if (before && before != in)
		port_in_end(before, -EPIPE);
	port_budget_begun(in, about.value & PORT_ASKS);
	return 0;
}

static int begun(struct peer *peer, const struct hal_frame *f)
{
	uint32_t to = (uint32_t)(f->word >> 32), from = (uint32_t)f->word;
	struct port *port = port_find(to);
	struct port_about about = { 0 };
	int e = copy_about(peer, f, &about);

	if (e < 0)
		return e;
	if (!is_known(peer, f))
		return -EAGAIN;
	/* One of another kind is another port, for all that the source knows of it. */
	if (port && port->kind == (about.value & ~(uint64_t)PORT_ASKS))
		return port_budget_bars(peer) ? -EAGAIN : begin_source(peer, port, f, about);
	about.value = 0;
	e = port_say(peer, (uint64_t)from << 32 | to, PORT_REFUSED, about);
	return e == -ENOBUFS || e == -ENOMEM ? -EAGAIN : 0;
}

/* The source and the port that a data frame names. Returns 0 with none: it is of a life that has
 * ended here. */
static int find(struct peer *peer, const struct hal_frame *f, struct port_in **ret_in)
{
	struct port *port = port_find((uint32_t)(f->word >> 32));
	struct port_in *in = port ? port_in_find(port, peer, (uint32_t)f->word) : NULL;

	*ret_in = NULL;
	if (!is_known(peer, f))
		return -EAGAIN;
	if (in && in->life)
		peer->in_last = *ret_in = in;
	return 0;
}

static int credit(struct port_out *out, uint64_t freed)
{
	if (freed - out->freed > out->sent - out->freed)
		return -EBADMSG;
	port_credit_freed(out, freed);
	return 0;
}

static int hold(struct port_out *out, uint64_t value)
{
	if (value > PORT_HOLD_LONG)
		return -EBADMSG;
	port_out_hold(out, (enum port_hold)value);
	return 0;
}

/* What a destination says of the way to it, which may be gone. */
static int said_back(struct peer *peer, const struct hal_frame *f)
{
	struct port *port = port_find((uint32_t)(f->word >> 32));
	struct port_out *out = port ? port_out_find(port, peer->node, (uint32_t)f->word) : NULL;
	struct port_about about = { 0 };
	int e = copy_about(peer, f, &about);

	if (e < 0 || !out || out->error || out->peer != peer || out->life != about.life)
		return e;
	if (f->kind == PORT_CREDIT)
		return credit(out, about.value);
	if (f->kind == PORT_HOLD)
		return hold(out, about.value);
	if (f->kind == PORT_MAY)
		return port_long_answered(out, about.value);
	if (f->kind == PORT_GO)
		port_out_hold(out, PORT_HOLD_NONE);
	else
		port_out_end(out, -ECONNREFUSED);
	return 0;
}

/* What a source asks of the way from it, which may have ended. */
static int wanted(struct peer *peer, const struct hal_frame *f)
{
	struct port *port = port_find((uint32_t)(f->word >> 32));
	struct port_in *in = port ? port_in_find(port, peer, (uint32_t)f->word) : NULL;
	struct port_about about = { 0 };
	int e = copy_about(peer, f, &about);

	if (e < 0 || !in || in->life != about.life)
		return e;
	return port_long_wanted(in, about.value);
}

static int source_closed(struct peer *peer, const struct hal_frame *f)
{
	struct port *port = port_find((uint32_t)(f->word >> 32));
	struct port_in *in = port ? port_in_find(port, peer, (uint32_t)f->word) : NULL;

	if (in)
		port_in_end(in, -EPIPE);
	return 0;
}

/* What concerns a port that passes to another process. */
static int moving(struct peer *peer, const struct hal_frame *f)
{
	uint32_t number = (uint32_t)(f->word >> 32);
	uint64_t move = 0;
	struct iovec iov = { .iov_base = &move, .iov_len = sizeof(move) };
	struct port *port;

	if ((f->kind >= PORT_CARRIES && f->kind <= PORT_CARRIED) || f->kind == PORT_KEY)
		return port_take_arrived(peer, f);
	if (f->len != sizeof(move))
		return -EBADMSG;
	(void)peer->link->ops->copy(peer->link, &iov, 1);
	port = port_find(number);
	switch (f->kind) {
	case PORT_OVER:
		peer_over(peer, number);
		return 0;
	case PORT_STOPPED:
		if (port && port->give)
			port_give_stopped(port, peer, move);
		return 0;
	case PORT_MINE:
	case PORT_YOURS:
		if (port && port->give)
			port_give_answered(port, peer, move, f->kind == PORT_MINE);
		return 0;
	case PORT_WHOSE:
		return port_take_asked(peer, number, move);
	case PORT_STAYS:
	case PORT_MOVED:
		if (f->kind == PORT_MOVED)
			peer_over(peer, number);
		port_take_told(peer, number);
		return port_move_said(peer, number, f->kind, move);
	case PORT_MOVE:
		return port_move_said(peer, number, f->kind, move);
	default:
		return -EBADMSG;
	}
}

static int seldom(struct peer *peer, const struct hal_frame *f)
{
	switch (f->kind) {
	case PORT_BEGIN:
		return begun(peer, f);
	case PORT_WANTS:
		return wanted(peer, f);
	case PORT_MAY:
		return said_back(peer, f);
	default:
		return moving(peer, f);
	}
}

int port_arrived(struct peer *peer, const struct hal_frame *f)
{
	struct port_in *in = peer->in_last;
	int e;

	if (UNLIKELY(f->kind >= PORT_MOVE))
		return seldom(peer, f);
	if (UNLIKELY(f->kind == PORT_CLOSED))
		return source_closed(peer, f);
	if (UNLIKELY(f->kind >= PORT_CREDIT))
		return said_back(peer, f);
	if (LIKELY(in && in->word == f->word && !in->ended))
		return data(in, f);
	e = find(peer, f, &in);
	return in ? data(in, f) : e;
}
