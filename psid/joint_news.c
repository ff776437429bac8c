/*
 * What two clients of different nodes learn of each other's ports, by way of their psids.
 *
 * While they meet, the ports of the other one are collected; from then on each that is opened or
 * closed is told at once. Neither way may it be kept without bound for who does not take it: what
 * another psid has no room for is said later, all of it (is_untold), and a client that is behind
 * (links.c) misses the news, and the other psid is asked to say all again when it has read what was
 * kept for it (is_behind).
 */
#include <errno.h>
#include <stdlib.h>

#include "joint.h"
#include "links.h"
#include "ports.h"
#include "psid.h"
#include "remote.h"

/* ---- what the other psid hears --------------------------------------------------------------- */

static int say_ports(const struct psid_joint *joint, Pulc__Peer__PortsOf *ports)
{
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	ports->client = joint->other;
	ports->other = joint->client->id;
	msg.body_case = PULC__PEER__MESSAGE__BODY_PORTS_OF;
	msg.ports_of = ports;
	return psid_joint_say(joint->client, joint->node, &msg);
}

int psid_joint_say_ports(const struct psid_joint *joint)
{
	Pulc__Peer__PortsOf ports = PULC__PEER__PORTS_OF__INIT;
	uint32_t numbers[PSID_JOINT_PORTS];
	const struct psid_port *port;

	LIST_FOREACH(port, &joint->client->ports, by_client)
		if (ports.n_opened < PSID_JOINT_PORTS)
			numbers[ports.n_opened++] = port->number;
	ports.all = true;
	ports.opened = numbers;
	return say_ports(joint, &ports);
}

/* All are said when there is room, or the node is there, again; and after a while, for nothing
 * tells of memory. What is missed while they meet is said as soon as they have. */
static void say_later(struct psid_joint *joint, int why)
{
	joint->is_untold = true;
	if (joint->is_joined && why != -EHOSTUNREACH)
		psid_deadline_set(&joint->client->psid->remote->joints_due, &joint->deadline);
}

void psid_joint_say_again(struct psid_joint *joint)
{
	int r = psid_joint_say_ports(joint);

	joint->is_untold = false;
	if (r < 0)
		say_later(joint, r);
}

void psid_remote_tell(struct psid_client *client, uint32_t port, bool opened)
{
	struct psid_joint *joint;
	int r;

	LIST_FOREACH(joint, &client->joints, by_client) {
		Pulc__Peer__PortsOf ports = PULC__PEER__PORTS_OF__INIT;

		if (opened) {
			ports.opened = &port;
			ports.n_opened = 1;
		} else {
			ports.closed = &port;
			ports.n_closed = 1;
		}
		r = say_ports(joint, &ports);
		if (r < 0)
			say_later(joint, r);
	}
}

/* Also what the other one is to say. */
static void ask_again(struct psid_joint *joint)
{
	Pulc__Peer__PortsOf ports = PULC__PEER__PORTS_OF__INIT;
	int r;

	ports.again = true;
	r = say_ports(joint, &ports);
	joint->is_behind = r < 0;
	if (r < 0 && r != -EHOSTUNREACH)
		psid_deadline_set(&joint->client->psid->remote->joints_due, &joint->deadline);
}

void psid_joint_say_missed(struct psid_joint *joint)
{
	if (joint->is_untold)
		psid_joint_say_again(joint);
	if (!joint->is_behind)
		return;
	if (psid_links_is_behind(joint->client))
		joint->client->misses_news = true;
	else
		ask_again(joint);
}

void psid_remote_catch_up(struct psid_client *client)
{
	struct psid_joint *joint;

	LIST_FOREACH(joint, &client->joints, by_client)
		if (joint->is_joined)
			psid_joint_say_missed(joint);
}

/* ---- what a client hears --------------------------------------------------------------------- */

int psid_joint_tell(const struct psid_joint *joint, const Pulc__Peer__PortsOf *ports)
{
	Pulc__Wire__PortNews news = PULC__WIRE__PORT_NEWS__INIT;
	PSID_MESSAGE(msg, PORT_NEWS, port_news) = &news;

	news.client = joint->number;
	news.opened = ports->opened;
	news.n_opened = ports->n_opened;
	news.closed = ports->closed;
	news.n_closed = ports->n_closed;
	news.all = ports->all;
	return psid_client_send(joint->client, &msg, NULL, 0);
}

void psid_joint_hear(struct psid_joint *joint, const Pulc__Peer__PortsOf *ports)
{
	if (ports->all)
		joint->is_behind = false;
	if (joint->is_behind || psid_links_is_behind(joint->client))
		joint->is_behind = joint->client->misses_news = true;
	else
		(void)psid_joint_tell(joint, ports);
}

static bool has_port(const struct psid_joint *joint, uint32_t port, size_t *ret_at)
{
	for (size_t i = 0; i < joint->n_ports; i++)
		if (joint->ports[i] == port) {
			*ret_at = i;
			return true;
		}
	return false;
}

int psid_joint_keep(struct psid_joint *joint, const Pulc__Peer__PortsOf *ports)
{
	size_t at;

	if (!joint->ports)
		joint->ports = calloc(PSID_JOINT_PORTS, sizeof(*joint->ports));
	if (!joint->ports)
		return 0; /* the meeting's time will be over */
	if (ports->all)
		joint->n_ports = 0;
	for (size_t i = 0; i < ports->n_closed; i++)
		if (has_port(joint, ports->closed[i], &at))
			joint->ports[at] = joint->ports[--joint->n_ports];
	for (size_t i = 0; i < ports->n_opened; i++) {
		if (has_port(joint, ports->opened[i], &at))
			continue;
		if (joint->n_ports == PSID_JOINT_PORTS)
			return -EBADMSG;
		joint->ports[joint->n_ports++] = ports->opened[i];
	}
	joint->has_ports |= ports->all;
	return 0;
}
