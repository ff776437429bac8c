/*
 * Coming back. Rings work without a psid, so processes outlive one; to the next they bring their
 * slabs and say which slot is which connection's. psid then knows them as the old one did: it shows
 * and counts them, marks the dead, wakes for others, and can give a side to a program that inherits
 * its socket.
 *
 * Nothing of that is believed. That a slab is psid's own making is told by its inode (memory.c):
 * only the owner of a side ever got it open for writing. Two sides belong together when each says
 * that the other one is its peer, by inode and slot; who lies about that remains alone. A cookie
 * counts for other users only if the kernel knows a socket of it that this user made, and for one
 * side of a user's: what has the same one is looked through by others.
 *
 * Until the holder of the other side is back, a connection is half: its other side is absent. Its
 * slot is never emptied then, for somebody may still read it.
 */
#include "return.h"

#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "diag.h"
#include "doubt.h"
#include "log.h"
#include "macros.h"
#include "proof.h"
#include "psid.h"
#include "traffic.h"
#include "user.h"

#define N_SIDES_MAX 64u

/* The absent side for which its peer waits at this place, or NULL. */
static struct psid_side *find_awaited(const struct psid_slab *slab, const Pulc__Wire__Kept *kept)
{
	struct psid_slab *peer_slab = psid_slab_find(slab->psid, kept->peer_inode);
	struct psid_side *peer;
	struct psid_conn *conn;

	if (!peer_slab || kept->peer_slot >= peer_slab->n_slots)
		return NULL;
	peer = peer_slab->sides[kept->peer_slot];
	conn = peer ? peer->conn : NULL;
	if (!conn || !psid_conn_is_half(conn) || conn->awaited_ino != slab->by_ino.key ||
	    conn->awaited_slot != kept->slot)
		return NULL;
	return psid_side_other(peer);
}

static struct psid_conn *new_half(struct psid *psid, const Pulc__Wire__Kept *kept)
{
	struct psid_conn *conn = calloc(1, sizeof(*conn));

	if (!conn || psid_map_insert(&psid->conns, &conn->by_id, psid->last_conn + 1) < 0) {
		free(conn);
		return NULL;
	}
	conn->psid = psid;
	conn->id = ++psid->last_conn;
	conn->sides[0].conn = conn->sides[1].conn = conn;
	conn->awaited_ino = kept->peer_inode;
	conn->awaited_slot = kept->peer_slot;
	psid_doubt(conn);
	return conn;
}

/* Puts the side into the slot. Returns 0; anything else: it stays absent. */
static int fill(struct psid_side *side, struct psid_slab *slab, const Pulc__Wire__Kept *kept,
		const struct psid_tuple *tuple)
{
	int r;

	if (psid_side_of(slab->psid, kept->cookie, slab->user))
		return -EEXIST;
	r = psid_slot_return(slab, kept->slot, side);
	if (r != 0)
		return r;
	r = psid_side_enter(side, kept->cookie);
	if (r < 0) {
		psid_slot_free(side, false);
		return r;
	}
	psid_traffic_returned(side);
	side->token = kept->token;
	side->tuple = *tuple;
	side->proven = psid_proof_made_by(slab->psid, tuple, kept->cookie, slab->user->uid);
	return 0;
}

static struct psid_side *enter(struct psid_slab *slab, const Pulc__Wire__Kept *kept,
			       const struct psid_tuple *tuple)
{
	struct psid_side *side = find_awaited(slab, kept);
	struct psid_conn *conn = side ? NULL : new_half(slab->psid, kept);

	if (conn)
		side = &conn->sides[0];
	if (!side)
		return NULL;
	if (fill(side, slab, kept, tuple) != 0) {
		if (conn)
			psid_conn_tidy(conn);
		return NULL;
	}
	return side;
}

/* Returns its number; 0: not taken. */
static uint64_t take(struct psid_client *client, struct psid_slab *slab,
		     const Pulc__Wire__Kept *kept, const struct psid_tuple *tuple)
{
	struct psid_side *side = slab->sides[kept->slot];

	if (!side)
		side = enter(slab, kept, tuple);
	if (!side)
		return 0;
	if (psid_side_claim(side, client) < 0) {
		psid_conn_tidy(side->conn);
		return 0;
	}
	return psid_side_number(side);
}

/* Returns 0 with all tuples; -EBADMSG. */
static int read_tuples(const Pulc__Wire__Return *msg, struct psid_tuple *tuples)
{
	if (msg->n_sides == 0 || msg->n_sides > N_SIDES_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < msg->n_sides; i++)
		if (psid_tuple_read(msg->sides[i]->tuple, &tuples[i]) < 0 ||
		    msg->sides[i]->cookie == PSID_ANY_COOKIE)
			return -EBADMSG;
	return 0;
}

static bool slots_exist(const struct psid_slab *slab, const Pulc__Wire__Return *msg)
{
	for (size_t i = 0; i < msg->n_sides; i++)
		if (msg->sides[i]->slot >= slab->n_slots)
			return false;
	return true;
}

static void answer(struct psid_client *client, const Pulc__Wire__Return *msg, uint64_t *conns)
{
	Pulc__Wire__Returned returned = PULC__WIRE__RETURNED__INIT;
	PSID_MESSAGE(reply, RETURNED, returned) = &returned;
	uint64_t tokens[N_SIDES_MAX];

	for (size_t i = 0; i < msg->n_sides; i++)
		tokens[i] = msg->sides[i]->token;
	returned.n_tokens = returned.n_conns = msg->n_sides;
	returned.tokens = tokens;
	returned.conns = conns;
	(void)psid_client_send(client, &reply, NULL, 0);
}

int psid_return(struct psid_client *client, const Pulc__Wire__Return *msg, int *fd)
{
	struct psid_tuple tuples[N_SIDES_MAX];
	uint64_t conns[N_SIDES_MAX] = { 0 };
	struct psid_slab *slab;
	int r;

	r = read_tuples(msg, tuples);
	if (r == 0)
		r = psid_slab_return(client->psid, client->user, fd, &slab);
	if (r == -EBADMSG)
		return r;
	if (r == 0 && !slots_exist(slab, msg)) {
		psid_slab_tidy(slab);
		return -EBADMSG;
	}
	for (size_t i = 0; r == 0 && i < msg->n_sides; i++)
		conns[i] = take(client, slab, msg->sides[i], &tuples[i]);
	if (r == 0)
		psid_slab_tidy(slab);
	else if (psid_may_remark(&client->psid->remarks, client->user->uid, PSID_INFO))
		psid_log(PSID_INFO,
			 "client %u (%s, pid %d) comes back with memory that is not taken: %d",
			 client->id, client->program, client->pid, r);
	answer(client, msg, conns);
	return 0;
}
