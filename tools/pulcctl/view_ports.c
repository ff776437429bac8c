/*
 * `pulcctl ports`: one line for each port of the native interface: what its links carry, what of
 * that nobody has received yet and who waits for that reason, the least credit that it has left at
 * anybody, and of its process its tagged messages ("2+1": two that nobody has asked for, one
 * receive that waits) and what it has measured of its links: what a byte costs into a ring and out
 * of one, and the size of the pieces of a message of 1 MiB that follows (hal/model.c).
 */
#include "view.h"

#include <assert.h>

#include "macros.h"
#include "text.h"
#include "user.h"

static const struct ctl_column columns[] = {
	{ .title = "PORT", .right = true },	{ .title = "KIND" },
	{ .title = "NAME", .shrinks = true },	{ .title = "PID", .right = true },
	{ .title = "USER", .shrinks = true },	{ .title = "PROGRAM", .shrinks = true },
	{ .title = "LINKS", .right = true },	{ .title = "PATH", .shrinks = true },
	{ .title = "RECEIVED", .right = true }, { .title = "SENT", .right = true },
	{ .title = "QUEUED", .right = true },	{ .title = "UNREAD", .right = true },
	{ .title = "HOLDS", .right = true },	{ .title = "CREDIT", .right = true },
	{ .title = "WAITS", .right = true },	{ .title = "TAGS", .right = true },
	{ .title = "PS/B", .right = true },	{ .title = "PIECE", .right = true },
};

static bool is_chosen(const ProtobufCMessage *entry, const struct ctl_options *o)
{
	const Pulc__Wire__PortEntry *e = (const Pulc__Wire__PortEntry *)entry;

	return (!o->pid || e->pid == o->pid) && (!o->port || e->port == o->port);
}

const char *ctl_port_kind(Pulc__Wire__PortKind kind)
{
	static const char *const names[] = { "?", "S", "M", "D" };

	return (unsigned)kind < ARRAY_SIZE(names) ? names[kind] : names[0];
}

/* "70+60": into a ring and out of one. */
static void text_of_costs(const Pulc__Wire__PortEntry *e, char *text, size_t size)
{
	char in[12] = "-", out[12] = "-";

	if (e->psec_in)
		(void)snprintf(in, sizeof(in), "%u", e->psec_in);
	if (e->psec_out)
		(void)snprintf(out, sizeof(out), "%u", e->psec_out);
	(void)snprintf(text, size, "%s+%s", in, out);
}

static int add_row(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__PortEntry *e = (const Pulc__Wire__PortEntry *)entry;
	char port[16], pid[16], links[16], user[CTL_SIZE_USER], name[256], program[256];
	char received[8], sent[8], queued[8], path[96];
	char unread[8], holds[16], credit[8], waits[16], tags[32], costs[32], piece[8];
	const char *cells[] = {
		port,
		ctl_port_kind(e->kind),
		ctl_text_plain(e->name, name, sizeof(name)),
		pid,
		ctl_user_name(e->uid, user),
		ctl_text_plain(e->program, program, sizeof(program)),
		links,
		ctl_text_plain(e->path[0] ? e->path : "-", path, sizeof(path)),
		ctl_text_bytes(e->size_received, received, sizeof(received)),
		ctl_text_bytes(e->size_sent, sent, sizeof(sent)),
		ctl_text_bytes(e->size_queued, queued, sizeof(queued)),
		ctl_text_bytes(e->size_unread, unread, sizeof(unread)),
		holds,
		e->n_destinations ? ctl_text_bytes(e->size_credit, credit, sizeof(credit)) : "-",
		waits,
		tags,
		costs,
		e->size_piece ? ctl_text_bytes(e->size_piece, piece, sizeof(piece)) : "-",
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell for each column");
	(void)snprintf(port, sizeof(port), "%u", e->port);
	(void)snprintf(pid, sizeof(pid), "%u", e->pid);
	(void)snprintf(links, sizeof(links), "%u", e->n_links);
	(void)snprintf(holds, sizeof(holds), "%u", e->n_held);
	(void)snprintf(waits, sizeof(waits), "%u", e->n_waits);
	(void)snprintf(tags, sizeof(tags), "%u+%u", e->n_tags, e->n_tag_receives);
	text_of_costs(e, costs, sizeof(costs));
	return ctl_table_add(table, cells);
}

const struct ctl_list ctl_list_ports = {
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.is_chosen = is_chosen,
	.add_row = add_row,
};
