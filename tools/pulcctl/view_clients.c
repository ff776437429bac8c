/*
 * `pulcctl clients`: one line for each process attached to psid.
 */
#include "view.h"

#include <assert.h>

#include "macros.h"
#include "text.h"
#include "user.h"

static const struct ctl_column columns[] = {
	{ .title = "CLIENT", .right = true },	   { .title = "PID", .right = true },
	{ .title = "USER", .shrinks = true },	   { .title = "PROGRAM", .shrinks = true },
	{ .title = "CONNECTIONS", .right = true }, { .title = "HINTS", .right = true },
	{ .title = "MEMORY", .right = true },	   { .title = "SINCE", .right = true },
};

static bool is_chosen(const ProtobufCMessage *entry, const struct ctl_options *o)
{
	const Pulc__Wire__ClientEntry *e = (const Pulc__Wire__ClientEntry *)entry;

	return !o->pid || e->pid == o->pid;
}

static int add_row(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__ClientEntry *e = (const Pulc__Wire__ClientEntry *)entry;
	char client[16], pid[16], user[CTL_SIZE_USER], program[256];
	char connections[16], hints[16], size[8], since[24];
	const char *cells[] = {
		client,
		pid,
		ctl_user_name(e->uid, user),
		ctl_text_plain(e->program, program, sizeof(program)),
		connections,
		hints,
		ctl_text_bytes(e->size_bytes, size, sizeof(size)),
		ctl_text_duration(e->attached_usec, since, sizeof(since)),
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell for each column");
	(void)snprintf(client, sizeof(client), "%u", e->client);
	(void)snprintf(pid, sizeof(pid), "%u", e->pid);
	(void)snprintf(connections, sizeof(connections), "%u", e->n_connections);
	(void)snprintf(hints, sizeof(hints), "%u", e->n_hints);
	return ctl_table_add(table, cells);
}

const struct ctl_list ctl_list_clients = {
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.is_chosen = is_chosen,
	.add_row = add_row,
};
