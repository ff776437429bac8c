/*
 * `pulcctl sockets`: every end of every connection that psid knows of, upgraded or only hinted.
 *
 * What is said about rings is read from the slots, which their owners can write as they like: it
 * is shown, bounded so that it makes sense as a number, and used for nothing.
 *
 * Path: "rings" when at least one direction has moved and none has moved back (a direction in
 * which nothing was sent yet never moves), "switching" when none has moved, "kernel" when all
 * that moved has moved back, "mixed" when one direction has and the other has not.
 */
#include <errno.h>
#include <string.h>

#include "batch.h"
#include "conn.h"
#include "links.h"
#include "macros.h"
#include "psid.h"
#include "report.h"
#include "user.h"

struct entry {
	Pulc__Wire__SocketEntry wire; /* first: the batch sends it */
	Pulc__Wire__Tuple tuple;
};

static_assert(sizeof(struct entry) <= PSID_SIZE_ENTRY, "a batch holds it");

static const char *path_of(uint32_t mode, uint32_t peer_mode)
{
	bool ring = mode == SHM_TX_RING || peer_mode == SHM_TX_RING;
	bool ended = mode == SHM_TX_ENDED || peer_mode == SHM_TX_ENDED;

	if (ended)
		return ring ? "mixed" : "kernel";
	return ring ? "rings" : "switching";
}

static uint64_t ring_size(const struct psid_slab *slab, const struct shm_side *side)
{
	uint32_t ring = 0;

	if (side->tx_mode != SHM_TX_RING)
		return 0;
	for (uint32_t i = 1; i < SHM_N_RINGS; i++)
		if (side->ring_at[i] != SHM_NOT_BEGUN)
			ring = i;
	return slab->size_ring[ring];
}

/* Bytes between a head and what was taken, read at different moments from memory that lies. */
static uint64_t fill(uint64_t head, uint64_t taken, uint64_t max)
{
	uint64_t n = head - taken;

	return n > INT64_MAX ? 0 : MIN(n, max);
}

static bool any_watch(const _Atomic uint64_t *watches)
{
	for (unsigned i = 0; i < SHM_N_WATCHES; i++)
		if (watches[i])
			return true;
	return false;
}

static const char *waiter_of(const struct shm_side *side)
{
	bool receiver = any_watch(side->rx_watch), sender = any_watch(side->tx_watch);

	if (receiver && sender)
		return "both";
	return receiver ? "receiver" : sender ? "sender" : "";
}

static void fill_rings(struct psid_side *side, Pulc__Wire__SocketEntry *entry)
{
	struct psid_side *other = psid_side_other(side);
	uint64_t size_all = 0;
	struct shm_side own, peer = { 0 };

	if (psid_slot_read(side->slab, side->slot, &own) < 0 ||
	    (other->slab && psid_slot_read(other->slab, other->slot, &peer) < 0))
		return;
	for (uint32_t i = 0; i < SHM_N_RINGS; i++)
		size_all += side->slab->size_ring[i];
	entry->path = (char *)path_of(own.tx_mode, peer.tx_mode);
	entry->size_sent = own.head;
	entry->size_received = own.rx_taken;
	entry->size_ring_send = ring_size(side->slab, &own);
	if (other->slab) { /* else its holder has not come back to this psid */
		entry->fill_send = fill(own.head, peer.rx_taken, size_all);
		entry->fill_receive = fill(peer.head, own.rx_taken, size_all);
		entry->size_ring_receive = ring_size(other->slab, &peer);
	}
	entry->size_sent_kernel = own.tx_mode == SHM_TX_KERNEL ? 0 : own.kernel_at;
	entry->waiter = (char *)waiter_of(&own);
	if (!entry->reason && own.tx_mode == SHM_TX_ENDED)
		entry->reason = PULC__WIRE__REASON__REASON_GAVE_BACK;
}

static void fill_holder(const struct psid_side *side, Pulc__Wire__SocketEntry *entry)
{
	const struct psid_holder *holder = LIST_FIRST(&side->holders);

	entry->n_holders = side->n_holders;
	if (!holder)
		return;
	entry->client = holder->client->id;
	entry->pid = (uint32_t)holder->client->pid;
	entry->program = (char *)holder->client->program;
}

/* Points the copy in the batch to its own tuple. */
static void add(struct psid_batch *batch, struct entry *entry, const struct psid_tuple *tuple)
{
	struct entry *copy;

	psid_tuple_write(tuple, &entry->tuple);
	psid_batch_add(batch, &entry->wire.base, sizeof(*entry));
	copy = (struct entry *)batch->pointers[*batch->n - 1];
	copy->wire.tuple = &copy->tuple;
}

static void add_side(struct psid_batch *batch, struct psid_side *side)
{
	const struct psid_holder *peer = LIST_FIRST(&psid_side_other(side)->holders);
	struct entry entry;

	pulc__wire__socket_entry__init(&entry.wire);
	entry.wire.conn = side->conn->id;
	entry.wire.uid = side->user->uid;
	entry.wire.reason = side->reason;
	entry.wire.transport = side->transport;
	entry.wire.peer_pid = peer ? (uint32_t)peer->client->pid : 0;
	fill_holder(side, &entry.wire);
	fill_rings(side, &entry.wire);
	add(batch, &entry, &side->tuple);
}

static void add_hint(struct psid_batch *batch, const struct psid_hint *hint)
{
	struct entry entry;

	pulc__wire__socket_entry__init(&entry.wire);
	entry.wire.client = hint->client->id;
	entry.wire.pid = (uint32_t)hint->client->pid;
	entry.wire.uid = hint->client->user->uid;
	entry.wire.program = hint->client->program;
	entry.wire.path = "kernel";
	entry.wire.reason = hint->reason;
	entry.wire.transport = hint->transport;
	entry.wire.n_holders = 1;
	add(batch, &entry, &hint->tuple);
}

static bool is_seen(const struct psid_client *client, const struct psid_side *side)
{
	return side->slab && psid_may_see(client, side->user->uid);
}

static void add_conn(struct psid_batch *batch, struct psid_conn *conn)
{
	for (unsigned i = 0; i < 2; i++)
		if (is_seen(batch->client, &conn->sides[i]))
			add_side(batch, &conn->sides[i]);
}

/* An item of no client is a connection, any other a hint of that one's. */
static void add_item(struct psid_batch *batch, const struct psid_item *item)
{
	struct psid *psid = batch->client->psid;
	struct psid_client *of = item->of ? psid_client_find(psid, (uint32_t)item->of) : NULL;
	struct psid_map_node *node = item->of ? NULL : psid_map_find(&psid->conns, item->key);
	const struct psid_hint *hint = of ? psid_hint_find(of, item->key) : NULL;

	if (node)
		add_conn(batch, CONTAINER_OF(node, struct psid_conn, by_id));
	else if (hint)
		add_hint(batch, hint);
}

static void list_sockets(struct psid_listing *listing)
{
	const struct psid_item *item;
	struct psid_batch batch;
	Pulc__Wire__SocketsReply reply = PULC__WIRE__SOCKETS_REPLY__INIT;
	PSID_MESSAGE(msg, SOCKETS, sockets) = &reply;

	psid_batch_init(&batch, listing->client, &msg, &reply.n_sockets, &reply.more);
	reply.sockets = (Pulc__Wire__SocketEntry **)batch.pointers;
	while ((item = psid_listing_next(listing)))
		add_item(&batch, item);
	psid_batch_end(&batch, psid_listing_has_more(listing));
}

static void note_conns(struct psid_listing *listing)
{
	const struct psid *psid = listing->client->psid;
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&psid->conns, node))) {
		const struct psid_conn *conn = CONTAINER_OF(node, struct psid_conn, by_id);

		if (!psid_is_link(conn) && /* no socket's: report_ports.c */
		    (is_seen(listing->client, &conn->sides[0]) ||
		     is_seen(listing->client, &conn->sides[1])))
			psid_listing_add(listing, conn->id, 0);
	}
}

static void note_hints(struct psid_listing *listing)
{
	const struct psid *psid = listing->client->psid;
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&psid->clients, node))) {
		const struct psid_client *of = CONTAINER_OF(node, struct psid_client, node);
		const struct psid_hint *hint;

		if (!psid_may_see(listing->client, of->user->uid))
			continue;
		TAILQ_FOREACH(hint, &of->waiting, link)
			psid_listing_add(listing, hint->token, of->id);
		TAILQ_FOREACH(hint, &of->shown, link)
			psid_listing_add(listing, hint->token, of->id);
	}
}

int psid_report_sockets(struct psid_client *client)
{
	struct psid_listing *listing;

	if (!psid_listing_may(client))
		return -EBADMSG;
	listing = psid_listing_new(client, client->psid->conns.n + client->psid->n_hints,
				   list_sockets);
	if (!listing)
		return 0;
	note_conns(listing);
	note_hints(listing);
	psid_listing_start(listing);
	return 0;
}
