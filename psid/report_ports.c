/*
 * `pulcctl ports`: every port of this node, and what its owner's links carry. What a link says is read from
 * its slots, which their owners can write as they like: shown, bounded, used for nothing. Links to other nodes are the processes' own: they
 * are counted, and what they carry is not known here.
 */
#include <errno.h>
#include <stdio.h>

#include "batch.h"
#include "conn.h"
#include "links.h"
#include "macros.h"
#include "ports.h"
#include "psid.h"
#include "remote.h"
#include "report.h"
#include "user.h"

static void add_link(const struct psid_holder *holder, Pulc__Wire__PortEntry *entry)
{
	const struct psid_side *side = holder->side, *other = psid_side_other(side);
	struct shm_side own, peer;
	uint64_t n;

	if (!psid_is_link(side->conn) || !other->slab ||
	    psid_slot_read(side->slab, side->slot, &own) < 0 ||
	    psid_slot_read(other->slab, other->slot, &peer) < 0)
		return;
	n = peer.head - own.tail;
	entry->n_links++;
	entry->size_received += own.tail;
	entry->size_sent += own.head;
	entry->size_queued += n > SHM_RING_SIZE_MAX ? 0 : n;
	entry->psec_in = MAX(entry->psec_in, (uint32_t)own.psec_in);
	entry->psec_out = MAX(entry->psec_out, (uint32_t)own.psec_out);
	if (own.size_piece && (!entry->size_piece || own.size_piece < entry->size_piece))
		entry->size_piece = own.size_piece;
}

/* "shm", "tcp n2", "shm, tcp n2"; with links to several other nodes only "shm, tcp". */
static void add_remote(struct psid_client *owner, Pulc__Wire__PortEntry *entry)
{
	const char *shm = entry->n_links ? "shm" : "";
	const struct psid_node *node;
	unsigned n = psid_remote_count(owner, &node);

	entry->n_links += n;
	(void)snprintf(owner->path, sizeof(owner->path), "%s%s%s%s%s", shm, *shm && n ? ", " : "",
		       n ? "tcp" : "", node ? " " : "", node ? node->name : "");
}

static void add_port(struct psid_batch *batch, struct psid_port *port)
{
	const struct psid_client *owner = port->client;
	const struct psid_holder *holder;
	Pulc__Wire__PortEntry entry;

	pulc__wire__port_entry__init(&entry);
	entry.port = port->number;
	entry.kind = port->kind;
	entry.name = port->name;
	entry.client = owner->id;
	entry.pid = (uint32_t)owner->pid;
	entry.uid = owner->user->uid;
	entry.program = (char *)owner->program;
	LIST_FOREACH(holder, &owner->holdings, by_client)
	add_link(holder, &entry);
	add_remote(port->client, &entry);
	entry.path = port->client->path;
	psid_batch_add(batch, &entry.base, sizeof(entry));
}

int psid_report_ports(struct psid_client *client)
{
	struct psid_map_node *node = NULL;
	struct psid_batch batch;
	Pulc__Wire__PortsReply reply = PULC__WIRE__PORTS_REPLY__INIT;
	PSID_MESSAGE(msg, PORTS, ports) = &reply;

	if (!psid_outbox_is_empty(&client->outbox))
		return -EBADMSG;
	psid_batch_init(&batch, client, &msg, &reply.n_ports, &reply.more);
	reply.ports = (Pulc__Wire__PortEntry **)batch.pointers;
	while ((node = psid_map_next(&client->psid->ports, node))) {
		struct psid_port *port = CONTAINER_OF(node, struct psid_port, by_number);

		if (psid_may_see(client, port->client->user->uid))
			add_port(&batch, port);
	}
	psid_batch_end(&batch);
	return 0;
}
