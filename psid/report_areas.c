/*
 * Reports: areas, a line for each slab of memory that psid has made or taken back, with its writer, its reader
 * and how many connections are in it. Who may see which is as for clients (report.c).
 */
#include "report_areas.h"

#include <errno.h>

#include "batch.h"
#include "macros.h"
#include "pair.h"
#include "psid.h"
#include "slab.h"
#include "user.h"

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
	psid_batch_end(&batch);
	return 0;
}
