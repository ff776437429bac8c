/*
 * Upgrade brings each side its own slab to write, the other side's to read, and the numbers of
 * the slots. A slab's descriptor goes to a process once; later connections of the same pair only
 * name it.
 *
 * All descriptors are made, and both messages of a connection written, before anything is sent. A
 * client that can't be sent to is doomed, which the other side then learns as the end of its peer.
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

/* One side's message, and what it is made of. */
struct message {
	Pulc__Wire__ToClient msg;
	Pulc__Wire__Upgrade upgrade;
	Pulc__Wire__Slab own, peer;
	int fds[2];
	uint32_t n_fds;
};

/* Descriptors of the own slab and of the other side's (read-only); -EBADF: the client has it
 * already. */
static void describe(struct psid_side *side, const struct psid_client *client, uint64_t token,
		     const int fds[2], struct message *m)
{
	struct psid_side *other = psid_side_other(side);
	PSID_MESSAGE(msg, UPGRADE, upgrade) = &m->upgrade;

	m->msg = msg;
	name_slab(side->slab, &m->own);
	name_slab(other->slab, &m->peer);
	pulc__wire__upgrade__init(&m->upgrade);
	m->upgrade.token = token;
	m->upgrade.conn = psid_side_number(side);
	m->upgrade.own = &m->own;
	m->upgrade.peer = &m->peer;
	m->upgrade.own_slot = side->slot;
	m->upgrade.peer_slot = other->slot;
	m->upgrade.own_slab_fd = fds[0] >= 0;
	m->upgrade.peer_slab_fd = fds[1] >= 0;
	m->upgrade.peer_client = other->n_holders > 0 ? client_of(other)->id : 0;
	m->upgrade.peer_pid = pid_for(client, other);
	m->n_fds = 0;
	for (unsigned i = 0; i < 2; i++)
		if (fds[i] >= 0)
			m->fds[m->n_fds++] = fds[i];
}

/* The Reason (positive) for which a message could not be sent, or written; 0: it could, or the
 * client hears nothing any more. */
static int reason_of(int r)
{
	if (r == -ENOMEM)
		return PULC__WIRE__REASON__REASON_NO_MEMORY;
	return r == -EMFILE ? PULC__WIRE__REASON__REASON_DESCRIPTORS : 0;
}

static int write_to(struct psid_side *side, struct psid_client *client, uint64_t token,
		    const int fds[2], struct psid_letter **ret_letter)
{
	struct message m;

	describe(side, client, token, fds, &m);
	*ret_letter = NULL;
	return reason_of(psid_client_write(client, &m.msg, m.fds, m.n_fds, ret_letter));
}

/* NULL: to a client that hears nothing any more. */
static int post(struct psid_client *client, struct psid_letter *letter)
{
	return letter ? psid_client_post(client, letter) : -EPIPE;
}

/* Who asks waits for it: it is kept, with descriptors, only where the channel is full. */
int psid_upgrade_send_again(struct psid_side *side, struct psid_client *client, uint64_t token)
{
	CLEANUP_FD int peer_fd = -EBADF;
	struct message m;

	if (psid_memory_readonly(psid_side_other(side)->slab->fd, &peer_fd) < 0)
		return PULC__WIRE__REASON__REASON_DESCRIPTORS;
	describe(side, client, token, (int[]){ side->slab->fd, peer_fd }, &m);
	return reason_of(psid_client_send(client, &m.msg, m.fds, m.n_fds));
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
	if (psid_is_link(conn))
		psid_links_acquaint(client_of(&sides[0]), client_of(&sides[1]));
	post_first(&sides[0], letters[0]);
	post_first(&sides[1], letters[1]);
	return 0;
}
