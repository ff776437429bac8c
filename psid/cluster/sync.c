/*
 * How two nodes that know different things make up for it. All probes and answers carry a digest of
 * the sender's table; news makes digests differ for a moment, and if they still do when nothing has
 * changed here for a while, or nobody agrees with us for long, the whole table is pulled from the
 * other, page by page. The other finds the same difference and pulls ours. Nothing is pulled while
 * all agree, and no oftener than every few seconds in any case.
 *
 * A page is one datagram; the cursor is the last id on it, and the one who is asked remembers
 * nothing.
 */
#include "clock.h"
#include "swim_inside.h"

#define USEC_SETTLE USEC_PER_SEC	 /* without a change: news has arrived by then */
#define USEC_RESTLESS (5 * USEC_PER_SEC) /* with changes: some news seems not to arrive */
#define USEC_BETWEEN (5 * USEC_PER_SEC)
#define USEC_ANSWER (USEC_PER_SEC / 10)
#define N_TRIES 6u

static void pull(struct psid_swim *swim)
{
	struct psid_datagram d;

	psid_datagram_begin(&d, PSID_SWIM_PULL);
	psid_put(&d.w, swim->sync_cursor, 6);
	psid_datagram_send(&d, swim, &swim->sync_peer);
	swim->usec_sync = swim->usec_now + USEC_ANSWER;
}

static void finish(struct psid_swim *swim)
{
	uint64_t usec_between = swim->is_newcomer ? USEC_SETTLE : USEC_BETWEEN;

	if (swim->is_newcomer)
		psid_spread_state(swim, swim->self); /* now that we know somebody to tell */
	swim->n_sync_tries = 0;
	swim->is_newcomer = false;
	swim->usec_agreed = swim->usec_now;
	swim->usec_sync = swim->usec_now + usec_between * 3 / 4 +
			  psid_swim_random_below(swim, (size_t)usec_between / 2);
}

void psid_sync_start(struct psid_swim *swim, const struct psid_address *peer)
{
	swim->sync_peer = *peer;
	swim->sync_cursor = 0;
	swim->n_sync_tries = 1;
	pull(swim);
}

void psid_sync_compare(struct psid_swim *swim, const struct psid_address *peer, uint32_t digest)
{
	bool is_due = swim->usec_now > swim->usec_changed + USEC_SETTLE ||
		      swim->usec_now > swim->usec_agreed + USEC_RESTLESS;

	if (digest == swim->digest)
		swim->usec_agreed = swim->usec_now;
	else if (is_due && swim->n_sync_tries == 0 && swim->usec_now > swim->usec_sync)
		psid_sync_start(swim, peer);
}

uint64_t psid_sync_run(struct psid_swim *swim)
{
	if (swim->n_sync_tries == 0)
		return UINT64_MAX;
	if (swim->usec_now < swim->usec_sync)
		return swim->usec_sync;
	if (swim->n_sync_tries++ == N_TRIES) {
		finish(swim);
		return UINT64_MAX;
	}
	pull(swim);
	return swim->usec_sync;
}

void psid_sync_pull(struct psid_swim *swim, const struct psid_address *from, struct psid_reader *r)
{
	struct psid_node *node = psid_members_after(&swim->members, psid_get(r, 6));
	struct psid_datagram d;
	uint8_t *at_cursor;
	uint64_t last = 0;

	if (r->bad)
		return;
	psid_datagram_begin(&d, PSID_SWIM_PAGE);
	at_cursor = d.w.at;
	psid_put(&d.w, 0, 6); /* the end, unless another page is needed */
	for (; node; node = psid_members_after(&swim->members, node->id)) {
		struct psid_news news;

		if (node->state == PSID_NODE_UNKNOWN)
			continue;
		psid_news_of(swim, node, &news);
		psid_put_news(&d.w, &news);
		if (d.w.full)
			break;
		last = node->id;
	}
	if (node) {
		struct psid_writer cursor = { .at = at_cursor, .end = at_cursor + 6 };

		psid_put(&cursor, last, 6);
	}
	psid_datagram_send(&d, swim, from);
}

void psid_sync_page(struct psid_swim *swim, const struct psid_address *from, struct psid_reader *r)
{
	uint64_t next = psid_get(r, 6);
	struct psid_news news;

	if (r->bad)
		return;
	if (!swim->joined) { /* the answer to our introduction */
		swim->joined = true;
		swim->is_refused = false;
		swim->n_sync_tries = 1;
		swim->sync_peer = *from;
		swim->sync_cursor = 0;
		psid_swim_remark(swim, PSID_SWIM_JOINED, from);
	}
	swim->learning = swim->is_newcomer;
	while (psid_get_news(r, &news))
		psid_news_take(swim, &news, from);
	swim->learning = false;
	if (swim->n_sync_tries == 0 || !psid_address_equal(from, &swim->sync_peer) ||
	    (next && next <= swim->sync_cursor))
		return;
	if (next == 0) {
		finish(swim);
		return;
	}
	swim->sync_cursor = next;
	swim->n_sync_tries = 1;
	pull(swim);
}
