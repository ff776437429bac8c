/*
 * The one table of what a client may say, in which role, and with how many descriptors.
 * Everything else is nonsense and ends the client. Handlers get a decoded message that lives in
 * one arena until they return; whatever a message says is checked by the handler that uses it.
 *
 * A handler answers 0, or -EBADMSG when the message made no sense. Descriptors are the
 * dispatcher's again unless the handler has taken them by setting them to -EBADF.
 */
#include "dispatch.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admit.h"
#include "attach.h"
#include "bells.h"
#include "client.h"
#include "conn.h"
#include "credit.h"
#include "deliver.h"
#include "handover.h"
#include "hint.h"
#include "jobs.h"
#include "links.h"
#include "macros.h"
#include "message_area.h"
#include "partitions.h"
#include "ports.h"
#include "psid.h"
#include "reload.h"
#include "remote.h"
#include "report.h"
#include "report_areas.h"
#include "report_nodes.h"
#include "return.h"
#include "sems.h"

#define SIZE_PROGRAM_MAX 64

typedef int (*handler)(struct psid_client *client, const Pulc__Wire__FromClient *msg, int *fd);

static const char *refusal_text(int reason)
{
	switch (reason) {
	case PULC__WIRE__REASON__REASON_PROCESSES:
		return "this node has as many processes as it may have (MaxProcesses)";
	case PULC__WIRE__REASON__REASON_LIMIT_CLIENTS:
		return "too many clients of this user (MaxClientsPerUser)";
	case PULC__WIRE__REASON__REASON_LIMIT_AREAS:
		return "too many areas of this user (MaxAreasPerUser)";
	case PULC__WIRE__REASON__REASON_LIMIT_BYTES:
		return "too much memory of this user, or of this node (MaxBytesPerUser, MaxBytes)";
	case PULC__WIRE__REASON__REASON_DESCRIPTORS:
		return "this psid has as many descriptors as it may have (LimitNOFILE), or for "
		       "this user (MaxDescriptorsPerUser)";
	default:
		return "no memory for this client";
	}
}

static_assert(WIRE_LAYOUT == SHM_VERSION, "commands tell the layout of their library");

/* Returns whether both versions are ours; else what is to be done about it, by the one that is
 * older. */
static bool fits(const Pulc__Wire__Hello *m, char *why, size_t size)
{
	bool maps = m->role == PULC__WIRE__ROLE__ROLE_PROCESS || m->for_process;
	uint32_t layout = maps ? m->layout : SHM_VERSION;
	bool is_newer = m->version > WIRE_VERSION ||
			(m->version == WIRE_VERSION && layout > SHM_VERSION);
	int n;

	if (m->version == WIRE_VERSION && layout == SHM_VERSION)
		return true;
	n = snprintf(why, size, "psid " PULC_VERSION " speaks protocol %u with memory layout %u, ",
		     WIRE_VERSION, SHM_VERSION);
	n += snprintf(why + n, size - (size_t)n, maps ? "the client %u with %u" : "the client %u",
		      m->version, layout);
	if (is_newer)
		(void)snprintf(why + n, size - (size_t)n,
			       ": psid is older, end it (kill %d) and start it anew", getpid());
	else
		(void)snprintf(why + n, size - (size_t)n,
			       ": the client is older, install the same version of both");
	return false;
}

static int hello(struct psid_client *client, const Pulc__Wire__FromClient *msg, int *fd)
{
	const Pulc__Wire__Hello *m = msg->hello;
	char text[192];
	int r;

	(void)fd;
	if (client->state != PSID_CLIENT_NEW || strlen(m->program) > SIZE_PROGRAM_MAX)
		return -EBADMSG;
	if (!fits(m, text, sizeof(text))) {
		if (m->role == PULC__WIRE__ROLE__ROLE_KEEPER && psid_jobs_keep_foreign(client))
			psid_client_ignore(client);
		else
			psid_client_refuse(client, PULC__WIRE__REASON__REASON_VERSION, text);
		return 0;
	}
	if ((unsigned)m->role > PULC__WIRE__ROLE__ROLE_OWNER)
		return -EBADMSG;
	r = psid_client_attach(client, m);
	if (r < 0)
		r = r == -EMFILE ? PULC__WIRE__REASON__REASON_DESCRIPTORS
				 : PULC__WIRE__REASON__REASON_NO_MEMORY;
	if (r > 0)
		psid_client_refuse(client, (Pulc__Wire__Reason)r, refusal_text(r));
	return 0;
}

static int close_conn(struct psid_client *client, uint64_t conn)
{
	psid_remote_closed(client, conn);
	return psid_conn_closed(client, conn);
}

#define SERVE(name, call)                                                                          \
	static int name(struct psid_client *client, const Pulc__Wire__FromClient *msg, int *fd)    \
	{                                                                                          \
		(void)msg;                                                                         \
		(void)fd;                                                                          \
		return (call);                                                                     \
	}

SERVE(hint, psid_hint_add(client, msg->hint))
SERVE(socket_of, psid_handover_socket(client, msg->socket->token, fd))
SERVE(drop, psid_hint_drop(client, msg->drop->token))
SERVE(closed, close_conn(client, msg->closed->conn))
SERVE(note, psid_conn_note(client, msg->note->conn, msg->note->reason))
SERVE(adopt, psid_conn_adopt(client, msg->adopt))
SERVE(bell, psid_bell_set(client, msg->bell->board, fd))
SERVE(ring, psid_bell_forward(client, msg->ring))
SERVE(announce, psid_bell_announce(client, msg->announce->board))
SERVE(want_credit, psid_credit_want(client, msg->want_credit->size))
SERVE(return_credit, psid_credit_return(client, msg->return_credit->size))
SERVE(come_back, psid_return(client, msg->come_back, fd))
SERVE(attach, psid_attach(client, msg->attach->token, fd))
SERVE(deliver, psid_deliver(client, msg->deliver, fd))
SERVE(status, psid_report_status(client))
SERVE(sockets, psid_report_sockets(client))
SERVE(clients, psid_report_clients(client))
SERVE(stop, psid_report_stop(client))
SERVE(nodes, psid_report_nodes(client))
SERVE(port_open, psid_port_open(client, msg->port_open))
SERVE(port_close, psid_port_close(client, msg->port_close->port))
SERVE(port_find, psid_port_find(client, msg->port_find))
SERVE(port_link, psid_link(client, msg->port_link))
SERVE(port_of_task, psid_port_of_task(client, msg->port_of_task))
SERVE(port_give, psid_port_give(client, msg->port_give))
SERVE(port_take, psid_port_take(client, msg->port_take))
SERVE(message_area, psid_message_area(client, msg->message_area))
SERVE(ports, psid_report_ports(client))
SERVE(port_peers, psid_report_peers(client))
SERVE(open_sem, psid_sem_open(client, msg->sem_open))
SERVE(join_sem, psid_sem_join(client, msg->sem_join, fd))
SERVE(close_sem, psid_sem_close(client, msg->sem_close->holder))
SERVE(drain, psid_report_drain(client, msg->drain))
SERVE(areas, psid_report_areas(client))
SERVE(partition, psid_partition_asked(client, msg->partition))
SERVE(partitions, psid_partitions_list(client))
SERVE(reload, psid_reload_asked(client))
SERVE(log_level, psid_log_level_asked(client, msg->log_level))
SERVE(submit, psid_jobs_submit(client, msg->submit, fd))
SERVE(keep, psid_jobs_keep(client, msg->keep))
SERVE(task_report, psid_jobs_report(client, msg->task_report))
SERVE(jobs, psid_jobs_list(client, msg->jobs))
SERVE(tasks, psid_jobs_list_tasks(client, msg->tasks))
SERVE(kill_job, psid_jobs_kill(client, msg->kill))

/* ASKER: who has opened a channel to ask or to give orders, be it a tool, an owner or a keeper, but
 * no process. */
enum who { NOBODY_YET, PROCESS, KEEPER, ASKER, ANYBODY };

#define BODY(kind) PULC__WIRE__FROM_CLIENT__BODY_##kind

static const struct rule {
	handler serve;
	const char *name;
	enum who who;
	size_t n_fds;
} rules[] = {
	[BODY(HELLO)] = { hello, "Hello", NOBODY_YET, 0 },
	[BODY(HINT)] = { hint, "Hint", PROCESS, 0 },
	[BODY(SOCKET)] = { socket_of, "Socket", PROCESS, 1 },
	[BODY(DROP)] = { drop, "Drop", PROCESS, 0 },
	[BODY(CLOSED)] = { closed, "Closed", PROCESS, 0 },
	[BODY(NOTE)] = { note, "Note", PROCESS, 0 },
	[BODY(ADOPT)] = { adopt, "Adopt", PROCESS, 0 },
	[BODY(BELL)] = { bell, "Bell", PROCESS, 1 },
	[BODY(RING)] = { ring, "Ring", PROCESS, 0 },
	[BODY(ANNOUNCE)] = { announce, "Announce", PROCESS, 0 },
	[BODY(WANT_CREDIT)] = { want_credit, "WantCredit", PROCESS, 0 },
	[BODY(RETURN_CREDIT)] = { return_credit, "ReturnCredit", PROCESS, 0 },
	[BODY(COME_BACK)] = { come_back, "Return", PROCESS, 1 },
	[BODY(ATTACH)] = { attach, "Attach", PROCESS, 1 },
	[BODY(DELIVER)] = { deliver, "Deliver", ASKER, 2 },
	[BODY(STATUS)] = { status, "StatusRequest", ANYBODY, 0 },
	[BODY(SOCKETS)] = { sockets, "SocketsRequest", ASKER, 0 },
	[BODY(CLIENTS)] = { clients, "ClientsRequest", ASKER, 0 },
	[BODY(STOP)] = { stop, "StopRequest", ASKER, 0 },
	[BODY(NODES)] = { nodes, "NodesRequest", ASKER, 0 },
	[BODY(DRAIN)] = { drain, "DrainRequest", ASKER, 0 },
	[BODY(AREAS)] = { areas, "AreasRequest", ASKER, 0 },
	[BODY(PARTITION)] = { partition, "PartitionRequest", ASKER, 0 },
	[BODY(PARTITIONS)] = { partitions, "PartitionsRequest", ASKER, 0 },
	[BODY(RELOAD)] = { reload, "ReloadRequest", ASKER, 0 },
	[BODY(LOG_LEVEL)] = { log_level, "LogLevelRequest", ASKER, 0 },
	[BODY(PORT_OPEN)] = { port_open, "PortOpen", PROCESS, 0 },
	[BODY(PORT_CLOSE)] = { port_close, "PortClose", PROCESS, 0 },
	[BODY(PORT_FIND)] = { port_find, "PortFind", PROCESS, 0 },
	[BODY(PORT_LINK)] = { port_link, "PortLink", PROCESS, 0 },
	[BODY(PORT_OF_TASK)] = { port_of_task, "PortOfTask", PROCESS, 0 },
	[BODY(PORT_GIVE)] = { port_give, "PortGive", PROCESS, 0 },
	[BODY(PORT_TAKE)] = { port_take, "PortTake", PROCESS, 0 },
	[BODY(MESSAGE_AREA)] = { message_area, "MessageArea", PROCESS, 0 },
	[BODY(PORTS)] = { ports, "PortsRequest", ASKER, 0 },
	[BODY(PORT_PEERS)] = { port_peers, "PortPeersRequest", ASKER, 0 },
	[BODY(SEM_OPEN)] = { open_sem, "SemOpen", PROCESS, 0 },
	[BODY(SEM_JOIN)] = { join_sem, "SemJoin", PROCESS, 1 },
	[BODY(SEM_CLOSE)] = { close_sem, "SemClose", PROCESS, 0 },
	[BODY(SUBMIT)] = { submit, "Submit", ASKER, 1 },
	[BODY(KEEP)] = { keep, "Keep", KEEPER, 0 },
	[BODY(TASK_REPORT)] = { task_report, "TaskReport", KEEPER, 0 },
	[BODY(JOBS)] = { jobs, "JobsRequest", ASKER, 0 },
	[BODY(TASKS)] = { tasks, "TasksRequest", ASKER, 0 },
	[BODY(KILL)] = { kill_job, "KillRequest", ASKER, 0 },
};

/*
 * The kernel says who a client is as of its connect(), and the channel of a program's connections
 * lies in the program: one that was root's when it made it, and has become another user for good,
 * still has root's. So that one gives no orders.
 */
static bool may(const struct psid_client *client, const struct rule *rule)
{
	if (rule->who == NOBODY_YET)
		return client->state == PSID_CLIENT_NEW;
	if (client->state != PSID_CLIENT_ATTACHED)
		return false;
	if (rule->who == KEEPER)
		return client->role == PULC__WIRE__ROLE__ROLE_KEEPER;
	return rule->who == ANYBODY ||
	       (client->role == PULC__WIRE__ROLE__ROLE_PROCESS) == (rule->who == PROCESS);
}

static void serve(struct psid_client *client, const Pulc__Wire__FromClient *msg, int *fds,
		  size_t n_fds)
{
	const struct rule *rule;

	if ((size_t)msg->body_case >= ARRAY_SIZE(rules) || !rules[msg->body_case].serve) {
		psid_client_malformed(client, "unknown message");
		return;
	}
	rule = &rules[msg->body_case];
	if (!may(client, rule) || n_fds != rule->n_fds || rule->serve(client, msg, fds) < 0)
		psid_client_malformed(client, rule->name);
}

void psid_dispatch(struct psid_client *client, const uint8_t *buf, size_t len, const int *fds,
		   size_t n_fds)
{
	static struct wire_arena arena;
	int mine[WIRE_FDS_MAX];
	Pulc__Wire__FromClient *msg;

	memcpy(mine, fds, n_fds * sizeof(int));
	wire_arena_init(&arena);
	msg = pulc__wire__from_client__unpack(&arena.allocator, len, buf);
	if (msg)
		serve(client, msg, mine, n_fds);
	else
		psid_client_malformed(client, "not decodable");
	for (size_t i = 0; i < n_fds; i++)
		if (mine[i] >= 0)
			psid_close_foreign(client->psid, client->user, mine[i], NULL, NULL);
}
