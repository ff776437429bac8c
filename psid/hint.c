/*
 * Hints wait here for their mirror image. A hint costs its client a message and psid some memory,
 * and is bounded: a client's oldest goes when it has too many, with a Deny so that the client may
 * hint again.
 *
 * A hint proves nothing. When two mirror each other, the kernel is asked about both first, so
 * that stale and invented ones fall out before anybody is asked for a socket. Somebody may still
 * claim the other end of a foreign connection; he will have no socket to show, and until he has,
 * nothing that he says of it is held against the other end. Which of several candidates is asked
 * first says rivals.c. For that all of them are looked at, so those that one user has are few.
 */
#include "hint.h"

#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "diag.h"
#include "flow.h"
#include "handover.h"
#include "macros.h"
#include "proof.h"
#include "psid.h"
#include "rivals.h"
#include "user.h"

/*
 * False candidates thrown out for the sake of one hint: who sends thousands shall not keep the
 * loop busy.
 */
#define N_DEAD_TURN 8u
/* All clients of a user together may have as many hints as so many of them. */
#define N_CLIENTS_HINTING 8u
/* Hints of a user for one end of one connection, or flow: several processes may have it. */
#define N_SAME_USER 64u

void psid_hints_init(struct psid_client *client)
{
	TAILQ_INIT(&client->waiting);
	TAILQ_INIT(&client->shown);
}

struct psid_hint *psid_hint_find(struct psid_client *client, uint64_t token)
{
	struct psid_map_node *node = psid_map_find(&client->hints, token);

	return node ? CONTAINER_OF(node, struct psid_hint, by_token) : NULL;
}

void psid_hint_free(struct psid_hint *hint)
{
	struct psid_client *client = hint->client;

	psid_map_remove(&client->hints, &hint->by_token);
	if (hint->state == PSID_HINT_SHOWN) {
		TAILQ_REMOVE(&client->shown, hint, link);
		client->n_shown--;
	} else {
		psid_map_remove(&client->psid->hints, &hint->by_tuple);
		TAILQ_REMOVE(&client->waiting, hint, link);
		client->n_waiting--;
	}
	client->user->n_hints--;
	client->psid->n_hints--;
	free(hint);
}

void psid_deny(struct psid_client *client, uint64_t token, Pulc__Wire__Reason reason)
{
	Pulc__Wire__Deny deny = PULC__WIRE__DENY__INIT;
	PSID_MESSAGE(msg, DENY, deny) = &deny;

	deny.token = token;
	deny.reason = reason;
	client->psid->counts.n_denied++;
	psid_count_reason(client->psid->counts.n_denied_for, reason);
	(void)psid_client_send(client, &msg, NULL, 0);
}

void psid_hint_deny(struct psid_hint *hint, Pulc__Wire__Reason reason)
{
	psid_deny(hint->client, hint->token, reason);
	psid_hint_free(hint);
}

void psid_hints_deinit(struct psid_client *client)
{
	struct psid_hint *hint;

	while ((hint = TAILQ_FIRST(&client->waiting))) {
		psid_handover_leave(hint);
		psid_hint_free(hint);
	}
	while ((hint = TAILQ_FIRST(&client->shown)))
		psid_hint_free(hint);
}

/* ---- matching -------------------------------------------------------------------------------- */

/* The best hint that waits at the other end, or NULL. */
static struct psid_hint *find_mirror(const struct psid_hint *hint)
{
	struct psid_map *hints = &hint->client->psid->hints;
	struct psid_tuple mirror = psid_tuple_mirror(&hint->tuple);
	struct psid_map_node *node = psid_map_find(hints, psid_tuple_hash(&mirror));
	struct psid_rivals rivals = { .hint = hint };

	for (; node; node = psid_map_find_next(node)) {
		struct psid_hint *other = CONTAINER_OF(node, struct psid_hint, by_tuple);

		if (other->state != PSID_HINT_WAITING || psid_flow_is(other) ||
		    other->netns != hint->netns || other->cookie == hint->cookie ||
		    !psid_tuple_equal(&other->tuple, &mirror))
			continue;
		psid_rivals_add(&rivals, other);
	}
	return rivals.best;
}

/* Throws the hint out if it cannot be true (any more). */
static bool is_dead(struct psid_hint *hint)
{
	int reason = psid_proof_hint(hint);

	if (reason != 0)
		hint->client->n_failures++;
	else if (psid_side_find(hint->client->psid, hint->cookie, hint->client->user))
		reason = PULC__WIRE__REASON__REASON_SHARED;
	if (reason == 0)
		return false;
	psid_hint_deny(hint, (Pulc__Wire__Reason)reason);
	return true;
}

static void match(struct psid_hint *hint)
{
	struct psid_hint *other = find_mirror(hint);

	if (!other || is_dead(hint))
		return;
	for (unsigned n = 0; other && is_dead(other); n++)
		other = n < N_DEAD_TURN ? find_mirror(hint) : NULL;
	if (other)
		psid_handover_start(hint, other);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* What can be said without looking at the kernel. */
static Pulc__Wire__Reason judge(const struct psid_hint *hint)
{
	struct psid_tuple mirror = psid_tuple_mirror(&hint->tuple);

	if (hint->netns != hint->client->psid->netns)
		return PULC__WIRE__REASON__REASON_NETNS;
	if (psid_tuple_is_link_local(&hint->tuple))
		return PULC__WIRE__REASON__REASON_DEVICE;
	if (psid_tuple_equal(&hint->tuple, &mirror))
		return PULC__WIRE__REASON__REASON_UNSUPPORTED; /* connected to itself */
	return PULC__WIRE__REASON__REASON_NONE;
}

/* Makes room for one more in the queue that it goes to; false: there is nothing to drop. */
static bool drop_oldest(struct psid_client *client, bool shown)
{
	uint32_t max = client->psid->config->max_hints_client;
	struct psid_hint *hint = TAILQ_FIRST(shown ? &client->shown : &client->waiting);

	if ((shown ? client->n_shown : client->n_waiting) < max &&
	    client->user->n_hints / N_CLIENTS_HINTING < max)
		return true;
	while (hint && hint->state == PSID_HINT_MATCHED)
		hint = TAILQ_NEXT(hint, link);
	if (hint && shown)
		psid_hint_free(hint);
	else if (hint)
		psid_hint_deny(hint, PULC__WIRE__REASON__REASON_WAITING_PEER);
	return hint != NULL;
}

/* The same among those that its user has for what this one is for. */
static bool drop_same(const struct psid_hint *hint, uint64_t key)
{
	struct psid_map_node *node = psid_map_find(&hint->client->psid->hints, key);
	struct psid_hint *last = NULL;
	unsigned n = 0;

	for (; node; node = psid_map_find_next(node)) {
		struct psid_hint *other = CONTAINER_OF(node, struct psid_hint, by_tuple);

		if (other->client->user != hint->client->user)
			continue;
		n++;
		if (other->state != PSID_HINT_MATCHED)
			last = other;
	}
	if (n < N_SAME_USER)
		return true;
	if (last)
		psid_hint_deny(last, PULC__WIRE__REASON__REASON_WAITING_PEER);
	return last != NULL;
}

static int enlist(struct psid_hint *hint)
{
	struct psid_client *client = hint->client;
	bool shown = hint->state == PSID_HINT_SHOWN;
	uint64_t key = psid_flow_is(hint) ? psid_flow_hash(hint) : psid_tuple_hash(&hint->tuple);

	if (!drop_oldest(client, shown) || (!shown && !drop_same(hint, key)))
		return -ENOMEM;
	if (psid_map_insert(&client->hints, &hint->by_token, hint->token) < 0)
		return -ENOMEM;
	if (!shown && psid_map_insert(&client->psid->hints, &hint->by_tuple, key) < 0) {
		psid_map_remove(&client->hints, &hint->by_token);
		return -ENOMEM;
	}
	if (shown)
		TAILQ_INSERT_TAIL(&client->shown, hint, link);
	else
		TAILQ_INSERT_TAIL(&client->waiting, hint, link);
	*(shown ? &client->n_shown : &client->n_waiting) += 1;
	client->user->n_hints++;
	client->psid->n_hints++;
	return 0;
}

int psid_hint_add(struct psid_client *client, const Pulc__Wire__Hint *msg)
{
	struct psid_hint *hint = psid_hint_find(client, msg->token);
	struct psid_tuple tuple;

	if (psid_tuple_read(msg->tuple, &tuple) < 0 || msg->cookie == PSID_ANY_COOKIE ||
	    msg->transport > PULC__WIRE__TRANSPORT__TRANSPORT_UDP_RECEIVER)
		return -EBADMSG;
	if (hint && psid_handover_holds(hint))
		return 0; /* the answer is on the way */
	if (hint && hint->handover && msg->reason == PULC__WIRE__REASON__REASON_NONE)
		return 0; /* and its socket, we hope */
	if (hint) {
		psid_handover_leave(hint);
		psid_hint_free(hint);
	}
	hint = malloc(sizeof(*hint));
	if (!hint) {
		psid_deny(client, msg->token, PULC__WIRE__REASON__REASON_NO_MEMORY);
		return 0;
	}
	*hint = (struct psid_hint){
		.client = client,
		.token = msg->token,
		.cookie = msg->cookie,
		.netns = msg->netns_cookie,
		.tuple = tuple,
		.transport = msg->transport,
		.connector = msg->connector,
		.reason = msg->reason,
		.state = msg->reason ? PSID_HINT_SHOWN : PSID_HINT_WAITING,
	};
	if (enlist(hint) < 0) {
		free(hint);
		psid_deny(client, msg->token, PULC__WIRE__REASON__REASON_NO_MEMORY);
		return 0;
	}
	if (hint->state == PSID_HINT_SHOWN)
		return 0;
	hint->reason = judge(hint);
	if (hint->reason != PULC__WIRE__REASON__REASON_NONE) {
		psid_hint_deny(hint, hint->reason);
		return 0;
	}
	hint->reason = PULC__WIRE__REASON__REASON_WAITING_PEER;
	if (psid_flow_is(hint))
		psid_flow_match(hint);
	else
		match(hint);
	return 0;
}

int psid_hint_drop(struct psid_client *client, uint64_t token)
{
	struct psid_hint *hint = psid_hint_find(client, token);

	if (!hint)
		return 0; /* it crossed an answer of ours */
	psid_handover_leave(hint);
	psid_hint_free(hint);
	return 0;
}
