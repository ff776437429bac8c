/*
 * Doubts. Of most sides psid knows who holds them, by a channel and a pidfd. It does not when
 *   - holders are counted in the side's memory that never spoke up (a forked child, a lost count),
 *   - the process lives but has lost its channel: it may be another program by now (exec),
 *   - the connection is half: the other side's holder has not come back to this psid.
 * The kernel knows whether any descriptor of the socket is left: sock_diag names no inode when
 * there is none. So, while there is anything to doubt, it is asked once a second; of more than
 * N_LOOKS, about so many ten times a second, until it was asked about all. Nothing is ever
 * concluded from time that has passed.
 *
 * A socket that was reset, too, is unknown to sock_diag, be it that the process still has it, as
 * after exec. If it has not received all that lies in the other side's ring the side stays, for the
 * program that the process has become, until that has ended. If it has, that program needs no rings
 * (ended.c).
 *
 * A side without a descriptor has ended and is marked SHM_DEAD, as if its last holder had died
 * under our eyes. The memory of an absent side is not ours to mark: those who hold the other side
 * are told by message.
 */
#include "doubt.h"

#include "conn.h"
#include "macros.h"
#include "proof.h"
#include "psid.h"

#define MSEC_LOOK 1000
/* A look is some questions to the kernel, ten microseconds or more: so many in a turn of the loop,
 * the next ones a little later. */
#define N_LOOKS 100u
#define MSEC_NEXT 100

static bool is_watched(const struct psid_side *side)
{
	const struct psid_holder *holder;

	LIST_FOREACH(holder, &side->holders, by_side)
		if (holder->client->state != PSID_CLIENT_DETACHED)
			return true;
	return false;
}

static bool is_doubtful(const struct psid_side *side)
{
	return side->slab && !is_watched(side) && (side->n_holders > 0 || side->unclaimed);
}

static void tell_dead(struct psid_conn *conn, const struct psid_side *side)
{
	Pulc__Wire__Dead dead = PULC__WIRE__DEAD__INIT;
	PSID_MESSAGE(msg, DEAD, dead) = &dead;
	struct psid_holder *holder;

	dead.conn = psid_side_number(side);
	LIST_FOREACH(holder, &side->holders, by_side)
		(void)psid_client_send(holder->client, &msg, NULL, 0);
	conn->told_dead = true;
}

/* By a process that lives, and may be another program by now. */
static bool may_be_read(const struct psid_side *side)
{
	return side->n_holders > 0 && psid_side_has_more(side) &&
	       psid_proof_is_unknown(side->conn->psid, &side->tuple, side->cookie);
}

/* The other end of a half connection. */
static void look_for_absent(struct psid_conn *conn)
{
	const struct psid_side *side = conn->sides[0].slab ? &conn->sides[0] : &conn->sides[1];
	struct psid_tuple mirror = psid_tuple_mirror(&side->tuple);

	if (!conn->told_dead && !psid_proof_is_held(conn->psid, &mirror, PSID_ANY_COOKIE))
		tell_dead(conn, side);
}

/* May free it. */
static void look_at(struct psid_conn *conn)
{
	for (unsigned i = 0; i < 2; i++) {
		struct psid_side *side = &conn->sides[i];

		if (!is_doubtful(side))
			continue;
		psid_doubt(conn); /* before it may go */
		if (!psid_side_is_held(side) && !may_be_read(side)) {
			psid_side_end(side);
			return;
		}
	}
	if (!psid_conn_is_half(conn) || conn->told_dead)
		return;
	look_for_absent(conn);
	psid_doubt(conn);
}

static void on_look(uv_timer_t *timer);

static void look_in(struct psid *psid, unsigned msec)
{
	(void)uv_timer_start(&psid->doubt_timer, on_look, msec, 0);
}

static void on_look(uv_timer_t *timer)
{
	struct psid *psid = CONTAINER_OF(timer, struct psid, doubt_timer);
	struct psid_conn *conn;

	if (psid->n_looks == 0)
		psid->n_looks = psid->n_doubts;
	for (size_t n = MIN(psid->n_looks, N_LOOKS); n > 0 && (conn = TAILQ_FIRST(&psid->doubts));
	     n--) {
		psid->n_looks--;
		psid_doubt_forget(conn);
		look_at(conn);
	}
	psid->n_looks = MIN(psid->n_looks, psid->n_doubts);
	if (psid->n_doubts > 0)
		look_in(psid, psid->n_looks > 0 ? MSEC_NEXT : MSEC_LOOK);
}

int psid_doubt_start(struct psid *psid)
{
	TAILQ_INIT(&psid->doubts);
	return uv_timer_init(&psid->loop, &psid->doubt_timer);
}

void psid_doubt_close(struct psid *psid)
{
	uv_close((uv_handle_t *)&psid->doubt_timer, NULL);
}

void psid_doubt(struct psid_conn *conn)
{
	struct psid *psid = conn->psid;

	if (conn->doubted || psid->stopping)
		return;
	conn->doubted = true;
	TAILQ_INSERT_TAIL(&psid->doubts, conn, doubt_link);
	psid->n_doubts++;
	if (!uv_is_active((uv_handle_t *)&psid->doubt_timer))
		look_in(psid, MSEC_LOOK);
}

void psid_doubt_forget(struct psid_conn *conn)
{
	if (!conn->doubted)
		return;
	conn->doubted = false;
	TAILQ_REMOVE(&conn->psid->doubts, conn, doubt_link);
	conn->psid->n_doubts--;
}
