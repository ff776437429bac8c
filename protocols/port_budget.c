/*
 * What all ports of a process may keep of unread messages, and who waits when it is used up.
 *
 * Messages that nobody waits for move out of the ring into private memory at once: the ring is that
 * of all ports of two processes, and a message that stayed there would hold up the others. Each
 * source is bounded by its credit; this bounds them all. Above nine tenths of the budget a port
 * that keeps more than its share of it holds its sources (HOLD): they finish the datagram that they
 * have begun, and begin no other one. Above the budget every port does so that has something
 * unread. A source is let go (GO) when nothing of its own is unread any more, for it may be the one
 * that the port's reader waits for before it reads the others; and all are when three quarters of
 * the budget are enough.
 *
 * So each source has room for one message. Of a process with many ports that would be as many long
 * datagrams: a port that keeps more than its share lets begin these only whom somebody has asked
 * for, or, while nothing is unread there, anybody. A way that begins while its process has others
 * that wait asks first (PORT_ASKS), as it could not hear in time.
 *
 * Nothing is dropped and nothing is refused, so more than the budget is kept for a while: what was
 * on its way when a source was held, its window and one datagram at most.
 *
 * A way that has ended is not told to wait, and its credit is not given to the next one of its
 * source. What is unread of all such ways of a peer is bounded by the budget, too: above it the
 * peer's next way does not begin, and its frames stay on their link, until some of that is read.
 *
 * Source: pulc-1998, 5.1 (above a high-water mark fragments move to private memory, and then
 * senders are stopped); DESIGN 5.
 */
#include "pairs.h"
#include "port.h"
#include "state.h"

#define SIZE_BUDGET (256ull << 20)
#define PART_SHARE 64u

static uint64_t size_max = SIZE_BUDGET, size_kept;
struct port_ins port_held = LIST_HEAD_INITIALIZER(port_held);

void port_budget_set(uint64_t size)
{
	size_max = size ? size : SIZE_BUDGET;
}

uint64_t port_budget_used(void)
{
	return size_kept;
}

static void show_held(struct port_in *in, bool held)
{
	struct port *port = in->port;

	port->n_held += held ? 1 : -1u;
	shm_state_port_set(port->shown, SHM_PORT_HELD, port->n_held);
	shm_pair_set(in->shown, 1, held ? SHM_PAIR_HELD : 0);
}

static bool is_too_much(const struct port *port)
{
	if (size_kept > size_max)
		return true;
	return size_kept > size_max / 10 * 9 && port->size_unread > size_max / PART_SHARE;
}

/* Ways that begin are what takes memory without bound: each has a window of its own. */
bool port_budget_bars(struct peer *peer)
{
	if (LIKELY(peer->size_left <= size_max) || (peer->link->caps.flags & HAL_IMMEDIATE))
		return false;
	peer->held |= PEER_HELD_FULL;
	return true;
}

void port_budget_leave(struct peer *peer, size_t size)
{
	peer->size_left += size;
	if (LIKELY(!(peer->held & PEER_HELD_FULL)) || peer->size_left > size_max)
		return;
	peer->held &= (uint8_t)~PEER_HELD_FULL;
	protocol_count_event();
}

/* It was told to wait. */
static void enlist(struct port_in *in, enum port_hold what)
{
	in->held = what;
	if (in->waits)
		return;
	in->waits = true;
	show_held(in, true);
	LIST_INSERT_HEAD(&port_held, in, link_held);
}

/* What cannot be said now is said later, when something more is kept of it. */
static void hold(struct port_in *in, enum port_hold what)
{
	int e;

	if (in->ended || !in->life || (in->waits && in->held == what))
		return;
	e = port_say_back(in, PORT_HOLD, what);
	if (e != -ENOBUFS && e != -ENOMEM)
		enlist(in, what);
}

static void hold_others(struct port *port)
{
	struct port_in *in;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
		LIST_FOREACH(in, &port->ins[i], link)
			if (!in->waits)
				hold(in, PORT_HOLD_LONG);
}

static bool is_enough_for_all(void)
{
	return size_kept <= size_max / 4 * 3;
}

/* A port that keeps more than its share itself is crowded, until that is half of it. */
static void see_crowd(struct port *port)
{
	uint64_t share = size_max / PART_SHARE;

	if (port->crowded)
		port->crowded = !is_enough_for_all() && port->size_unread > share / 2;
	if (port->crowded || port->kind != PORT_D || !is_too_much(port) ||
	    port->size_unread <= share)
		return;
	port->crowded = true;
	hold_others(port);
}

void port_budget_take(struct port_in *in, size_t size)
{
	size_kept += size;
	in->sought = false;
	if (LIKELY(!is_too_much(in->port)))
		return;
	hold(in, PORT_HOLD_ALL);
	see_crowd(in->port);
}

void port_budget_begun(struct port_in *in, bool asks)
{
	see_crowd(in->port);
	if (in->waits || !(in->port->crowded || asks))
		return;
	/* What cannot be said is said later, to those who wait. */
	if (in->port->crowded)
		(void)port_say_back_surely(in, PORT_HOLD, PORT_HOLD_LONG);
	if (in->port->crowded || port_say_back_surely(in, PORT_GO, 0) == -ENOMEM)
		enlist(in, PORT_HOLD_LONG);
}

void port_budget_give(size_t size)
{
	size_kept -= size;
}

void port_budget_forget(struct port_in *in)
{
	if (!in->waits)
		return;
	LIST_REMOVE(in, link_held);
	in->waits = false;
	show_held(in, false);
}

bool port_is_posted_for(const struct port_in *in)
{
	const struct port_request *r;

	TAILQ_FOREACH(r, &in->port->posted, link)
		if (!r->complete && port_is_from(in, r))
			return true;
	return false;
}

/* What a source is to wait with now. */
static enum port_hold hold_of(const struct port_in *in)
{
	const struct port *port = in->port;

	if (in->ended || is_enough_for_all())
		return PORT_HOLD_NONE;
	if (!TAILQ_EMPTY(&in->queue) || in->partial)
		return in->held;
	return port->crowded && !in->sought && !port_is_posted_for(in) ? PORT_HOLD_LONG
								       : PORT_HOLD_NONE;
}

static void let_go(struct port_in *in)
{
	int e = in->ended ? 0 : port_say_back(in, PORT_GO, 0);

	if (e != -ENOBUFS && e != -ENOMEM)
		port_budget_forget(in);
}

void port_budget_move_on(void)
{
	struct port_in *in, *next;

	for (in = LIST_FIRST(&port_held); in; in = next) {
		next = LIST_NEXT(in, link_held);
		see_crowd(in->port);
		if (hold_of(in) == PORT_HOLD_NONE)
			let_go(in);
		else
			hold(in, hold_of(in));
	}
}
