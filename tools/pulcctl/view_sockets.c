/*
 * `pulcctl sockets`: one line for each end of each connection that psid knows.
 *
 * The two ends of one connection, or of one flow of datagrams, are two lines, for each has its own
 * process, its own bytes and its own reason. SENT and RECEIVED count what went through rings,
 * KERNEL what this end sent before; SEND-Q and RECV-Q show how full the rings are, of how much.
 */
#include "view.h"

#include <assert.h>
#include <string.h>

#include "macros.h"
#include "text.h"

static const struct ctl_column columns[] = {
	{ .title = "PID", .right = true },
	{ .title = "PROGRAM", .shrinks = true },
	{ .title = "TRANSPORT" },
	{ .title = "LOCAL", .shrinks = true },
	{ .title = "PEER", .shrinks = true },
	{ .title = "PATH" },
	{ .title = "REASON" },
	{ .title = "SENT", .right = true },
	{ .title = "RECEIVED", .right = true },
	{ .title = "KERNEL", .right = true },
	{ .title = "SEND-Q", .right = true },
	{ .title = "RECV-Q", .right = true },
	{ .title = "WAITER" },
};

static bool is_chosen(const ProtobufCMessage *entry, const struct ctl_options *o)
{
	const Pulc__Wire__SocketEntry *e = (const Pulc__Wire__SocketEntry *)entry;

	if (o->pid && e->pid != o->pid)
		return false;
	if (o->port &&
	    (!e->tuple || (e->tuple->local_port != o->port && e->tuple->remote_port != o->port)))
		return false;
	return !o->path || strcmp(e->path, o->path) == 0;
}

/* "12K/64K", nothing if there is no ring. */
static const char *text_fill(uint64_t fill, uint64_t size, char *buf, size_t room)
{
	char have[8], of[8];

	if (size == 0)
		return NULL;
	(void)snprintf(buf, room, "%s/%s", ctl_text_bytes(fill, have, sizeof(have)),
		       ctl_text_bytes(size, of, sizeof(of)));
	return buf;
}

static int add_row(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__SocketEntry *e = (const Pulc__Wire__SocketEntry *)entry;
	static const Pulc__Wire__Tuple nowhere = PULC__WIRE__TUPLE__INIT;
	const Pulc__Wire__Tuple *t = e->tuple ? e->tuple : &nowhere;
	char pid[16], program[256], path[32], waiter[32], reason[64], send_q[24], recv_q[24];
	char transport[16], local[CTL_SIZE_ADDRESS], remote[CTL_SIZE_ADDRESS], sent[8], received[8],
		kernel[8];
	const char *cells[] = {
		pid,
		ctl_text_plain(e->program, program, sizeof(program)),
		ctl_text_enum(&pulc__wire__transport__descriptor, (int)e->transport, transport,
			      sizeof(transport)),
		ctl_text_endpoint(&t->local_addr, t->local_port, local, sizeof(local)),
		ctl_text_endpoint(&t->remote_addr, t->remote_port, remote, sizeof(remote)),
		ctl_text_plain(e->path, path, sizeof(path)),
		ctl_text_enum(&pulc__wire__reason__descriptor, (int)e->reason, reason,
			      sizeof(reason)),
		ctl_text_bytes(e->size_sent, sent, sizeof(sent)),
		ctl_text_bytes(e->size_received, received, sizeof(received)),
		ctl_text_bytes(e->size_sent_kernel, kernel, sizeof(kernel)),
		text_fill(e->fill_send, e->size_ring_send, send_q, sizeof(send_q)),
		text_fill(e->fill_receive, e->size_ring_receive, recv_q, sizeof(recv_q)),
		ctl_text_plain(e->waiter, waiter, sizeof(waiter)),
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell for each column");
	(void)snprintf(pid, sizeof(pid), "%u", e->pid);
	if (e->reason == PULC__WIRE__REASON__REASON_NONE)
		reason[0] = '\0';
	return ctl_table_add(table, cells);
}

const struct ctl_list ctl_list_sockets = {
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.is_chosen = is_chosen,
	.add_row = add_row,
};
