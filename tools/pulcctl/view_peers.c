/*
 * `pulcctl ports --peers`: a line for each port and each port that it exchanges messages with; and
 * for two processes that are joined without such, one without ports.
 *
 * RECEIVED, SENT and QUEUED are the two processes', for all that they exchange. CREDIT and WAITS
 * are about what the port sends to the peer, UNREAD and HOLDS about what it gets from there; a dash
 * where it does neither. TAGS is the credit of tagged messages, which is the process's.
 */
#include "view.h"

#include <assert.h>

#include "macros.h"
#include "text.h"

static const struct ctl_column columns[] = {
	{ .title = "PORT", .right = true },
	{ .title = "KIND" },
	{ .title = "NAME", .shrinks = true },
	{ .title = "PID", .right = true },
	{ .title = "PROGRAM", .shrinks = true },
	{ .title = "PEER", .shrinks = true },
	{ .title = "PEER-PID", .right = true },
	{ .title = "PEER-PROGRAM", .shrinks = true },
	{ .title = "PATH" },
	{ .title = "RECEIVED", .right = true },
	{ .title = "SENT", .right = true },
	{ .title = "QUEUED", .right = true },
	{ .title = "CREDIT", .right = true },
	{ .title = "WAITS" },
	{ .title = "UNREAD", .right = true },
	{ .title = "HOLDS" },
	{ .title = "TAGS", .right = true },
};

static bool is_chosen(const ProtobufCMessage *entry, const struct ctl_options *o)
{
	const Pulc__Wire__PortPeerEntry *e = (const Pulc__Wire__PortPeerEntry *)entry;

	if (o->port && e->port != o->port && e->peer_port != o->port)
		return false;
	return !o->pid || e->pid == o->pid;
}

/* By port, those without any last. */
static int compare(const ProtobufCMessage *left, const ProtobufCMessage *right)
{
	const Pulc__Wire__PortPeerEntry *a = (const Pulc__Wire__PortPeerEntry *)left;
	const Pulc__Wire__PortPeerEntry *b = (const Pulc__Wire__PortPeerEntry *)right;
	const uint32_t keys[][2] = { { a->port - 1, b->port - 1 },
				     { a->client, b->client },
				     { a->peer_client, b->peer_client },
				     { a->peer_port, b->peer_port } };

	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

/* A number, or a dash for 0. */
static const char *number(uint32_t n, char *buf, size_t size)
{
	if (n == 0)
		return "-";
	(void)snprintf(buf, size, "%u", n);
	return buf;
}

/* "66001@n2" */
static void text_of_peer(const Pulc__Wire__PortPeerEntry *e, char *buf, size_t size)
{
	char port[16], node[80];

	(void)snprintf(buf, size, "%s%s%s", number(e->peer_port, port, sizeof(port)),
		       e->peer_node[0] ? "@" : "",
		       ctl_text_plain(e->peer_node, node, sizeof(node)));
}

/* What a send from there waits for. */
static const char *why_it_waits(const Pulc__Wire__PortPeerEntry *e)
{
	if (e->waits)
		return e->held ? "held" : "credit";
	return e->tag_waits ? "tags" : "-";
}

static int add_row(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__PortPeerEntry *e = (const Pulc__Wire__PortPeerEntry *)entry;
	char port[16], name[256], pid[16], program[256], peer[112], peer_pid[16], peer_program[256];
	char path[16], received[8], sent[8], queued[8], credit[8], unread[8], tags[8];
	const char *cells[] = {
		number(e->port, port, sizeof(port)),
		e->port ? ctl_port_kind(e->kind) : "-",
		ctl_text_plain(e->name, name, sizeof(name)),
		number(e->pid, pid, sizeof(pid)),
		ctl_text_plain(e->program, program, sizeof(program)),
		peer,
		number(e->peer_pid, peer_pid, sizeof(peer_pid)),
		ctl_text_plain(e->peer_program[0] ? e->peer_program : "-", peer_program,
			       sizeof(peer_program)),
		ctl_text_plain(e->path, path, sizeof(path)),
		ctl_text_bytes(e->size_received, received, sizeof(received)),
		ctl_text_bytes(e->size_sent, sent, sizeof(sent)),
		ctl_text_bytes(e->size_queued, queued, sizeof(queued)),
		e->sends ? ctl_text_bytes(e->size_credit, credit, sizeof(credit)) : "-",
		why_it_waits(e),
		e->receives ? ctl_text_bytes(e->size_unread, unread, sizeof(unread)) : "-",
		e->holds ? "yes" : "-",
		e->tags ? ctl_text_bytes(e->size_tag_credit, tags, sizeof(tags)) : "-",
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell for each column");
	text_of_peer(e, peer, sizeof(peer));
	return ctl_table_add(table, cells);
}

const struct ctl_list ctl_list_peers = {
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.is_chosen = is_chosen,
	.add_row = add_row,
	.compare = compare,
};
