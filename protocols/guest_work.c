/*
 * Shared ports: what an owner does for its guests.
 *
 * A send stands in its destination's queue, a receive in the port's row, as operations of the
 * owner's own do: so they have the same credit and the same order, and who stands first gets the
 * message. A receive has no buffer here. It borrows the message itself from the queue
 * (port_queue.c), which costs a copy less and lets it be given back whole.
 *
 * To be done a destination may have to be looked up at psid, in progress and by libpulc
 * (guest_finder). Sends to it that come behind wait meanwhile.
 */
#include "guest_work.h"

#include "macros.h"
#include "step.h"

/* Bytes of a stream in one answer. */
#define SIZE_STREAM (256u << 10)
/* More turns of progress than a ring has frames for. */
#define N_LOOKS_MAX 1024u

const struct guest_finder *guest_finder;

static void answer(struct guest_request *q, int64_t result)
{
	STEP(HOST_DONE);
	q->result = result;
	q->stage = q->guest ? GUEST_ANSWERS : GUEST_OVER;
	guest_data_free(q);
}

void guest_refuse(struct guest_request *q, int error)
{
	guest_data_free(q);
	q->port = NULL;
	q->result = error;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* It has neither room nor credit. */
static void wait_to_send(struct guest_request *q)
{
	struct port_sending *s = &q->sending;

	if (!(q->flags & GUEST_DONTWAIT)) {
		q->stage = GUEST_QUEUED;
		port_send_queue(q->out, s);
		return;
	}
	if (!s->begun || q->out->kind != PORT_D) {
		answer(q, s->at ? (int64_t)s->at : -EAGAIN);
		return;
	}
	q->stage = GUEST_QUEUED;
	port_send_queue(q->out, s);
	(void)guest_answer_early(q, (int64_t)q->size);
}

static void send(struct guest_request *q)
{
	struct port_sending *s = &q->sending;
	int e;

	if (q->out->kind != PORT_D && q->size == 0) {
		answer(q, 0);
		return;
	}
	if (q->out->kind == PORT_D && (q->flags & GUEST_PART)) {
		answer(q, -EMSGSIZE);
		return;
	}
	e = port_push(q->out, s);
	if (e == -EAGAIN) {
		wait_to_send(q);
		return;
	}
	if (port_is_end(e) && !q->out->n_inside)
		port_out_free(q->out);
	answer(q, e < 0 ? e : (int64_t)q->size);
}

/* One before it waits for the same destination to be found. */
static bool is_behind(const struct guest_request *q)
{
	const struct guest_request *o;

	for (o = TAILQ_FIRST(&guest_requests); o != q; o = TAILQ_NEXT(o, link))
		if (o->is_send && o->stage == GUEST_NEW && o->port == q->port &&
		    o->node == q->node && o->other == q->other)
			return true;
	return false;
}

static void begin_send(struct guest_request *q, bool *waits)
{
	int e;

	if (UNLIKELY(*waits) && is_behind(q))
		return;
	if (!q->sending.begun) {
		q->iov = (struct iovec){ .iov_base = q->data, .iov_len = q->size };
		q->sending =
			(struct port_sending){ .iov = &q->iov, .n = q->size > 0, .size = q->size };
	}
	e = guest_finder->out(q->port, q->node, q->other, &q->out);
	if (e == 0) {
		send(q);
	} else if (e != -EINPROGRESS) {
		answer(q, e);
	} else {
		*waits = true;
		protocol_set_unfinished(true);
	}
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* psid says that nobody has this port: what its owner sent before that is on the links already. */
static bool may_have_come(struct guest_request *q)
{
	uint64_t now = protocol_events_now();

	if (q->n_looks++ && (q->events == now || q->n_looks > N_LOOKS_MAX))
		return false;
	q->events = now;
	protocol_set_unfinished(true);
	return true;
}

/* 0; -EAGAIN: not yet; or why there is no such source. */
static int find_source(struct guest_request *q)
{
	int e;

	if (!q->other || port_in_of(q->port, q->node, q->other))
		return 0;
	if (q->n_looks && may_have_come(q))
		return -EAGAIN;
	e = q->n_looks > 1 ? -ECONNREFUSED : guest_finder->source(q->port, q->node, q->other);
	if (e == -EINPROGRESS) {
		protocol_set_unfinished(true);
		return -EAGAIN;
	}
	return e == -ECONNREFUSED && q->n_looks == 0 && may_have_come(q) ? -EAGAIN : e;
}

static void look(struct guest_request *q)
{
	if (port_look(q->port))
		answer(q, 0);
	else if (q->flags & GUEST_DONTWAIT)
		answer(q, -EAGAIN);
}

static void receive(struct guest_request *q)
{
	struct port_request *r = &q->borrow.request;
	bool whole = q->port->kind == PORT_D;
	int e;

	port_borrow_init(&q->borrow, whole ? PORT_MESSAGE_MAX : MIN(q->size, (size_t)SIZE_STREAM));
	r->from = q->other;
	r->from_node = q->node;
	r->peek = q->flags & GUEST_PEEK;
	e = port_take(q->port, r);
	if (e != -EAGAIN || (q->flags & GUEST_DONTWAIT)) {
		answer(q, e);
	} else if (!r->peek) {
		port_post(q->port, r);
		q->stage = GUEST_POSTED;
	}
}

static void begin_receive(struct guest_request *q)
{
	enum port_kind kind = q->port->kind;
	int e;

	if (q->flags & GUEST_LOOK) {
		look(q);
		return;
	}
	if (kind == PORT_S && q->other) {
		answer(q, -EINVAL);
		return;
	}
	if (kind != PORT_D && q->size == 0) {
		answer(q, 0);
		return;
	}
	e = find_source(q);
	if (e == 0)
		receive(q);
	else if (e != -EAGAIN)
		answer(q, e);
}

/* ---- how far it is --------------------------------------------------------------------------- */

void guest_work(struct guest_request *q, bool *waits)
{
	const struct port_request *r = &q->borrow.request;
	const struct port_sending *s = &q->sending;

	if (q->stage == GUEST_NEW && !q->port->give) {
		if (q->is_send)
			begin_send(q, waits);
		else
			begin_receive(q);
	} else if (q->stage == GUEST_POSTED && r->complete) {
		answer(q, r->error);
	} else if (q->stage == GUEST_QUEUED && s->complete) {
		answer(q, s->error < 0 ? s->error : (int64_t)s->at);
	}
}

static bool is_ready(const struct guest_request *q)
{
	switch (q->stage) {
	case GUEST_NEW:
		return !q->port->give && !(q->flags & (GUEST_PEEK | GUEST_LOOK));
	case GUEST_POSTED:
		return q->borrow.request.complete;
	case GUEST_QUEUED:
		return q->sending.complete;
	default:
		return q->stage == GUEST_ANSWERS;
	}
}

bool guest_any_to_move(void)
{
	const struct guest_request *q;

	TAILQ_FOREACH(q, &guest_requests, link)
		if (is_ready(q))
			return true;
	return false;
}

/* ---- no more --------------------------------------------------------------------------------- */

/* Of those in a queue. */
static bool must_go_on(const struct guest_request *q)
{
	return q->sending.begun && q->out->kind == PORT_D;
}

void guest_stop(struct guest_request *q)
{
	struct port_sending *s = &q->sending;

	if (q->stage == GUEST_QUEUED && !s->complete) {
		if (must_go_on(q)) {
			(void)guest_answer_early(q, (int64_t)q->size);
			return;
		}
		port_send_unqueue(q->out, s);
		q->stage = GUEST_NEW;
	}
	if (q->stage == GUEST_NEW)
		answer(q, s->at ? (int64_t)s->at : -ECANCELED);
}

bool guest_drop(struct guest_request *q)
{
	if (q->stage == GUEST_QUEUED && !q->sending.complete) {
		if (must_go_on(q))
			return false;
		port_send_unqueue(q->out, &q->sending);
	}
	if (q->is_send)
		return true;
	if (q->stage == GUEST_POSTED && !q->borrow.request.complete)
		(void)port_unpost(q->port, &q->borrow.request);
	port_borrow_return(&q->borrow);
	return true;
}

void guest_forget(struct guest_request *q)
{
	if (q->stage == GUEST_QUEUED && !q->sending.complete)
		port_send_unqueue(q->out, &q->sending);
	port_borrow_detach(&q->borrow);
	port_borrow_end(&q->borrow);
}

/* ---- the port -------------------------------------------------------------------------------- */

/* What it has been lent stays so; bytes that are still to come are dropped. */
static void end_one(struct guest_request *q, int error)
{
	struct port_sending *s = &q->sending;

	if (q->stage == GUEST_QUEUED && !s->complete) {
		port_send_unqueue(q->out, s);
		answer(q, s->at ? (int64_t)s->at : error);
	} else if (q->stage == GUEST_QUEUED) {
		answer(q, s->error < 0 ? s->error : (int64_t)s->at);
	} else if (q->stage == GUEST_POSTED && !q->borrow.request.complete) {
		(void)port_unpost(q->port, &q->borrow.request);
		answer(q, error);
	} else if (q->stage == GUEST_POSTED) {
		answer(q, q->borrow.request.error);
	} else if (q->stage == GUEST_NEW) {
		answer(q, error);
	} else if (q->stage == GUEST_COMING) {
		guest_refuse(q, error);
	}
	if (!q->is_send)
		port_borrow_detach(&q->borrow);
	q->port = NULL;
}

static void end_all(struct port *port, int error)
{
	struct guest_request *q;

	TAILQ_FOREACH(q, &guest_requests, link)
		if (q->port == port)
			end_one(q, error);
	guest_requests_move_on();
}

void guest_port_end(struct port *port)
{
	end_all(port, -EPIPE);
}

void guest_port_moved(struct port *port)
{
	end_all(port, PORT_ELSEWHERE);
}

static void hold_one(struct guest_request *q)
{
	if (q->stage == GUEST_POSTED && !q->borrow.request.complete) {
		(void)port_unpost(q->port, &q->borrow.request);
		q->stage = GUEST_NEW;
	} else if (q->stage == GUEST_QUEUED && !q->sending.complete && !must_go_on(q)) {
		port_send_unqueue(q->out, &q->sending);
		q->stage = GUEST_NEW;
	}
}

void guest_port_hold(struct port *port)
{
	struct guest_request *q;

	TAILQ_FOREACH(q, &guest_requests, link)
		if (q->port == port)
			hold_one(q);
}

static bool rests(const struct guest_request *q)
{
	return q->stage != GUEST_POSTED && q->stage != GUEST_QUEUED && !q->borrow.message;
}

bool guest_port_rests(const struct port *port)
{
	const struct guest_request *q;

	TAILQ_FOREACH(q, &guest_requests, link)
		if (q->port == port && !rests(q))
			return false;
	return true;
}
