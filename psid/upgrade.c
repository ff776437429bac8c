/*
 * Upgrade brings each side its own slab to write, the other side's to read, and the numbers of
 * the slots. A slab's descriptor goes to a process once; later connections of the same pair only
 * name it.
 *
 * All descriptors are made, and both messages written, before anything is sent. A client that can't
 * be sent to is doomed, which the other side then learns as the end of its peer.
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
 * already. Returns 0; the Reason (positive) of a refusal. */
static int write_to(struct psid_side *side, struct psid_client *client, uint64_t token,
		    const int fds[2], struct psid_letter **ret_letter)
{
	struct psid_side *other = psid_side_other(side);
	Pulc__Wire__Slab own, peer;
	Pulc__Wire__Upgrade upgrade = PULC__WIRE__UPGRADE__INIT;
	PSID_MESSAGE(msg, UPGRADE, upgrade) = &upgrade;
	int sent[2], r;
	uint32_t n = 0;

	name_slab(side->slab, &own);
	name_slab(other->slab, &peer);
	upgrade.token = token;
	upgrade.conn = side->conn->id;
	upgrade.own = &own;
	upgrade.peer = &peer;
	upgrade.own_slot = side->slot;
	upgrade.peer_slot = other->slot;
	upgrade.own_slab_fd = fds[0] >= 0;
	upgrade.peer_slab_fd = fds[1] >= 0;
	upgrade.peer_client = other->n_holders > 0 ? client_of(other)->id : 0;
	upgrade.peer_pid = pid_for(client, other);
	if (upgrade.own_slab_fd)
		sent[n++] = fds[0];
	if (upgrade.peer_slab_fd)
		sent[n++] = fds[1];
	*ret_letter = NULL;
	r = psid_client_write(client, &msg, sent, n, ret_letter);
	return r == -EMFILE ? PULC__WIRE__REASON__REASON_DESCRIPTORS : 0;
}

/* NULL: to a client that hears nothing any more. */
static int post(struct psid_client *client, struct psid_letter *letter)
{
	return letter ? psid_client_post(client, letter) : -EPIPE;
}

int psid_upgrade_send_again(struct psid_side *side, struct psid_client *client, uint64_t token)
{
	CLEANUP_FD int peer_fd = -EBADF;
	struct psid_letter *letter;
	int r;

	if (psid_memory_readonly(psid_side_other(side)->slab->fd, &peer_fd) < 0)
		return PULC__WIRE__REASON__REASON_DESCRIPTORS;
	r = write_to(side, client, token, (int[]){ side->slab->fd, peer_fd }, &letter);
	if (r == 0)
		(void)post(client, letter);
	return r;
}

static int write_first(struct psid_side *side, int peer_fd, struct psid_letter **ret_letter)
{
	const struct psid_slab *slab = side->slab;
	int own_fd = slab->sent_owner ? -EBADF : slab->fd;

	return write_to(side, client_of(side), side->token, (int[]){ own_fd, peer_fd }, ret_letter);
}

static void post_first(struct psid_side *side, struct psid_letter *letter)
{
	if (post(client_of(side), letter) < 0)
		return;
	side->slab->sent_owner = true;
	psid_side_other(side)->slab->sent_peer = true;
}

int psid_upgrade_send(struct psid_conn *conn)
{
	CLEANUP_FD int fd0 = -EBADF;
	CLEANUP_FD int fd1 = -EBADF;
	struct psid_side *sides = conn->sides;
	struct psid_letter *letters[2] = { NULL };
	int r = 0;

	if ((!sides[1].slab->sent_peer && psid_memory_readonly(sides[1].slab->fd, &fd0) < 0) ||
	    (!sides[0].slab->sent_peer && psid_memory_readonly(sides[0].slab->fd, &fd1) < 0))
		return PULC__WIRE__REASON__REASON_DESCRIPTORS;
	r = write_first(&sides[0], fd0, &letters[0]);
	/* Of a pair with itself one slab may hold both sides: just sent. */
	if (r == 0 && sides[0].slab == sides[1].slab)
		r = write_to(&sides[1], client_of(&sides[1]), sides[1].token,
			     (int[]){ -EBADF, -EBADF }, &letters[1]);
	else if (r == 0)
		r = write_first(&sides[1], fd1, &letters[1]);
	if (r != 0) {
		psid_letter_free(letters[0]);
		return r;
	}
	post_first(&sides[0], letters[0]);
	post_first(&sides[1], letters[1]);
	return 0;
}
