/*
 * Tagged messages: the sender's side.
 *
 * A send stands in one of three rows of its peer's. `queue`: not begun, for want of credit or room;
 * whoever stands there lets nobody pass, so messages leave in the order of their sends. `offers`: a
 * long message that the receiver knows of. `pushing`: it has asked for the bytes. After the last
 * one the send is back among the offers, until the receiver says DONE.
 *
 * Pieces of a long message need no credit, since a buffer waits for them, and several long messages
 * may be under way beside each other and beside short ones. A turn of progress pushes a bounded
 * number of them, so that a long message delays nobody who shares the process.
 *
 * Source: bip-1997, 3.3.2 (pipelined pieces).
 */
#include "macros.h"
#include "step.h"
#include "tag.h"

/* Frames that one peer gets in a turn. */
#define N_TURN 64u
/*
 * So much at most is in the ring before the receiver takes it, half of the largest: the lines that
 * are written next are the ones that were taken longest ago, and have left the receiver's caches,
 * where the writer would have to fetch them from. But no more than is still to be pushed, above a
 * least: an offer that follows stands behind it, and is to be answered before the last of what was
 * asked for is taken.
 */
#define SIZE_AHEAD (2u << 20)
#define SIZE_AHEAD_LEAST (1u << 20)

struct tag_peers tag_busy = TAILQ_HEAD_INITIALIZER(tag_busy);
static uint64_t last_id;
static bool is_away;

void tag_send_away(bool on)
{
	is_away = on;
}

/* ---- rows ------------------------------------------------------------------------------------ */

void tag_set_busy(struct tag_peer *tp)
{
	bool now = !TAILQ_EMPTY(&tp->queue) || !TAILQ_EMPTY(&tp->pushing) || tp->owes;

	shm_pair_set(tp->shown, 1, TAILQ_EMPTY(&tp->queue) ? 0 : SHM_PAIR_WAITS);
	if (now == tp->busy)
		return;
	tp->busy = now;
	if (now)
		TAILQ_INSERT_TAIL(&tag_busy, tp, link);
	else
		TAILQ_REMOVE(&tag_busy, tp, link);
}

static void put(struct tag_send *s, struct tag_sends *to)
{
	if (s->list)
		TAILQ_REMOVE(s->list, s, link);
	s->list = to;
	if (to)
		TAILQ_INSERT_TAIL(to, s, link);
}

static void move(struct tag_send *s, struct tag_sends *to)
{
	put(s, to);
	tag_set_busy(s->peer->tags);
}

static void end(struct tag_send *s, int error)
{
	move(s, NULL);
	s->error = error;
	s->complete = true;
	protocol_count_event();
	if (s->ended)
		s->ended(s);
}

static struct tag_send *find_in(const struct tag_sends *list, uint64_t id)
{
	struct tag_send *s;

	TAILQ_FOREACH(s, list, link)
		if (s->id == id)
			return s;
	return NULL;
}

static struct tag_send *find(const struct tag_peer *tp, uint64_t id)
{
	struct tag_send *s = find_in(&tp->offers, id);

	return s ? s : find_in(&tp->pushing, id);
}

const struct tag_send *tag_find_offered(const struct tag_peer *tp, uint64_t id)
{
	return find(tp, id);
}

/* ---- out ------------------------------------------------------------------------------------- */

/* Counted before it is sent: to oneself, the receiver's report of having taken it comes first. */
static int send_counted(struct tag_send *s, const struct hal_frame *f, const struct iovec *iov)
{
	struct tag_peer *tp = s->peer->tags;
	uint64_t cost = TAG_OVERHEAD + (f->kind == TAG_EAGER ? f->len : 0);
	int e;

	tag_count_sent(tp, cost);
	e = peer_send(s->peer, f, iov, f->len > 0);
	if (UNLIKELY(e < 0))
		tag_count_sent(tp, -cost);
	return e == -EPIPE ? -ECONNRESET : e;
}

static int send_eager(struct tag_send *s)
{
	const struct hal_frame f = {
		.word = s->tag,
		.len = (uint32_t)s->size,
		.protocol = PROTOCOL_TAG,
		.kind = TAG_EAGER,
	};
	struct iovec iov = { .iov_base = (void *)s->buf, .iov_len = s->size };
	int e = send_counted(s, &f, &iov);

	if (LIKELY(e == 0))
		s->complete = true;
	return e;
}

/*
 * It is an offer before it is sent: to oneself, the answer may come first. Its peer stays where it
 * is among those with something to be moved on until it is known how that has gone: whoever goes
 * through them would meet again one that was put behind the others.
 */
static int send_offer(struct tag_send *s)
{
	struct tag_peer *tp = s->peer->tags;
	struct tag_block b = { { ++last_id, s->size, tag_place_of(s) }, s->offset };
	const struct hal_frame f = {
		.word = s->tag,
		.len = s->in_block ? sizeof(b) : sizeof(b.offer),
		.protocol = PROTOCOL_TAG,
		.kind = s->in_block ? TAG_BLOCK
			: is_away   ? TAG_OFFER_AWAY
				    : TAG_OFFER,
	};
	struct iovec iov = { .iov_base = &b, .iov_len = f.len };
	struct tag_sends *before = s->list;
	int e;

	s->id = b.offer.id;
	put(s, &tp->offers);
	e = send_counted(s, &f, &iov);
	if (LIKELY(e == 0)) {
		tag_set_busy(tp);
		STEP(TAG_OFFERED);
		return 0;
	}
	s->id = 0;
	put(s, NULL);
	if (before) {
		/* It was the first one. */
		TAILQ_INSERT_HEAD(before, s, link);
		s->list = before;
	}
	tag_set_busy(tp);
	return e;
}

/* 0: it has left, or was offered; -EAGAIN; or its end. */
static int send_now(struct tag_send *s)
{
	const struct tag_peer *tp = s->peer->tags;

	if (UNLIKELY(!s->peer->link))
		return s->peer->error;
	if (UNLIKELY(tp->sent - tp->freed >= TAG_WINDOW))
		return -EAGAIN;
	if (s->in_block || s->size > MIN(TAG_EAGER_MAX, s->peer->link->caps.frame_max))
		return send_offer(s);
	return send_eager(s);
}

int tag_send_begin(struct tag_send *s)
{
	struct tag_peer *tp = tag_peer_of(s->peer);
	int e;

	if (UNLIKELY(!tp))
		return -ENOMEM;
	e = TAILQ_EMPTY(&tp->queue) ? send_now(s) : -EAGAIN;
	if (e != -EAGAIN)
		return e;
	move(s, &tp->queue);
	return 0;
}

int tag_send_cancel(struct tag_send *s)
{
	int e;

	if (!s->id) {
		s->withdrawn = true;
		end(s, 0);
		return 0;
	}
	if (s->withdrawing)
		return 1;
	/* To oneself, the answer comes first. */
	s->withdrawing = true;
	e = tag_control(s->peer, TAG_WITHDRAW, s->id, NULL, 0);
	if (e == -ENOBUFS || e == -ENOMEM) {
		s->withdrawing = false;
		return e == -ENOBUFS ? -EAGAIN : e;
	}
	STEP(TAG_WITHDRAWS);
	return !s->complete;
}

/* ---- moving on ------------------------------------------------------------------------------- */

static int push_piece(struct tag_send *s)
{
	size_t piece = hal_link_piece(s->peer->link, s->size_wanted);
	size_t len = MIN(s->size_wanted - s->at, piece);
	const struct hal_frame f = {
		.word = s->number,
		.len = (uint32_t)len,
		.protocol = PROTOCOL_TAG,
		.kind = TAG_DATA,
	};
	struct iovec iov = { .iov_base = (void *)(s->buf + s->at), .iov_len = len };
	int e = peer_send(s->peer, &f, &iov, 1);

	if (e < 0)
		return e;
	STEP(TAG_PIECE);
	s->at += len;
	if (s->at == s->size_wanted)
		move(s, &s->peer->tags->offers);
	return 0;
}

static uint64_t most_ahead(const struct tag_peer *tp)
{
	const struct tag_send *s = TAILQ_FIRST(&tp->pushing);
	uint64_t left = 0;

	/* No further than it matters: there may be thousands, and this is asked for each piece. */
	for (; s && left < SIZE_AHEAD; s = TAILQ_NEXT(s, link))
		left += s->size_wanted - s->at;
	return MIN(MAX(left, (uint64_t)SIZE_AHEAD_LEAST), (uint64_t)SIZE_AHEAD);
}

/* An end of the link is told by gone(). */
static void push(struct tag_peer *tp)
{
	int e = 0;

	for (unsigned i = 0; e == 0 && tp->peer->link && !TAILQ_EMPTY(&tp->pushing); i++) {
		if (i == N_TURN) {
			protocol_set_unfinished(true);
			break;
		}
		e = peer_is_behind(tp->peer, most_ahead(tp))
			    ? -EAGAIN
			    : push_piece(TAILQ_FIRST(&tp->pushing));
	}
}

static void send_queued(struct tag_peer *tp)
{
	struct tag_send *s;
	int e;

	while ((s = TAILQ_FIRST(&tp->queue))) {
		e = send_now(s);
		if (e == -EAGAIN)
			return;
		if (e < 0 || s->complete)
			end(s, e);
	}
}

void tag_sends_move_on(void)
{
	struct tag_peer *tp, *next;

	for (tp = TAILQ_FIRST(&tag_busy); tp; tp = next) {
		next = TAILQ_NEXT(tp, link);
		if (UNLIKELY(tp->owes))
			tag_tell_credit(tp);
		send_queued(tp);
		push(tp);
	}
}

/* ---- answers --------------------------------------------------------------------------------- */

int tag_arrived_push(struct tag_peer *tp, const struct hal_frame *f)
{
	struct tag_send *s = find(tp, f->word);
	struct hal_link *link = tp->peer->link;
	struct tag_push asked = { 0 };
	struct iovec iov = { .iov_base = &asked, .iov_len = sizeof(asked) };

	(void)link->ops->copy(link, &iov, 1);
	if (!s || asked.size == 0 || asked.size > s->size)
		return -EBADMSG;
	s->number = asked.number;
	s->size_wanted = asked.size;
	s->at = 0;
	move(s, &tp->pushing);
	STEP(TAG_PUSHES);
	return 0;
}

int tag_arrived_done(struct tag_peer *tp, const struct hal_frame *f)
{
	struct tag_send *s = find(tp, f->word);

	if (!s)
		return -EBADMSG;
	STEP(TAG_DONE);
	end(s, 0);
	return 0;
}

int tag_arrived_withdrawn(struct tag_peer *tp, const struct hal_frame *f)
{
	struct tag_send *s = find(tp, f->word);

	if (!s || !s->withdrawing)
		return -EBADMSG;
	STEP(TAG_WITHDRAWN);
	s->withdrawn = true;
	end(s, 0);
	return 0;
}

int tag_arrived_credit(struct tag_peer *tp, const struct hal_frame *f)
{
	if (f->word - tp->freed > tp->sent - tp->freed)
		return -EBADMSG;
	tp->freed = f->word;
	shm_pair_set(tp->shown, 0, tp->sent - tp->freed);
	return 0;
}

void tag_sends_gone(struct tag_peer *tp)
{
	struct tag_sends *lists[] = { &tp->offers, &tp->pushing, &tp->queue };

	for (unsigned i = 0; i < ARRAY_SIZE(lists); i++)
		while (!TAILQ_EMPTY(lists[i]))
			end(TAILQ_FIRST(lists[i]), tp->peer->error);
	tp->owes = false;
	tag_set_busy(tp);
}

void tag_sends_forget(void)
{
	TAILQ_INIT(&tag_busy);
}
