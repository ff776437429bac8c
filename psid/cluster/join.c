/*
 * How we get in: we introduce ourselves to some of the seeds until one of them answers with the
 * first page of all nodes (sync.c), or says no. The seed tells the others of us, as of any news.
 *
 * Once in, the same serves to find again whom we lost: every few seconds one of the dead, or a seed
 * that is no member, is spoken to as if we wanted in. So the halves of a partitioned cluster find
 * each other, and a first node the seeds that start after it.
 *
 * A node that knows nobody, and no seed but itself, may have been a member before it restarted, and
 * the others may not have missed it: they go on asking whether it is alive, and find a seed that is
 * up. So it introduces itself to who asks.
 *
 * A newcomer whose name belongs to a living node at another address is not let in, not even if it
 * says that it is in the same life: two that started within a millisecond are. A node that has
 * restarted comes from the same address, and is let in.
 */
#include "clock.h"
#include "macros.h"
#include "swim_inside.h"

#define USEC_RETRY_FIRST (USEC_PER_SEC / 4)
#define USEC_RETRY_MAX (5 * USEC_PER_SEC)
#define USEC_LOST (10 * USEC_PER_SEC)
#define N_ASKED 3u
#define N_TRIES_ALONE 6u /* after so many it is time to say that nobody answers */

static void introduce(struct psid_swim *swim, const struct psid_address *to)
{
	struct psid_datagram d;
	struct psid_news news;

	if (psid_address_equal(to, &swim->self->address))
		return;
	psid_datagram_begin(&d, PSID_SWIM_JOIN);
	psid_news_of(swim, swim->self, &news);
	psid_put_news(&d.w, &news);
	psid_datagram_send(&d, swim, to);
}

static uint64_t about(struct psid_swim *swim, uint64_t usec)
{
	return usec * 3 / 4 + psid_swim_random_below(swim, (size_t)usec / 2);
}

static void ask_seeds(struct psid_swim *swim)
{
	uint64_t usec_retry = USEC_RETRY_FIRST << MIN(swim->n_tries, 5u);

	swim->is_newcomer = swim->members.n_up < 2;
	for (size_t i = 0; i < MIN(swim->n_seeds, (size_t)N_ASKED); i++)
		introduce(swim, &swim->seeds[psid_swim_random_below(swim, swim->n_seeds)]);
	swim->usec_join = swim->usec_now + about(swim, MIN(usec_retry, USEC_RETRY_MAX));
	if (++swim->n_tries == N_TRIES_ALONE)
		psid_swim_remark(swim, PSID_SWIM_ALONE, &swim->seeds[0]);
}

static bool is_somebodys(const struct psid_swim *swim, const struct psid_address *address)
{
	for (size_t i = 0; i < swim->members.n; i++)
		if (psid_node_is_up(swim->members.nodes[i]) &&
		    psid_address_equal(&swim->members.nodes[i]->address, address))
			return true;
	return false;
}

/* One of those that we would like to hear of, each as likely as any other; NULL: there are none. */
static const struct psid_address *choose_lost(struct psid_swim *swim)
{
	const struct psid_address *chosen = NULL;
	size_t n = 0;

	for (size_t i = 0; i < swim->members.n; i++) {
		const struct psid_node *node = swim->members.nodes[i];

		if (node->state == PSID_NODE_DEAD && psid_swim_random_below(swim, ++n) == 0)
			chosen = &node->address;
	}
	for (size_t i = 0; i < swim->n_seeds; i++)
		if (!is_somebodys(swim, &swim->seeds[i]) && psid_swim_random_below(swim, ++n) == 0)
			chosen = &swim->seeds[i];
	return chosen;
}

uint64_t psid_join_run(struct psid_swim *swim)
{
	const struct psid_address *lost;

	if (swim->usec_now < swim->usec_join)
		return swim->usec_join;
	if (!swim->joined && swim->n_seeds > 0) {
		ask_seeds(swim);
		return swim->usec_join;
	}
	lost = choose_lost(swim);
	if (lost)
		introduce(swim, lost);
	swim->usec_join = swim->usec_now + about(swim, USEC_LOST);
	return swim->usec_join;
}

void psid_join_spoken_to(struct psid_swim *swim, const struct psid_address *from)
{
	if (swim->members.n_up < 2)
		introduce(swim, from);
}

/* ---- being asked ----------------------------------------------------------------------------- */

static void say_no(struct psid_swim *swim, const struct psid_address *to, enum psid_swim_remark why,
		   const struct psid_address *whose)
{
	struct psid_datagram d;

	psid_datagram_begin(&d, PSID_SWIM_NO);
	psid_put(&d.w, why, 1);
	for (size_t i = 0; i < sizeof(whose->ip); i++)
		psid_put(&d.w, whose->ip[i], 1);
	psid_put(&d.w, whose->port, 2);
	psid_datagram_send(&d, swim, to);
}

/* May it enter? Returns true if so; if not it has been told why. */
static bool admit(struct psid_swim *swim, const struct psid_news *news,
		  const struct psid_address *from)
{
	struct psid_node *node = psid_members_find(&swim->members, news->id);

	if (node && psid_node_is_up(node) && !psid_address_equal(&node->address, &news->address)) {
		say_no(swim, from, PSID_SWIM_NAME_TAKEN, &node->address);
		psid_probe_now(swim, node); /* if it is dead that will be known soon */
		return false;
	}
	if (!node && swim->params.closed) {
		say_no(swim, from, PSID_SWIM_NOT_LISTED, &swim->self->address);
		psid_swim_remark(swim, PSID_SWIM_NOT_LISTED, from);
		return false;
	}
	if (!node && swim->members.n >= swim->params.n_nodes_max) {
		say_no(swim, from, PSID_SWIM_FULL, &swim->self->address);
		return false;
	}
	return true;
}

void psid_join_request(struct psid_swim *swim, uint64_t id, const struct psid_address *from,
		       struct psid_reader *r)
{
	struct psid_reader first;
	struct psid_news news;

	if (!psid_get_news(r, &news) || news.kind != PSID_NEWS_NODE || news.id != id) {
		r->bad = true;
		return;
	}
	if (!admit(swim, &news, from))
		return;
	psid_news_take(swim, &news, from);
	swim->joined = true; /* whoever is asked is in */
	/* What we believe of it may be worse than what it says, and it would not know. */
	psid_spread_tell(swim, from, psid_members_find(&swim->members, id));
	first = (struct psid_reader){ .at = (const uint8_t[6]){ 0 } };
	first.end = first.at + 6;
	psid_sync_pull(swim, from, &first);
}

void psid_join_no(struct psid_swim *swim, const struct psid_address *from, struct psid_reader *r)
{
	enum psid_swim_remark why = (enum psid_swim_remark)psid_get(r, 1);
	struct psid_address whose;

	(void)from;
	for (size_t i = 0; i < sizeof(whose.ip); i++)
		whose.ip[i] = (uint8_t)psid_get(r, 1);
	whose.port = (uint16_t)psid_get(r, 2);
	if (why != PSID_SWIM_NAME_TAKEN && why != PSID_SWIM_NOT_LISTED && why != PSID_SWIM_FULL)
		r->bad = true;
	if (r->bad || swim->joined)
		return;
	swim->is_refused = true;
	psid_swim_remark(swim, why, &whose);
}
