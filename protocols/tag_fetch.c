/*
 * Tagged messages: a long one on its way to the receive that wants it.
 *
 * From the moment on that a receive has been found for an offer, the two are bound to each other.
 * Its bytes are copied if the sender is this process, fetched out of the sender's memory
 * (tag_pull.c), or asked for; then the sender is told. Whatever breaks that off before the last
 * byte leaves the offer as it was. Bytes that come for a number that nobody needs any more are
 * dropped.
 *
 * Source: bip-1997, 2 (rendezvous); pulc-1998, 4.5.3 (a posted buffer is filled directly).
 */
#include <string.h>

#include "clock.h"
#include "macros.h"
#include "step.h"
#include "tag.h"

struct tag_messages tag_under_way = TAILQ_HEAD_INITIALIZER(tag_under_way);
static uint64_t last_number;

/* ---- the two ends of it ---------------------------------------------------------------------- */

static void ask(struct tag_message *m)
{
	struct tag_push push = { .number = last_number + 1, .size = tag_wanted_size(m) };

	if (tag_control(m->peer, TAG_PUSH, m->id, &push, sizeof(push)) < 0)
		return;
	m->nsec_begun = nsec_now();
	m->number = ++last_number;
	m->stage = TAG_STAGE_COMING;
	STEP(TAG_ASKED);
}

int tag_fetch_begin(struct tag_message *m, struct tag_receive *r)
{
	bool self = m->peer->link->caps.flags & HAL_IMMEDIATE;

	tag_receive_take_off(r);
	tag_describe(r, m->peer->client, m->tag, m->size);
	if (r->lends && tag_room_make(r, m) < 0) {
		tag_receive_end(r, -ENOMEM);
		return -ENOMEM;
	}
	r->message = m;
	r->done = 0;
	m->receive = r;
	if (self)
		m->stage = TAG_STAGE_COPY;
	else if (tag_wanted_size(m) && tag_choose(m) == TAG_WAY_PULL)
		m->stage = TAG_STAGE_PULL;
	else
		m->stage = TAG_STAGE_ASK;
	m->nsec_begun = 0;
	protocol_set_unfinished(true);
	TAILQ_INSERT_TAIL(&tag_under_way, m, by_order);
	if (!m->paid)
		tag_taken(m->peer, TAG_OVERHEAD);
	m->paid = true;
	protocol_count_event();
	STEP(TAG_BOUND);
	/* Its sender can begin while we are busy with others. */
	if (m->stage == TAG_STAGE_ASK && tag_wanted_size(m))
		ask(m);
	return 0;
}

/* Whoever computes need not be woken. */
static int tell_done(const struct tag_message *m)
{
	const struct hal_frame f = { .word = m->id, .protocol = PROTOCOL_TAG, .kind = TAG_DONE };

	return m->away ? peer_send_idly(m->peer, &f) : peer_send_later(m->peer, &f, NULL, 0, NULL);
}

/* Keeps it, if the sender cannot be told now: it will be moved on. */
void tag_say_done(struct tag_message *m)
{
	int e = tell_done(m);
	bool waits = m->stage == TAG_STAGE_DONE;

	if (UNLIKELY(e == -ENOBUFS || e == -ENOMEM)) {
		if (!waits)
			TAILQ_INSERT_TAIL(&tag_under_way, m, by_order);
		m->stage = TAG_STAGE_DONE;
		return;
	}
	STEP(TAG_SAID_DONE);
	if (waits)
		TAILQ_REMOVE(&tag_under_way, m, by_order);
	tag_message_free(m);
}

static void all_is_here(struct tag_message *m)
{
	struct tag_receive *r = m->receive;

	r->message = NULL;
	m->receive = NULL;
	m->stage = TAG_STAGE_DONE;
	if (r->lends)
		tag_room_lend(r);
	tag_receive_end(r, 0);
	STEP(TAG_RECEIVED);
	tag_say_done(m);
}

/* ---- moving on ------------------------------------------------------------------------------- */

/* The sender is this process, and this is its send. */
static void copy_own(struct tag_message *m)
{
	struct tag_receive *r = m->receive;
	const struct tag_send *s = tag_find_offered(m->peer->tags, m->id);

	r->done = tag_wanted_size(m);
	if (r->done)
		memmove(r->buf, s->buf, r->done);
	all_is_here(m);
}

/* All of them can be asked for as well. */
static void pull_no_more(struct tag_message *const *batch, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		batch[i]->receive->done = 0;
		batch[i]->nsec_begun = 0;
		batch[i]->stage = TAG_STAGE_ASK;
	}
	protocol_set_unfinished(true);
}

static void pulled(struct tag_message *m)
{
	protocol_count_event();
	if (m->receive->done < tag_wanted_size(m)) {
		protocol_set_unfinished(true);
		return;
	}
	tag_rate(m, TAG_WAY_PULL);
	all_is_here(m);
}

/* The first one, and what can be fetched along with it. Returns the one behind them. */
static struct tag_message *pull(struct tag_message *first)
{
	struct tag_message *batch[TAG_PULL_MOST], *next;
	unsigned n = tag_pull_batch(first, batch);
	uint64_t now = nsec_now();

	next = TAILQ_NEXT(batch[n - 1], by_order);
	for (unsigned i = 0; i < n; i++)
		if (batch[i]->nsec_begun == 0)
			batch[i]->nsec_begun = now;
	if (tag_pull(batch, n) < 0) {
		pull_no_more(batch, n);
		return next;
	}
	STEP(TAG_PULLED);
	for (unsigned i = 0; i < n; i++)
		pulled(batch[i]);
	return next;
}

static void ask_or_end(struct tag_message *m)
{
	if (tag_wanted_size(m))
		ask(m);
	else
		all_is_here(m);
}

void tag_receives_move_on(void)
{
	struct tag_message *m, *next;

	for (m = TAILQ_FIRST(&tag_under_way); m; m = next) {
		next = TAILQ_NEXT(m, by_order);
		if (m->stage == TAG_STAGE_COPY)
			copy_own(m);
		else if (m->stage == TAG_STAGE_PULL)
			next = pull(m);
		else if (m->stage == TAG_STAGE_ASK)
			ask_or_end(m);
		else if (m->stage == TAG_STAGE_DONE)
			tag_say_done(m);
	}
}

static struct tag_message *find_coming(const struct tag_peer *tp, uint64_t number)
{
	struct tag_message *m;

	TAILQ_FOREACH(m, &tag_under_way, by_order)
		if (m->stage == TAG_STAGE_COMING && m->number == number && m->peer == tp->peer)
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
	if (f->len == 0 || f->len > tag_wanted_size(m) - r->done)
		return -EBADMSG;
	(void)tag_copy_payload(tp, r->buf + r->done, f->len);
	STEP(TAG_CAME);
	r->done += f->len;
	if (r->done < tag_wanted_size(m))
		return 0;
	tag_rate(m, TAG_WAY_PUSH);
	all_is_here(m);
	/* The next one's buffer is to be asked for before more is taken than is under way. */
	protocol_enough = true;
	return 0;
}
