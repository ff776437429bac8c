/*
 * Ports of other nodes: our clients' questions about them, and the other psids' questions about
 * ours.
 *
 * A question goes to the psid of the node that it names, which looks its own port up; nothing is
 * known in advance and nothing is kept. A client that wants to send is joined with the owner of the
 * port (joint.c) before it gets its answer:
 *
 *   client: PortLink -> PortAsk -> PortTold, and one of the two psids begins a joint, or has it
 *   already -> client: PortReply
 *
 * Who owns a port may have changed until the two are joined: then it is asked for once more.
 *
 * The leader of the two nodes sends its Meet before its PortTold, so whoever is told finds the
 * joint there. If it does not, ours has ended and the other side's not yet: it is told so, and
 * asked once more.
 *
 * A node's number is the lower half of its id, so it is the same on every node and in every life.
 * Of two nodes with one number, which takes some ten thousands of nodes to be likely, neither is
 * reached by it.
 *
 * Everything has a bound: the questions of a client, of a user, and of all of them; the time for an
 * answer.
 *
 * Source: pulc-1998, 4.6.2 (a destination is a node number and a port).
 */
#include "remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "joint.h"
#include "macros.h"
#include "ports.h"
#include "psid.h"
#include "user.h"

#define MSEC_ANSWER 10000
#define N_ASKS_CLIENT 8u
#define N_ASKS_MAX 1024u
#define N_ASKS_USER (N_ASKS_MAX / 2)

struct psid_ask {
	LIST_ENTRY(psid_ask) link;
	struct psid_deadline deadline;
	struct psid_client *client;
	uint32_t request; /* the client's number for it */
	uint32_t number;  /* ours */
	uint64_t node;
	uint32_t port;
	bool joins; /* the client wants to be joined with the owner */
	bool asked_again;
	uint32_t other; /* told: the owner, whose joint is waited for; 0: not told */
	Pulc__Wire__PortKind kind;
};

/* ---- nodes ----------------------------------------------------------------------------------- */

uint32_t psid_remote_number(uint64_t node)
{
	return (uint32_t)node ? (uint32_t)node : 1;
}

uint32_t psid_remote_self(const struct psid *psid)
{
	return psid_cluster_is_on(psid->cluster)
		       ? psid_remote_number(psid_node_self(psid->cluster)->id)
		       : 0;
}

/* 0: there is none, or there are several. */
static uint64_t node_of_number(const struct psid *psid, uint32_t number)
{
	const struct psid_node *node = NULL;
	uint64_t found = 0;

	while ((node = psid_node_next(psid->cluster, node ? node->id : 0))) {
		if (psid_remote_number(node->id) != number)
			continue;
		if (found)
			return 0;
		found = node->id;
	}
	return found;
}

/* A name may look like a number, and comes first. */
static uint64_t node_of_name(const struct psid *psid, const char *name)
{
	const struct psid_node *node = psid_node_find_name(psid->cluster, name);
	unsigned long number;
	char *end;

	if (node)
		return node->id;
	if (name[0] < '0' || name[0] > '9')
		return 0;
	number = strtoul(name, &end, 10);
	return *end || number > UINT32_MAX ? 0 : node_of_number(psid, (uint32_t)number);
}

bool psid_remote_is_number(const struct psid *psid, uint32_t node)
{
	return node != 0 && node != psid_remote_self(psid);
}

bool psid_remote_is_name(const struct psid *psid, const char *node)
{
	return node[0] && node_of_name(psid, node) != psid_node_self(psid->cluster)->id;
}

/* ---- answers to clients ---------------------------------------------------------------------- */

static void ask_free(struct psid_ask *ask)
{
	struct psid_remote *remote = ask->client->psid->remote;

	psid_deadline_clear(&remote->asks_due, &ask->deadline);
	LIST_REMOVE(ask, link);
	ask->client->user->n_asks--;
	remote->n_asks--;
	free(ask);
}

/* client: the owner, as ours knows it; 0: nobody has asked for it. */
static void answer(struct psid_ask *ask, Pulc__Wire__PortError error, uint32_t client)
{
	Pulc__Wire__PortReply reply = PULC__WIRE__PORT_REPLY__INIT;
	PSID_MESSAGE(msg, PORT_REPLY, port_reply) = &reply;

	reply.request = ask->request;
	reply.error = error;
	if (error == PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE) {
		reply.port = ask->port;
		reply.kind = ask->kind;
		reply.client = client;
		reply.node = psid_remote_number(ask->node);
	}
	(void)psid_client_send(ask->client, &msg, NULL, 0);
	ask_free(ask);
}

static void send_ask(struct psid_ask *ask, const char *name);

/* The port may have passed to another one meanwhile, and its owner has been told whom to expect. */
static void confirm(struct psid_ask *ask)
{
	ask->other = 0;
	send_ask(ask, "");
}

void psid_asks_settle(const struct psid_joint *joint, Pulc__Wire__PortError error)
{
	struct psid_ask *ask, *next;

	for (ask = LIST_FIRST(&joint->client->psid->remote->asks); ask; ask = next) {
		next = LIST_NEXT(ask, link);
		if (ask->client != joint->client || ask->node != joint->node ||
		    ask->other != joint->other)
			continue;
		if (error == PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE)
			confirm(ask);
		else
			answer(ask, error, joint->number);
	}
}

static void on_deadline(struct psid_deadline *deadline)
{
	answer(CONTAINER_OF(deadline, struct psid_ask, deadline),
	       PULC__WIRE__PORT_ERROR__PORT_ERROR_UNREACHABLE, 0);
}

/* ---- questions of clients -------------------------------------------------------------------- */

static unsigned n_asks_of(const struct psid_client *client)
{
	const struct psid_ask *ask;
	unsigned n = 0;

	LIST_FOREACH(ask, &client->psid->remote->asks, link)
		n += ask->client == client;
	return n;
}

static int say_ask(const struct psid_ask *ask, const char *name)
{
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;
	Pulc__Peer__PortAsk m = PULC__PEER__PORT_ASK__INIT;

	m.number = ask->number;
	m.port = ask->port;
	m.name = (char *)name;
	m.client = ask->joins ? ask->client->id : 0;
	msg.body_case = PULC__PEER__MESSAGE__BODY_PORT_ASK;
	msg.port_ask = &m;
	return psid_peer_send(ask->client->psid->cluster, ask->node, &msg);
}

static struct psid_ask *ask_new(struct psid_client *client, uint32_t request, uint64_t node)
{
	struct psid_remote *remote = client->psid->remote;
	struct psid_ask *ask = calloc(1, sizeof(*ask));

	if (!ask)
		return NULL;
	ask->client = client;
	ask->request = request;
	ask->number = ++remote->last_ask;
	ask->node = node;
	LIST_INSERT_HEAD(&remote->asks, ask, link);
	client->user->n_asks++;
	remote->n_asks++;
	psid_deadline_set(&remote->asks_due, &ask->deadline);
	return ask;
}

static void refuse(struct psid_client *client, uint32_t request, Pulc__Wire__PortError error)
{
	psid_port_reply(client, request, error, NULL);
}

/* Makes a question of it; NULL: it is answered already. */
static struct psid_ask *begin(struct psid_client *client, uint32_t request, uint64_t node)
{
	struct psid_remote *remote = client->psid->remote;
	struct psid_ask *ask;

	if (node == 0) {
		refuse(client, request, PULC__WIRE__PORT_ERROR__PORT_ERROR_UNREACHABLE);
		return NULL;
	}
	if (remote->n_asks >= N_ASKS_MAX || client->user->n_asks >= N_ASKS_USER ||
	    n_asks_of(client) >= N_ASKS_CLIENT) {
		refuse(client, request, PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT);
		return NULL;
	}
	ask = ask_new(client, request, node);
	if (!ask)
		refuse(client, request, PULC__WIRE__PORT_ERROR__PORT_ERROR_NO_MEMORY);
	return ask;
}

static void send_ask(struct psid_ask *ask, const char *name)
{
	if (say_ask(ask, name) < 0)
		answer(ask, PULC__WIRE__PORT_ERROR__PORT_ERROR_UNREACHABLE, 0);
}

int psid_remote_find(struct psid_client *client, const Pulc__Wire__PortFind *msg)
{
	struct psid_ask *ask;

	if (strlen(msg->name) > PSID_PORT_NAME_MAX || !msg->name[0])
		return -EBADMSG;
	ask = begin(client, msg->request, node_of_name(client->psid, msg->node));
	if (ask)
		send_ask(ask, msg->name);
	return 0;
}

int psid_remote_link(struct psid_client *client, const Pulc__Wire__PortLink *msg)
{
	struct psid_ask *ask = begin(client, msg->request, node_of_number(client->psid, msg->node));

	if (!ask)
		return 0;
	ask->port = msg->port;
	ask->joins = true;
	send_ask(ask, "");
	return 0;
}

/* ---- questions of others --------------------------------------------------------------------- */

static Pulc__Wire__PortError join(struct psid_client *owner, uint64_t node, uint64_t life,
				  uint32_t asker)
{
	if (!psid_joint_leads(owner->psid, node) || psid_joint_find(owner, node, asker) ||
	    psid_joint_begin(owner, node, life, asker) == 0)
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE;
	return PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT;
}

static int on_ask(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const struct psid_remote *remote = data;
	const Pulc__Peer__PortAsk *ask = msg->port_ask;
	Pulc__Peer__Message reply = PULC__PEER__MESSAGE__INIT;
	Pulc__Peer__PortTold told = PULC__PEER__PORT_TOLD__INIT;
	const struct psid_port *port;

	if (strlen(ask->name) > PSID_PORT_NAME_MAX)
		return -EBADMSG;
	port = ask->name[0] ? psid_port_named(remote->psid, ask->name)
			    : psid_port_get(remote->psid, ask->port);
	told.number = ask->number;
	told.error = PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT;
	if (port && port->taker && ask->client) {
		told.error = PULC__WIRE__PORT_ERROR__PORT_ERROR_MOVING;
	} else if (port && port->client->fd >= 0) {
		told.error = ask->client ? join(port->client, from, life, ask->client)
					 : PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE;
		told.port = port->number;
		told.kind = port->kind;
		told.client = port->client->id;
	}
	reply.body_case = PULC__PEER__MESSAGE__BODY_PORT_TOLD;
	reply.port_told = &told;
	(void)psid_peer_send(remote->psid->cluster, from, &reply);
	return 0;
}

/* The owner is known. */
static void go_on(struct psid_ask *ask, uint64_t life)
{
	const struct psid_joint *joint = psid_joint_find(ask->client, ask->node, ask->other);
	int r = 0;

	if (joint && joint->is_joined) {
		answer(ask, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE, joint->number);
		return;
	}
	if (joint)
		return;
	if (psid_joint_leads(ask->client->psid, ask->node)) {
		r = psid_joint_begin(ask->client, ask->node, life, ask->other);
		if (r < 0)
			answer(ask, PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT, 0);
		return;
	}
	psid_joint_part(ask->client, ask->node, ask->other);
	ask->other = 0;
	if (ask->asked_again) {
		answer(ask, PULC__WIRE__PORT_ERROR__PORT_ERROR_LOST, 0);
		return;
	}
	ask->asked_again = true;
	send_ask(ask, "");
}

static int on_told(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const struct psid_remote *remote = data;
	const Pulc__Peer__PortTold *told = msg->port_told;
	struct psid_ask *ask;

	if ((unsigned)told->error > PULC__WIRE__PORT_ERROR__PORT_ERROR_PERMISSION ||
	    (told->error == PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE &&
	     (told->port == 0 || told->client == 0 || told->kind < PULC__WIRE__PORT_KIND__PORT_S ||
	      told->kind > PULC__WIRE__PORT_KIND__PORT_D)))
		return -EBADMSG;
	LIST_FOREACH(ask, &remote->asks, link)
		if (ask->number == told->number && ask->node == from && ask->other == 0)
			break;
	if (!ask)
		return 0; /* too late, or nobody wants to know any more */
	if (told->error != PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE) {
		answer(ask, told->error, 0);
		return 0;
	}
	ask->kind = told->kind;
	if (!ask->joins) {
		ask->port = told->port;
		answer(ask, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE, 0);
		return 0;
	}
	ask->other = told->client;
	go_on(ask, life);
	return 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* What it was asked, or has answered, is lost. */
static void on_lost(void *data, uint64_t node)
{
	struct psid_remote *remote = data;
	struct psid_ask *ask, *next;

	for (ask = LIST_FIRST(&remote->asks); ask; ask = next) {
		next = LIST_NEXT(ask, link);
		if (ask->node == node)
			answer(ask, PULC__WIRE__PORT_ERROR__PORT_ERROR_UNREACHABLE, 0);
	}
	psid_joints_lost(remote, node);
}

static void on_changed(void *data, const struct psid_node *node)
{
	psid_joints_changed(data, node);
}

static void on_drained(void *data, uint64_t id)
{
	const struct psid_remote *remote = data;
	const struct psid_node *node = psid_node_find(remote->psid->cluster, id);

	if (node)
		psid_joints_changed(data, node);
}

void psid_remote_forget(struct psid_client *client)
{
	struct psid_ask *ask, *next;

	for (ask = LIST_FIRST(&client->psid->remote->asks); ask; ask = next) {
		next = LIST_NEXT(ask, link);
		if (ask->client == client)
			ask_free(ask);
	}
	psid_joints_forget(client);
}

int psid_remote_start(struct psid *psid)
{
	struct psid_remote *remote = calloc(1, sizeof(*remote));

	if (!remote)
		return -ENOMEM;
	psid->remote = remote;
	remote->psid = psid;
	LIST_INIT(&remote->asks);
	psid_deadlines_init(&remote->asks_due, &psid->loop, MSEC_ANSWER, on_deadline);
	psid_joints_start(remote);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_PORT_ASK, on_ask, remote);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_PORT_TOLD, on_told, remote);
	remote->watch = (struct psid_cluster_watch){
		.changed = on_changed,
		.lost = on_lost,
		.drained = on_drained,
		.data = remote,
	};
	psid_cluster_watch(psid->cluster, &remote->watch);
	return 0;
}

void psid_remote_close(struct psid *psid)
{
	psid_cluster_unwatch(&psid->remote->watch);
	psid_deadlines_close(&psid->remote->asks_due);
	psid_deadlines_close(&psid->remote->joints_due);
}

void psid_remote_free(struct psid *psid)
{
	free(psid->remote);
	psid->remote = NULL;
}
