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

static void set_held(struct port_in *in, bool held)
{
	struct port *port = in->port;

	in->held = held;
	port->n_held += held ? 1 : -1u;
	shm_state_port_set(port->shown, SHM_PORT_HELD, port->n_held);
	shm_pair_set(in->shown, 1, held ? SHM_PAIR_HELD : 0);
}

/* False: not now. */
static bool tell(struct port_in *in, unsigned kind)
{
	int e = port_say_back(in, kind, 0);

	return e != -ENOBUFS && e != -ENOMEM;
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

void port_budget_take(struct port_in *in, size_t size)
{
	size_kept += size;
	if (in->held || in->ended || !is_too_much(in->port))
		return;
	if (!tell(in, PORT_HOLD))
		return;
	set_held(in, true);
	LIST_INSERT_HEAD(&port_held, in, link_held);
}

void port_budget_give(size_t size)
{
	size_kept -= size;
}

void port_budget_forget(struct port_in *in)
{
	if (!in->held)
		return;
	LIST_REMOVE(in, link_held);
	set_held(in, false);
}

void port_budget_move_on(void)
{
	bool enough = size_kept <= size_max / 4 * 3;
	struct port_in *in, *next;

	for (in = LIST_FIRST(&port_held); in; in = next) {
		next = LIST_NEXT(in, link_held);
		if (!in->ended && !enough && (!TAILQ_EMPTY(&in->queue) || in->partial))
			continue;
		if (in->ended || tell(in, PORT_GO))
			port_budget_forget(in);
	}
}
