/*
 * What one process may have unread at another, by all ways between their ports.
 *
 * Each way has a window (port_send.c), which bounds a source at a port; but a process has up to
 * 1,024 sources, and whoever sends on all of them and heeds no HOLD could make another keep a
 * window and a long datagram of each. So the ways of two processes have a window together: below
 * it each has its own; beyond it a message begins on a way of which nothing is unread only, and
 * beyond another half of it one of more than a frame only with leave, which is given where somebody
 * waits for it (port_long.c). So a port that is read goes on, whatever the others have unread, and
 * what one process can make us keep is the larger bound, one long datagram, and a frame for each
 * way.
 *
 * Nothing is believed and nobody is asked. Both ends count the same: a message's whole cost when it
 * begins, and less when the receiver tells that it was taken. What the receiver has told is what
 * the sender knows or will, so whoever begins what is too much by the receiver's account would know
 * it by its own: the link ends (-EBADMSG). A way leaves both accounts when it ends. The receiver
 * hears of that in its place on the link, before what the sender begins thereafter; but a port that
 * passes to another process is left by who hears it from psid before its old owner knows, and while
 * one does only the windows of ways are judged.
 *
 * A window is told of in parts of 256 KiB, so a thousand ways may seem to have much unread and have
 * nothing. From half of the common window on every way is told of all that is taken.
 */
#include "macros.h"
#include "pairs.h"
#include "port.h"

bool port_credit_owed;

/* ---- of theirs, here ------------------------------------------------------------------------- */

static uint64_t size_judged(const struct peer *peer)
{
	return LIKELY(!port_give_any()) ? peer->size_here : 0;
}

bool port_credit_allows(const struct port_in *in)
{
	return in->begun - in->told < port_window(size_judged(in->peer));
}

bool port_credit_is_full(const struct peer *peer)
{
	return size_judged(peer) >= PORT_PEER_LONG;
}

void port_credit_step(struct port_in *in)
{
	in->step = in->peer->is_near ? 1 : PORT_TOLD;
}

static void tell(struct port_in *in)
{
	if (in->taken - in->told >= in->step)
		port_tell_taken(in);
}

/* NULL: of all. */
static void each_of(const struct peer *peer, void (*f)(struct port_in *in))
{
	struct port *port;
	struct port_in *in;

	for (port = port_next(NULL); port; port = port_next(port))
		for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
			LIST_FOREACH(in, &port->ins[i], link)
				if ((!peer || in->peer == peer) && !in->ended)
					f(in);
}

void port_credit_near(struct peer *peer)
{
	if (peer->is_near)
		return;
	peer->is_near = true;
	each_of(peer, port_credit_step);
	each_of(peer, tell);
}

void port_credit_move_on(void)
{
	if (LIKELY(!port_credit_owed))
		return;
	port_credit_owed = false;
	each_of(NULL, tell);
	port_long_move_on();
}

void port_tell_taken(struct port_in *in)
{
	struct peer *peer = in->peer;
	int e;

	if (in->ended)
		return;
	/* The last part of a window may have been taken: its source would wait for ever. Nobody
	 * waits where the link has ended. */
	e = port_say_back_surely(in, PORT_CREDIT, in->taken);
	port_credit_owed |= e == -ENOMEM;
	if (e < 0)
		return;
	peer->size_here -= in->taken - in->told;
	in->told = in->taken;
	if (LIKELY(!peer->is_near || peer->size_here >= PORT_PEER_NEAR / 2))
		return;
	peer->is_near = false;
	each_of(peer, port_credit_step);
}

void port_credit_leave(struct port_in *in)
{
	in->peer->size_here -= in->begun - in->told;
}

/* ---- of ours, there -------------------------------------------------------------------------- */

static void try_again(struct port_out *out, void *peer)
{
	if (out->peer == peer && !out->held)
		port_out_wait(out, false);
}

/* What may begin there that might not with more unread. */
static unsigned leave_of(const struct peer *peer)
{
	return (peer->size_there < PORT_PEER_WINDOW) + (peer->size_there < PORT_PEER_LONG);
}

/* It leaves the account of its process. Who waits with another way is woken by that alone. */
static void give_back(struct port_out *out, uint64_t size)
{
	struct peer *peer = out->peer;
	unsigned before = leave_of(peer);

	out->freed += size;
	peer->size_there -= size;
	if (UNLIKELY(leave_of(peer) != before)) {
		port_each_out(try_again, peer);
		protocol_count_event();
	}
}

void port_credit_freed(struct port_out *out, uint64_t freed)
{
	give_back(out, freed - out->freed);
	shm_pair_set(out->shown, 0, out->sent - freed);
	port_out_wait(out, false);
}

void port_credit_end(struct port_out *out)
{
	give_back(out, out->sent - out->freed);
}

void port_out_end(struct port_out *out, int why)
{
	if (out->error)
		return;
	out->error = why;
	port_credit_end(out);
}
