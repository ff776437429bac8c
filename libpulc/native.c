/*
 * The native interface: its one lock, its peers, and progress.
 *
 * Progress is made by whoever calls: a receive, a send that has to wait, a select. Each takes what psid has said and what
 * the peers have sent, for all ports of the process, and hands it to the protocols. There is no thread of our own, unless the
 * program asks for one (native_thread.c).
 *
 * One lock covers it all. It is taken and left once in a call that finds what it wants, and is free while anybody waits. A process with
 * one thread pays two stores for it.
 *
 * Telling. What was done under the lock is told when it is left; with which fence, each HAL knows (docs/waiting.md).
 *
 * A forked child has none of its parent's ports and links: their memory has one writer, the parent.
 *
 * Source: pulc-1998, 4.4 (the protocol switch) and 4.7 (no thread is needed to receive).
 */
#include "native.h"

#include <stdlib.h>
#include <sys/single_threaded.h>

#include "lock.h"
#include "macros.h"
#include "self.h"
#include "pairs.h"
#include "state.h"

/* Frames taken from one peer before the next one has its turn. */
#define N_TURN 64u

static struct shm_lock lock;
static enum shm_way way; /* how it was taken; its holder's. SHM_BUSY: never */
static struct peers peers = TAILQ_HEAD_INITIALIZER(peers);
static struct peer *self;
static LIST_HEAD(, pulc_port) ports = LIST_HEAD_INITIALIZER(ports);
static uint64_t events_told;
static OFTEN bool forking;

bool native_lock(void)
{
	enum shm_way taken = shm_enter(&lock.word, __libc_single_threaded);

	if (UNLIKELY(taken == SHM_BUSY))
		return false;
	way = taken;
	return true;
}

static inline void leave(void)
{
	if (LIKELY(way == SHM_ALONE)) {
		atomic_signal_fence(memory_order_seq_cst);
		atomic_store_explicit(&lock.word, 0, memory_order_relaxed);
		shm_free();
	} else {
		shm_unlock(&lock.word);
	}
}

static void tell(struct peer *peer)
{
	unsigned did = peer->did;

	peer->did = 0;
	if (peer->link)
		peer->link->ops->tell(peer->link, did);
}

void native_unlock(void)
{
	struct peer *peer;

	TAILQ_FOREACH(peer, &peers, link_all)
	if (peer->did)
		tell(peer);
	if (UNLIKELY(events_told != protocol_events) && !__libc_single_threaded)
		native_wake_sleepers();
	events_told = protocol_events;
	leave();
}

struct peers *native_peers(void)
{
	return &peers;
}

struct peer *native_peer(uint32_t client)
{
	struct peer *peer;

	TAILQ_FOREACH(peer, &peers, link_all)
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

/* ---- to ourselves ------------------------------------------------------------------------------- */

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

/* ---- progress ----------------------------------------------------------------------------------- */

struct peer *native_only_peer(void)
{
	struct peer *peer = TAILQ_FIRST(&peers);

	if (!peer || TAILQ_NEXT(peer, link_all) || native_has_news() || protocol_unfinished ||
	    port_any_elsewhere || port_any_to_move() || tag_any_to_move())
		return NULL;
	return peer;
}

void native_progress(void)
{
	struct peer *peer, *next;

	if (UNLIKELY(native_has_news()))
		native_take_news();
	for (peer = TAILQ_FIRST(&peers); peer; peer = next) {
		next = TAILQ_NEXT(peer, link_all);
		if (LIKELY(!peer_serve(peer, N_TURN)))
			continue;
		TAILQ_REMOVE(&peers, peer, link_all);
		native_link_closed(peer);
		peer_unref(peer);
	}
	protocol_unfinished = false;
	if (UNLIKELY(port_any_elsewhere))
		native_find_elsewhere();
	if (UNLIKELY(port_any_to_move()))
		port_push_queued();
	if (UNLIKELY(tag_any_to_move()))
		tag_move_on();
}

/* ---- fork --------------------------------------------------------------------------------------- */

/* What another thread has begun counts as well. */
USUAL void native_forking(void)
{
	forking = (way != SHM_BUSY || !__libc_single_threaded) && native_lock();
}

USUAL void native_fork_done(void)
{
	if (!forking)
		return;
	native_unlock();
	forking = false;
}

static void __attribute__((noinline)) forget_parents(void)
{
	struct pulc_port *p;
	struct pulc_op *op;
	struct peer *peer;

	atomic_store(&lock.word, 0);
	forking = false;
	/* What is shown is the parent's. */
	shm_state_forget();
	shm_pairs_forget();
	native_move_forked();
	LIST_FOREACH(p, &ports, link)
	{
		if (p->port)
			port_forget(p->port);
		p->port = NULL;
		p->n_inside = 0;
		p->is_moving = false;
		LIST_FOREACH(op, &p->ops, link)
		{
			op->p = NULL;
			op->is_parents = true;
		}
	}
	native_tag_forked();
	native_block_forked();
	if (self)
		tag_forget_peer(self);
	while ((peer = TAILQ_FIRST(&peers))) {
		TAILQ_REMOVE(&peers, peer, link_all);
		if (peer->link)
			peer->link->ops->forget(peer->link);
		peer->link = NULL;
		peer->error = -ECHILD;
		peer_unref(peer);
	}
	native_ask_forked();
	native_news_forked();
	native_wait_forked();
	native_net_forked();
	native_fd_forked();
	native_sem_forked();
	native_thread_forked();
	shm_state_forget();
	shm_pairs_forget();
}

USUAL void native_forked(void)
{
	if (way != SHM_BUSY || native_has_news())
		forget_parents();
}
