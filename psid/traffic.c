/*
 * What the programs of this node move, from what each side says to have written. The cluster asks
 * each time that it samples this node's load, once a second; a psid without a cluster looks when
 * somebody asks it. Nothing of it is on the programs' way: they count for themselves already, and
 * psid reads those counts.
 *
 * A look costs one short read for each side, a microsecond, so with many connections looks are made
 * less often: a thousandth of a processor, roughly, is what they may take. A rate is the mean
 * between two looks. After a longer pause the first look only takes note, for a mean over minutes
 * says nothing of now.
 *
 * The counts are as true as the processes are. One that goes backwards, or by more than a machine's
 * memory moves, counts as nothing; the total is shown, and used for nothing. What sides wrote
 * before they came to this psid (return.c) is not its traffic.
 *
 * Left out is what psid does not see: bytes on the kernel's sockets, links to other nodes, and
 * messages that are fetched out of their sender's memory, of which only the frame that tells of
 * them is written.
 */
#include "traffic.h"

#include "clock.h"
#include "cluster.h"
#include "conn.h"
#include "macros.h"
#include "psid.h"

#define USEC_LOOK (USEC_PER_SEC * 9 / 10) /* a little less than between two samples */
#define USEC_LOOK_CONN 2000u
#define USEC_PAUSE (10 * USEC_PER_SEC)
#define BYTES_PER_USEC_MAX (1u << 16) /* 65 GB a second of one side: no memory is so fast */

/* From one look to the next. */
static uint64_t usec_between(const struct psid *psid)
{
	return MAX(USEC_LOOK, (uint64_t)psid->conns.n * USEC_LOOK_CONN);
}

void psid_traffic_count(struct psid_side *side, uint64_t size_written, uint64_t usec_now)
{
	struct psid_traffic *traffic = &side->conn->psid->traffic;
	uint64_t size = size_written - side->size_seen;
	uint64_t usec = usec_now - traffic->usec_looked + USEC_LOOK;

	side->size_seen = size_written;
	if (size / BYTES_PER_USEC_MAX <= usec)
		traffic->size_moved += size;
}

void psid_traffic_returned(struct psid_side *side)
{
	(void)psid_slot_written(side->slab, side->slot, &side->size_seen);
}

static void look_at(struct psid_side *side, uint64_t usec_now)
{
	uint64_t size;

	if (side->slab && psid_slot_written(side->slab, side->slot, &size) == 0)
		psid_traffic_count(side, size, usec_now);
}

uint64_t psid_traffic_look(struct psid *psid, uint64_t usec_now)
{
	struct psid_traffic *traffic = &psid->traffic;
	uint64_t usec = usec_now - traffic->usec_looked, size;
	struct psid_map_node *node = NULL;

	if (usec < usec_between(psid))
		return traffic->rate;
	while ((node = psid_map_next(&psid->conns, node))) {
		struct psid_conn *conn = CONTAINER_OF(node, struct psid_conn, by_id);

		look_at(&conn->sides[0], usec_now);
		look_at(&conn->sides[1], usec_now);
	}
	size = traffic->size_moved - traffic->size_looked;
	traffic->rate = 0;
	if (usec <= USEC_PAUSE + usec_between(psid))
		traffic->rate = (uint64_t)((double)size * USEC_PER_SEC / (double)usec);
	traffic->usec_looked = usec_now;
	traffic->size_looked = traffic->size_moved;
	return traffic->rate;
}

static uint64_t rate_of(void *data)
{
	return psid_traffic_look(data, nsec_now() / NSEC_PER_USEC);
}

void psid_traffic_start(struct psid *psid)
{
	psid->traffic.usec_looked = nsec_now() / NSEC_PER_USEC;
	psid_cluster_meter(psid->cluster, rate_of, psid);
}
