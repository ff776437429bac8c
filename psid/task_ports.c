/*
 * Ports that tasks are found by: a process of a task says which of its ports that is, and whoever
 * looks the task up is told its number (jobs/list.c).
 *
 * It is the process that says which task it is part of; psid believes it if the task's job is one
 * of the same user, for then it deceives nobody but itself. A task has one such port, the one named
 * last; it has it as long as the port is open.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "macros.h"
#include "ports.h"
#include "psid.h"

/* FNV-1a; the map hashes it once more with its secret. */
static uint64_t key_of(const char *job, uint32_t rank)
{
	uint64_t key = 14695981039346656037u + rank;

	for (; *job; job++)
		key = (key ^ (unsigned char)*job) * 1099511628211u;
	return key;
}

static struct psid_port *find(const struct psid *psid, const char *job, uint32_t rank)
{
	struct psid_map_node *node = psid_map_find(&psid->task_ports, key_of(job, rank));

	for (; node; node = psid_map_find_next(node)) {
		struct psid_port *port = CONTAINER_OF(node, struct psid_port, by_task);

		if (port->rank == rank && strcmp(port->job, job) == 0)
			return port;
	}
	return NULL;
}

uint32_t psid_port_find_task(const struct psid *psid, const char *job, uint32_t rank)
{
	const struct psid_port *port = find(psid, job, rank);

	return port ? port->number : 0;
}

struct psid_port *psid_port_next_of_task(const struct psid *psid, const struct psid_port *after)
{
	struct psid_map_node *node = psid_map_next(&psid->task_ports,
						   after ? &after->by_task : NULL);

	return node ? CONTAINER_OF(node, struct psid_port, by_task) : NULL;
}

void psid_port_unname_task(struct psid_port *port)
{
	if (!port->job)
		return;
	psid_map_remove(&port->client->psid->task_ports, &port->by_task);
	free(port->job);
	port->job = NULL;
}

static int name_task(struct psid_port *port, const char *job, uint32_t rank)
{
	struct psid *psid = port->client->psid;
	struct psid_port *before = find(psid, job, rank);

	psid_port_unname_task(port);
	if (before && before != port)
		psid_port_unname_task(before);
	port->job = strdup(job);
	port->rank = rank;
	if (!port->job)
		return -ENOMEM;
	if (psid_map_insert(&psid->task_ports, &port->by_task, key_of(job, rank)) == 0)
		return 0;
	free(port->job);
	port->job = NULL;
	return -ENOMEM;
}

int psid_port_of_task(struct psid_client *client, const Pulc__Wire__PortOfTask *msg)
{
	struct psid_port *port = psid_port_get(client->psid, msg->port);
	Pulc__Wire__PortError error = 0;

	if (!port || port->client != client)
		return -EBADMSG;
	if (!psid_jobs_has_task(client, msg->job, msg->rank))
		error = PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT;
	else if (name_task(port, msg->job, msg->rank) < 0)
		error = PULC__WIRE__PORT_ERROR__PORT_ERROR_NO_MEMORY;
	psid_port_reply(client, msg->request, error, port);
	return 0;
}
