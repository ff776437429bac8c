/*
 * pulc/tag.h: tagged messages, as a program uses them.
 *
 * Every call begins an operation of native_ops.c; those that wait have theirs on the stack. An
 * operation belongs to the process and not to a port, and ends in a forked child with -ECHILD.
 *
 * A call that a signal interrupts takes its operation back. That of a long message which was
 * offered already can only be taken back with the receiver's consent, so the call waits for that,
 * and then says which of the two came first.
 *
 * Source: bip-1997, 2.
 */
#include <pulc/block.h>
#include <pulc/tag.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "at_once.h"
#include "clock.h"
#include "macros.h"
#include "native.h"

_Static_assert(PULC_TAG_SHORT == TAG_EAGER_MAX && PULC_ANY_PEER == TAG_ANY_PEER, "the same");

static LIST_HEAD(, pulc_op) ops = LIST_HEAD_INITIALIZER(ops);

int native_enter_attached(void)
{
	int e;

	if (UNLIKELY(!native_lock()))
		return -EDEADLK;
	e = native_attach_or_linked();
	if (UNLIKELY(e < 0))
		native_unlock();
	return e;
}

/* NULL: it is gone, or never was joined with us. */
static struct peer *find_peer(uint32_t client)
{
	return client ? native_peer(client) : native_self();
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* All of an operation on the stack but `iov` and what is of no use to its kind: to clear the whole
 * would take longer than a short message. */
static inline void op_begin(struct pulc_op *op)
{
	op->p = NULL;
	op->out = NULL;
	op->flags = 0;
	op->is_tagged = true;
	op->is_send = op->is_cancelled = op->is_parents = false;
}

static inline void op_for_send(struct pulc_op *op, uint64_t tag, const void *buf, size_t len)
{
	op_begin(op);
	op->is_send = true;
	tag_send_init(&op->tag_send, tag, buf, len);
}

static inline void op_for_receive(struct pulc_op *op, const struct pulc_tag *want, void *buf,
				  size_t len)
{
	op_begin(op);
	tag_receive_init(&op->tag_receive, want->tag, want->mask, want->peer);
	op->tag_receive.buf = buf;
	op->tag_receive.size = len;
}

/* 0: complete, or under way; or why it is none. */
static int begin_send(struct pulc_op *op, uint32_t client)
{
	struct tag_send *s = &op->tag_send;
	int e;

	s->peer = find_peer(client);
	if (UNLIKELY(!s->peer))
		return client ? -ECONNRESET : -ENOMEM;
	e = tag_send_begin(s);
	/* There may be room, or credit, that we have not heard of yet. */
	if (e == 0 && !s->complete)
		native_progress();
	return e;
}

/* Nobody else's message will do, and it is not going to send one. */
static bool is_hopeless(const struct tag_receive *r)
{
	return r->peer != TAG_ANY_PEER && !find_peer(r->peer);
}

static int begin_receive(struct pulc_op *op)
{
	struct tag_receive *r = &op->tag_receive;
	int e = tag_take(r);

	if (e == -EAGAIN && UNLIKELY(is_hopeless(r))) {
		/* psid may have told us of it just now. */
		native_progress();
		e = tag_take(r);
		if (e == -EAGAIN && is_hopeless(r))
			return -ECONNRESET;
	}
	if (e == -EAGAIN)
		tag_post(r);
	return 0;
}

/* An operation on `len` bytes, and the lock. 0; -EINVAL, -ENOMEM; as native_enter_attached. */
static int enter_with_op(size_t len, struct pulc_op **ret_op)
{
	struct pulc_op *op;
	int e;

	if (len > SSIZE_MAX)
		return -EINVAL;
	op = calloc(1, sizeof(*op));
	if (!op)
		return -ENOMEM;
	e = native_enter_attached();
	if (e < 0)
		free(op);
	else
		*ret_op = op;
	return e;
}

/* A copy of what began well, for the caller. */
static int begun(struct pulc_op *op, int e, pulc_op **ret_op)
{
	if (e < 0) {
		free(op);
		return e;
	}
	LIST_INSERT_HEAD(&ops, op, link);
	*ret_op = op;
	return 0;
}

PULC_EXPORT int pulc_tag_isend(uint32_t peer, uint64_t tag, const void *buf, size_t len,
			       pulc_op **ret_op)
{
	struct pulc_op *op;
	int e = enter_with_op(len, &op);

	if (e < 0)
		return e;
	op_for_send(op, tag, buf, len);
	e = begun(op, begin_send(op, peer), ret_op);
	native_unlock();
	return e;
}

PULC_EXPORT int pulc_tag_ireceive(const struct pulc_tag *want, void *buf, size_t len,
				  pulc_op **ret_op)
{
	struct pulc_op *op;
	int e = enter_with_op(len, &op);

	if (e < 0)
		return e;
	op_for_receive(op, want, buf, len);
	e = begun(op, begin_receive(op), ret_op);
	native_unlock();
	return e;
}

/* ---- ending ---------------------------------------------------------------------------------- */

bool native_tag_is_complete(const struct pulc_op *op)
{
	return op->is_send ? op->tag_send.complete : op->tag_receive.complete;
}

ssize_t native_tag_result(const struct pulc_op *op)
{
	int error = op->is_send ? op->tag_send.error : op->tag_receive.error;

	if (op->is_cancelled || (op->is_send && op->tag_send.withdrawn))
		return -ECANCELED;
	if (error < 0)
		return error;
	return (ssize_t)(op->is_send ? op->tag_send.size : op->tag_receive.done);
}

int native_tag_cancel(struct pulc_op *op)
{
	if (op->is_send)
		return tag_send_cancel(&op->tag_send);
	tag_unpost(&op->tag_receive);
	op->is_cancelled = op->tag_receive.complete = true;
	protocol_count_event();
	return 0;
}

static void describe(const struct tag_receive *r, struct pulc_tagged *ret_message)
{
	if (ret_message)
		*ret_message = (struct pulc_tagged){
			.tag = r->got_tag,
			.size = r->got_size,
			.peer = r->got_peer,
		};
}

PULC_EXPORT ssize_t pulc_tag_end(pulc_op *op, struct pulc_tagged *ret_message)
{
	ssize_t n;

	if (!op || !op->is_tagged)
		return -EINVAL;
	if (!native_lock())
		return -EDEADLK;
	n = op->is_parents ? 0 : native_op_await(op);
	if (n == 0 && !op->is_parents && !op->is_send && native_tag_result(op) >= 0)
		describe(&op->tag_receive, ret_message);
	native_unlock();
	return n < 0 ? n : pulc_op_end(op, NULL);
}

/* ---- calls that wait ------------------------------------------------------------------------- */

/* The operation is not left before it is complete. */
static ssize_t end_waiting(struct pulc_op *op)
{
	bool interrupted = false;
	int e = native_op_await(op);

	while (e == -EINTR) {
		if (!interrupted)
			interrupted = native_tag_cancel(op) >= 0;
		e = native_op_await(op);
	}
	return native_tag_result(op);
}

PULC_EXPORT ssize_t pulc_tag_send(uint32_t peer, uint64_t tag, const void *buf, size_t len)
{
	struct peer *to;
	struct pulc_op op;
	ssize_t n;
	int e;

	if (len > SSIZE_MAX)
		return -EINVAL;
	e = native_enter_attached();
	if (UNLIKELY(e < 0))
		return e;
	to = peer ? native_peer(peer) : NULL;
	if (LIKELY(to && tag_send_at_once(to, tag, buf, len))) {
		turn_sent(&native_core.turn);
		native_unlock();
		return (ssize_t)len;
	}
	op_for_send(&op, tag, buf, len);
	n = begin_send(&op, peer);
	if (LIKELY(n == 0))
		n = op.tag_send.complete ? native_tag_result(&op) : end_waiting(&op);
	native_unlock();
	return n == -ECANCELED ? -EINTR : n;
}

/* Whose message is probably the next one; NULL: there is nobody. */
static inline struct peer *awaited(const struct tag_receive *r)
{
	struct peer *peer = native_core.last;

	if (r->peer != TAG_ANY_PEER)
		return native_peer(r->peer);
	if (UNLIKELY(!peer))
		peer = TAILQ_FIRST(native_peers());
	return LIKELY(peer && peer->link) ? peer : NULL;
}

/* The same, if it may be taken from there. */
static inline struct peer *short_source(const struct tag_receive *r)
{
	return LIKELY(!tag_any_early()) && native_may_be_short() ? awaited(r) : NULL;
}

/* From whom the last one came, or another one, now or in a moment. 1: it is complete; 0: nothing
 * that is so simple; -EINTR. Under the lock, which it gives up. */
static inline int receive_at_once(struct tag_receive *r)
{
	struct peer *peer = short_source(r);
	struct native_short w;
	int e;

	if (UNLIKELY(!peer))
		return 0;
	if (UNLIKELY(peer->link->gathers && native_is_single())) {
		native_let_gather(peer->link);
		peer = short_source(r);
		if (!peer)
			return 0;
	}
	native_short_init(&w);
	while (!tag_take_at_once(r, peer, w.takes_any)) {
		e = native_short_turn(&w, peer);
		if (UNLIKELY(e <= 0))
			return e;
		peer = w.has_found ? native_core.last : awaited(r);
		if (UNLIKELY(!peer || tag_any_early())) {
			native_short_end();
			return 0;
		}
	}
	return 1;
}

static ssize_t receive(struct pulc_op *op, struct pulc_tagged *ret_message)
{
	ssize_t n;
	int e;

	if (op->tag_receive.size > SSIZE_MAX)
		return -EINVAL;
	e = native_enter_attached();
	if (UNLIKELY(e < 0))
		return e;
	n = receive_at_once(&op->tag_receive);
	if (LIKELY(n > 0))
		turn_received(&native_core.turn);
	if (n == 0)
		n = begin_receive(op);
	if (LIKELY(n >= 0))
		n = op->tag_receive.complete ? native_tag_result(op) : end_waiting(op);
	native_unlock();
	if (LIKELY(n >= 0))
		describe(&op->tag_receive, ret_message);
	return n == -ECANCELED ? -EINTR : n;
}

PULC_EXPORT ssize_t pulc_tag_receive(const struct pulc_tag *want, void *buf, size_t len,
				     struct pulc_tagged *ret_message)
{
	struct pulc_op op;

	op_for_receive(&op, want, buf, len);
	return receive(&op, ret_message);
}

PULC_EXPORT ssize_t pulc_tag_take(const struct pulc_tag *want, size_t size_max,
				  const void **ret_block, struct pulc_tagged *ret_message)
{
	struct pulc_op op;
	ssize_t n;

	op_for_receive(&op, want, NULL, MIN(size_max, (size_t)SSIZE_MAX));
	op.tag_receive.lends = true;
	n = receive(&op, ret_message);
	if (n >= 0)
		*ret_block = op.tag_receive.lent;
	return n;
}

/* ---- looking --------------------------------------------------------------------------------- */

static int probe(void *arg)
{
	struct tag_receive *r = arg;

	if (tag_look(r))
		return 1;
	return is_hopeless(r) ? -ECONNRESET : -EAGAIN;
}

PULC_EXPORT int pulc_tag_probe(const struct pulc_tag *want, int msec_timeout,
			       struct pulc_tagged *ret_message)
{
	struct pulc_op op;
	uint64_t deadline = UINT64_MAX;
	int e;

	if (msec_timeout >= 0)
		deadline = nsec_now() + (uint64_t)msec_timeout * NSEC_PER_MSEC;
	op_for_receive(&op, want, NULL, 0);
	e = native_enter_attached();
	if (e < 0)
		return e;
	e = native_look_until(probe, &op.tag_receive, deadline);
	native_unlock();
	if (e == 1)
		describe(&op.tag_receive, ret_message);
	return e == -ETIMEDOUT ? 0 : e;
}

bool native_tag_ready(const struct pulc_tag *want)
{
	struct pulc_op op;

	op_for_receive(&op, want, NULL, 0);
	return tag_look(&op.tag_receive) || is_hopeless(&op.tag_receive);
}

static uint32_t speed(const struct tag_rate *rate)
{
	return rate->nsec_per_megabyte
		       ? (uint32_t)(1000.0 * (1 << 20) / (double)rate->nsec_per_megabyte)
		       : 0;
}

PULC_EXPORT int pulc_tag_path(uint32_t client, struct pulc_tag_path *ret_path)
{
	const struct tag_peer *tp;
	const struct peer *peer;
	int e = native_enter_attached();

	if (e < 0)
		return e;
	peer = find_peer(client);
	if (peer) {
		tp = peer->tags;
		*ret_path = (struct pulc_tag_path){ .may_pull = tag_may_pull(peer) };
		if (tp) {
			ret_path->n_pulled = tp->rates[TAG_WAY_PULL].n;
			ret_path->n_pushed = tp->rates[TAG_WAY_PUSH].n;
			ret_path->mbs_pulled = speed(&tp->rates[TAG_WAY_PULL]);
			ret_path->mbs_pushed = speed(&tp->rates[TAG_WAY_PUSH]);
		}
	}
	native_unlock();
	return peer ? 0 : -ECONNRESET;
}

/* ---- fork ------------------------------------------------------------------------------------ */

void native_tag_forked(void)
{
	struct pulc_op *op;

	LIST_FOREACH(op, &ops, link)
		op->is_parents = true;
	LIST_INIT(&ops);
	tag_forget();
}
