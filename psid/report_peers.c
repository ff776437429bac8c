/*
 * `pulcctl ports --peers`: each port with each port that it exchanges messages with, and each
 * process with each that it is joined with.
 *
 * Who is joined with whom psid knows by itself, and what a link carries stands in its slots.
 * Credits, and what is unread, each process shows of itself (shown.c). Of that an entry counts only
 * if it is about one of the process's own ports and somebody whom it is joined with, whose port the
 * other one is, as far as that is on this node. The two sides are two entries, for each says its
 * own.
 */
#include <errno.h>
#include <stdlib.h>

#include "batch.h"
#include "conn.h"
#include "links.h"
#include "macros.h"
#include "ports.h"
#include "psid.h"
#include "remote.h"
#include "report.h"
#include "shown.h"
#include "user.h"

/* One process's peers. */
struct look {
	const struct psid_client *owner, *asks;
	struct psid_pairs *pairs;
	struct psid_batch *batch;
};

static void take_process(const struct psid_shown_pair *p, Pulc__Wire__PortPeerEntry *entry)
{
	switch (SHM_PAIR_KIND(p->who)) {
	case SHM_PAIR_TAGS:
		entry->tags = true;
		entry->size_tag_credit = psid_pair_credit(p);
		entry->tag_waits = p->counts[1] & SHM_PAIR_WAITS;
		return;
	case SHM_PAIR_TCP:
	case SHM_PAIR_URING:
		if (SHM_PAIR_KIND(p->who) == SHM_PAIR_URING)
			entry->path = (char *)"tcp (io_uring)";
		entry->size_received = MIN(p->counts[0], PSID_SIZE_SHOWN_MAX);
		entry->size_sent = MIN(p->counts[1], PSID_SIZE_SHOWN_MAX);
		return;
	default:
		return;
	}
}

static void take_port(const struct psid_shown_pair *p, Pulc__Wire__PortPeerEntry *entry)
{
	switch (SHM_PAIR_KIND(p->who)) {
	case SHM_PAIR_TO:
		entry->sends = true;
		entry->size_credit = psid_pair_credit(p);
		entry->waits = p->counts[1] & SHM_PAIR_WAITS;
		entry->held = p->counts[1] & SHM_PAIR_HELD;
		return;
	case SHM_PAIR_FROM:
		entry->receives = true;
		entry->size_unread = MIN(p->counts[0], PSID_SIZE_SHOWN_MAX);
		entry->holds = p->counts[1] & SHM_PAIR_HELD;
		return;
	default:
		return;
	}
}

/* other: who has the peer's port, if it is on this node; else NULL. */
static bool name_ports(const struct look *look, uint64_t ports, const struct psid_client *other,
		       Pulc__Wire__PortPeerEntry *entry)
{
	struct psid_port *own = psid_port_get(look->owner->psid, (uint32_t)(ports >> 32));
	const struct psid_port *peer;

	if (!own || own->client != look->owner)
		return false;
	if (other) {
		peer = psid_port_get(look->owner->psid, (uint32_t)ports);
		if (!peer || peer->client != other)
			return false;
	}
	entry->port = own->number;
	entry->kind = own->kind;
	entry->name = own->name;
	entry->peer_port = (uint32_t)ports;
	return true;
}

/* Entries of one process, those of each pair of ports together. is_joined: it is worth a line by
 * itself. */
static void add_peer(const struct look *look, const Pulc__Wire__PortPeerEntry *of,
		     const struct psid_client *other, bool is_joined)
{
	const struct psid_pairs *pairs = look->pairs;
	Pulc__Wire__PortPeerEntry process = *of, entry;
	unsigned i = psid_pairs_find(pairs, of->peer_client), n_ports = 0;
	uint64_t ports;

	for (; i < pairs->n && SHM_PAIR_CLIENT(pairs->items[i].who) == of->peer_client &&
	       pairs->items[i].ports == 0;
	     i++)
		take_process(&pairs->items[i], &process);
	while (i < pairs->n && SHM_PAIR_CLIENT(pairs->items[i].who) == of->peer_client) {
		entry = process;
		ports = pairs->items[i].ports;
		for (; i < pairs->n && SHM_PAIR_CLIENT(pairs->items[i].who) == of->peer_client &&
		       pairs->items[i].ports == ports;
		     i++)
			take_port(&pairs->items[i], &entry);
		if (!name_ports(look, ports, other, &entry))
			continue;
		psid_batch_add(look->batch, &entry.base, sizeof(entry));
		n_ports++;
	}
	if (n_ports == 0 && is_joined)
		psid_batch_add(look->batch, &process.base, sizeof(process));
}

static void begin(const struct look *look, uint32_t peer, const char *path,
		  Pulc__Wire__PortPeerEntry *entry)
{
	pulc__wire__port_peer_entry__init(entry);
	entry->client = look->owner->id;
	entry->pid = (uint32_t)look->owner->pid;
	entry->uid = look->owner->user->uid;
	entry->program = (char *)look->owner->program;
	entry->peer_client = peer;
	entry->path = (char *)path;
}

static void show_peer(const struct look *look, const struct psid_client *peer,
		      Pulc__Wire__PortPeerEntry *entry)
{
	if (!psid_may_see(look->asks, peer->user->uid))
		return;
	entry->peer_pid = (uint32_t)peer->pid;
	entry->peer_program = (char *)peer->program;
}

static void add_self(const struct look *look)
{
	Pulc__Wire__PortPeerEntry entry;

	begin(look, 0, "self", &entry);
	show_peer(look, look->owner, &entry);
	add_peer(look, &entry, look->owner, false);
}

static void add_link(const struct look *look, const struct psid_holder *holder)
{
	const struct psid_holder *other = LIST_FIRST(&psid_side_other(holder->side)->holders);
	const struct psid_client *peer;
	Pulc__Wire__PortPeerEntry entry;
	struct psid_link_use use;

	if (!other || psid_link_use(holder, &use) < 0)
		return;
	peer = other->client;
	begin(look, peer->id, "shm", &entry);
	show_peer(look, peer, &entry);
	entry.size_received = use.size_received;
	entry.size_sent = use.size_sent;
	entry.size_queued = use.size_queued;
	add_peer(look, &entry, peer, true);
}

static void add_far(uint32_t number, const char *node, void *arg)
{
	const struct look *look = arg;
	Pulc__Wire__PortPeerEntry entry;

	begin(look, number, "tcp", &entry);
	entry.peer_node = (char *)node;
	add_peer(look, &entry, NULL, true);
}

static void add_owner(struct look *look)
{
	const struct psid_holder *holder = NULL;

	psid_pairs_read(look->owner, look->pairs);
	add_self(look);
	while ((holder = psid_link_next(look->owner, holder)))
		add_link(look, holder);
	psid_remote_each(look->owner, add_far, look);
}

static void list_peers(struct psid_listing *listing)
{
	static struct psid_pairs pairs;
	const struct psid_item *item;
	struct psid_batch batch;
	struct look look = { .asks = listing->client, .pairs = &pairs, .batch = &batch };
	Pulc__Wire__PortPeersReply reply = PULC__WIRE__PORT_PEERS_REPLY__INIT;
	PSID_MESSAGE(msg, PORT_PEERS, port_peers) = &reply;

	pairs.owner = NULL;
	psid_batch_init(&batch, listing->client, &msg, &reply.n_peers, &reply.more);
	reply.peers = (Pulc__Wire__PortPeerEntry **)batch.pointers;
	while ((item = psid_listing_next(listing))) {
		look.owner = psid_client_find(listing->client->psid, (uint32_t)item->key);
		if (look.owner)
			add_owner(&look);
	}
	psid_batch_end(&batch, psid_listing_has_more(listing));
}

int psid_report_peers(struct psid_client *client)
{
	struct psid_map_node *node = NULL;
	struct psid_listing *listing;

	if (!psid_listing_may(client))
		return -EBADMSG;
	listing = psid_listing_new(client, client->psid->clients.n, list_peers);
	if (!listing)
		return 0;
	while ((node = psid_map_next(&client->psid->clients, node))) {
		const struct psid_client *owner = CONTAINER_OF(node, struct psid_client, node);

		if (psid_may_see(client, owner->user->uid))
			psid_listing_add(listing, owner->id, 0);
	}
	psid_listing_start(listing);
	return 0;
}
