/*
 * The hand-over. Both sides are asked for their sockets (Want). While psid holds both it checks
 * them and asks the kernel once more; then it closes both and, when they are really gone,
 * answers: Upgrade to both, or Deny.
 *
 * Each side goes ASKED -> HELD -> CLOSING -> RETURNED -> FINISHED. A descriptor that psid holds
 * keeps the connection open behind its owner's back, so it holds one for a bounded time only, and
 * every client that gave its socket away gets an answer, which is also the acknowledgement that
 * psid has it no more.
 *
 *   both proven           close both, then Upgrade
 *   one wrong             both are closed and denied
 *   one does not come     after HandOverMsec the one held is closed and denied; the other hint
 *                         stays, LATE: it is matched again only after it has kept its promise, so
 *                         that a stopped process costs its peers one hand-over each
 *   a close hangs         after HandOverMsec the other side is denied, the hanging one when it is
 *                         closed
 *   a client goes         its side is as good as finished, the other is denied
 *
 * The sides of a flow of datagrams hand nothing over: each shows that its socket is its own
 * (witness.c) and goes from ASKED to RETURNED at once. Everything else is the same.
 */
#include "handover.h"

#include <errno.h>
#include <stdlib.h>

#include "cleanup.h"
#include "conn.h"
#include "flow.h"
#include "macros.h"
#include "proof.h"
#include "psid.h"
#include "stray.h"
#include "user.h"
#include "witness.h"

enum side_state { ASKED, HELD, CLOSING, RETURNED, FINISHED };

struct side {
	struct psid_handover *handover;
	struct psid_hint *hint; /* NULL: its client has forgotten it */
	struct psid_user *user;
	enum side_state state;
	Pulc__Wire__Reason reason; /* for its Deny: its own fault, or the other's */
	int fd;
	struct psid_witness witness; /* of a flow's side */
};

struct psid_handover {
	struct psid *psid;
	struct psid_deadline deadline;
	struct side sides[2];
	bool failed, expired;
};

static void settle(struct psid_handover *h);

/* The hint is on its own again. Unless it is freed now its client owes us its socket. */
static void let_go(struct side *side)
{
	if (side->hint) {
		side->hint->handover = NULL;
		side->hint->state = PSID_HINT_LATE;
	}
	psid_witness_drop(&side->witness, side->handover->psid);
	side->hint = NULL;
	side->state = FINISHED;
}

static void on_returned(void *arg)
{
	struct side *side = arg;

	side->state = RETURNED;
	settle(side->handover);
}

static void give_back(struct side *side)
{
	side->state = CLOSING;
	psid_user_give_descriptors(side->user, 1); /* it is the closer's */
	psid_close_promised(side->handover->psid, side->user, TAKE_FD(side->fd), on_returned, side);
}

/* A side of a hand-over that has failed: the next step towards its end. */
static void wind_up(struct side *side)
{
	switch (side->state) {
	case ASKED: {
		struct psid_hint *hint = side->hint;

		let_go(side);
		/* Nothing of a flow's is under way to us; who kept us waiting has to hint again. */
		if (hint && psid_flow_is(hint) && !side->handover->expired)
			hint->state = PSID_HINT_WAITING;
		break;
	}
	case HELD:
		give_back(side);
		break;
	case RETURNED: {
		struct psid_hint *hint = side->hint;

		let_go(side);
		if (hint)
			psid_hint_deny(hint, side->reason);
		break;
	}
	case CLOSING:
	case FINISHED:
		break;
	}
}

static void upgrade(struct psid_handover *h)
{
	struct psid_hint *a = h->sides[0].hint, *b = h->sides[1].hint;
	int r;

	r = psid_conn_new(a, b);
	if (r < 0)
		r = r == -EMFILE ? PULC__WIRE__REASON__REASON_DESCRIPTORS
				 : PULC__WIRE__REASON__REASON_NO_MEMORY;
	let_go(&h->sides[0]);
	let_go(&h->sides[1]);
	if (r > 0) {
		psid_hint_deny(a, (Pulc__Wire__Reason)r);
		psid_hint_deny(b, (Pulc__Wire__Reason)r);
		return;
	}
	psid_hint_free(a);
	psid_hint_free(b);
}

static bool both(const struct psid_handover *h, enum side_state state)
{
	return h->sides[0].state == state && h->sides[1].state == state;
}

/* Does what can be done now; frees the hand-over when nothing is left. */
static void settle(struct psid_handover *h)
{
	if (h->failed) {
		wind_up(&h->sides[0]);
		wind_up(&h->sides[1]);
	} else if (both(h, HELD)) {
		give_back(&h->sides[0]);
		give_back(&h->sides[1]);
	} else if (both(h, RETURNED)) {
		upgrade(h);
	}
	if (!both(h, FINISHED))
		return;
	psid_deadline_clear(&h->psid->handovers, &h->deadline);
	(void)psid_user_unref(h->sides[0].user);
	(void)psid_user_unref(h->sides[1].user);
	free(h);
}

static void fail(struct psid_handover *h)
{
	h->failed = true;
	settle(h);
}

static void on_expired(struct psid_deadline *deadline)
{
	struct psid_handover *h = CONTAINER_OF(deadline, struct psid_handover, deadline);

	for (unsigned i = 0; i < 2; i++)
		if (h->sides[i].state == ASKED && h->sides[i].hint)
			h->sides[i].hint->client->n_failures++;
	h->expired = true;
	fail(h);
}

static void ask(struct side *side)
{
	Pulc__Wire__Want want = PULC__WIRE__WANT__INIT;
	PSID_MESSAGE(msg, WANT, want) = &want;

	if (psid_flow_is(side->hint)) {
		/* In vain: then the deadline ends it. */
		(void)psid_witness_ask(&side->witness, side->hint);
		return;
	}
	want.token = side->hint->token;
	(void)psid_client_send(side->hint->client, &msg, NULL, 0);
}

static void side_init(struct side *side, struct psid_handover *h, struct psid_hint *hint)
{
	*side = (struct side){ .handover = h,
			       .hint = hint,
			       .user = psid_user_ref(hint->client->user),
			       .state = ASKED,
			       .reason = PULC__WIRE__REASON__REASON_WAITING_PEER,
			       .fd = -EBADF };
	hint->handover = h;
	hint->state = PSID_HINT_MATCHED;
}

void psid_handover_start(struct psid_hint *a, struct psid_hint *b)
{
	struct psid_handover *h = malloc(sizeof(*h));

	if (!h)
		return; /* they go on waiting */
	*h = (struct psid_handover){ .psid = a->client->psid };
	side_init(&h->sides[0], h, a);
	side_init(&h->sides[1], h, b);
	psid_deadline_set(&h->psid->handovers, &h->deadline);
	ask(&h->sides[0]);
	ask(&h->sides[1]);
}

static struct side *side_of(struct psid_handover *h, const struct psid_hint *hint)
{
	return h->sides[0].hint == hint ? &h->sides[0] : &h->sides[1];
}

bool psid_handover_holds(const struct psid_hint *hint)
{
	return hint->handover && side_of(hint->handover, hint)->state != ASKED;
}

void psid_handover_leave(struct psid_hint *hint)
{
	struct psid_handover *h = hint->handover;
	struct side *side;

	if (!h)
		return;
	side = side_of(h, hint);
	hint->handover = NULL;
	side->hint = NULL;
	fail(h);
}

/* ---- the socket comes ------------------------------------------------------------------------ */

/* Sets the side's reason if the kernel no longer agrees with its hint. */
static bool still_true(struct side *side)
{
	int r = psid_proof_hint(side->hint);

	if (r != 0)
		side->reason = (Pulc__Wire__Reason)r;
	return r == 0;
}

/* A simultaneous open, or a lie of one who has a socket: the byte counts of neither end would be
 * known. */
static bool have_two_directions(struct psid_handover *h)
{
	struct side *a = &h->sides[0], *b = &h->sides[1];

	if (a->hint->connector != b->hint->connector)
		return true;
	a->reason = b->reason = PULC__WIRE__REASON__REASON_COUNTERS;
	return false;
}

static bool take(struct side *side, int fd)
{
	struct psid *psid = side->handover->psid;
	int r = psid_user_has_descriptors(side->user, 1) ? 0
							 : PULC__WIRE__REASON__REASON_DESCRIPTORS;

	if (psid_closer_promise(&psid->closer) < 0) {
		side->reason = PULC__WIRE__REASON__REASON_NO_MEMORY;
		side->state = CLOSING;
		psid_close_foreign(psid, side->user, fd, on_returned, side);
		return false;
	}
	side->fd = fd;
	side->state = HELD;
	side->user->n_descriptors++;
	if (r == 0)
		r = psid_proof_socket(side->hint, fd);
	if (r != 0) {
		side->reason = (Pulc__Wire__Reason)r;
		side->hint->client->n_failures++;
	}
	return r == 0;
}

int psid_handover_socket(struct psid_client *client, uint64_t token, int *fd)
{
	struct psid_hint *hint = psid_hint_find(client, token);
	struct psid_handover *h = hint ? hint->handover : NULL;
	struct side *side = h ? side_of(h, hint) : NULL;
	bool good;

	if (hint && !h) { /* late */
		psid_hint_free(hint);
		return psid_return_stray(client, token, fd,
					 PULC__WIRE__REASON__REASON_WAITING_PEER);
	}
	if (!side || side->state != ASKED)
		return psid_return_stray(client, token, fd, PULC__WIRE__REASON__REASON_STALE);
	if (psid_flow_is(hint)) /* not asked for */
		return -EBADMSG;
	good = take(side, TAKE_FD(*fd));
	if (good && both(h, HELD)) {
		good = still_true(&h->sides[0]);
		good = still_true(&h->sides[1]) && good; /* each side is told its own fault */
		good = good && have_two_directions(h);
	}
	if (good)
		settle(h);
	else
		fail(h);
	return 0;
}

/* ---- a flow's proof comes -------------------------------------------------------------------- */

static bool is_flow_true(struct psid_handover *h)
{
	struct side *a = &h->sides[0], *b = &h->sides[1];
	Pulc__Wire__Reason of_a, of_b;

	psid_flow_check(a->hint, b->hint, &of_a, &of_b);
	a->reason = of_a ? of_a : a->reason;
	b->reason = of_b ? of_b : b->reason;
	return of_a == 0 && of_b == 0;
}

void psid_handover_witness(struct psid_witness *witness, struct psid *psid,
			   const uint8_t address[16], uint16_t port)
{
	struct side *side = CONTAINER_OF(witness, struct side, witness);
	struct psid_handover *h = side->handover;
	bool good;
	int r;

	psid_witness_drop(witness, psid);
	if (side->state != ASKED || !side->hint)
		return;
	side->state = RETURNED;
	r = psid_flow_prove(side->hint, address, port);
	if (r != 0) {
		side->reason = (Pulc__Wire__Reason)r;
		side->hint->client->n_failures++;
	}
	good = r == 0 && (!both(h, RETURNED) || is_flow_true(h));
	if (good)
		settle(h);
	else
		fail(h);
}

void psid_handovers_start(struct psid *psid)
{
	psid_deadlines_init(&psid->handovers, &psid->loop, psid->config->msec_hand_over,
			    on_expired);
}

void psid_handovers_close(struct psid *psid)
{
	psid_deadlines_close(&psid->handovers);
}
