/*
 * The native interface: its one lock, its peers, and progress.
 *
 * Progress is made by whoever calls: a receive, a send that has to wait, a select. Each takes what
 * psid has said and what the peers have sent, for all ports of the process, and hands it to the
 * protocols. There is no thread of our own, unless the program asks for one (native_thread.c).
 *
 * One lock covers it all. It is taken and left once in a call that finds what it wants, and is free
 * while anybody waits. A process with one thread pays two stores for it.
 *
 * Telling. What was done under the lock is told when it is left; with which fence, each HAL knows
 * (docs/waiting.md).
 *
 * A forked child has none of its parent's ports and links: their memory has one writer, the parent.
 * It is a guest at those ports (native_guest.c).
 *
 * Source: pulc-1998, 4.4 (the protocol switch) and 4.7 (no thread is needed to receive).
 */
#include "native.h"

#include <stdlib.h>

#include "macros.h"
#include "self.h"
#include "pairs.h"
#include "state.h"

/* Frames taken from one peer before the next one has its turn. */
#define N_TURN NATIVE_N_TURN
/* Of calls that find something at once one in so many looks at the clock. */
#define N_TIMES 256u
/* Of looks at many links to other nodes one in so many is at all of them. */
#define N_LOOKS 256u

struct native_core native_core = { .peers = TAILQ_HEAD_INITIALIZER(native_core.peers) };
static struct peer *self;
static LIST_HEAD(, pulc_port) ports = LIST_HEAD_INITIALIZER(ports);
static uint64_t events_told;
static OFTEN bool forking;

void native_unlock_shared(void)
{
	if (events_told != protocol_events_now())
		native_wake_sleepers();
	events_told = protocol_events_now();
	shm_unlock(&native_core.lock.word);
}

void native_peer_join(struct peer *peer)
{
	TAILQ_INSERT_TAIL(&native_core.peers, peer, link_all);
	native_core.n_joined++;
	native_core.n_peers++;
	native_core.n_far += peer->node != 0;
}

void native_peer_leave(struct peer *peer)
{
	if (native_core.next == peer)
		native_core.next = TAILQ_NEXT(peer, link_all);
	TAILQ_REMOVE(&native_core.peers, peer, link_all);
	native_core.n_peers--;
	native_core.n_far -= peer->node != 0;
	if (native_core.last == peer)
		native_core.last = NULL;
}

struct peer *native_peer(uint32_t client)
{
	struct peer *peer = native_core.last;

	if (LIKELY(peer && peer->client == client && peer->link))
		return peer;
	TAILQ_FOREACH(peer, &native_core.peers, link_all)
		if (peer->client == client && peer->link)
			return peer;
	return NULL;
}

void native_port_list(struct pulc_port *p)
{
	LIST_INSERT_HEAD(&ports, p, link);
}

void native_port_unlist(struct pulc_port *p)
{
	LIST_REMOVE(p, link);
}

/* ---- to ourselves ---------------------------------------------------------------------------- */

static void self_arrived(struct hal_link *link, void *arg)
{
	(void)link;
	(void)peer_serve(arg, 1);
}

struct peer *native_self(void)
{
	struct hal_link *link;

	if (self)
		return self;
	if (hal_self_open(&link) < 0)
		return NULL;
	self = peer_new(link, 0);
	if (!self) {
		link->ops->close(link);
		return NULL;
	}
	link->arrived = self_arrived;
	link->arg = self;
	return self;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* Who always finds something never waits, and would never hear what psid says: of a new peer, for
 * one. */
static inline void look_at_psid(void)
{
	static unsigned n_times;

	if (UNLIKELY(protocol_events_now() - native_core.events_served >= N_TURN ||
		     ++n_times % N_TIMES == 0))
		native_glance();
}

/* Those on other nodes that have something are known from here on. True: this time all are to be
 * asked. */
static bool look_at_net(void)
{
	static unsigned n_looks;

	if (LIKELY(!native_net_is_many()))
		return true;
	(void)native_net_look();
	return ++n_looks % N_LOOKS == 0;
}

void native_progress(void)
{
	struct peer *peer, *next;
	bool all;

	look_at_psid();
	if (UNLIKELY(native_has_news()))
		native_take_news();
	all = look_at_net();
	for (peer = TAILQ_FIRST(&native_core.peers); peer; peer = next) {
		next = TAILQ_NEXT(peer, link_all);
		if (!all && native_net_is_quiet(peer))
			continue;
		if (LIKELY(!peer_serve(peer, N_TURN))) {
			if (UNLIKELY(peer->heard))
				(void)native_net_pending(peer);
			continue;
		}
		native_peer_leave(peer);
		native_link_closed(peer);
		peer_unref(peer);
	}
	protocol_set_unfinished(false);
	if (UNLIKELY(port_any_elsewhere))
		native_find_elsewhere();
	if (UNLIKELY(port_any_to_move()))
		port_push_queued();
	if (UNLIKELY(tag_any_to_move()))
		tag_move_on();
	if (UNLIKELY(guest_n_open))
		native_guest_move_on();
	native_core.events_served = protocol_events_now();
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* What another thread has begun counts as well. */
USUAL void native_forking(void)
{
	forking = (!__libc_single_threaded || native_core.way != SHM_BUSY) && native_lock();
}

USUAL void native_fork_done(void)
{
	if (!forking)
		return;
	native_unlock();
	forking = false;
}

static void forget_shown(void)
{
	shm_state_forget();
	shm_pairs_forget();
}

static void forget_ports(void)
{
	struct pulc_port *p;
	struct pulc_op *op;

	LIST_FOREACH(p, &ports, link) {
		if (p->port)
			port_forget(p->port);
		p->port = NULL;
		p->n_inside = 0;
		p->is_moving = false;
		p->host = 0;
		LIST_FOREACH(op, &p->ops, link) {
			op->p = NULL;
			op->is_parents = true;
		}
	}
}

static void forget_peers(void)
{
	struct peer *peer;

	if (self)
		tag_forget_peer(self);
	while ((peer = TAILQ_FIRST(&native_core.peers))) {
		native_peer_leave(peer);
		if (peer->link)
			peer->link->ops->forget(peer->link);
		peer->link = NULL;
		peer->error = -ECHILD;
		peer_unref(peer);
	}
}

static void __attribute__((noinline)) forget_parents(void)
{
	atomic_store(&native_core.lock.word, 0);
	protocol_tell_forget();
	forking = false;
	forget_shown(); /* it is the parent's, and what follows changes it */
	native_move_forked();
	guest_forked();
	forget_ports();
	native_tag_forked();
	native_block_forked();
	forget_peers();
	native_ask_forked();
	native_news_forked();
	native_wait_forked();
	native_net_forked();
	native_fd_forked();
	native_sem_forked();
	native_thread_forked();
	native_protocol_forked();
	forget_shown(); /* what it has changed */
}

USUAL void native_forked(void)
{
	if (native_core.way != SHM_BUSY || native_has_news())
		forget_parents();
}
