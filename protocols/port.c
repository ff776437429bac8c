/*
 * Ports, their sources and their destinations.
 *
 * A port knows each source that has sent to it and each destination that it has sent to, by node
 * and port number; a psid gives a number to one process at a time. Either is bound to the peer that
 * had the number then: when that is gone the entry says so once, and is forgotten.
 *
 * Addressed by (to, from) in every frame, an entry is found by the last frame's word first:
 * fragments of a message and messages of a conversation follow each other.
 *
 * Numbers of ports are used again while frames that name them are on their way. So the way from a
 * source to a destination has a life, which the source numbers and begins (BEGIN), before any data.
 * Data that comes without belongs to a way that has ended here, and is dropped; and what a
 * destination says of a way, names its life, and is about no other one.
 *
 * Source: pulc-1998, 4.5.2 (ports and their queues; destination prediction), 4.5.4 (Port-M/S/D).
 */
#include "pairs.h"
#include "port.h"
#include "state.h"

#include <stdlib.h>
#include <string.h>

#include "macros.h"

#define N_PORT_BUCKETS 256u
/* Ended entries are kept, to be told of, until there are so many in a port. */
#define N_REAP 64u

static LARGE LIST_HEAD(port_bucket, port) ports[N_PORT_BUCKETS];
static struct port_bucket apart = LIST_HEAD_INITIALIZER(apart);

struct port *port_find(uint32_t number)
{
	struct port *port;

	LIST_FOREACH(port, &ports[number % N_PORT_BUCKETS], link)
		if (port->number == number)
			return port;
	return NULL;
}

struct port *port_next(const struct port *port)
{
	struct port *next = port ? LIST_NEXT(port, link) : NULL;
	unsigned i = port ? port->number % N_PORT_BUCKETS + 1 : 0;

	while (!next && i < N_PORT_BUCKETS)
		next = LIST_FIRST(&ports[i++]);
	return next;
}

struct port *port_new_apart(uint32_t number, enum port_kind kind)
{
	struct port *port = calloc(1, sizeof(*port));

	if (!port)
		return NULL;
	port->number = number;
	port->kind = kind;
	port->shown = shm_state_port_add(number);
	TAILQ_INIT(&port->messages);
	TAILQ_INIT(&port->posted);
	LIST_INSERT_HEAD(&apart, port, link);
	return port;
}

void port_enter(struct port *port)
{
	LIST_REMOVE(port, link);
	LIST_INSERT_HEAD(&ports[port->number % N_PORT_BUCKETS], port, link);
}

struct port *port_new(uint32_t number, enum port_kind kind)
{
	struct port *port = port_new_apart(number, kind);

	if (port)
		port_enter(port);
	return port;
}

/* left: of peer_send_later. */
static int send_control(struct peer *peer, struct hal_frame f, const void *payload, uint32_t *left)
{
	struct iovec iov = { .iov_base = (void *)payload, .iov_len = f.len };

	f.protocol = PROTOCOL_PORT;
	return peer_send_later(peer, &f, &iov, f.len > 0, left);
}

static struct hal_frame control_of(uint64_t word, unsigned kind)
{
	return (struct hal_frame){
		.word = word,
		.len = kind >= PORT_MOVE ? sizeof(uint64_t) : 0,
		.kind = (uint16_t)kind,
	};
}

int port_control(struct peer *peer, uint64_t word, unsigned kind, uint64_t value)
{
	return send_control(peer, control_of(word, kind), &value, NULL);
}

/* These are not lost for being too many: no more ways, messages or hand-overs can come while so
 * many wait. */
static uint32_t n_owed;

int port_control_surely(struct peer *peer, uint64_t word, unsigned kind, uint64_t value)
{
	return send_control(peer, control_of(word, kind), &value, &n_owed);
}

static struct hal_frame about_of(uint64_t word, unsigned kind)
{
	return (struct hal_frame){
		.word = word,
		.len = sizeof(struct port_about),
		.kind = (uint16_t)kind,
	};
}

int port_say(struct peer *peer, uint64_t word, unsigned kind, struct port_about about)
{
	return send_control(peer, about_of(word, kind), &about, NULL);
}

static uint64_t word_back(const struct port_in *in)
{
	return (uint64_t)in->from << 32 | in->port->number;
}

int port_say_back(const struct port_in *in, unsigned kind, uint64_t value)
{
	return port_say(in->peer, word_back(in), kind, (struct port_about){ in->life, value });
}

int port_say_back_surely(const struct port_in *in, unsigned kind, uint64_t value)
{
	const struct port_about about = { in->life, value };

	return send_control(in->peer, about_of(word_back(in), kind), &about, &n_owed);
}

/* ---- destinations ---------------------------------------------------------------------------- */

static uint64_t word_to(const struct port_out *out)
{
	return (uint64_t)out->to << 32 | out->port->number;
}

struct port_out *port_out_search(struct port *port, uint32_t node, uint32_t to)
{
	struct port_out *out;

	LIST_FOREACH(out, &port->outs[to % PORT_N_BUCKETS], link)
		if (out->to == to && out->peer->node == node) {
			port->out_last = out;
			return out;
		}
	return NULL;
}

/* Nothing was sent to it yet. */
static void begin_anew(struct port_out *out)
{
	static uint64_t lives;

	out->life = ++lives;
	out->era = peer_era(out->peer, out->to);
	out->wants = out->may = 0;
	out->held = PORT_HELD_NEW;
	if (port_is_moving(out->peer, out->to))
		out->held |= PORT_HELD_MOVE;
}

static bool is_held(const struct port_out *out)
{
	return (out->held & PORT_HELD_BUDGET) || out->no_long;
}

static void show(const struct port_out *out)
{
	shm_pair_set(out->shown, 1,
		     (out->waits ? SHM_PAIR_WAITS : 0) | (is_held(out) ? SHM_PAIR_HELD : 0));
}

void port_out_hold(struct port_out *out, enum port_hold what)
{
	out->peer->n_holds -= is_held(out);
	out->held &= ~PORT_HELD_BUDGET;
	if (what == PORT_HOLD_ALL)
		out->held |= PORT_HELD_BUDGET;
	out->no_long = what != PORT_HOLD_NONE;
	out->peer->n_holds += is_held(out);
	if (what != PORT_HOLD_ALL)
		port_out_wait(out, false);
	show(out);
}

void port_out_wait(struct port_out *out, bool waits)
{
	struct port *port = out->port;

	if (out->waits == waits)
		return;
	out->waits = waits;
	port->n_waits += waits ? 1 : -1u;
	shm_state_port_set(port->shown, SHM_PORT_WAITS, port->n_waits);
	show(out);
}

void port_out_free(struct port_out *out)
{
	port_out_hold(out, PORT_HOLD_NONE);
	port_credit_end(out);
	shm_pair_remove(out->shown);
	if (out->port->out_last == out)
		out->port->out_last = NULL;
	while (!TAILQ_EMPTY(&out->queue))
		port_send_unqueue(out, TAILQ_FIRST(&out->queue));
	if (out->n_waiting)
		peer_forget_counter(out->peer, &out->n_waiting);
	out->port->n_outs--;
	LIST_REMOVE(out, link);
	peer_unref(out->peer);
	free(out);
}

void port_each_out(void (*f)(struct port_out *out, void *arg), void *arg)
{
	struct port_out *out, *next;
	struct port *port;

	for (port = port_next(NULL); port; port = port_next(port))
		for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
			for (out = LIST_FIRST(&port->outs[i]); out; out = next) {
				next = LIST_NEXT(out, link);
				f(out, arg);
			}
}

void port_out_rebind(struct port_out *out, struct peer *peer)
{
	port_out_hold(out, PORT_HOLD_NONE);
	port_credit_end(out);
	if (out->n_waiting)
		peer_forget_counter(out->peer, &out->n_waiting);
	peer_unref(out->peer);
	out->peer = peer_ref(peer);
	out->n_waiting = 0;
	out->error = 0;
	out->sent = out->freed = 0;
	begin_anew(out);
	port_out_wait(out, false);
	shm_pair_rebind(out->shown, peer->client);
	protocol_count_event();
}

static void reap_outs(struct port *port)
{
	struct port_out *out, *next;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
		for (out = LIST_FIRST(&port->outs[i]); out; out = next) {
			next = LIST_NEXT(out, link);
			if (out->error && !out->n_inside)
				port_out_free(out);
		}
}

static void in_free(struct port_in *in)
{
	port_budget_forget(in);
	port_long_forget(in);
	if (!in->ended)
		port_credit_leave(in);
	port_queue_free(in);
	shm_pair_remove(in->shown);
	if (in->peer->in_last == in)
		in->peer->in_last = NULL;
	if (in->port->in_last == in)
		in->port->in_last = NULL;
	in->port->n_ins--;
	LIST_REMOVE(in, link);
	peer_unref(in->peer);
	free(in);
}

/* Who had this number before has ended, and has been read: from now on it is another one. */
static void forget_ended(struct port *port, uint32_t node, uint32_t number)
{
	struct port_in *in, *next;

	for (in = LIST_FIRST(&port->ins[number % PORT_N_BUCKETS]); in; in = next) {
		next = LIST_NEXT(in, link);
		if (in->from == number && in->peer->node == node && in->ended && !in->n_borrowed &&
		    TAILQ_EMPTY(&in->queue))
			in_free(in);
	}
}

struct port_out *port_out_new(struct port *port, uint32_t to, enum port_kind kind,
			      struct peer *peer)
{
	struct port_out *out = calloc(1, sizeof(*out));

	if (!out)
		return NULL;
	if (port->n_outs % N_REAP == N_REAP - 1)
		reap_outs(port);
	forget_ended(port, peer->node, to);
	out->port = port;
	out->peer = peer_ref(peer);
	out->to = to;
	out->kind = kind;
	begin_anew(out);
	out->shown = shm_pair_add(SHM_PAIR_TO, peer->client, (uint64_t)port->number << 32 | to);
	TAILQ_INIT(&out->queue);
	LIST_INSERT_HEAD(&port->outs[to % PORT_N_BUCKETS], out, link);
	port->n_outs++;
	return out;
}

/* ---- sources --------------------------------------------------------------------------------- */

struct port_in *port_in_find(const struct port *port, const struct peer *peer, uint32_t from)
{
	struct port_in *in;

	LIST_FOREACH(in, &port->ins[from % PORT_N_BUCKETS], link)
		if (in->from == from && in->peer == peer && !in->ended)
			return in;
	return NULL;
}

/* Of two that had the same number, the older one second. */
static bool is_better(const struct port_in *older, const struct port_in *newer)
{
	return !TAILQ_EMPTY(&older->queue) || (newer->ended && TAILQ_EMPTY(&newer->queue));
}

struct port_in *port_in_of(const struct port *port, uint32_t node, uint32_t from)
{
	struct port_in *in, *best = NULL;

	LIST_FOREACH(in, &port->ins[from % PORT_N_BUCKETS], link)
		if (in->from == from && in->peer->node == node &&
		    !(in->ended == PORT_ELSEWHERE && TAILQ_EMPTY(&in->queue)) &&
		    (!best || is_better(in, best)))
			best = in;
	return best;
}

static void reap_ins(struct port *port)
{
	struct port_in *in, *next;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
		for (in = LIST_FIRST(&port->ins[i]); in; in = next) {
			next = LIST_NEXT(in, link);
			if (in->ended && !in->n_borrowed && TAILQ_EMPTY(&in->queue))
				in_free(in);
		}
}

struct port_in *port_in_new(struct port *port, struct peer *peer, uint32_t from)
{
	struct port_in *in;

	if (port->n_ins % N_REAP == N_REAP - 1)
		reap_ins(port);
	in = calloc(1, sizeof(*in));
	if (!in)
		return NULL;
	in->port = port;
	in->peer = peer_ref(peer);
	in->era = peer_era(peer, from);
	in->from = from;
	port_credit_step(in);
	in->shown = shm_pair_add(SHM_PAIR_FROM, peer->client, (uint64_t)port->number << 32 | from);
	TAILQ_INIT(&in->queue);
	LIST_INSERT_HEAD(&port->ins[from % PORT_N_BUCKETS], in, link);
	port->n_ins++;
	return in;
}

/* A message half-way will never be whole; whoever waits for it waits for another one. */
void port_in_end(struct port_in *in, int why)
{
	struct port_request *r = in->direct;

	if (in->ended)
		return;
	in->ended = why;
	port_credit_leave(in);
	protocol_count_event();
	port_queue_drop_partial(in);
	port_long_forget(in);
	port_long_move_on();
	port_budget_forget(in);
	port_budget_leave(in->peer, in->size_unread);
	in->direct = NULL;
	if (r) {
		r->bound = NULL;
		r->done = 0;
		port_repost(in->port, r);
	}
	port_serve_posted(in->port);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void say_closed(const struct port_out *out)
{
	if (!out->error)
		(void)port_control_surely(out->peer, word_to(out), PORT_CLOSED, 0);
}

static void say_refused(const struct port_in *in)
{
	if (!in->ended && in->life)
		(void)port_say_back_surely(in, PORT_REFUSED, 0);
}

static void tell_all(struct port *port)
{
	struct port_out *out;
	struct port_in *in;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++) {
		LIST_FOREACH(out, &port->outs[i], link)
			say_closed(out);
		LIST_FOREACH(in, &port->ins[i], link)
			say_refused(in);
	}
}

void port_say_over(struct peer *peer, uint32_t number)
{
	if (peer->link && !(peer->link->caps.flags & HAL_PRESENT))
		(void)port_control_surely(peer, (uint64_t)number << 32, PORT_OVER, 0);
}

void port_forget(struct port *port)
{
	struct port_out *out;
	struct port_in *in;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++) {
		while ((out = LIST_FIRST(&port->outs[i])))
			port_out_free(out);
		while ((in = LIST_FIRST(&port->ins[i])))
			in_free(in);
	}
	port_give_forget(port);
	shm_state_port_remove(port->shown);
	LIST_REMOVE(port, link);
	free(port);
}

void port_free(struct port *port)
{
	tell_all(port);
	port_forget(port);
	port_long_move_on();
}

static void peer_gone(struct port *port, struct peer *peer)
{
	struct port_out *out;
	struct port_in *in;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++) {
		LIST_FOREACH(out, &port->outs[i], link)
			if (out->peer == peer)
				port_out_end(out, peer->error);
		LIST_FOREACH(in, &port->ins[i], link)
			if (in->peer == peer)
				port_in_end(in, peer->error);
	}
}

static void gone(struct peer *peer, unsigned number)
{
	struct port *port;

	(void)number;
	peer->in_last = NULL;
	port_moves_end(peer, 0, UINT64_MAX);
	port_take_told(peer, 0);
	for (port = port_next(NULL); port; port = port_next(port))
		peer_gone(port, peer);
}

static void port_closed(struct port *port, struct peer *peer, const struct port_end *end)
{
	struct port_in *in = port_in_find(port, peer, end->port);
	struct port_out *out;

	/* Nobody is there to begin what has not begun. */
	if (in && (!in->life || in->era < end->over))
		port_in_end(in, -EPIPE);
	LIST_FOREACH(out, &port->outs[end->port % PORT_N_BUCKETS], link)
		if (out->to == end->port && out->peer == peer)
			port_out_end(out, -ECONNREFUSED);
}

/* Of who has it anew only those have heard nothing who wait for one that never began. A destination
 * may be the new one's by then, if that is of the same kind. */
static void port_reopened(struct port *port, const struct peer *peer, const struct port_end *end)
{
	struct port_in *in = port_in_find(port, peer, end->port);

	if (in && in->era < end->heard && !in->life)
		port_in_end(in, -EPIPE);
}

static void closed(struct peer *peer, const struct port_end *end)
{
	struct port *port;

	port_moves_end(peer, end->port, end->over);
	for (port = port_next(NULL); port; port = port_next(port))
		if (end->is_anew)
			port_reopened(port, peer, end);
		else
			port_closed(port, peer, end);
}

const struct protocol port_protocol = {
	.name = "port",
	.arrived = port_arrived,
	.gone = gone,
	.closed = closed,
};
