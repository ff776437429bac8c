/*
 * Upgrade brings each side its own slab to write, the other side's to read, and the numbers of
 * the slots. A slab's descriptor goes to a process once; later connections of the same pair only
 * name it.
 *
 * All descriptors are made before anything is sent. A client that can't be sent to is doomed,
 * which the other side then learns as the end of its peer.
 */
#include "upgrade.h"

#include "cleanup.h"
#include "client.h"
#include "conn.h"
#include "links.h"
#include "memory.h"
#include "psid.h"

/* The side's own client; there is one holder yet. */
static struct psid_client *client_of(struct psid_side *side)
{
	return LIST_FIRST(&side->holders)->client;
}

static void name_slab(const struct psid_slab *slab, Pulc__Wire__Slab *ret_wire)
{
	pulc__wire__slab__init(ret_wire);
	ret_wire->id = slab->id;
	ret_wire->size = slab->size;
}

/* Whose memory the client may ask the kernel for, as psid knows it from the kernel: the number is
 * nobody's own claim. */
static uint32_t pid_for(const struct psid_client *client, struct psid_side *other)
{
	const struct psid_client *peer;

	if (other->n_holders == 0 || !psid_is_link(other->conn))
		return 0;
	peer = client_of(other);
	return peer->user == client->user && !peer->exited ? (uint32_t)peer->pid : 0;
}

/* Descriptors of the own slab and of the other side's (read-only); -EBADF: the client has it
 * already. */
static int send_to(struct psid_side *side, struct psid_client *client, uint64_t token, int own_fd,
		   int peer_fd)
{
	struct psid_side *other = psid_side_other(side);
	Pulc__Wire__Slab own, peer;
	Pulc__Wire__Upgrade upgrade = PULC__WIRE__UPGRADE__INIT;
	PSID_MESSAGE(msg, UPGRADE, upgrade) = &upgrade;
	int fds[2];
	size_t n = 0;

	name_slab(side->slab, &own);
	name_slab(other->slab, &peer);
	upgrade.token = token;
	upgrade.conn = side->conn->id;
	upgrade.own = &own;
	upgrade.peer = &peer;
	upgrade.own_slot = side->slot;
	upgrade.peer_slot = other->slot;
	upgrade.own_slab_fd = own_fd >= 0;
	upgrade.peer_slab_fd = peer_fd >= 0;
	upgrade.peer_client = other->n_holders > 0 ? client_of(other)->id : 0;
	upgrade.peer_pid = pid_for(client, other);
	if (upgrade.own_slab_fd)
		fds[n++] = own_fd;
	if (upgrade.peer_slab_fd)
		fds[n++] = peer_fd;
	return psid_client_send(client, &msg, fds, n);
}

static void send_first(struct psid_side *side, int peer_fd)
{
	struct psid_slab *slab = side->slab;

	if (send_to(side, client_of(side), side->token, slab->sent_owner ? -EBADF : slab->fd,
		    peer_fd) < 0)
		return;
	slab->sent_owner = true;
	psid_side_other(side)->slab->sent_peer = true;
}

int psid_upgrade_send_again(struct psid_side *side, struct psid_client *client, uint64_t token)
{
	CLEANUP_FD int peer_fd = -EBADF;

	if (psid_memory_readonly(psid_side_other(side)->slab->fd, &peer_fd) < 0)
		return PULC__WIRE__REASON__REASON_DESCRIPTORS;
	(void)send_to(side, client, token, side->slab->fd, peer_fd);
	return 0;
}

int psid_upgrade_send(struct psid_conn *conn)
{
	CLEANUP_FD int fd0 = -EBADF;
	CLEANUP_FD int fd1 = -EBADF;
	struct psid_side *sides = conn->sides;

	if ((!sides[1].slab->sent_peer && psid_memory_readonly(sides[1].slab->fd, &fd0) < 0) ||
	    (!sides[0].slab->sent_peer && psid_memory_readonly(sides[0].slab->fd, &fd1) < 0))
		return PULC__WIRE__REASON__REASON_DESCRIPTORS;
	send_first(&sides[0], fd0);
	if (sides[0].slab->sent_peer) /* a pair with itself: just sent */
		fd1 = close_own(fd1);
	send_first(&sides[1], fd1);
	return 0;
}
