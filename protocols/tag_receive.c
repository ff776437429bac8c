/*
 * Tagged messages: the receiver's side, which is two sets that fit each other.
 *
 * Receives are posted, messages come early; neither set ever holds two that fit. Messages stand in
 * the order of arrival, once in all and once among those whose tag has the same hash: so a receive
 * of one tag looks at its own queue, and one with a mask at all. Receives that name a whole tag
 * stand in rows by the same hash, those with a mask in a row of their own; which of the two comes
 * first, its turn tells.
 *
 * An offer that a receive has been found for is under way: the receive is bound to it until all
 * bytes are there. What breaks that off gives both back to where they stood: turns are kept.
 *
 * Source: bip-1997, 2 (queues by tag, in order within each); pulc-1998, 4.5.3 and 4.6.1 (a posted
 * buffer is filled directly, what nobody waits for is queued).
 */
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "macros.h"
#include "state.h"
#include "step.h"
#include "tag.h"

#define N_ROWS 64u
/* Of an eager message more than its cost allows is unread only if its sender lies. */
#define COST_MAX ((uint64_t)TAG_WINDOW + TAG_EAGER_MAX + TAG_OVERHEAD)

static struct tag_messages early = TAILQ_HEAD_INITIALIZER(early);
static LARGE struct tag_messages early_rows[N_ROWS];
static LARGE struct tag_receives exact_rows[N_ROWS];
static struct tag_receives masked = TAILQ_HEAD_INITIALIZER(masked);
static bool has_rows;
static uint64_t last_turn;

static unsigned row_of(uint64_t tag)
{
	return (unsigned)(tag * 0x9e3779b97f4a7c15ull >> 58);
}

static inline void make_rows(void)
{
	if (LIKELY(has_rows))
		return;
	for (unsigned i = 0; i < N_ROWS; i++) {
		TAILQ_INIT(&early_rows[i]);
		TAILQ_INIT(&exact_rows[i]);
	}
	has_rows = true;
}

/* ---- what fits what -------------------------------------------------------------------------- */

static inline bool fits(const struct tag_receive *r, uint32_t client, uint64_t tag)
{
	return ((r->tag ^ tag) & r->mask) == 0 && (r->peer == client || r->peer == TAG_ANY_PEER);
}

static inline struct tag_receive *first_of(const struct tag_receives *row, uint32_t client,
					   uint64_t tag)
{
	struct tag_receive *r;

	TAILQ_FOREACH(r, row, link)
		if (fits(r, client, tag))
			return r;
	return NULL;
}

/* Who has waited longest for such a message. */
static inline struct tag_receive *wanted_by(uint32_t client, uint64_t tag)
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

/* ---- the two sets ---------------------------------------------------------------------------- */

/* What psid is shown of them. */
static uint64_t n_early, size_early, n_posted;

static void count_early(const struct tag_message *m, int n)
{
	n_early += (uint64_t)n;
	size_early += (uint64_t)n * m->size;
	shm_state_set(SHM_TAGS_EARLY, n_early);
	shm_state_set(SHM_TAGS_SIZE, size_early);
}

static inline void count_posted(int n)
{
	n_posted += (uint64_t)n;
	shm_state_set(SHM_TAGS_POSTED, n_posted);
}

/* Where its turn puts it: nearly always the end. */
#define INSERT_BY_TURN(list, heads, item, field)                                                   \
	do {                                                                                       \
		__typeof__(item) before_ = TAILQ_LAST(list, heads);                                \
                                                                                                   \
		while (before_ && before_->turn > (item)->turn)                                    \
			before_ = TAILQ_PREV(before_, heads, field);                               \
		if (before_)                                                                       \
			TAILQ_INSERT_AFTER(list, before_, item, field);                            \
		else                                                                               \
			TAILQ_INSERT_HEAD(list, item, field);                                      \
	} while (0)

void tag_keep(struct tag_message *m)
{
	struct tag_messages *row = &early_rows[row_of(m->tag)];

	m->stage = TAG_STAGE_EARLY;
	count_early(m, 1);
	INSERT_BY_TURN(&early, tag_messages, m, by_order);
	INSERT_BY_TURN(row, tag_messages, m, by_tag);
}

static void unqueue(struct tag_message *m)
{
	count_early(m, -1);
	TAILQ_REMOVE(&early, m, by_order);
	TAILQ_REMOVE(&early_rows[row_of(m->tag)], m, by_tag);
}

void tag_message_free(struct tag_message *m)
{
	tag_bytes_drop(m);
	peer_unref(m->peer);
	free(m);
}

static void insert(struct tag_receive *r)
{
	struct tag_receives *row = r->mask == UINT64_MAX ? &exact_rows[row_of(r->tag)] : &masked;

	INSERT_BY_TURN(row, tag_receives, r, link);
	r->list = row;
	count_posted(1);
}

void tag_receive_take_off(struct tag_receive *r)
{
	if (!r->list)
		return;
	TAILQ_REMOVE(r->list, r, link);
	r->list = NULL;
	count_posted(-1);
}

void tag_post(struct tag_receive *r)
{
	make_rows();
	r->turn = ++last_turn;
	insert(r);
}

/* ---- receives end ---------------------------------------------------------------------------- */

void tag_describe(struct tag_receive *r, uint32_t client, uint64_t tag, uint64_t size)
{
	r->got_peer = client;
	r->got_tag = tag;
	r->got_size = size;
}

void tag_receive_end(struct tag_receive *r, int error)
{
	tag_receive_take_off(r);
	r->error = error;
	r->complete = true;
	protocol_count_event();
}

/* To whoever has waited longest for this offer and has room for it. */
static void deliver(struct tag_message *m)
{
	struct tag_receive *r;

	do {
		r = wanted_by(m->peer->client, m->tag);
		if (!r)
			tag_keep(m);
	} while (r && tag_fetch_begin(m, r) < 0);
}

/* Nothing is lost: the bytes are the sender's still. */
static void give_back(struct tag_message *m)
{
	TAILQ_REMOVE(&tag_under_way, m, by_order);
	tag_room_drop(m->receive);
	m->receive->message = NULL;
	m->receive = NULL;
	deliver(m);
	protocol_count_event();
}

void tag_unpost(struct tag_receive *r)
{
	tag_receive_take_off(r);
	if (r->message)
		give_back(r->message);
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* Its bytes are in this process, or can be read from here. */
static inline bool is_here(const struct tag_message *m)
{
	return !m->id || m->bytes.at;
}

/* One that is here, and stands nowhere, for this receive. */
static void take_here(struct tag_message *m, struct tag_receive *r)
{
	tag_describe(r, m->peer->client, m->tag, m->size);
	tag_taken(m->peer, TAG_OVERHEAD + (m->id ? 0 : m->size));
	if (r->lends) {
		tag_lend(m, r);
		tag_receive_end(r, 0);
		return;
	}
	r->done = MIN((uint64_t)r->size, m->size);
	copy_bytes(r->buf, tag_message_bytes(m), r->done);
	tag_receive_end(r, 0);
	if (m->id)
		tag_say_done(m);
	else
		tag_message_free(m);
}

bool tag_look(struct tag_receive *r)
{
	const struct tag_message *m;

	make_rows();
	m = oldest_for(r);
	if (m)
		tag_describe(r, m->peer->client, m->tag, m->size);
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
	if (is_here(m))
		take_here(m, r);
	else if (tag_fetch_begin(m, r) < 0)
		deliver(m);
	return 0;
}

/* ---- frames ---------------------------------------------------------------------------------- */

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
	m = r && !r->lends ? NULL : message_new(tp, f->word, f->len);
	if (UNLIKELY((!r || r->lends) && !m))
		return -EAGAIN;
	if (UNLIKELY(pay(tp, cost) < 0)) {
		if (m)
			tag_message_free(m);
		return -EBADMSG;
	}
	if (r && !r->lends) {
		r->done = MIN(r->size, (size_t)f->len);
		(void)tag_copy_payload(tp, r->buf, r->done);
		tag_describe(r, client, f->word, f->len);
		tag_receive_end(r, 0);
		tag_taken(tp->peer, cost);
		protocol_enough |= !wanted_by(client, f->word);
		return 0;
	}
	m->size = tag_copy_payload(tp, m->data, f->len);
	if (r)
		take_here(m, r);
	else
		tag_keep(m);
	return 0;
}

bool tag_any_early(void)
{
	return !TAILQ_EMPTY(&early);
}

bool tag_any_set(void)
{
	return n_posted || !TAILQ_EMPTY(&early);
}

int tag_arrived_offer(struct tag_peer *tp, const struct hal_frame *f)
{
	struct tag_message *m = message_new(tp, f->word, 0);
	struct tag_block b = { 0 };
	struct tag_receive *r;

	make_rows();
	if (!m)
		return -EAGAIN;
	(void)tag_copy_payload(tp, &b, f->len);
	m->id = b.offer.id;
	m->size = b.offer.size;
	m->place = b.offer.place;
	m->away = f->kind == TAG_OFFER_AWAY;
	if (m->id == 0 || (f->kind == TAG_BLOCK && tag_block_find(m, b.offset) < 0) ||
	    pay(tp, TAG_OVERHEAD) < 0) {
		tag_message_free(m);
		return -EBADMSG;
	}
	STEP(TAG_HEARD);
	r = wanted_by(tp->peer->client, f->word);
	if (r && is_here(m))
		take_here(m, r);
	else
		deliver(m);
	return 0;
}

static struct tag_message *find_offer(const struct tag_peer *tp, uint64_t id)
{
	struct tag_message *m;

	TAILQ_FOREACH(m, &early, by_order)
		if (m->id == id && m->peer == tp->peer)
			return m;
	TAILQ_FOREACH(m, &tag_under_way, by_order)
		if (m->id == id && m->peer == tp->peer && m->stage != TAG_STAGE_DONE)
			return m;
	return NULL;
}

/* Its message will not come: it takes another one, or stands where it stood; or learns why there is
 * none. */
static void want_again(struct tag_receive *r, int error)
{
	tag_room_drop(r);
	r->message = NULL;
	r->done = 0;
	if (tag_take(r) == 0)
		return;
	if (error < 0)
		tag_receive_end(r, error);
	else
		insert(r);
}

/* What was offered is not to be had any more. */
static void lose(struct tag_message *m, int error)
{
	struct tag_receive *r = m->receive;

	if (m->stage == TAG_STAGE_EARLY)
		unqueue(m);
	else
		TAILQ_REMOVE(&tag_under_way, m, by_order);
	tag_message_free(m);
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
	STEP(TAG_AGREED);
	return 0;
}

/* ---- the end of a peer ----------------------------------------------------------------------- */

static void lose_offers(struct tag_messages *list, const struct peer *peer)
{
	struct tag_message *m, *next;

	for (m = TAILQ_FIRST(list); m; m = next) {
		next = TAILQ_NEXT(m, by_order);
		if (m->peer != peer || (m->stage == TAG_STAGE_EARLY && is_here(m)))
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
			tag_receive_end(r, peer->error);
	}
}

/* What it sent before and is here is still to be received. */
void tag_receives_gone(struct peer *peer)
{
	make_rows();
	lose_offers(&early, peer);
	lose_offers(&tag_under_way, peer);
	for (unsigned i = 0; i < N_ROWS; i++)
		end_those_for(&exact_rows[i], peer);
	end_those_for(&masked, peer);
}

void tag_receives_forget(void)
{
	struct tag_message *m;

	while ((m = TAILQ_FIRST(&early))) {
		TAILQ_REMOVE(&early, m, by_order);
		tag_message_free(m);
	}
	while ((m = TAILQ_FIRST(&tag_under_way))) {
		TAILQ_REMOVE(&tag_under_way, m, by_order);
		tag_message_free(m);
	}
	tag_lent_forget();
	TAILQ_INIT(&masked);
	has_rows = false;
	n_early = size_early = n_posted = 0;
}
