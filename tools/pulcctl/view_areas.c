/*
 * `pulcctl areas`: one line for each area of memory that connections share, and for each that
 * messages are built in, which has no connections.
 */
#include "view.h"

#include <assert.h>

#include "macros.h"
#include "text.h"
#include "user.h"

static const struct ctl_column columns[] = {
	{ .title = "AREA", .right = true },	   { .title = "PID", .right = true },
	{ .title = "PEER", .right = true },	   { .title = "USER", .shrinks = true },
	{ .title = "PROGRAM", .shrinks = true },   { .title = "SIZE", .right = true },
	{ .title = "CONNECTIONS", .right = true }, { .title = "MAX", .right = true },
};

static bool is_chosen(const ProtobufCMessage *entry, const struct ctl_options *o)
{
	const Pulc__Wire__AreaEntry *e = (const Pulc__Wire__AreaEntry *)entry;

	return !o->pid || e->pid == o->pid || e->peer_pid == o->pid;
}

static int add_row(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__AreaEntry *e = (const Pulc__Wire__AreaEntry *)entry;
	char area[24], pid[16], peer[16], user[CTL_SIZE_USER], program[256], size[8], used[16],
		slots[16];
	const char *cells[] = {
		area,
		e->pid ? pid : NULL,
		e->peer_pid ? peer : NULL,
		ctl_user_name(e->uid, user),
		e->program[0] ? ctl_text_plain(e->program, program, sizeof(program)) : NULL,
		ctl_text_bytes(e->size_bytes, size, sizeof(size)),
		e->messages ? NULL : used,
		e->messages ? NULL : slots,
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell for each column");
	(void)snprintf(area, sizeof(area), "%llu", (unsigned long long)e->id);
	(void)snprintf(pid, sizeof(pid), "%u", e->pid);
	(void)snprintf(peer, sizeof(peer), "%u", e->peer_pid);
	(void)snprintf(used, sizeof(used), "%u", e->n_used);
	(void)snprintf(slots, sizeof(slots), "%u", e->n_slots);
	return ctl_table_add(table, cells);
}

const struct ctl_list ctl_list_areas = {
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.is_chosen = is_chosen,
	.add_row = add_row,
};
