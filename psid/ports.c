/*
 * Ports: numbers that processes of this node send to, and names for them.
 *
 * A number belongs to one client at a time and is granted here only; receivers are told by psid
 * whose it is, and believe no sender. Automatic numbers begin where the well-known ones end and are
 * not used again while psid lives, so that what was sent to a port that is gone reaches nobody.
 * Well-known numbers and names are first come, first served, for every user alike. A client has a
 * limited number of ports, and a user as many as 64 clients.
 *
 * Whoever is joined with a client (links.c) hears of a new port before the client itself does: its
 * first frame cannot overtake the news. On other nodes (remote.c) it can, and waits for it.
 *
 * Source: pulc-1998, 4.6.2 (a destination is a node number and a port).
 */
#include "ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "links.h"
#include "macros.h"
#include "psid.h"
#include "remote.h"
#include "user.h"

#define FIRST_AUTOMATIC 65536u

struct psid_port *psid_port_get(const struct psid *psid, uint32_t number)
{
	struct psid_map_node *node = psid_map_find(&psid->ports, number);

	return node ? CONTAINER_OF(node, struct psid_port, by_number) : NULL;
}

uint64_t psid_hash_name(const char *name)
{
	uint64_t hash = 14695981039346656037ull;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 1099511628211ull;
	return hash;
}

struct psid_port *psid_port_named(const struct psid *psid, const char *name)
{
	struct psid_map_node *node = psid_map_find(&psid->port_names, psid_hash_name(name));

	for (; node; node = psid_map_find_next(node)) {
		struct psid_port *port = CONTAINER_OF(node, struct psid_port, by_name);

		if (strcmp(port->name, name) == 0)
			return port;
	}
	return NULL;
}

void psid_port_reply(struct psid_client *client, uint32_t request, Pulc__Wire__PortError error,
		     const struct psid_port *port)
{
	Pulc__Wire__PortReply reply = PULC__WIRE__PORT_REPLY__INIT;
	PSID_MESSAGE(msg, PORT_REPLY, port_reply) = &reply;

	reply.request = request;
	reply.error = error;
	if (port) {
		reply.port = port->number;
		reply.kind = port->kind;
		reply.client = port->client->id;
	}
	psid_links_catch_up(client);
	(void)psid_client_send(client, &msg, NULL, 0);
}

static uint32_t next_number(struct psid *psid)
{
	uint32_t n = psid->last_port;

	do
		n = n < FIRST_AUTOMATIC || n == UINT32_MAX ? FIRST_AUTOMATIC : n + 1;
	while (psid_port_get(psid, n));
	return psid->last_port = n;
}

/* Returns 0 or the PortError. */
static Pulc__Wire__PortError port_new(struct psid_client *client, const Pulc__Wire__PortOpen *msg,
				      struct psid_port **ret_port)
{
	struct psid *psid = client->psid;
	struct psid_port *port = calloc(1, sizeof(*port));

	if (!port)
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_NO_MEMORY;
	port->client = client;
	port->kind = msg->kind;
	port->number = msg->number ? msg->number : next_number(psid);
	(void)stpncpy(port->name, msg->name, PSID_PORT_NAME_MAX);
	if (psid_map_insert(&psid->ports, &port->by_number, port->number) < 0) {
		free(port);
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_NO_MEMORY;
	}
	if (port->name[0] &&
	    psid_map_insert(&psid->port_names, &port->by_name, psid_hash_name(port->name)) < 0) {
		psid_map_remove(&psid->ports, &port->by_number);
		free(port);
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_NO_MEMORY;
	}
	LIST_INSERT_HEAD(&client->ports, port, by_client);
	client->n_ports++;
	client->user->n_ports++;
	*ret_port = port;
	return 0;
}

static void port_free(struct psid_port *port)
{
	struct psid *psid = port->client->psid;

	psid_port_move_end(port);
	psid_port_unname_task(port);
	psid_map_remove(&psid->ports, &port->by_number);
	if (port->name[0])
		psid_map_remove(&psid->port_names, &port->by_name);
	LIST_REMOVE(port, by_client);
	port->client->n_ports--;
	port->client->user->n_ports--;
	free(port);
}

void psid_port_tell(struct psid_client *client, uint32_t port, bool has)
{
	psid_links_tell(client, port, has);
	psid_remote_tell(client, port, has);
}

int psid_port_open(struct psid_client *client, const Pulc__Wire__PortOpen *msg)
{
	Pulc__Wire__PortError error = 0;
	struct psid_port *port = NULL;

	if (msg->kind < PULC__WIRE__PORT_KIND__PORT_S ||
	    msg->kind > PULC__WIRE__PORT_KIND__PORT_D || msg->number >= FIRST_AUTOMATIC ||
	    strlen(msg->name) > PSID_PORT_NAME_MAX)
		return -EBADMSG;
	if ((msg->number && psid_port_get(client->psid, msg->number)) ||
	    (msg->name[0] && psid_port_named(client->psid, msg->name)))
		error = PULC__WIRE__PORT_ERROR__PORT_ERROR_TAKEN;
	else if (client->n_ports >= PSID_N_PORTS_CLIENT ||
		 client->user->n_ports >= PSID_N_PORTS_USER)
		error = PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT;
	else
		error = port_new(client, msg, &port);
	if (port)
		psid_port_tell(client, port->number, true);
	psid_port_reply(client, msg->request, error, port);
	return 0;
}

int psid_port_close(struct psid_client *client, uint32_t number)
{
	struct psid_port *port = psid_port_get(client->psid, number);

	if (!port || port->client != client)
		return -EBADMSG;
	port_free(port);
	psid_port_tell(client, number, false);
	return 0;
}

int psid_port_find(struct psid_client *client, const Pulc__Wire__PortFind *msg)
{
	const struct psid_port *port;

	if (psid_remote_is_name(client->psid, msg->node))
		return psid_remote_find(client, msg);
	if (strlen(msg->name) > PSID_PORT_NAME_MAX || !msg->name[0])
		return -EBADMSG;
	port = psid_port_named(client->psid, msg->name);
	psid_port_reply(client, msg->request, port ? 0 : PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT,
			port);
	return 0;
}

void psid_ports_forget(struct psid_client *client)
{
	struct psid_port *port;

	while ((port = LIST_FIRST(&client->ports)))
		port_free(port);
}
