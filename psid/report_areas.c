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

static void add_messages(struct psid_batch *batch, const struct psid_client *client)
{
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&client->psid->clients, node))) {
		const struct psid_client *owner = CONTAINER_OF(node, struct psid_client, node);
		Pulc__Wire__AreaEntry entry;

		if (owner->messages_fd < 0 || !psid_may_see(client, owner->user->uid))
			continue;
		fill_messages(owner, &entry);
		psid_batch_add(batch, &entry.base, sizeof(entry));
	}
}

int psid_report_areas(struct psid_client *client)
{
	struct psid_map_node *node = NULL;
	struct psid_batch batch;
	Pulc__Wire__AreasReply reply = PULC__WIRE__AREAS_REPLY__INIT;
	PSID_MESSAGE(msg, AREAS, areas) = &reply;

	if (!psid_outbox_is_empty(&client->outbox))
		return -EBADMSG;
	psid_batch_init(&batch, client, &msg, &reply.n_areas, &reply.more);
	reply.areas = (Pulc__Wire__AreaEntry **)batch.pointers;
	while ((node = psid_map_next(&client->psid->slabs, node))) {
		const struct psid_slab *slab = CONTAINER_OF(node, struct psid_slab, by_ino);
		Pulc__Wire__AreaEntry entry;

		if (!psid_may_see(client, slab->user ? slab->user->uid : 0))
			continue;
		fill_area(slab, &entry);
		psid_batch_add(&batch, &entry.base, sizeof(entry));
	}
	add_messages(&batch, client);
	psid_batch_end(&batch);
	return 0;
}
