/*
 * pulc/pulc.h: ports that pass from one process to another; and finding again what has passed.
 *
 * The giver says to psid for which process the port is, the taker that it wants it; each then
 * waits, and what psid says of it comes as news, in order with that of links and ports. Between
 * them go the messages that are unread (protocols/port_give.c, port_take.c). The port is the
 * giver's until psid has heard from the taker that it has everything, and the giver keeps
 * everything until psid says so: then it is the taker's. Whoever wants no more tells psid, whose
 * answer says how it has ended, and waits for what psid has said before that. When there is no psid
 * any more to say whose it is, the taker does.
 *
 * Whoever sends to the port, or receives from it, finds out by the links (protocols/port_move.c)
 * and asks psid where it is now, as for any port: at the next call that needs it, or in progress
 * for those who wait.
 *
 * Source: pulc-1998, 4.6.2 (ports outlive the processes that use them); all-or-nothing by one who
 * decides, Gray 1978 (two-phase commit).
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "macros.h"
#include "native.h"
#include "step.h"

/* Whoever waits looks that often whether there still is the psid that it waits for. */
#define NSEC_LOOK NSEC_PER_SEC

/* One call that gives or takes. */
struct moving {
	LIST_ENTRY(moving) link;
	bool is_take;
	uint32_t port; /* 0: any */
	struct pulc_port *p;
	struct native_move m; /* what psid has said, */
	bool said;	      /* if it has */
	bool begun;
	uint32_t generation;
};

static LIST_HEAD(, moving) all = LIST_HEAD_INITIALIZER(all);
static unsigned n_takes;

/* Is it the beginning, or the early end, of what this call waits for? */
static bool is_begun(const struct moving *o, const struct native_move *m)
{
	if (o->port && o->port != m->port)
		return false;
	if (o->is_take)
		return m->step == PULC__WIRE__MOVE_STEP__MOVE_TAKE ||
		       (m->step == PULC__WIRE__MOVE_STEP__MOVE_OFF && o->port);
	return m->step != PULC__WIRE__MOVE_STEP__MOVE_TAKE;
}

void native_move_said(const struct native_move *m)
{
	struct moving *o;

	LIST_FOREACH(o, &all, link) {
		if (o->said ? o->m.id != m->id : !is_begun(o, m))
			continue;
		o->m = *m;
		o->said = true;
		protocol_count_event();
	}
}

static bool has_ended(const struct moving *o, Pulc__Wire__MoveStep step)
{
	return o->said && o->m.step == step;
}

static bool psid_is_lost(const struct moving *o)
{
	return client_channel() < 0 || client_generation() != o->generation;
}

/* Makes progress until step() says how it ended. That; -ETIMEDOUT; -EINTR; -ENOTCONN. */
static int go_through(struct moving *o, int (*step)(void *arg), uint64_t deadline)
{
	uint64_t until;
	int e;

	do {
		until = nsec_now() + NSEC_LOOK;
		e = native_look_until(step, o, MIN(until, deadline));
		if (e == -ETIMEDOUT && psid_is_lost(o))
			return -ENOTCONN;
	} while (e == -ETIMEDOUT && until < deadline);
	return e;
}

static uint64_t deadline_of(int msec)
{
	return msec < 0 ? UINT64_MAX : nsec_now() + (uint64_t)msec * NSEC_PER_MSEC;
}

/* ---- giving ---------------------------------------------------------------------------------- */

/* pid 0: it is ours again. */
static int say_give(uint32_t port, pid_t pid)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__PortGive give = PULC__WIRE__PORT_GIVE__INIT;
	struct native_reply reply;

	give.request = native_request();
	give.port = port;
	give.pid = (uint32_t)pid;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_PORT_GIVE;
	msg.port_give = &give;
	return native_ask(&msg, give.request, &reply);
}

static int begin_give(struct moving *o)
{
	struct peer *to = native_peer(o->m.client);
	int e;

	if (o->begun)
		return 0;
	if (!to)
		return -ECONNRESET;
	o->begun = true;
	STEP(GIVE_BEGUN);
	e = port_give_begin(o->p->port, to, o->m.id);
	if (e == 0)
		guest_port_hold(o->p->port);
	return e;
}

/* 0: it is the taker's; -EAGAIN; or why it will not be. */
static int step_give(void *arg)
{
	struct moving *o = arg;
	struct peer *peer, *self = native_self();
	int e;

	if (has_ended(o, PULC__WIRE__MOVE_STEP__MOVE_DONE))
		return 0;
	if (has_ended(o, PULC__WIRE__MOVE_STEP__MOVE_OFF))
		return -ECONNRESET;
	if (!o->said)
		return -EAGAIN;
	e = self ? begin_give(o) : -ENOMEM;
	if (e < 0)
		return e;
	TAILQ_FOREACH(peer, native_peers(), link_all)
		if (peer->link && port_give_ask(o->p->port, peer) < 0 && peer->link)
			return -EAGAIN;
	if (port_give_ask(o->p->port, self) < 0 || !guest_port_rests(o->p->port))
		return -EAGAIN;
	e = port_give_on(o->p->port);
	return e < 0 && e != -EAGAIN ? -ECONNRESET : -EAGAIN;
}

static int step_settle(void *arg)
{
	const struct moving *o = arg;

	return port_give_settle(o->p->port);
}

/* Psid does not say whose it is. Whoever asks is not let go before the taker has answered or has
 * ended, for else it might be nobody's, or both's. */
static int settle(struct moving *o)
{
	int e;

	do
		e = native_look_until(step_settle, o, UINT64_MAX);
	while (e == -EINTR);
	return e;
}

/* Something has gone wrong, or took too long. 0: psid had said before that it is the taker's. */
static int give_up(struct moving *o, int e)
{
	int said = psid_is_lost(o) ? -ENOTCONN : say_give(o->p->number, 0);

	native_take_news();
	if (has_ended(o, PULC__WIRE__MOVE_STEP__MOVE_DONE))
		return 0;
	if (said == 0 || !port_give_is_carried(o->p->port))
		return e;
	return settle(o) == 0 ? 0 : e;
}

static int give(struct pulc_port *p, pid_t pid, uint64_t deadline)
{
	struct moving o = { .port = p->number, .p = p };
	int e;

	LIST_INSERT_HEAD(&all, &o, link);
	e = say_give(p->number, pid);
	STEP(GIVE_SAID);
	o.generation = client_generation();
	if (e == 0) {
		e = go_through(&o, step_give, deadline);
		if (e < 0)
			e = give_up(&o, e);
	}
	LIST_REMOVE(&o, link);
	if (e == 0)
		STEP(GIVE_DONE);
	if (e == 0)
		guest_port_moved(p->port);
	if (e < 0 && p->port->give)
		port_give_off(p->port);
	else if (e == 0 && p->port->give)
		port_give_done(p->port);
	/* The taker has not waited for what it was to get. */
	else if (e == 0)
		port_forget(p->port);
	return e;
}

PULC_EXPORT int pulc_port_give(pulc_port *p, pid_t pid, int msec_timeout)
{
	int e;

	if (pid <= 0 || pid == getpid())
		return -EINVAL;
	e = native_enter(p);
	if (e < 0)
		return e;
	if (p->n_inside > 1) {
		native_leave(p);
		return -EBUSY;
	}
	p->is_moving = true;
	e = give(p, pid, deadline_of(msec_timeout));
	p->is_moving = false;
	if (e == 0) {
		native_port_unlist(p);
		native_unlock();
		STEP(GIVE_FREED);
		free(p);
		return 0;
	}
	native_leave(p);
	return e;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static int say_take(Pulc__Wire__TakeStep step, uint32_t port, uint64_t move)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__PortTake take = PULC__WIRE__PORT_TAKE__INIT;
	struct native_reply reply;

	take.request = native_request();
	take.step = step;
	take.port = port;
	take.move = move;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_PORT_TAKE;
	msg.port_take = &take;
	return native_ask(&msg, take.request, &reply);
}

static int begin_take(struct moving *o)
{
	struct peer *from = native_peer(o->m.client);
	int e;

	if (o->begun)
		return 0;
	if (!from)
		return -ECONNRESET;
	o->begun = true;
	STEP(TAKE_BEGUN);
	e = port_take_begin(o->m.port, o->m.kind, from, o->m.id);
	if (e == 0)
		e = say_take(PULC__WIRE__TAKE_STEP__TAKE_READY, o->m.port, o->m.id);
	STEP(TAKE_READY);
	return e == -ENOENT ? -ECONNRESET : e;
}

/* 0: all is here; -EAGAIN; or why it will not be. */
static int step_take(void *arg)
{
	struct moving *o = arg;
	int e;

	if (has_ended(o, PULC__WIRE__MOVE_STEP__MOVE_OFF))
		return -ECONNRESET;
	if (!o->said)
		return -EAGAIN;
	e = begin_take(o);
	if (e < 0)
		return e == -EAGAIN ? -ECONNRESET : e;
	if (port_take_is_lost())
		return -ECONNRESET;
	return port_take_is_complete() ? 0 : -EAGAIN;
}

/* psid's word that it is ours. */
static int claim(const struct moving *o)
{
	int e;

	do
		e = say_take(PULC__WIRE__TAKE_STEP__TAKE_DONE, o->m.port, o->m.id);
	while (e == -ETIMEDOUT && !psid_is_lost(o));
	return e == -ENOENT ? -ECONNRESET : e;
}

static int take(struct moving *o, uint64_t deadline, struct port **ret_port)
{
	int e = say_take(PULC__WIRE__TAKE_STEP__TAKE_WANT, o->port, 0);

	STEP(TAKE_SAID);
	o->generation = client_generation();
	if (e == 0)
		e = go_through(o, step_take, deadline);
	if (e == 0)
		e = claim(o);
	if (e == 0) {
		STEP(TAKE_CLAIMED);
		*ret_port = port_take_end();
		return 0;
	}
	if (!psid_is_lost(o)) {
		(void)say_take(PULC__WIRE__TAKE_STEP__TAKE_OFF, 0, 0);
		native_take_news();
	}
	port_take_forget();
	return e;
}

/* Under the lock. */
static int take_one(uint32_t number, int msec_timeout, struct port **ret_port)
{
	struct moving o = { .is_take = true, .port = number };
	int e;

	if (n_takes)
		return -EBUSY;
	e = native_attach();
	if (e < 0)
		return e;
	n_takes++;
	LIST_INSERT_HEAD(&all, &o, link);
	e = take(&o, deadline_of(msec_timeout), ret_port);
	LIST_REMOVE(&o, link);
	n_takes--;
	return e;
}

static void own(struct pulc_port *p, struct port *port)
{
	p->port = port;
	p->number = port->number;
	p->key = port->key;
	p->n_inside = 0;
	LIST_INIT(&p->ops);
	STEP(TAKE_OWNED);
}

PULC_EXPORT int pulc_port_take(uint32_t number, int msec_timeout, pulc_port **ret_port)
{
	struct pulc_port *p = calloc(1, sizeof(*p));
	struct port *port;
	int e;

	if (!p)
		return -ENOMEM;
	e = native_lock() ? 0 : -EDEADLK;
	if (e == 0) {
		e = take_one(number, msec_timeout, &port);
		if (e == 0) {
			own(p, port);
			native_port_list(p);
			*ret_port = p;
		}
		native_unlock();
	}
	if (e < 0)
		free(p);
	return e;
}

static int inherit(struct pulc_port *p, int msec_timeout)
{
	struct port *port;
	int e;

	p->is_moving = true;
	e = take_one(p->number, msec_timeout, &port);
	p->is_moving = false;
	if (e == 0)
		own(p, port);
	return e;
}

PULC_EXPORT int pulc_port_inherit(pulc_port *p, int msec_timeout)
{
	int e;

	if (!native_lock())
		return -EDEADLK;
	if (p->port)
		e = -EINVAL;
	else if (p->n_inside || p->is_moving)
		e = -EBUSY;
	else
		e = inherit(p, msec_timeout);
	native_unlock();
	return e;
}

/* ---- finding again --------------------------------------------------------------------------- */

/* 0; -EINPROGRESS: later; or why it is not to be had any more. */
static int find(uint32_t node, uint32_t number, struct peer **ret_peer)
{
	enum port_kind kind;
	int e = native_find_peer_now(node, number, ret_peer, &kind);

	if (e == -EINPROGRESS) {
		port_any_elsewhere = true;
		protocol_set_unfinished(true);
	}
	/* Its process has ended before it could pass the port on, or since; or there is no psid to
	 * be asked. */
	return e == -ECONNREFUSED || e == -ENOENT || e == -ENOTCONN ? -ECONNRESET : e;
}

static void find_out(struct port_out *out, void *arg)
{
	struct peer *peer;
	int e;

	(void)arg;
	if (out->error != PORT_ELSEWHERE || !out->n_inside)
		return;
	e = find(out->peer->node, out->to, &peer);
	if (e == 0) {
		port_out_rebind(out, peer);
		STEP(MOVE_FOUND);
	}
	if (e < 0 && e != -EINPROGRESS)
		out->error = e;
	if (e != -EINPROGRESS)
		protocol_count_event();
}

/* Somebody waits to hear from this one. */
static void find_source(struct port *port, struct port_request *r)
{
	struct peer *peer;
	int e;

	if (!r->from || port_in_of(port, r->from_node, r->from))
		return;
	e = find(r->from_node, r->from, &peer);
	if (e == 0)
		e = port_in_new(port, peer, r->from) ? 0 : -ENOMEM;
	if (e == 0 || e == -EINPROGRESS)
		return;
	r->error = e;
	r->complete = true;
	port_take_off(port, r);
	protocol_count_event();
}

void native_find_elsewhere(void)
{
	struct port_request *r, *next;
	struct port *port;

	port_any_elsewhere = false;
	port_each_out(find_out, NULL);
	for (port = port_next(NULL); port; port = port_next(port))
		for (r = TAILQ_FIRST(&port->posted); r; r = next) {
			next = TAILQ_NEXT(r, link);
			find_source(port, r);
		}
}

void native_move_forked(void)
{
	LIST_INIT(&all);
	n_takes = 0;
	port_moves_forked();
	port_take_forked();
}
