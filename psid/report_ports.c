/*
 * `pulcctl ports`: every port of this node, and what its owner's links carry. What a link says is
 * read from its slots, and what a process says of its ports, its tagged messages and its links to
 * other nodes from the first and the last pages of its boards. Their owners can write all of that
 * as they like: shown, bounded, used for nothing.
 */
#include <errno.h>
#include <stdio.h>

#include "batch.h"
#include "conn.h"
#include "links.h"
#include "layout.h"
#include "macros.h"
#include "memory.h"
#include "ports.h"
#include "psid.h"
#include "remote.h"
#include "report.h"
#include "shown.h"
#include "user.h"

static void add_link(const struct psid_holder *holder, Pulc__Wire__PortEntry *entry)
{
	struct psid_link_use use;

	if (psid_link_use(holder, &use) < 0)
		return;
	entry->n_links++;
	entry->size_received += use.size_received;
	entry->size_sent += use.size_sent;
	entry->size_queued += use.size_queued;
	entry->psec_in = MAX(entry->psec_in, use.psec_in);
	entry->psec_out = MAX(entry->psec_out, use.psec_out);
	if (use.size_piece && (!entry->size_piece || use.size_piece < entry->size_piece))
		entry->size_piece = use.size_piece;
}

/* Does it say that a link of its own uses io_uring? */
static bool has_uring(const struct psid_pairs *pairs)
{
	for (unsigned i = 0; i < pairs->n; i++)
		if (SHM_PAIR_KIND(pairs->items[i].who) == SHM_PAIR_URING)
			return true;
	return false;
}

/* "shm", "tcp n2", "shm, tcp n2"; with links to several other nodes only "shm, tcp"; "tcp
 * (io_uring)" if any of them uses that. */
static void add_remote(struct psid_client *owner, const struct psid_pairs *pairs,
		       Pulc__Wire__PortEntry *entry)
{
	const char *shm = entry->n_links ? "shm" : "";
	const struct psid_node *node;
	unsigned n = psid_remote_count(owner, &node);

	entry->n_links += n;
	(void)snprintf(owner->path, sizeof(owner->path), "%s%s%s%s%s%s", shm, *shm && n ? ", " : "",
		       n ? "tcp" : "", n && has_uring(pairs) ? " (io_uring)" : "", node ? " " : "",
		       node ? node->name : "");
}

/* What the owner shows of itself. */
static uint64_t shown(const _Atomic uint64_t *counts, unsigned what, uint64_t max)
{
	return MIN(atomic_load_explicit(&counts[what], memory_order_relaxed), max);
}

static void add_shown_port(const struct shm_state_port *p, Pulc__Wire__PortEntry *entry)
{
	entry->size_unread = shown(p->counts, SHM_PORT_UNREAD, PSID_SIZE_SHOWN_MAX);
	entry->n_held = (uint32_t)shown(p->counts, SHM_PORT_HELD, UINT32_MAX);
	entry->n_waits = (uint32_t)shown(p->counts, SHM_PORT_WAITS, UINT32_MAX);
}

static void add_shown(const struct psid_client *owner, Pulc__Wire__PortEntry *entry)
{
	struct shm_state state;

	if (owner->boards_fd < 0 ||
	    psid_memory_read(owner->boards_fd, SHM_STATE_AT, &state, sizeof(state)) < 0)
		return;
	entry->n_tags = (uint32_t)shown(state.counts, SHM_TAGS_EARLY, UINT32_MAX);
	entry->size_tags = shown(state.counts, SHM_TAGS_SIZE, PSID_SIZE_SHOWN_MAX);
	entry->n_tag_receives = (uint32_t)shown(state.counts, SHM_TAGS_POSTED, UINT32_MAX);
	entry->size_tcp_received = shown(state.counts, SHM_TCP_RECEIVED, PSID_SIZE_SHOWN_MAX);
	entry->size_tcp_sent = shown(state.counts, SHM_TCP_SENT, PSID_SIZE_SHOWN_MAX);
	entry->size_unsent = shown(state.counts, SHM_TCP_UNSENT, PSID_SIZE_SHOWN_MAX);
	entry->size_received += entry->size_tcp_received;
	entry->size_sent += entry->size_tcp_sent;
	entry->size_queued += shown(state.counts, SHM_TCP_ARRIVED, PSID_SIZE_SHOWN_MAX);
	for (unsigned i = 0; i < SHM_N_PORTS_SHOWN; i++)
		if (atomic_load_explicit(&state.ports[i].number, memory_order_relaxed) ==
		    entry->port) {
			add_shown_port(&state.ports[i], entry);
			return;
		}
}

/* Sums up what the owner shows of the port's destinations. */
static void add_credit(const struct psid_pairs *pairs, Pulc__Wire__PortEntry *entry)
{
	uint64_t credit;

	for (unsigned i = 0; i < pairs->n; i++) {
		const struct psid_shown_pair *p = &pairs->items[i];

		if (SHM_PAIR_KIND(p->who) != SHM_PAIR_TO || p->ports >> 32 != entry->port)
			continue;
		credit = psid_pair_credit(p);
		if (entry->n_destinations++ == 0 || credit < entry->size_credit)
			entry->size_credit = credit;
	}
}

static void add_port(struct psid_batch *batch, struct psid_port *port, struct psid_pairs *pairs)
{
	const struct psid_client *owner = port->client;
	const struct psid_holder *holder = NULL;
	Pulc__Wire__PortEntry entry;

	pulc__wire__port_entry__init(&entry);
	entry.port = port->number;
	entry.kind = port->kind;
	entry.name = port->name;
	entry.client = owner->id;
	entry.pid = (uint32_t)owner->pid;
	entry.uid = owner->user->uid;
	entry.program = (char *)owner->program;
	while ((holder = psid_link_next(owner, holder)))
		add_link(holder, &entry);
	add_shown(owner, &entry);
	psid_pairs_read(owner, pairs);
	add_credit(pairs, &entry);
	add_remote(port->client, pairs, &entry);
	entry.path = port->client->path;
	psid_batch_add(batch, &entry.base, sizeof(entry));
}

static void list_ports(struct psid_listing *listing)
{
	static struct psid_pairs pairs;
	const struct psid_item *item;
	struct psid_batch batch;
	Pulc__Wire__PortsReply reply = PULC__WIRE__PORTS_REPLY__INIT;
	PSID_MESSAGE(msg, PORTS, ports) = &reply;

	pairs.owner = NULL;
	psid_batch_init(&batch, listing->client, &msg, &reply.n_ports, &reply.more);
	reply.ports = (Pulc__Wire__PortEntry **)batch.pointers;
	while ((item = psid_listing_next(listing))) {
		struct psid_port *port = psid_port_get(listing->client->psid, (uint32_t)item->key);

		/* The number may be another user's by now. */
		if (port && psid_may_see(listing->client, port->client->user->uid))
			add_port(&batch, port, &pairs);
	}
	psid_batch_end(&batch, psid_listing_has_more(listing));
}

int psid_report_ports(struct psid_client *client)
{
	struct psid_map_node *node = NULL;
	struct psid_listing *listing;

	if (!psid_listing_may(client))
		return -EBADMSG;
	listing = psid_listing_new(client, client->psid->ports.n, list_ports);
	if (!listing)
		return 0;
	while ((node = psid_map_next(&client->psid->ports, node))) {
		const struct psid_port *port = CONTAINER_OF(node, struct psid_port, by_number);

		if (psid_may_see(client, port->client->user->uid))
			psid_listing_add(listing, port->number, 0);
	}
	psid_listing_start(listing);
	return 0;
}
