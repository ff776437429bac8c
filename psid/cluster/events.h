/* What happened to nodes and connections, told in the loop's next turn. */
#ifndef PULC_PSID_EVENTS_H
#define PULC_PSID_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum psid_event_kind {
	PSID_EVENT_CHANGED,
	PSID_EVENT_LOST,
	PSID_EVENT_DRAINED,
	PSID_EVENT_GIVEN_UP
};

struct psid_events {
	struct psid_event {
		enum psid_event_kind kind;
		uint64_t node;
	} * events;
	size_t n, n_room;
};

struct psid_cluster;

/* Twice in a row the same counts once. */
void psid_event(struct psid_cluster *cluster, enum psid_event_kind kind, uint64_t node);
/* Tells the watchers. */
void psid_events_turn(struct psid_cluster *cluster);
void psid_events_deinit(struct psid_cluster *cluster);

#endif
