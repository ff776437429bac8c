/*
 * The short way of short messages: from the sender's buffer straight to the link, from the link
 * straight to the receiver's buffer.
 *
 * Most messages are one frame, for a destination that was written to just before, with credit and
 * room; and most receives find one that is theirs, from the source that was heard last. Nothing of
 * what the other files are about is wanted then: no list of pieces, no request that others could
 * serve, no queue. So each of the four functions here asks once whether anything at all stands in
 * the way, counts, and lets the HAL move the frame: a word by its lane (hal/lane.h), without a
 * call; else by put() and take(). If something does stand in the way nothing is done: the general
 * way does it, or says why not.
 *
 * What must hold: nothing is passed. A message that waits (a frame without room, a queued send, one
 * that has begun) is before a new one, what was received and not taken is before what is on the
 * link, and a receive that was posted is before one that is made now.
 */
#include "at_once.h"

#include "lane.h"
#include "macros.h"

/* Frames of a stream in one call. */
#define N_FRAMES 64u

/* Nothing waits for room, and the link is there. */
static inline bool is_open(const struct peer *peer)
{
	return peer->link && STAILQ_EMPTY(&peer->pending) && !peer->no_room;
}

/* True: the HAL has done it. did: HAL_DID_ */
static inline bool has_done(struct peer *peer, int e, unsigned did)
{
	if (UNLIKELY(e == HAL_DONE_TELL))
		peer_did(peer, did);
	return LIKELY(e > 0);
}

static inline bool put(struct peer *peer, struct hal_frame f, const void *buf)
{
	return has_done(peer, peer->link->ops->put(peer->link, f, buf), HAL_DID_SEND);
}

/* What lies on the link is next, whoever it is for. */
static inline bool is_next(const struct peer *peer)
{
	return is_open(peer) && !peer->held;
}

static inline bool take(struct peer *peer, const struct hal_wanted *w, struct hal_frame *ret_f)
{
	if (!has_done(peer, peer->link->ops->take(peer->link, w, ret_f), HAL_DID_TAKE))
		return false;
	protocol_count_event();
	return true;
}

/* ---- ports ----------------------------------------------------------------------------------- */

#define HEADER_WHOLE HAL_LANE_HEADER(PROTOCOL_PORT, PORT_FIRST | PORT_LAST)
#define COST_WORD (HAL_LANE_WORD + PORT_OVERHEAD)

static inline __attribute__((always_inline)) bool push_word(const struct port *port,
							    struct port_out *out, const void *buf)
{
	uint64_t word = (uint64_t)out->to << 32 | port->number;
	int e = hal_lane_put(out->peer->link, word, HEADER_WHOLE, buf);

	if (!has_done(out->peer, e, HAL_DID_SEND))
		return false;
	port_count_sent(out, COST_WORD);
	return true;
}

static __attribute__((noinline)) bool push_frame(struct port_out *out, const void *buf, size_t len)
{
	struct hal_frame f = {
		.word = (uint64_t)out->to << 32 | out->port->number,
		.len = (uint32_t)len,
		.protocol = PROTOCOL_PORT,
		.kind = PORT_FIRST | PORT_LAST,
	};

	if (UNLIKELY(len > out->peer->link->caps.frame_good || (len == 0 && out->kind != PORT_D)))
		return false;
	/* Counted before it is sent: to oneself, the receiver's report of having taken it comes
	 * first. */
	port_count_sent(out, len + PORT_OVERHEAD);
	if (LIKELY(put(out->peer, f, buf)))
		return true;
	port_count_sent(out, -(uint64_t)(len + PORT_OVERHEAD));
	return false;
}

bool port_push_at_once(struct port *port, uint32_t node, uint32_t to, const void *buf, size_t len)
{
	struct port_out *out = port_out_find(port, node, to);

	if (UNLIKELY(!out || !port_may_begin(out) || !TAILQ_EMPTY(&out->queue) ||
		     !is_open(out->peer)))
		return false;
	return (LIKELY(len == HAL_LANE_WORD) && LIKELY(push_word(port, out, buf))) ||
	       push_frame(out, buf, len);
}

/* Nothing stands between the frames of this source's link and who asks at the port, and the source
 * is not beyond its credit. */
static inline bool is_clear(const struct port *port, const struct port_in *in)
{
	return TAILQ_EMPTY(&port->messages) && TAILQ_EMPTY(&port->posted) && !in->ended &&
	       !in->partial && !in->direct && in->begun - in->taken <= PORT_WINDOW &&
	       is_next(in->peer);
}

static inline __attribute__((always_inline)) bool take_word(struct port_in *in, void *buf)
{
	const struct hal_lane_wanted wanted = { in->word, UINT64_MAX, HEADER_WHOLE };
	uint64_t word;
	int e = hal_lane_take(in->peer->link, wanted, buf, &word);

	if (!has_done(in->peer, e, HAL_DID_TAKE))
		return false;
	protocol_count_event();
	port_credit_begun(in, COST_WORD);
	port_taken(in, COST_WORD);
	in->port->in_last = in;
	return true;
}

static __attribute__((noinline)) ssize_t take_frame(struct port_in *in, void *buf, size_t size)
{
	const size_t size_stream = MIN(size, (size_t)UINT32_MAX);
	const struct hal_wanted wanted = {
		.word = in->word,
		.mask = UINT64_MAX,
		.len_max = in->port->kind == PORT_D ? UINT32_MAX : (uint32_t)size_stream,
		.protocol = PROTOCOL_PORT,
		.kind = PORT_FIRST | PORT_LAST,
		.buf = buf,
		.size = size,
	};
	struct hal_frame f;

	if (!take(in->peer, &wanted, &f))
		return -EAGAIN;
	if (UNLIKELY(f.len == 0 && in->port->kind != PORT_D)) {
		peer_break(in->peer, -EBADMSG); /* as in port_arrive.c */
		return -EAGAIN;
	}
	port_credit_begun(in, (uint64_t)f.len + PORT_OVERHEAD);
	port_taken(in, (uint64_t)f.len + PORT_OVERHEAD);
	in->port->in_last = in;
	return (ssize_t)MIN((size_t)f.len, size);
}

static inline __attribute__((always_inline)) ssize_t take_one(struct port_in *in, void *buf,
							      size_t size, bool any)
{
	if (LIKELY(size >= HAL_LANE_WORD) && LIKELY(take_word(in, buf)))
		return HAL_LANE_WORD;
	return any ? take_frame(in, buf, size) : -EAGAIN;
}

/* `done` bytes are there, and the reader of a stream has room for more. */
static __attribute__((noinline)) ssize_t take_more(struct port_in *in, char *buf, size_t size,
						   ssize_t done)
{
	ssize_t n;

	for (unsigned i = 1; (size_t)done < size && i < N_FRAMES; i++) {
		if (in->peer->link->gathers || !is_clear(in->port, in))
			break;
		n = take_one(in, buf + done, size - (size_t)done, true);
		if (n < 0)
			break;
		done += n;
	}
	return done;
}

ssize_t port_take_at_once(struct port_in *in, void *buf, size_t size, bool any)
{
	struct port *port = in->port;
	ssize_t done;

	if (UNLIKELY(!is_clear(port, in)))
		return -EAGAIN;
	done = take_one(in, buf, size, any);
	if (LIKELY(done < 0 || port->kind == PORT_D || (size_t)done == size))
		return done;
	return take_more(in, buf, size, done);
}

/* ---- tagged messages ------------------------------------------------------------------------- */

#define HEADER_EAGER HAL_LANE_HEADER(PROTOCOL_TAG, TAG_EAGER)
#define COST_TAGGED_WORD (HAL_LANE_WORD + TAG_OVERHEAD)

static inline __attribute__((always_inline)) bool tag_send_word(struct peer *peer, uint64_t tag,
								const void *buf)
{
	int e = hal_lane_put(peer->link, tag, HEADER_EAGER, buf);

	if (!has_done(peer, e, HAL_DID_SEND))
		return false;
	tag_count_sent(peer->tags, COST_TAGGED_WORD);
	return true;
}

static __attribute__((noinline)) bool tag_send_frame(struct peer *peer, uint64_t tag,
						     const void *buf, size_t len)
{
	struct hal_frame f = {
		.word = tag,
		.len = (uint32_t)len,
		.protocol = PROTOCOL_TAG,
		.kind = TAG_EAGER,
	};

	if (UNLIKELY(len > TAG_EAGER_MAX || len > peer->link->caps.frame_max))
		return false;
	tag_count_sent(peer->tags, len + TAG_OVERHEAD);
	if (LIKELY(put(peer, f, buf)))
		return true;
	tag_count_sent(peer->tags, -(uint64_t)(len + TAG_OVERHEAD));
	return false;
}

bool tag_send_at_once(struct peer *peer, uint64_t tag, const void *buf, size_t len)
{
	const struct tag_peer *tp = peer->tags;

	if (UNLIKELY(!tp || !is_open(peer) || !TAILQ_EMPTY(&tp->queue) ||
		     tp->sent - tp->freed >= TAG_WINDOW))
		return false;
	return (LIKELY(len == HAL_LANE_WORD) && LIKELY(tag_send_word(peer, tag, buf))) ||
	       tag_send_frame(peer, tag, buf, len);
}

static inline __attribute__((always_inline)) bool tag_take_word(struct tag_receive *r,
								struct peer *peer)
{
	const struct hal_lane_wanted wanted = { r->tag, r->mask, HEADER_EAGER };
	uint64_t tag;
	int e = hal_lane_take(peer->link, wanted, r->buf, &tag);

	if (!has_done(peer, e, HAL_DID_TAKE))
		return false;
	protocol_count_event();
	peer->tags->got += COST_TAGGED_WORD;
	tag_taken(peer, COST_TAGGED_WORD);
	r->done = HAL_LANE_WORD;
	r->complete = true;
	tag_describe(r, peer->client, tag, HAL_LANE_WORD);
	return true;
}

static __attribute__((noinline)) bool tag_take_frame(struct tag_receive *r, struct peer *peer)
{
	const struct hal_wanted wanted = {
		.word = r->tag,
		.mask = r->mask,
		.len_max = TAG_EAGER_MAX,
		.protocol = PROTOCOL_TAG,
		.kind = TAG_EAGER,
		.buf = r->buf,
		.size = r->size,
	};
	struct hal_frame f;

	if (!take(peer, &wanted, &f))
		return false;
	peer->tags->got += (uint64_t)f.len + TAG_OVERHEAD;
	tag_taken(peer, (uint64_t)f.len + TAG_OVERHEAD);
	r->done = MIN((size_t)f.len, r->size);
	r->complete = true;
	tag_describe(r, peer->client, f.word, f.len);
	return true;
}

bool tag_take_at_once(struct tag_receive *r, struct peer *peer, bool any)
{
	const struct tag_peer *tp = peer->tags;

	if (UNLIKELY(!tp || r->lends || tag_any_set() || !is_next(peer) ||
		     tp->got - tp->taken > TAG_WINDOW ||
		     (r->peer != peer->client && r->peer != TAG_ANY_PEER)))
		return false;
	return (LIKELY(r->size >= HAL_LANE_WORD) && LIKELY(tag_take_word(r, peer))) ||
	       (any && tag_take_frame(r, peer));
}
