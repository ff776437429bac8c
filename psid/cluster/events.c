/*
 * Watchers are told of what happened from the loop and not from within the call in which it
 * happened: they may call us back without surprises on either side. Events keep their order.
 */
#include "events.h"

#include <stdlib.h>

#include "inside.h"
#include "log.h"
#include "macros.h"

void psid_event(struct psid_cluster *cluster, enum psid_event_kind kind, uint64_t node)
{
	struct psid_events *events = &cluster->events;

	if (LIST_EMPTY(&cluster->watches))
		return;
	if (events->n > 0 && events->events[events->n - 1].kind == kind &&
	    events->events[events->n - 1].node == node)
		return;
	if (events->n == events->n_room) {
		size_t n_room = MAX(2 * events->n_room, (size_t)16);
		void *grown = reallocarray(events->events, n_room, sizeof(*events->events));

		if (!grown) {
			psid_log(PSID_ERROR, "no memory to tell what happened to a node");
			return;
		}
		events->events = grown;
		events->n_room = n_room;
	}
	events->events[events->n++] = (struct psid_event){ kind, node };
	psid_cluster_later(cluster);
}

static void tell(struct psid_cluster *cluster, const struct psid_cluster_watch *watch,
		 const struct psid_event *event)
{
	const struct psid_node *node = psid_members_find(psid_members_of(cluster), event->node);

	if (event->kind == PSID_EVENT_CHANGED && watch->changed && node)
		watch->changed(watch->data, node);
	else if (event->kind == PSID_EVENT_LOST && watch->lost)
		watch->lost(watch->data, event->node);
	else if (event->kind == PSID_EVENT_DRAINED && watch->drained)
		watch->drained(watch->data, event->node);
	else if (event->kind == PSID_EVENT_GIVEN_UP && watch->given_up)
		watch->given_up(watch->data);
}

void psid_events_turn(struct psid_cluster *cluster)
{
	struct psid_events due = cluster->events;
	struct psid_cluster_watch *watch, *next;

	cluster->events = (struct psid_events){ 0 };
	for (size_t i = 0; i < due.n; i++)
		for (watch = LIST_FIRST(&cluster->watches); watch; watch = next) {
			next = LIST_NEXT(watch, link);
			tell(cluster, watch, &due.events[i]);
		}
	free(due.events);
}

void psid_events_deinit(struct psid_cluster *cluster)
{
	free(cluster->events.events);
}
