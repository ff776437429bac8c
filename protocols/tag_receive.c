/*
 * Tagged messages: the receiver's side, which is two sets that fit each other.
 *
 * Receives are posted, messages come early; neither set ever holds two that fit. Messages stand in the order of arrival, once in all and
 * once among those whose tag has the same hash: so a receive of one tag looks at its own queue, and one with a mask at all. Receives that name a whole tag
 * stand in rows by the same hash, those with a mask in a row of their own; which of the two comes first, its turn tells.
 *
 * An offer that a receive has been found for is under way: the receive is bound to it until all bytes are there. What
 * breaks that off gives both back to where they stood: turns are kept.
 *
 * Source: bip-1997, 2 (queues by tag, in order within each); pulc-1998, 4.5.3 and 4.6.1 (a posted buffer is filled directly, what
 * nobody waits for is queued).
 */
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "tag.h"

#define N_ROWS 64u
/* Of an eager message more than its cost allows is unread only if its sender lies. */
#define COST_MAX ((uint64_t)TAG_WINDOW + TAG_EAGER_MAX + TAG_OVERHEAD)

enum stage {
	STAGE_EARLY,  /* nobody wants it yet */
	STAGE_COPY,   /* to be copied from this process's own memory */
	STAGE_ASK,    /* its bytes are to be asked for */
	STAGE_COMING, /* they come */
	STAGE_DONE,   /* they are here; the sender is to be told */
};

struct tag_message {
	TAILQ_ENTRY(tag_message) by_order; /* of the early ones, or of those under way */
	TAILQ_ENTRY(tag_message) by_tag;   /* early */
	struct peer *peer;
	uint64_t tag, size;
	uint64_t turn; /* the order of arrival */
	uint64_t id;   /* of the offer; 0: it is here */
	bool paid;     /* the sender has its credit again */
	enum stage stage;
	struct tag_receive *receive; /* COPY to COMING */
	uint64_t number;	     /* COMING: of what was asked for */
	unsigned char data[];
};
TAILQ_HEAD(messages, tag_message);

static struct messages early = TAILQ_HEAD_INITIALIZER(early);
static struct messages under_way = TAILQ_HEAD_INITIALIZER(under_way);
static struct messages early_rows[N_ROWS];
static struct tag_receives exact_rows[N_ROWS];
static struct tag_receives masked = TAILQ_HEAD_INITIALIZER(masked);
static bool has_rows;
static uint64_t last_turn, last_number;

static unsigned row_of(uint64_t tag)
{
	return (unsigned)(tag * 0x9e3779b97f4a7c15ull >> 58);
}

static void make_rows(void)
{
	if (LIKELY(has_rows))
		return;
	for (unsigned i = 0; i < N_ROWS; i++) {
		TAILQ_INIT(&early_rows[i]);
		TAILQ_INIT(&exact_rows[i]);
	}
	has_rows = true;
}

/* ---- what fits what ----------------------------------------------------------------------------- */

static inline bool fits(const struct tag_receive *r, uint32_t client, uint64_t tag)
{
	return ((r->tag ^ tag) & r->mask) == 0 && (r->peer == client || r->peer == TAG_ANY_PEER);
}

static struct tag_receive *first_of(const struct tag_receives *row, uint32_t client, uint64_t tag)
{
	struct tag_receive *r;

	TAILQ_FOREACH(r, row, link)
	if (fits(r, client, tag))
		return r;
	return NULL;
}

/* Who has waited longest for such a message. */
static struct tag_receive *wanted_by(uint32_t client, uint64_t tag)
{
	struct tag_receive *a = first_of(&exact_rows[row_of(tag)], client, tag);
	struct tag_receive *b = first_of(&masked, client, tag);

	return !a || (b && b->turn < a->turn) ? b : a;
}

static struct tag_message *oldest_for(const struct tag_receive *r)
{
	struct tag_message *m;

	if (r->mask == UINT64_MAX) {
		TAILQ_FOREACH(m, &early_rows[row_of(r->tag)], by_tag)
		if (fits(r, m->peer->client, m->tag))
			return m;
		return NULL;
	}
	TAILQ_FOREACH(m, &early, by_order)
	if (fits(r, m->peer->client, m->tag))
		return m;
	return NULL;
}

/* ---- the two sets ------------------------------------------------------------------------------- */

/* Where its turn puts it: nearly always the end. */
static void queue(struct tag_message *m)
{
	struct messages *row = &early_rows[row_of(m->tag)];
	struct tag_message *before = TAILQ_LAST(&early, messages);

	m->stage = STAGE_EARLY;
	while (before && before->turn > m->turn)
		before = TAILQ_PREV(before, messages, by_order);
	if (before)
		TAILQ_INSERT_AFTER(&early, before, m, by_order);
	else
		TAILQ_INSERT_HEAD(&early, m, by_order);
	before = TAILQ_LAST(row, messages);
	while (before && before->turn > m->turn)
		before = TAILQ_PREV(before, messages, by_tag);
	if (before)
		TAILQ_INSERT_AFTER(row, before, m, by_tag);
	else
		TAILQ_INSERT_HEAD(row, m, by_tag);
}

static void unqueue(struct tag_message *m)
{
	TAILQ_REMOVE(&early, m, by_order);
	TAILQ_REMOVE(&early_rows[row_of(m->tag)], m, by_tag);
}

static void message_free(struct tag_message *m)
{
	peer_unref(m->peer);
	free(m);
}

static void insert(struct tag_receive *r)
{
	struct tag_receives *row = r->mask == UINT64_MAX ? &exact_rows[row_of(r->tag)] : &masked;
	struct tag_receive *before = TAILQ_LAST(row, tag_receives);

	while (before && before->turn > r->turn)
		before = TAILQ_PREV(before, tag_receives, link);
	if (before)
		TAILQ_INSERT_AFTER(row, before, r, link);
	else
		TAILQ_INSERT_HEAD(row, r, link);
	r->list = row;
}

static void take_off(struct tag_receive *r)
{
	if (r->list)
		TAILQ_REMOVE(r->list, r, link);
	r->list = NULL;
}

void tag_post(struct tag_receive *r)
{
	make_rows();
	r->turn = ++last_turn;
	insert(r);
}

/* ---- receives end ------------------------------------------------------------------------------- */

static void describe(struct tag_receive *r, uint32_t client, uint64_t tag, uint64_t size)
{
	r->got_peer = client;
	r->got_tag = tag;
	r->got_size = size;
}

static void end(struct tag_receive *r, int error)
{
	take_off(r);
	r->error = error;
	r->complete = true;
	protocol_events++;
}

/* Keeps it, if the sender cannot be told now: it will be moved on. */
static void say_done(struct tag_message *m)
{
	int e = tag_control(m->peer, TAG_DONE, m->id, NULL, 0);

	if (UNLIKELY(e == -ENOBUFS || e == -ENOMEM))
		return;
	TAILQ_REMOVE(&under_way, m, by_order);
	message_free(m);
}

static void all_is_here(struct tag_message *m)
{
	struct tag_receive *r = m->receive;

	r->message = NULL;
	m->receive = NULL;
	m->stage = STAGE_DONE;
	end(r, 0);
	say_done(m);
}

/* ---- long messages ------------------------------------------------------------------------------ */

static void bind(struct tag_message *m, struct tag_receive *r)
{
	bool self = m->peer->link->caps.flags & HAL_IMMEDIATE;

	take_off(r);
	describe(r, m->peer->client, m->tag, m->size);
	r->message = m;
	r->done = 0;
	m->receive = r;
	m->stage = self ? STAGE_COPY : STAGE_ASK;
	TAILQ_INSERT_TAIL(&under_way, m, by_order);
	if (!m->paid)
		tag_taken(m->peer, TAG_OVERHEAD);
	m->paid = true;
	protocol_events++;
}

static size_t wanted_size(const struct tag_message *m)
{
	return MIN((uint64_t)m->receive->size, m->size);
}

/* The sender is this process, and this is its send. */
static void copy_own(struct tag_message *m)
{
	struct tag_receive *r = m->receive;
	const struct tag_send *s = tag_find_offered(m->peer->tags, m->id);

	r->done = wanted_size(m);
	if (r->done)
		memmove(r->buf, s->buf, r->done);
	all_is_here(m);
}

static void ask(struct tag_message *m)
{
	struct tag_push push = { .number = last_number + 1, .size = wanted_size(m) };

	if (push.size == 0) {
		all_is_here(m);
		return;
	}
	if (tag_control(m->peer, TAG_PUSH, m->id, &push, sizeof(push)) < 0)
		return;
	m->number = ++last_number;
	m->stage = STAGE_COMING;
}

void tag_receives_move_on(void)
{
	struct tag_message *m, *next;

	for (m = TAILQ_FIRST(&under_way); m; m = next) {
		next = TAILQ_NEXT(m, by_order);
		if (m->stage == STAGE_COPY)
			copy_own(m);
		else if (m->stage == STAGE_ASK)
			ask(m);
		else if (m->stage == STAGE_DONE)
			say_done(m);
	}
}

/* Nothing is lost: the bytes are the sender's still. */
static void give_back(struct tag_message *m)
{
	struct tag_receive *r;

	TAILQ_REMOVE(&under_way, m, by_order);
	m->receive->message = NULL;
	m->receive = NULL;
	r = wanted_by(m->peer->client, m->tag);
	if (r)
		bind(m, r);
	else
		queue(m);
	protocol_events++;
}

void tag_unpost(struct tag_receive *r)
{
	take_off(r);
	if (r->message)
		give_back(r->message);
}

/* ---- taking ------------------------------------------------------------------------------------- */

bool tag_look(struct tag_receive *r)
{
	const struct tag_message *m;

	make_rows();
	m = oldest_for(r);
	if (m)
		describe(r, m->peer->client, m->tag, m->size);
	return m;
}

int tag_take(struct tag_receive *r)
{
	struct tag_message *m;

	make_rows();
	m = oldest_for(r);
	if (!m)
		return -EAGAIN;
	unqueue(m);
	if (m->id) {
		bind(m, r);
		return 0;
	}
	describe(r, m->peer->client, m->tag, m->size);
	r->done = MIN((uint64_t)r->size, m->size);
	if (r->done)
		memcpy(r->buf, m->data, r->done);
	end(r, 0);
	tag_taken(m->peer, m->size + TAG_OVERHEAD);
	message_free(m);
	return 0;
}

/* ---- frames ------------------------------------------------------------------------------------- */

static struct tag_message *message_new(struct tag_peer *tp, uint64_t tag, size_t len)
{
	struct tag_message *m = malloc(sizeof(*m) + len);

	if (!m)
		return NULL;
	*m = (struct tag_message){
		.peer = peer_ref(tp->peer),
		.tag = tag,
		.turn = ++last_turn,
	};
	return m;
}

static size_t copy_payload(struct tag_peer *tp, void *to, size_t len)
{
	struct hal_link *link = tp->peer->link;
	struct iovec iov = { .iov_base = to, .iov_len = len };

	return len ? link->ops->copy(link, &iov, 1) : 0;
}

static int pay(struct tag_peer *tp, uint64_t cost)
{
	if (UNLIKELY(tp->got + cost - tp->taken > COST_MAX))
		return -EBADMSG;
	tp->got += cost;
	return 0;
}

int tag_arrived_eager(struct tag_peer *tp, const struct hal_frame *f)
{
	uint32_t client = tp->peer->client;
	uint64_t cost = (uint64_t)f->len + TAG_OVERHEAD;
	struct tag_receive *r;
	struct tag_message *m;

	make_rows();
	if (UNLIKELY(f->len > TAG_EAGER_MAX))
		return -EBADMSG;
	r = wanted_by(client, f->word);
	m = r ? NULL : message_new(tp, f->word, f->len);
	if (UNLIKELY(!r && !m))
		return -EAGAIN;
	if (UNLIKELY(pay(tp, cost) < 0)) {
		if (m)
			message_free(m);
		return -EBADMSG;
	}
	if (r) {
		r->done = MIN(r->size, (size_t)f->len);
		(void)copy_payload(tp, r->buf, r->done);
		describe(r, client, f->word, f->len);
		end(r, 0);
		tag_taken(tp->peer, cost);
		return 0;
	}
	m->size = copy_payload(tp, m->data, f->len);
	queue(m);
	return 0;
}

int tag_arrived_offer(struct tag_peer *tp, const struct hal_frame *f)
{
	struct tag_message *m = message_new(tp, f->word, 0);
	struct tag_receive *r;
	struct tag_offer offer;

	make_rows();
	if (!m)
		return -EAGAIN;
	(void)copy_payload(tp, &offer, sizeof(offer));
	if (offer.id == 0 || pay(tp, TAG_OVERHEAD) < 0) {
		message_free(m);
		return -EBADMSG;
	}
	m->id = offer.id;
	m->size = offer.size;
	r = wanted_by(tp->peer->client, f->word);
	if (r)
		bind(m, r);
	else
		queue(m);
	return 0;
}

static struct tag_message *find_coming(const struct tag_peer *tp, uint64_t number)
{
	struct tag_message *m;

	TAILQ_FOREACH(m, &under_way, by_order)
	if (m->stage == STAGE_COMING && m->number == number && m->peer == tp->peer)
		return m;
	return NULL;
}

int tag_arrived_data(struct tag_peer *tp, const struct hal_frame *f)
{
	struct tag_message *m = find_coming(tp, f->word);
	struct tag_receive *r;

	/* Asked for once, and not wanted any more. */
	if (!m)
		return f->word == 0 || f->word > last_number ? -EBADMSG : 0;
	r = m->receive;
	if (f->len == 0 || f->len > wanted_size(m) - r->done)
		return -EBADMSG;
	(void)copy_payload(tp, r->buf + r->done, f->len);
	r->done += f->len;
	if (r->done == wanted_size(m))
		all_is_here(m);
	return 0;
}

static struct tag_message *find_offer(const struct tag_peer *tp, uint64_t id)
{
	struct tag_message *m;

	TAILQ_FOREACH(m, &early, by_order)
	if (m->id == id && m->peer == tp->peer)
		return m;
	TAILQ_FOREACH(m, &under_way, by_order)
	if (m->id == id && m->peer == tp->peer && m->stage != STAGE_DONE)
		return m;
	return NULL;
}

/* Its message will not come: it takes another one, or stands where it stood; or learns why there is none. */
static void want_again(struct tag_receive *r, int error)
{
	r->message = NULL;
	r->done = 0;
	if (tag_take(r) == 0)
		return;
	if (error < 0)
		end(r, error);
	else
		insert(r);
}

/* What was offered is not to be had any more. */
static void lose(struct tag_message *m, int error)
{
	struct tag_receive *r = m->receive;

	if (m->stage == STAGE_EARLY)
		unqueue(m);
	else
		TAILQ_REMOVE(&under_way, m, by_order);
	message_free(m);
	if (r)
		want_again(r, error);
}

int tag_arrived_withdraw(struct tag_peer *tp, const struct hal_frame *f)
{
	struct tag_message *m = find_offer(tp, f->word);
	int e;

	/* It was received, and the sender is on its way to know. */
	if (!m)
		return 0;
	e = tag_control(tp->peer, TAG_WITHDRAWN, f->word, NULL, 0);
	if (e < 0)
		return e == -ENOBUFS || e == -ENOMEM ? -EAGAIN : e;
	if (!m->paid)
		tag_taken(tp->peer, TAG_OVERHEAD);
	lose(m, 0);
	return 0;
}

/* ---- the end of a peer -------------------------------------------------------------------------- */

static void lose_offers(struct messages *list, const struct peer *peer)
{
	struct tag_message *m, *next;

	for (m = TAILQ_FIRST(list); m; m = next) {
		next = TAILQ_NEXT(m, by_order);
		if (m->peer != peer || !m->id)
			continue;
		lose(m, m->receive && m->receive->peer == peer->client ? peer->error : 0);
	}
}

static void end_those_for(struct tag_receives *row, const struct peer *peer)
{
	struct tag_receive *r, *next;

	for (r = TAILQ_FIRST(row); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->peer == peer->client)
			end(r, peer->error);
	}
}

/* Short messages that it sent before are still to be received. */
void tag_receives_gone(struct peer *peer)
{
	make_rows();
	lose_offers(&early, peer);
	lose_offers(&under_way, peer);
	for (unsigned i = 0; i < N_ROWS; i++)
		end_those_for(&exact_rows[i], peer);
	end_those_for(&masked, peer);
}

void tag_receives_forget(void)
{
	struct tag_message *m;

	while ((m = TAILQ_FIRST(&early))) {
		TAILQ_REMOVE(&early, m, by_order);
		message_free(m);
	}
	while ((m = TAILQ_FIRST(&under_way))) {
		TAILQ_REMOVE(&under_way, m, by_order);
		message_free(m);
	}
	TAILQ_INIT(&masked);
	has_rows = false;
}
