/* What pulcctl prints of the replies to each question. */
#ifndef PULCCTL_VIEW_H
#define PULCCTL_VIEW_H

#include <stdio.h>

#include "options.h"
#include "query.h"
#include "table.h"

/*
 * Prints the replies as a table for the room given, or as JSON. The replies are of the kind that the name says.
 * Returns 0, -ENOMEM.
 */
typedef int ctl_view(FILE *out, const struct ctl_replies *replies,
		     const struct ctl_options *options, const struct ctl_room *room);

ctl_view ctl_view_status;
ctl_view ctl_view_sockets;
ctl_view ctl_view_clients;
ctl_view ctl_view_areas;
ctl_view ctl_view_ports;
ctl_view ctl_view_nodes;
ctl_view ctl_view_jobs;
ctl_view ctl_view_tasks;

/* A kind of reply that is a list: how to find its entries, choose among them and show one. */
struct ctl_list {
	const struct ctl_column *columns;
	size_t n_columns;
	size_t (*entries)(const Pulc__Wire__ToClient *reply, ProtobufCMessage *const **ret_entries);
	bool (*is_chosen)(const ProtobufCMessage *entry, const struct ctl_options *options);
	int (*add_row)(struct ctl_table *table, const ProtobufCMessage *entry);
};
int ctl_list_print(FILE *out, const struct ctl_list *list, const struct ctl_replies *replies,
		   const struct ctl_options *options, const struct ctl_room *room);

#define CTL_SIZE_USER 40
/* The name of a user, or his number if he has none. */
char *ctl_user_name(unsigned uid, char buf[CTL_SIZE_USER]);

#endif
