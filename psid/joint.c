/*
 * Joints: a client of ours and a client of another node, with a TCP connection between them that
 * the two psids have made.
 *
 * Of two nodes the one with the smaller id leads: it alone decides whether two clients are joined
 * already, are about to be, or are to be brought together. So two that ask for each other at the
 * same time are joined once.
 *
 *   leader: Meet, PortsOf     -> the other: PortsOf; it connects, both shake hands (meeting.c)
 *   each to its client, when it has the connection and the other's ports: PortNews, Joined with the
 *   socket; the asker's answer
 *
 * From then on the connection is the two processes' own, and goes on without any psid. What remains
 * here is a number for the other one, which is never given again, and whom to tell of ports that
 * are opened and closed (joint_news.c). A joint ends when our client has closed the link or is
 * gone; the other psid is told (Parted) and tells its client (Gone), who may still have something
 * to read.
 *
 * When the connection between psids breaks, news may be lost: meetings fail, and joints are told
 * anew of all ports that are open, so what is missing there is closed. The other node in a new life
 * knows nothing of its joints: they end here too, and the links go on.
 *
 * Source: DESIGN 5.
 */
#include "joint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cleanup.h"
#include "macros.h"
#include "meeting.h"
#include "ports.h"
#include "psid.h"
#include "remote.h"
#include "user.h"

#define MSEC_MEETING 10000
/* Meetings at a time, of this psid, of one user and of one client; joints of one client. */
#define N_MEETING_MAX 256u
#define N_MEETING_USER (N_MEETING_MAX / 2)
#define N_MEETING_CLIENT 64u
#define N_JOINTS_CLIENT 1024u
/* A client that is this far behind is not joined with more: who joins and leaves again and again
 * must not fill what is kept for it. */
#define SIZE_FAR_BEHIND (1u << 20)

struct psid_joint *psid_joint_find(const struct psid_client *client, uint64_t node, uint32_t other)
{
	struct psid_joint *joint;

	LIST_FOREACH(joint, &client->joints, by_client)
		if (joint->node == node && joint->other == other)
			return joint;
	return NULL;
}

bool psid_joint_leads(const struct psid *psid, uint64_t node)
{
	return psid_node_self(psid->cluster)->id < node;
}

/* ---- what the two psids say to each other ---------------------------------------------------- */

int psid_joint_say(const struct psid_client *client, uint64_t node, Pulc__Peer__Message *msg)
{
	if (client->psid->stopping)
		return 0;
	return psid_peer_send(client->psid->cluster, node, msg);
}

void psid_joint_part(const struct psid_client *client, uint64_t node, uint32_t other)
{
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;
	Pulc__Peer__Parted parted = PULC__PEER__PARTED__INIT;

	parted.client = other;
	parted.other = client->id;
	msg.body_case = PULC__PEER__MESSAGE__BODY_PARTED;
	msg.parted = &parted;
	(void)psid_joint_say(client, node, &msg);
}

static int say_meet(const struct psid_joint *joint, uint8_t key[HANDSHAKE_KEY], uint16_t port)
{
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;
	Pulc__Peer__Meet meet = PULC__PEER__MEET__INIT;

	meet.client = joint->other;
	meet.other = joint->client->id;
	meet.key = (ProtobufCBinaryData){ .len = HANDSHAKE_KEY, .data = key };
	meet.port = port;
	msg.body_case = PULC__PEER__MESSAGE__BODY_MEET;
	msg.meet = &meet;
	return psid_joint_say(joint->client, joint->node, &msg);
}

/* ---- what a client hears --------------------------------------------------------------------- */

static int tell_joined(const struct psid_joint *joint)
{
	Pulc__Wire__Joined joined = PULC__WIRE__JOINED__INIT;
	PSID_MESSAGE(msg, JOINED, joined) = &joined;

	joined.client = joint->number;
	joined.node = psid_remote_number(joint->node);
	joined.conn = joint->conn;
	return psid_client_send(joint->client, &msg, &joint->fd, 1);
}

/* It is told of who was, or was to be, its other one there. */
static void say_gone(const struct psid_joint *joint)
{
	Pulc__Wire__Gone gone = PULC__WIRE__GONE__INIT;
	PSID_MESSAGE(msg, GONE, gone) = &gone;

	gone.client = joint->number;
	(void)psid_client_send(joint->client, &msg, NULL, 0);
}

static void tell_gone(const struct psid_joint *joint)
{
	if (joint->is_joined)
		say_gone(joint);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Our client may have its own by now, and be about to close it. */
static void drop_end(struct psid_joint *joint)
{
	if (joint->fd < 0)
		return;
	psid_close_promised(joint->client->psid, joint->client->user, TAKE_FD(joint->fd), NULL,
			    NULL);
}

/* What was needed to become joined. */
static void end_meeting(struct psid_joint *joint)
{
	struct psid_remote *remote = joint->client->psid->remote;

	joint->meeting = psid_meeting_free(joint->meeting);
	drop_end(joint);
	free(TAKE_PTR(joint->ports));
	joint->n_ports = 0;
	joint->client->user->n_meeting--;
	remote->n_meeting--;
}

static void joint_free(struct psid_joint *joint)
{
	if (!joint->is_joined)
		end_meeting(joint);
	psid_deadline_clear(&joint->client->psid->remote->joints_due, &joint->deadline);
	joint->client->n_joints--;
	psid_user_give_bytes(joint->client->user, sizeof(*joint));
	LIST_REMOVE(joint, by_client);
	LIST_REMOVE(joint, all);
	psid_port_moves_go_on(joint->client);
	free(joint);
}

/* It did not come to a link. */
static void joint_fail(struct psid_joint *joint, Pulc__Wire__PortError error)
{
	psid_asks_settle(joint, error);
	joint_free(joint);
}

static unsigned n_meeting_of(const struct psid_client *client)
{
	const struct psid_joint *joint;
	unsigned n = 0;

	LIST_FOREACH(joint, &client->joints, by_client)
		n += !joint->is_joined;
	return n;
}

bool psid_remote_is_meeting(const struct psid_client *client)
{
	return n_meeting_of(client) > 0;
}

/* A number that neither a client nor another joint has, or will get. */
static uint32_t draw_number(struct psid *psid)
{
	do
		psid->last_client = (psid->last_client + 1) & 0x7fffffffu;
	while (psid->last_client == 0 || psid_client_find(psid, psid->last_client));
	return psid->last_client;
}

static bool may_meet(const struct psid_client *client)
{
	return client->outbox.size < SIZE_FAR_BEHIND &&
	       client->psid->remote->n_meeting < N_MEETING_MAX &&
	       client->user->n_meeting < N_MEETING_USER && client->n_joints < N_JOINTS_CLIENT &&
	       n_meeting_of(client) < N_MEETING_CLIENT;
}

/* On the account of the client's user. */
static struct psid_joint *joint_new(struct psid_client *client, uint64_t node, uint64_t life,
				    uint32_t other)
{
	struct psid_remote *remote = client->psid->remote;
	struct psid_joint *joint;

	if (!may_meet(client) || psid_user_take_bytes(client->user, sizeof(*joint)) != 0)
		return NULL;
	joint = calloc(1, sizeof(*joint));
	if (!joint) {
		psid_user_give_bytes(client->user, sizeof(*joint));
		return NULL;
	}
	joint->client = client;
	joint->node = node;
	joint->life = life;
	joint->other = other;
	joint->number = draw_number(client->psid);
	joint->conn = ++client->psid->last_conn * 2; /* as that of an end here */
	joint->fd = -EBADF;
	LIST_INSERT_HEAD(&remote->joints, joint, all);
	LIST_INSERT_HEAD(&client->joints, joint, by_client);
	client->n_joints++;
	client->user->n_meeting++;
	remote->n_meeting++;
	psid_deadline_set(&remote->joints_due, &joint->deadline);
	return joint;
}

static void on_deadline(struct psid_deadline *deadline)
{
	struct psid_joint *joint = CONTAINER_OF(deadline, struct psid_joint, deadline);

	if (joint->is_joined) {
		psid_joint_say_missed(joint);
		return;
	}
	psid_joint_part(joint->client, joint->node, joint->other);
	joint_fail(joint, PULC__WIRE__PORT_ERROR__PORT_ERROR_UNREACHABLE);
}

/* When all is there. */
static void deliver(struct psid_joint *joint)
{
	Pulc__Peer__PortsOf ports = PULC__PEER__PORTS_OF__INIT;

	if (joint->fd < 0 || !joint->has_ports)
		return;
	ports.all = true;
	ports.opened = joint->ports;
	ports.n_opened = joint->n_ports;
	if (psid_joint_tell(joint, &ports) < 0 || tell_joined(joint) < 0) {
		say_gone(joint);
		psid_joint_part(joint->client, joint->node, joint->other);
		joint_fail(joint, PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT);
		return;
	}
	end_meeting(joint);
	psid_deadline_clear(&joint->client->psid->remote->joints_due, &joint->deadline);
	joint->is_joined = true;
	psid_joint_say_missed(joint);
	psid_asks_settle(joint, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE);
	psid_port_moves_go_on(joint->client);
}

static void on_met(void *data, int fd)
{
	struct psid_joint *joint = data;

	joint->meeting = psid_meeting_free(joint->meeting);
	if (fd >= 0 && psid_closer_promise(&joint->client->psid->closer) < 0)
		fd = close_own(fd);
	if (fd < 0) {
		psid_joint_part(joint->client, joint->node, joint->other);
		joint_fail(joint, PULC__WIRE__PORT_ERROR__PORT_ERROR_UNREACHABLE);
		return;
	}
	joint->fd = fd;
	deliver(joint);
}

static int invite(struct psid_joint *joint)
{
	struct psid *psid = joint->client->psid;
	uint8_t key[HANDSHAKE_KEY];
	uint16_t port = 0;
	int r = 0;

	if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
		return -EIO;
	r = psid_meeting_listen(&psid->loop, &psid_node_self(psid->cluster)->address, key,
				&joint->meeting, &port);
	if (r == 0) {
		psid_meeting_on_end(joint->meeting, on_met, joint);
		r = say_meet(joint, key, port);
	}
	explicit_bzero(key, sizeof(key));
	return r < 0 ? r : psid_joint_say_ports(joint);
}

int psid_joint_begin(struct psid_client *client, uint64_t node, uint64_t life, uint32_t other)
{
	struct psid_joint *joint = joint_new(client, node, life, other);
	int r = joint ? invite(joint) : -EMFILE;

	if (joint && r < 0)
		joint_free(joint);
	return r;
}

/* ---- messages from there --------------------------------------------------------------------- */

static int accept_invitation(struct psid_joint *joint, const Pulc__Peer__Meet *meet)
{
	struct psid *psid = joint->client->psid;
	const struct psid_node *node = psid_node_find(psid->cluster, joint->node);
	struct psid_address address;
	int r;

	if (!node)
		return -EHOSTUNREACH;
	address = node->address;
	address.port = (uint16_t)meet->port;
	r = psid_meeting_connect(&psid->loop, &address, meet->key.data, &joint->meeting);
	if (r < 0)
		return r;
	psid_meeting_on_end(joint->meeting, on_met, joint);
	return psid_joint_say_ports(joint);
}

static int on_meet(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const Pulc__Peer__Meet *meet = msg->meet;
	struct psid_remote *remote = data;
	struct psid_client *client = psid_client_find(remote->psid, meet->client);
	struct psid_joint *joint;

	if (meet->key.len != HANDSHAKE_KEY || meet->port == 0 || meet->port > UINT16_MAX ||
	    meet->other == 0 || psid_joint_leads(remote->psid, from))
		return -EBADMSG;
	/* It has got to know this one as the owner of a port, which may be gone by now. */
	if (!client || client->fd < 0 || client->state != PSID_CLIENT_ATTACHED)
		return 0;
	joint = psid_joint_find(client, from, meet->other);
	if (joint) {
		tell_gone(joint);
		joint_fail(joint, PULC__WIRE__PORT_ERROR__PORT_ERROR_LOST);
	}
	joint = joint_new(client, from, life, meet->other);
	if (!joint || accept_invitation(joint, meet) < 0) {
		psid_joint_part(client, from, meet->other);
		if (joint)
			joint_fail(joint, PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT);
	}
	return 0;
}

static struct psid_joint *joint_of(const struct psid_remote *remote, uint64_t node, uint32_t client,
				   uint32_t other)
{
	const struct psid_client *c = psid_client_find(remote->psid, client);

	return c ? psid_joint_find(c, node, other) : NULL;
}

static int on_ports_of(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const Pulc__Peer__PortsOf *ports = msg->ports_of;
	struct psid_joint *joint = joint_of(data, from, ports->client, ports->other);

	(void)life;
	if (ports->n_opened > PSID_JOINT_PORTS || ports->n_closed > PSID_JOINT_PORTS)
		return -EBADMSG;
	if (!joint)
		return 0;
	if (ports->again)
		psid_joint_say_again(joint);
	if (joint->is_joined) {
		psid_joint_hear(joint, ports);
		return 0;
	}
	if (psid_joint_keep(joint, ports) < 0)
		return -EBADMSG;
	deliver(joint);
	return 0;
}

static int on_parted(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	struct psid_joint *joint = joint_of(data, from, msg->parted->client, msg->parted->other);

	(void)life;
	if (!joint)
		return 0;
	tell_gone(joint);
	joint_fail(joint, PULC__WIRE__PORT_ERROR__PORT_ERROR_LOST);
	return 0;
}

void psid_joints_start(struct psid_remote *remote)
{
	struct psid_cluster *cluster = remote->psid->cluster;

	LIST_INIT(&remote->joints);
	psid_deadlines_init(&remote->joints_due, &remote->psid->loop, MSEC_MEETING, on_deadline);
	psid_peer_on(cluster, PULC__PEER__MESSAGE__BODY_MEET, on_meet, remote);
	psid_peer_on(cluster, PULC__PEER__MESSAGE__BODY_PORTS_OF, on_ports_of, remote);
	psid_peer_on(cluster, PULC__PEER__MESSAGE__BODY_PARTED, on_parted, remote);
}

/* ---- the end of others ----------------------------------------------------------------------- */

/* What this node may have missed. In another life it knows nothing of the two. */
static void renew(struct psid_joint *joint, const struct psid_node *node)
{
	if (node->life != joint->life) {
		tell_gone(joint);
		joint_free(joint);
	} else if (psid_node_is_up(node)) {
		psid_joint_say_missed(joint);
	}
}

void psid_joints_lost(struct psid_remote *remote, uint64_t id)
{
	const struct psid_node *node = psid_node_find(remote->psid->cluster, id);
	struct psid_joint *joint, *next;

	for (joint = LIST_FIRST(&remote->joints); joint; joint = next) {
		next = LIST_NEXT(joint, all);
		if (joint->node != id)
			continue;
		if (!joint->is_joined) {
			psid_joint_part(joint->client, id, joint->other);
			joint_fail(joint, PULC__WIRE__PORT_ERROR__PORT_ERROR_UNREACHABLE);
		} else {
			joint->is_untold = true;
			if (node)
				renew(joint, node);
		}
	}
}

void psid_joints_changed(struct psid_remote *remote, const struct psid_node *node)
{
	struct psid_joint *joint, *next;

	for (joint = LIST_FIRST(&remote->joints); joint; joint = next) {
		next = LIST_NEXT(joint, all);
		if (joint->node == node->id && joint->is_joined)
			renew(joint, node);
	}
}

void psid_remote_closed(struct psid_client *client, uint64_t conn)
{
	struct psid_joint *joint;

	LIST_FOREACH(joint, &client->joints, by_client)
		if (joint->conn == conn && joint->is_joined) {
			psid_joint_part(client, joint->node, joint->other);
			joint_free(joint);
			return;
		}
}

void psid_joints_forget(struct psid_client *client)
{
	struct psid_joint *joint;

	while ((joint = LIST_FIRST(&client->joints))) {
		psid_joint_part(client, joint->node, joint->other);
		joint_free(joint);
	}
}

unsigned psid_remote_count(const struct psid_client *client, const struct psid_node **ret_node)
{
	const struct psid_joint *joint, *first = NULL;
	unsigned n = 0;

	*ret_node = NULL;
	LIST_FOREACH(joint, &client->joints, by_client) {
		if (!joint->is_joined)
			continue;
		if (n++ == 0) {
			first = joint;
			*ret_node = psid_node_find(client->psid->cluster, joint->node);
		} else if (joint->node != first->node) {
			*ret_node = NULL;
		}
	}
	return n;
}

void psid_remote_each(const struct psid_client *client,
		      void (*f)(uint32_t number, const char *node, void *arg), void *arg)
{
	const struct psid_joint *joint;
	const struct psid_node *node;

	LIST_FOREACH(joint, &client->joints, by_client) {
		if (!joint->is_joined)
			continue;
		node = psid_node_find(client->psid->cluster, joint->node);
		f(joint->number, node ? node->name : "", arg);
	}
}
