/*
 * A flow is named by its source and its destination. The sender knows both: it asked its kernel
 * which source address a datagram would carry. The receiver knows the source, from which it has
 * received, and its own port; its address may be the wildcard. So the two are found by source
 * address and both ports, and the rest is the kernel's to say:
 *
 *   1. both addresses are this node's, and no broadcast's or multicast's (route.c),
 *   2. a datagram on that way would be received by the hinted receiver (diag.c),
 *   3. one on the way back would be received by the hinted sender: the address is its own.
 *
 * That both clients own their sockets was shown to witness.c, by sending from them. A sender with
 * the wildcard address shows a loopback address instead of the flow's; that it is the same socket
 * follows from 3, asked for that address. Where several sockets share a port this cannot be told;
 * libraries don't hint such receivers, and who lies about it could have taken the
 * datagrams by the kernel's own rules.
 */
#include "flow.h"

#include <string.h>

#include "conn.h"
#include "diag.h"
#include "handover.h"
#include "log.h"
#include "macros.h"
#include "psid.h"
#include "rivals.h"
#include "route.h"
#include "witness.h"

static bool is_sender(const struct psid_hint *hint)
{
	return hint->transport == PULC__WIRE__TRANSPORT__TRANSPORT_UDP_SENDER;
}

uint64_t psid_flow_hash(const struct psid_hint *hint)
{
	const struct psid_tuple *t = &hint->tuple;
	bool sender = is_sender(hint);
	uint64_t words[2], ports;

	memcpy(words, sender ? t->local : t->remote, sizeof(words));
	ports = sender ? (uint64_t)t->local_port << 16 | t->remote_port
		       : (uint64_t)t->remote_port << 16 | t->local_port;
	return psid_map_hash(words[0] ^ psid_map_hash(words[1] ^ psid_map_hash(ports)));
}

/* Does what the receiver says fit the sender's flow? */
static bool fits(const struct psid_hint *sender, const struct psid_hint *receiver)
{
	const struct psid_tuple *s = &sender->tuple, *r = &receiver->tuple;

	return memcmp(s->local, r->remote, sizeof(s->local)) == 0 &&
	       s->local_port == r->remote_port && s->remote_port == r->local_port &&
	       (psid_tuple_is_wildcard(r) || memcmp(s->remote, r->local, sizeof(s->remote)) == 0);
}

static bool belong_together(const struct psid_hint *a, const struct psid_hint *b)
{
	if (a->netns != b->netns || is_sender(a) == is_sender(b))
		return false;
	return is_sender(a) ? fits(a, b) : fits(b, a);
}

/* The best hint that waits at the other end, or NULL. */
static struct psid_hint *find_other(const struct psid_hint *hint)
{
	struct psid_map_node *node = psid_map_find(&hint->client->psid->hints,
						   psid_flow_hash(hint));
	struct psid_rivals rivals = { .hint = hint };

	for (; node; node = psid_map_find_next(node)) {
		struct psid_hint *other = CONTAINER_OF(node, struct psid_hint, by_tuple);

		if (other->state != PSID_HINT_WAITING || !psid_flow_is(other) ||
		    !belong_together(hint, other))
			continue;
		psid_rivals_add(&rivals, other);
	}
	return rivals.best;
}

/* ---- what the kernel says -------------------------------------------------------------------- */

static Pulc__Wire__Reason reason_of(int r)
{
	if (r >= 0)
		return (Pulc__Wire__Reason)r;
	psid_log(PSID_WARNING, "the kernel does not tell about datagrams: error %d", -r);
	return PULC__WIRE__REASON__REASON_UNSUPPORTED;
}

/* Those that a hint names itself: of what is said by another, who may not even have a socket, it is
 * not guilty. */
static Pulc__Wire__Reason check_addresses(const struct psid_hint *hint)
{
	const struct psid *psid = hint->client->psid;
	int r = psid_route_is_local(psid->route_fd, hint->tuple.remote);

	if (r == 1 && (is_sender(hint) || !psid_tuple_is_wildcard(&hint->tuple)))
		r = psid_route_is_local(psid->route_fd, hint->tuple.local);
	return r < 0 ? reason_of(r) : r == 0 ? PULC__WIRE__REASON__REASON_REMOTE : 0;
}

int psid_flow_prove(const struct psid_hint *hint, const uint8_t address[16], uint16_t port)
{
	struct psid_tuple way_here = psid_tuple_mirror(&hint->tuple);

	if (port != hint->tuple.local_port)
		return PULC__WIRE__REASON__REASON_STALE;
	memcpy(way_here.remote, address, sizeof(way_here.remote));
	return reason_of(psid_diag_receiver(hint->client->psid->diag_fd, &way_here, hint->cookie));
}

/* Would a datagram on this way come to this hint's socket? As psid_diag_receiver. */
static int find_receiver(const struct psid_hint *hint, const struct psid_tuple *way)
{
	return psid_diag_receiver(hint->client->psid->diag_fd, way, hint->cookie);
}

static Pulc__Wire__Reason check(const struct psid_hint *hint, const struct psid_tuple *way)
{
	Pulc__Wire__Reason reason = check_addresses(hint);

	return reason ? reason : reason_of(find_receiver(hint, way));
}

/* A receiver at the wildcard address does not say to which of this node's it is sent. Would
 * anything from its source come to it: what is sent to the source's own address? */
static bool would_receive(const struct psid_hint *receiver)
{
	struct psid_tuple way = psid_tuple_mirror(&receiver->tuple);

	memcpy(way.remote, way.local, sizeof(way.remote));
	return find_receiver(receiver, &way) == 0;
}

static void check_both(const struct psid_hint *sender, const struct psid_hint *receiver,
		       Pulc__Wire__Reason *ret_sender, Pulc__Wire__Reason *ret_receiver)
{
	struct psid_tuple back = psid_tuple_mirror(&sender->tuple);

	*ret_sender = check(sender, &back);
	*ret_receiver = check(receiver, &sender->tuple);
	if (*ret_receiver == PULC__WIRE__REASON__REASON_STALE &&
	    psid_tuple_is_wildcard(&receiver->tuple) && would_receive(receiver)) {
		/* The sender has named an address at which this is not the one that receives. */
		*ret_sender = *ret_sender ? *ret_sender : PULC__WIRE__REASON__REASON_STALE;
		*ret_receiver = 0;
	}
	if (*ret_sender == 0 && *ret_receiver == 0 && sender->cookie == receiver->cookie)
		*ret_sender = *ret_receiver = PULC__WIRE__REASON__REASON_UNSUPPORTED;
}

void psid_flow_check(const struct psid_hint *a, const struct psid_hint *b,
		     Pulc__Wire__Reason *ret_a, Pulc__Wire__Reason *ret_b)
{
	if (is_sender(a))
		check_both(a, b, ret_a, ret_b);
	else
		check_both(b, a, ret_b, ret_a);
}

/* ---- matching -------------------------------------------------------------------------------- */

/* False: at least one was thrown out. */
static bool are_true(struct psid_hint *hint, struct psid_hint *other)
{
	Pulc__Wire__Reason of_hint, of_other;

	psid_flow_check(hint, other, &of_hint, &of_other);
	if (of_hint == 0 && of_other == 0)
		return true;
	hint->client->n_failures += of_hint != 0;
	other->client->n_failures += of_other != 0;
	if (of_hint != 0)
		psid_hint_deny(hint, of_hint);
	if (of_other != 0)
		psid_hint_deny(other, of_other);
	return false;
}

void psid_flow_match(struct psid_hint *hint)
{
	struct psid_hint *other;

	if (!psid_witness_can(hint)) {
		psid_hint_deny(hint, PULC__WIRE__REASON__REASON_UNSUPPORTED);
		return;
	}
	if (psid_conn_has_flow(hint)) {
		psid_hint_deny(hint, PULC__WIRE__REASON__REASON_SHARED);
		return;
	}
	other = find_other(hint);
	if (other && are_true(hint, other))
		psid_handover_start(hint, other);
}
