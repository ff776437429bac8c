/* What pulcctl prints of the replies to each question. */
#ifndef PULCCTL_VIEW_H
#define PULCCTL_VIEW_H

#include <stdio.h>

#include "options.h"
#include "query.h"
#include "table.h"

/* A kind of reply that is a list: how to choose among its entries and show one. */
struct ctl_list {
	const struct ctl_column *columns;
	size_t n_columns;
	bool (*is_chosen)(const ProtobufCMessage *entry, const struct ctl_options *options);
	int (*add_row)(struct ctl_table *table, const ProtobufCMessage *entry);
	/* Which of two comes first, as for qsort; NULL: they stay in the daemon's order. */
	int (*compare)(const ProtobufCMessage *a, const ProtobufCMessage *b);
};

extern const struct ctl_list ctl_list_sockets;
extern const struct ctl_list ctl_list_clients;
extern const struct ctl_list ctl_list_areas;
extern const struct ctl_list ctl_list_ports;
extern const struct ctl_list ctl_list_peers;
extern const struct ctl_list ctl_list_nodes;
extern const struct ctl_list ctl_list_jobs;
extern const struct ctl_list ctl_list_queue;
extern const struct ctl_list ctl_list_tasks;
extern const struct ctl_list ctl_list_partitions;

/* Print the replies, which are of that kind, as a table for the room given, or as JSON. Return 0,
 * -ENOMEM. */
int ctl_list_print(FILE *out, const struct ctl_list *list, const struct ctl_replies *replies,
		   const struct ctl_options *options, const struct ctl_room *room);
/* Is there anything in the replies, which are of that kind, that the options choose? */
bool ctl_list_has(const struct ctl_list *list, const struct ctl_replies *replies,
		  const struct ctl_options *options);
int ctl_status_print(FILE *out, const struct ctl_replies *replies,
		     const struct ctl_options *options, const struct ctl_room *room);

/* Is it a node that can do anything now? */
bool ctl_node_is_up(const Pulc__Wire__NodeEntry *node);

/* "S", "M" or "D". */
const char *ctl_port_kind(Pulc__Wire__PortKind kind);

#endif
