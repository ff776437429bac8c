/*
 * Upgraded connections.
 *
 * Each of the two sides has a slot and holders: the process that was upgraded, and children that
 * inherited it and said so (Adopt). A side ends when its last holder has closed it, or is gone; a
 * side whose holders all died gets the mark SHM_DEAD in its slot, and whoever waits at the other
 * side is woken. When both sides have ended the slots are freed. A psid that ends forgets them all,
 * and leaves their memory as it is: they go on without it.
 *
 * A parent may close its copy, or die, before its child has told us that it exists. The side itself
 * counts its holders (n_holders, raised before the fork): if it counts more than we know, it is
 * kept as unclaimed until somebody adopts it, or the kernel says that nobody has its socket
 * (doubt.c). A holder that was killed is still counted there; one that was killed before it could
 * say that it has closed, or had no room in its channel for that, is not, and has left a word that
 * it may be so. That count is the side's own memory: a false one keeps only its own user's memory
 * busy.
 *
 * Of a connection whose both directions have ended, with both ends on this node, the kernel knows
 * no socket any more, though somebody may have something to read yet. So what a side's uncounted
 * holders may not have read is not emptied, nor used again. If they have read all, the socket is
 * noted (ended.c).
 */
#include "conn.h"

#include <errno.h>
#include <stdlib.h>

#include "bells.h"
#include "cleanup.h"
#include "clock.h"
#include "doubt.h"
#include "macros.h"
#include "pair.h"
#include "proof.h"
#include "psid.h"
#include "reaper.h"
#include "traffic.h"
#include "upgrade.h"
#include "user.h"

#define SIZE_SIDE_MAX (UINT64_C(1) << 53) /* bytes: a hundred days at a GB/s */

struct psid_side *psid_side_other(const struct psid_side *side)
{
	struct psid_conn *conn = side->conn;

	return side == &conn->sides[0] ? &conn->sides[1] : &conn->sides[0];
}

/* Of a connection that has ended: none. */
static struct psid_side *find(const struct psid *psid, uint64_t number)
{
	struct psid_map_node *node = psid_map_find(&psid->conns, number / 2);
	struct psid_conn *conn = node ? CONTAINER_OF(node, struct psid_conn, by_id) : NULL;

	return conn && conn->sides[number % 2].slab ? &conn->sides[number % 2] : NULL;
}

uint64_t psid_side_number(const struct psid_side *side)
{
	return side->conn->id * 2 + (side == &side->conn->sides[1]);
}

struct psid_side *psid_side_find(const struct psid *psid, uint64_t cookie,
				 const struct psid_user *user)
{
	struct psid_map_node *node = psid_map_find(&psid->cookies, cookie);
	struct psid_side *found = NULL;

	for (; node; node = psid_map_find_next(node)) {
		struct psid_side *side = CONTAINER_OF(node, struct psid_side, by_cookie);

		if (side->transport == PULC__WIRE__TRANSPORT__TRANSPORT_TCP &&
		    (side->proven || (!found && side->user == user)))
			found = side;
	}
	return found;
}

struct psid_side *psid_side_of(const struct psid *psid, uint64_t cookie,
			       const struct psid_user *user)
{
	struct psid_map_node *node = psid_map_find(&psid->cookies, cookie);

	for (; node; node = psid_map_find_next(node)) {
		struct psid_side *side = CONTAINER_OF(node, struct psid_side, by_cookie);

		if (side->transport == PULC__WIRE__TRANSPORT__TRANSPORT_TCP && side->user == user)
			return side;
	}
	return NULL;
}

bool psid_conn_is_half(const struct psid_conn *conn)
{
	return !conn->sides[0].slab || !conn->sides[1].slab;
}

static bool is_of_flow(Pulc__Wire__Transport transport)
{
	return transport == PULC__WIRE__TRANSPORT__TRANSPORT_UDP_SENDER ||
	       transport == PULC__WIRE__TRANSPORT__TRANSPORT_UDP_RECEIVER;
}

/* Sides are found by the cookie of their socket. A UDP socket has one for each of its flows, which
 * may be thousands: those by the flow, too. */
static uint64_t key_of(Pulc__Wire__Transport transport, uint64_t cookie,
		       const struct psid_tuple *tuple)
{
	return is_of_flow(transport) ? cookie ^ psid_tuple_hash(tuple) : cookie;
}

bool psid_conn_has_flow(const struct psid_hint *hint)
{
	uint64_t key = key_of(hint->transport, hint->cookie, &hint->tuple);
	struct psid_map_node *node = psid_map_find(&hint->client->psid->cookies, key);

	for (; node; node = psid_map_find_next(node)) {
		const struct psid_side *side = CONTAINER_OF(node, struct psid_side, by_cookie);

		if (side->n_holders > 0 && side->transport == hint->transport &&
		    side->cookie == hint->cookie && psid_tuple_equal(&side->tuple, &hint->tuple))
			return true;
	}
	return false;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* What becomes of a side's memory: given to nobody else as long as the slab is; or to the next one,
 * as it is or empty. */
enum fate { KEPT, AS_IT_IS, EMPTIED };

/* Adds what the side says to have written. A number that no side can reach in its life is a lie,
 * and left out. */
static void count_bytes(struct psid_side *side)
{
	uint64_t size;

	if (psid_slot_written(side->slab, side->slot, &size) < 0)
		return;
	psid_traffic_count(side, size, nsec_now() / NSEC_PER_USEC);
	if (side->transport != PULC__WIRE__TRANSPORT__TRANSPORT_LINK && size <= SIZE_SIDE_MAX)
		side->conn->psid->counts.size_rings += size;
}

/* payer: of what is KEPT. If he can't it is emptied: who reads there then finds nonsense, and no
 * other bytes than his. */
static void side_leave(struct psid_side *side, enum fate fate, struct psid_user *payer)
{
	struct psid_conn *conn = side->conn;

	if (!side->slab)
		return;
	count_bytes(side);
	psid_map_remove(&conn->psid->cookies, &side->by_cookie);
	if (fate != KEPT || psid_slot_keep(side, payer) != 0)
		psid_slot_free(side, fate != AS_IT_IS);
	(void)psid_user_unref(side->user);
}

/* Does the side count holders that we don't know? One that never got to work has none. */
static bool counts_others(const struct psid_side *side)
{
	struct shm_side copy;
	uint32_t n;

	return psid_slot_read(side->slab, side->slot, &copy) == 0 && (copy.notice & SHM_RX_READY) &&
	       psid_slot_holders(side->slab, side->slot, &n) == 0 &&
	       n > side->n_holders + side->n_lost;
}

bool psid_side_has_more(const struct psid_side *side)
{
	const struct psid_side *other = psid_side_other(side);
	struct shm_side reader, writer;

	return side->transport == PULC__WIRE__TRANSPORT__TRANSPORT_TCP && side->slab &&
	       other->slab && psid_slot_read(side->slab, side->slot, &reader) == 0 &&
	       psid_slot_read(other->slab, other->slot, &writer) == 0 &&
	       (writer.head != reader.rx_taken || (reader.local & SHM_LOCAL_UNTOLD));
}

/* Holders that a side counts and we don't know may have something to read, or be about to ask for a
 * side that has nothing more; of a UDP socket they go by the queue alone, read out or not. Whose
 * have something to read pays for what is there, the other side's memory too: that there are any is
 * the reader's word alone. */
static enum fate settle_owed(const struct psid_conn *conn, struct psid_user *payers[2])
{
	enum fate fate = EMPTIED;

	if (psid_conn_is_half(conn) || conn->psid->stopping)
		return AS_IT_IS;
	for (unsigned i = 0; i < 2; i++) {
		const struct psid_side *side = &conn->sides[i];

		if (!counts_others(side))
			continue;
		if (is_of_flow(side->transport) || psid_side_has_more(side)) {
			fate = KEPT;
			payers[!i] = side->user;
			if (!payers[i])
				payers[i] = side->user;
		} else if (side->transport == PULC__WIRE__TRANSPORT__TRANSPORT_TCP) {
			psid_ended_note(&conn->psid->ended, side->user->uid, side->cookie);
		}
	}
	return fate;
}

static void conn_free(struct psid_conn *conn)
{
	struct psid_user *payers[2] = { NULL };
	enum fate fate = settle_owed(conn, payers);

	for (unsigned i = 0; i < 2; i++)
		if (payers[i])
			(void)psid_user_ref(payers[i]);
	for (unsigned i = 0; i < 2; i++)
		side_leave(&conn->sides[i], fate, payers[i]);
	for (unsigned i = 0; i < 2; i++)
		(void)psid_user_unref(payers[i]);
	psid_doubt_forget(conn);
	psid_map_remove(&conn->psid->conns, &conn->by_id);
	free(conn);
}

/* Does it count fewer holders than we know? */
static bool has_left(const struct psid_side *side)
{
	uint32_t n;

	return psid_slot_holders(side->slab, side->slot, &n) == 0 &&
	       n < side->n_holders + side->n_lost;
}

bool psid_side_is_held(const struct psid_side *side)
{
	/* A link is held by processes with a channel, whom we know. */
	if (side->transport == PULC__WIRE__TRANSPORT__TRANSPORT_LINK)
		return false;
	/* The kernel finds a UDP socket by what it receives: it can't be asked about a sender. */
	if (side->transport != PULC__WIRE__TRANSPORT__TRANSPORT_TCP)
		return side->slab->pair != NULL;
	return psid_proof_is_held(side->conn->psid, &side->tuple, side->cookie);
}

/* Nobody will use this side again. */
static bool has_ended(const struct psid_side *side)
{
	return side->n_holders == 0 && !side->unclaimed;
}

void psid_conn_tidy(struct psid_conn *conn)
{
	if (has_ended(&conn->sides[0]) && has_ended(&conn->sides[1]))
		conn_free(conn);
}

static void wake(const struct psid_side *side)
{
	struct psid_holder *holder;
	struct shm_side copy;

	if (!side->slab || psid_slot_read(side->slab, side->slot, &copy) < 0)
		return;
	LIST_FOREACH(holder, &side->holders, by_side)
		psid_bell_wake_watchers(holder->client, &copy);
}

/*
 * A process that is killed may have moved bytes and told nobody, neither the other side nor its own
 * family, who looks after what it was about to do. One that ended by itself has told before, and
 * counts no more.
 */
static void wake_for_the_lost(struct psid_side *side)
{
	if (side->n_holders > 0 && has_left(side))
		return;
	wake(side);
	wake(psid_side_other(side));
}

/* Nobody writes any more into the line that this link may have: a link is held by one process. One
 * that psid has dropped may, be it stopped. */
static bool has_exited(const struct psid_holder *holder)
{
	return holder && holder->side->transport == PULC__WIRE__TRANSPORT__TRANSPORT_LINK &&
	       holder->client->exited;
}

/* The holder is gone; lost: without a word. */
static void leave(struct psid_holder *holder, bool lost)
{
	struct psid_side *side = holder->side;
	bool exited = has_exited(holder);

	psid_holder_free(holder);
	side->n_lost += lost && !psid_slot_has_unsaid(side->slab, side->slot);
	if (side->n_holders == 0 && counts_others(side)) {
		side->unclaimed = psid_side_is_held(side);
		/* Those have gone without a word. */
		lost |= !side->unclaimed && side->transport == PULC__WIRE__TRANSPORT__TRANSPORT_TCP;
	}
	if (side->unclaimed)
		psid_doubt(side->conn);
	if (lost && !side->conn->psid->stopping) {
		if (has_ended(side))
			psid_slot_mark_dead(side->slab, side->slot, exited);
		wake_for_the_lost(side);
	}
	psid_conn_tidy(side->conn);
}

/* A client without a channel is one for the sake of what it holds only. */
static void release(struct psid_holder *holder)
{
	struct psid_client *client = holder->client;

	psid_holder_free(holder);
	if (client->state == PSID_CLIENT_DETACHED && client->n_holdings == 0)
		psid_doom(client);
}

void psid_side_end(struct psid_side *side)
{
	bool exited = has_exited(LIST_FIRST(&side->holders));
	struct psid_conn *conn = side->conn;
	struct psid_holder *holder;

	while ((holder = LIST_FIRST(&side->holders)))
		release(holder);
	side->unclaimed = false;
	psid_slot_mark_dead(side->slab, side->slot, exited);
	wake(psid_side_other(side));
	psid_conn_tidy(conn);
}

void psid_conns_doubt(struct psid_client *client)
{
	struct psid_holder *holder;

	TAILQ_FOREACH(holder, &client->holdings, by_client)
		psid_doubt(holder->side->conn);
}

bool psid_conns_forget(struct psid_client *client, uint64_t nsec_until)
{
	struct psid_holder *holder;

	while ((holder = TAILQ_FIRST(&client->holdings))) {
		leave(holder, true);
		if (nsec_now() >= nsec_until)
			break;
	}
	return client->n_holdings == 0;
}

/* ---- the beginning --------------------------------------------------------------------------- */

int psid_side_enter(struct psid_side *side, uint64_t cookie)
{
	if (psid_map_insert(&side->conn->psid->cookies, &side->by_cookie,
			    key_of(side->transport, cookie, &side->tuple)) < 0)
		return -ENOMEM;
	side->cookie = cookie;
	side->user = psid_user_ref(side->slab->user);
	LIST_INIT(&side->holders);
	return 0;
}

static int side_init(struct psid_conn *conn, unsigned i, const struct psid_hint *hint,
		     struct psid_client *peer)
{
	struct psid_side *side = &conn->sides[i];
	struct psid_pair *pair = psid_pair_get(hint->client, peer);
	int r;

	if (!pair)
		return -ENOMEM;
	r = psid_slot_new(pair, side);
	if (r != 0)
		return r;
	side->conn = conn;
	side->tuple = hint->tuple;
	side->transport = hint->transport;
	if (psid_side_enter(side, hint->cookie) < 0) {
		psid_slot_free(side, true);
		return -ENOMEM;
	}
	side->token = hint->token;
	side->proven = true;
	return 0;
}

static void side_deinit(struct psid_side *side)
{
	struct psid_holder *holder;

	if (!side->slab)
		return;
	while ((holder = LIST_FIRST(&side->holders)))
		psid_holder_free(holder);
	side_leave(side, EMPTIED, NULL);
}

static int conn_init(struct psid_conn *conn, const struct psid_hint *a, const struct psid_hint *b)
{
	int r;

	r = side_init(conn, 0, a, b->client);
	if (r != 0)
		return r;
	r = side_init(conn, 1, b, a->client);
	if (r != 0)
		return r;
	r = psid_holder_new(&conn->sides[0], a->client);
	if (r < 0)
		return r;
	r = psid_holder_new(&conn->sides[1], b->client);
	if (r < 0)
		return r;
	conn->id = conn->psid->last_conn + 1;
	return psid_map_insert(&conn->psid->conns, &conn->by_id, conn->id);
}

int psid_conn_new(const struct psid_hint *a, const struct psid_hint *b)
{
	struct psid *psid = a->client->psid;
	struct psid_conn *conn = calloc(1, sizeof(*conn));
	int r;

	if (!conn)
		return -ENOMEM;
	conn->psid = psid;
	r = conn_init(conn, a, b);
	if (r == 0) {
		r = psid_upgrade_send(conn);
		if (r != 0)
			psid_map_remove(&psid->conns, &conn->by_id);
	}
	if (r != 0) {
		side_deinit(&conn->sides[0]);
		side_deinit(&conn->sides[1]);
		free(conn);
		return r;
	}
	psid->last_conn++;
	psid->counts.n_upgrades++;
	return 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct psid_holder *holder_of(struct psid_client *client, uint64_t number)
{
	struct psid_side *side = find(client->psid, number);

	return side ? psid_holder_find(side, client) : NULL;
}

int psid_conn_closed(struct psid_client *client, uint64_t number)
{
	struct psid_holder *holder = holder_of(client, number);

	if (holder)
		leave(holder, false);
	return 0;
}

int psid_conn_note(struct psid_client *client, uint64_t number, Pulc__Wire__Reason reason)
{
	struct psid_holder *holder = holder_of(client, number);

	if (holder)
		holder->side->reason = reason;
	return 0;
}

/*
 * A process that has lost its channel, or has become another program by exec, is a client again:
 * what the new one holds the old one does not.
 */
static void forget_forerunner(struct psid_side *side, const struct psid_client *client)
{
	struct psid_holder *holder;

	LIST_FOREACH(holder, &side->holders, by_side)
		if (holder->client != client && holder->client->pid == client->pid) {
			release(holder);
			return;
		}
}

int psid_side_claim(struct psid_side *side, struct psid_client *client)
{
	int r;

	if (psid_holder_find(side, client))
		return 0;
	r = psid_holder_new(side, client);
	if (r < 0)
		return r;
	forget_forerunner(side, client);
	side->unclaimed = false;
	return 0;
}

void psid_side_disclaim(struct psid_side *side, struct psid_client *client)
{
	struct psid_holder *holder = psid_holder_find(side, client);

	if (holder)
		leave(holder, false);
}

int psid_conn_adopt(struct psid_client *client, const Pulc__Wire__Adopt *msg)
{
	struct psid_client *parent = psid_client_find(client->psid, msg->parent);

	if (msg->n_conns > WIRE_ADOPT_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < msg->n_conns; i++) {
		struct psid_side *side = find(client->psid, msg->conns[i]);

		/* Who does not say whose child he is gets the end that counts more than we know. */
		if (side && side->user == client->user &&
		    (parent ? side->unclaimed || psid_holder_find(side, parent)
			    : counts_others(side)))
			(void)psid_side_claim(side, client);
	}
	return 0;
}
