/*
 * Reports: areas, a line for each slab of memory that psid has made or taken back, with its writer,
 * its reader and how many connections are in it; then one for each process that builds messages in
 * memory of psid's. Who may see which is as for clients (report.c).
 */
#include "report_areas.h"

#include <errno.h>
#include <sys/stat.h>

#include "batch.h"
#include "macros.h"
#include "pair.h"
#include "psid.h"
#include "slab.h"
#include "user.h"

/* Of stat.st_blocks. */
#define SIZE_BLOCK 512u

static void fill_area(const struct psid_slab *slab, Pulc__Wire__AreaEntry *ret_entry)
{
	pulc__wire__area_entry__init(ret_entry);
	ret_entry->id = slab->id;
	ret_entry->uid = slab->user ? slab->user->uid : 0;
	ret_entry->size_bytes = slab->size;
	ret_entry->n_slots = slab->n_slots;
	ret_entry->n_used = slab->n_used;
	if (!slab->pair)
		return;
	ret_entry->pid = (uint32_t)slab->pair->owner->pid;
	ret_entry->peer_pid = (uint32_t)slab->pair->peer->pid;
	ret_entry->program = slab->pair->owner->program;
}

/* Its owner allocates its pages as it needs them: what is there of it. */
static void fill_messages(const struct psid_client *owner, Pulc__Wire__AreaEntry *ret_entry)
{
	struct stat st = { 0 };

	pulc__wire__area_entry__init(ret_entry);
	(void)fstat(owner->messages_fd, &st);
	ret_entry->id = st.st_ino;
	ret_entry->uid = owner->user->uid;
	ret_entry->size_bytes = (uint64_t)st.st_blocks * SIZE_BLOCK;
	ret_entry->pid = (uint32_t)owner->pid;
	ret_entry->program = (char *)owner->program;
	ret_entry->messages = true;
}

/* An item of no client is a slab, any other that client's memory. */
static void add_item(struct psid_batch *batch, const struct psid_item *item)
{
	const struct psid *psid = batch->client->psid;
	const struct psid_slab *slab = item->of ? NULL : psid_slab_find(psid, item->key);
	const struct psid_client *owner =
		item->of ? psid_client_find(batch->client->psid, (uint32_t)item->of) : NULL;
	Pulc__Wire__AreaEntry entry;

	if (slab)
		fill_area(slab, &entry);
	else if (owner && owner->messages_fd >= 0)
		fill_messages(owner, &entry);
	else
		return;
	psid_batch_add(batch, &entry.base, sizeof(entry));
}

static void list_areas(struct psid_listing *listing)
{
	const struct psid_item *item;
	struct psid_batch batch;
	Pulc__Wire__AreasReply reply = PULC__WIRE__AREAS_REPLY__INIT;
	PSID_MESSAGE(msg, AREAS, areas) = &reply;

	psid_batch_init(&batch, listing->client, &msg, &reply.n_areas, &reply.more);
	reply.areas = (Pulc__Wire__AreaEntry **)batch.pointers;
	while ((item = psid_listing_next(listing)))
		add_item(&batch, item);
	psid_batch_end(&batch, psid_listing_has_more(listing));
}

int psid_report_areas(struct psid_client *client)
{
	const struct psid *psid = client->psid;
	struct psid_map_node *node = NULL;
	struct psid_listing *listing;

	if (!psid_listing_may(client))
		return -EBADMSG;
	listing = psid_listing_new(client, psid->slabs.n + psid->clients.n, list_areas);
	if (!listing)
		return 0;
	while ((node = psid_map_next(&psid->slabs, node))) {
		const struct psid_slab *slab = CONTAINER_OF(node, struct psid_slab, by_ino);

		if (psid_may_see(client, slab->user ? slab->user->uid : 0))
			psid_listing_add(listing, node->key, 0);
	}
	while ((node = psid_map_next(&psid->clients, node))) {
		const struct psid_client *owner = CONTAINER_OF(node, struct psid_client, node);

		if (owner->messages_fd >= 0 && psid_may_see(client, owner->user->uid))
			psid_listing_add(listing, 0, owner->id);
	}
	psid_listing_start(listing);
	return 0;
}
