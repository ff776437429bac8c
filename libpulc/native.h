/*
 * The native interface inside libpulc: the lock, the peers, the dialogue with psid about ports, and
 * waiting. pulc/pulc.h is what a program sees of it.
 */
#ifndef PULC_LIB_NATIVE_H
#define PULC_LIB_NATIVE_H

#include <stdbool.h>
#include <sys/single_threaded.h>

#include <pulc/pulc.h>

#include "area.h"
#include "client.h"
#include "guest.h"
#include "lane.h"
#include "lock.h"
#include "port.h"
#include "protocol.h"
#include "receive.h"
#include "signals.h"
#include "tag.h"
#include "turn.h"

#define NATIVE_N_IOV 1024 /* pieces of a message */
#define NATIVE_N_TURN 64u /* frames of one peer before the next one has its turn */
#define NSEC_PER_MSEC 1000000ull

struct pulc_tag;
struct wait;
struct pulc_waitset;

struct pulc_port {
	struct port *port; /* NULL: it is another process's, whose guest this one is */
	uint32_t number;
	uint32_t n_inside; /* calls, and operations that are not ended */
	bool is_moving;	   /* a call gives it away, or takes it */
	uint64_t key;	   /* what a guest shows; 0: it has none */
	uint32_t host;	   /* a guest: the owner, when it was last asked; 0: nobody */
	LIST_ENTRY(pulc_port) link;
	LIST_HEAD(, pulc_op) ops;
};

/* What was begun and not ended. */
struct pulc_op {
	LIST_ENTRY(pulc_op) link; /* of the port's, or of tagged ones */
	struct pulc_port *p;	  /* NULL: of a tagged message, or the parent's */
	struct port_out *out;	  /* a send to there, while it is not complete */
	int flags;
	bool is_send;
	bool is_tagged;
	bool is_cancelled;
	bool is_parents; /* this is a forked child */
	bool is_guest;
	union {
		struct guest_call guest;
		struct port_sending sending;
		struct port_request request;
		struct tag_send tag_send;
		struct tag_receive tag_receive;
	};
	struct iovec iov[];
};

/* ---- native.c -------------------------------------------------------------------------------- */

/* What every call needs. */
struct native_core {
	struct shm_lock lock;
	enum shm_way way; /* how it was taken; its holder's. SHM_BUSY: never */
	struct peers peers;
	struct peer *last; /* of whom a short message was taken last, or is awaited; NULL: nobody */
	struct peer *next; /* whom a short wait looks at next; NULL: the first */
	unsigned n_peers;
	unsigned n_far;		/* of these, on other nodes */
	struct turn turn;	/* of short messages, whoever they come from */
	uint64_t events_served; /* protocol_events when progress was last made */
	uint64_t n_joined;	/* peers, ever */
};
extern struct native_core native_core;

/* Everything of the native interface is under this lock, which comes before the client lock. False:
 * this thread holds it. */
static inline bool native_lock(void)
{
	enum shm_way taken = shm_enter(&native_core.lock.word, __libc_single_threaded);

	if (UNLIKELY(taken == SHM_BUSY))
		return false;
	native_core.way = taken;
	return true;
}

void native_unlock_shared(void);
/* Tells the peers' sleepers, and our own, what was done. */
static inline void native_unlock(void)
{
	if (UNLIKELY(protocol_to_tell))
		protocol_tell();
	if (UNLIKELY(native_core.way != SHM_ALONE)) {
		native_unlock_shared();
		return;
	}
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&native_core.lock.word, 0, memory_order_relaxed);
	shm_free();
}

/* There is one peer, and no other one to be looked at. */
static inline bool native_is_single(void)
{
	return native_core.n_peers == 1;
}

/* Takes what has come, from psid and from all peers. */
void native_progress(void);
/* The peer that psid calls so, with a link; NULL: none. */
struct peer *native_peer(uint32_t client);
/* The peer that is this process. NULL: no memory. */
struct peer *native_self(void);
static inline struct peers *native_peers(void)
{
	return &native_core.peers;
}
/* From now on it is looked at; from now on it is not. */
void native_peer_join(struct peer *peer);
void native_peer_leave(struct peer *peer);
/* A news of psid's is there to be taken (no lock). */
bool native_has_news(void);
/* All ports of the program, for fork. */
void native_port_list(struct pulc_port *p);
void native_port_unlist(struct pulc_port *p);
void native_forking(void);
void native_fork_done(void);
void native_forked(void);

/* ---- native_find.c --------------------------------------------------------------------------- */
/* The process that has this port of this node, joined with us; its errors are those of pulc_send.
 * Under the lock, which it gives up while the port is on its way from one process to another. */
int native_find_peer(uint32_t node, uint32_t number, struct peer **ret_peer,
		     enum port_kind *ret_kind);
/* The same without waiting: -EINPROGRESS: it is on its way from one process to another. */
int native_find_peer_now(uint32_t node, uint32_t number, struct peer **ret_peer,
			 enum port_kind *ret_kind);
/* 0 for this node, whatever it is called. */
static inline uint32_t native_node(uint32_t node)
{
	return node && node == client_node() ? 0 : node;
}

/* ---- native_ports.c -------------------------------------------------------------------------- */
/* Returns 0 with the lock held; or why not, without it: -EDEADLK, -ECHILD: its owner is to be
 * asked; -EBUSY. */
int native_enter(struct pulc_port *p);
void native_leave(struct pulc_port *p);
/* The destination, made known if need be; its end is told once. The errors of pulc_send. Under the
 * lock. */
int native_find_out(struct pulc_port *p, const struct pulc_address *to, struct port_out **ret_out);
/* Before a message of `size` bytes begins there. Under the lock. */
void native_look_before_long(struct port_out *out, size_t size);
/* The source, which may never have sent anything. Under the lock. */
int native_know_source(struct pulc_port *p, const struct pulc_address *from);

/* How another process becomes known by a port of it; as native_find_peer. */
typedef int native_finder(uint32_t node, uint32_t number, struct peer **ret_peer,
			  enum port_kind *ret_kind);
/* The destination, made known if need be by that; its end is told once. */
int native_find_out_by(native_finder *find, struct port *port, const struct pulc_address *to,
		       struct port_out **ret_out);

/* ---- native_guest.c: calls on a port that is another process's; flags: PULC_ ----------------- */
/* Their ports' keys, and what is asked of us. */
void native_guest_start(void);
uint64_t native_guest_key(void);
ssize_t native_guest_send(struct pulc_port *p, const struct pulc_address *to,
			  const struct iovec *iov, unsigned n, int flags);
ssize_t native_guest_receive(struct pulc_port *p, const struct iovec *iov, unsigned n,
			     const struct pulc_address *from, struct pulc_address *ret_from,
			     int flags);
/* The same as operations, of which is_send, flags and iov are filled in. 0: it is begun; or why it
 * is none. */
int native_guest_begin(struct pulc_op *op, struct pulc_port *p, const struct pulc_address *other,
		       unsigned n);
ssize_t native_guest_result(const struct pulc_op *op, struct pulc_address *ret_from);
/* Finds the owners of those that are parked. In progress. */
void native_guest_move_on(void);
/* Asks the owners of those ports that are not ours; now: until they have answered. 0; -ENOMEM;
 * -EBUSY; -EINTR. *ret_looks is to be ended whatever it returns, unless it is NULL. Under the
 * lock. */
int native_guest_looks(const struct pulc_wait *ports, size_t n, bool now,
		       struct guest_call **ret_looks);
void native_guest_looks_end(const struct pulc_wait *ports, size_t n, struct guest_call *looks);

/* ---- native_move.c --------------------------------------------------------------------------- */
/* What psid says of a port that passes from one process to another. */
struct native_move {
	uint64_t id;
	Pulc__Wire__MoveStep step;
	uint32_t port;
	enum port_kind kind;
	uint32_t client; /* the other one */
};
/* In the order in which psid has said it, beside links and ports. Under the lock. */
void native_move_said(const struct native_move *m);
/* Finds what somebody waits for and has passed to another process. In progress. */
void native_find_elsewhere(void);
void native_move_forked(void);

/* ---- native_ops.c ---------------------------------------------------------------------------- */
/* It is begun, and the port's. Under the lock. */
void native_op_list(struct pulc_op *op, struct pulc_port *p);
/* Until it is complete. 0; -EINTR. Under the lock, which it gives up meanwhile. */
int native_op_await(struct pulc_op *op);

/* ---- native_tag.c: operations of tagged messages. Under the lock. ---------------------------- */
bool native_tag_is_complete(const struct pulc_op *op);
/* As pulc_op_cancel. */
int native_tag_cancel(struct pulc_op *op);
ssize_t native_tag_result(const struct pulc_op *op);
/* A receive that wants this would not wait. */
bool native_tag_ready(const struct pulc_tag *want);
void native_tag_forked(void);
/* The lock, in a process that psid knows. 0; -EDEADLK; as native_attach. */
int native_enter_attached(void);

/* ---- native_area.c --------------------------------------------------------------------------- */
/* psid has sent the message area of a client, or of this process; *map moves here, or stays. Under
 * the client lock. */
void native_area_came(uint32_t client, bool is_own, struct shm_area *map);
/* psid says that the client is gone. Under the client lock. */
void native_area_gone(uint32_t client);
/* The link to it is closed. */
void native_area_closed(uint32_t client);
/* This process's; .at NULL: psid has sent none. */
struct shm_area native_area_own(void);
/* tag_area_bytes, tag_area_unref. */
int native_area_bytes(struct peer *peer, uint64_t offset, uint64_t size,
		      struct tag_bytes *ret_bytes);
void native_area_unref(void *holder);
void native_area_forked(void);

/* ---- native_block.c -------------------------------------------------------------------------- */
void native_block_forked(void);

/* ---- native_ask.c ---------------------------------------------------------------------------- */
/* 0 when psid has given this process a number; else see pulc_attach. Under the lock. */
int native_attach(void);
/* The same; but without psid what is joined with us goes on. */
int native_attach_or_linked(void);
struct native_reply {
	Pulc__Wire__PortError error;
	enum port_kind kind;
	uint32_t port, client, node;
	uint32_t holder, count; /* of a semaphore */
	bool made, all;
	uint32_t generation; /* of the channel that it came over */
};
/* Sends a request with this number and waits for its answer. 0; negative errno. Under the lock. */
int native_ask(const Pulc__Wire__FromClient *msg, uint32_t request, struct native_reply *ret_reply);
/* The same with a descriptor for psid (-1: none); *ret_fd, if not NULL: where one that came with
 * the answer lives, or -1. */
int native_ask_with(const Pulc__Wire__FromClient *msg, uint32_t request, int fd,
		    struct native_reply *ret_reply, int *ret_fd);
uint32_t native_request(void);
/* The same for a request whose answer brings a port: one that comes when nobody waits any more
 * gives it back. */
uint32_t native_request_of_port(void);
/* psid hears that the port is closed. */
void native_give_back(uint32_t port);
/* psid's answer to a request. Under the client lock. */
void native_keep_reply(const Pulc__Wire__PortReply *m, struct received *r);
void native_ask_forked(void);

/* ---- native_news.c --------------------------------------------------------------------------- */
/* A message of psid's about ports and links, or none of ours (false). Under the client lock; kept
 * until native_take_news. */
bool native_dispatch(const Pulc__Wire__ToClient *msg, struct received *r);
void native_take_news(void);
/* How links to other nodes move their bytes from now on: what PULC_TCP says, or by plain calls. */
void native_choose_tcp(bool io_uring);
/* The process at the other end of this link is gone, or we want no more of it: psid and the slabs
 * are told. */
void native_link_closed(struct peer *peer);
void native_news_forked(void);

/* ---- native_wait.c --------------------------------------------------------------------------- */
/*
 * Waits until something has happened since native_seen() was that, for room too if `room`. Without
 * the lock. 0; -EINTR; -EAGAIN: the deadline has passed; -ERESTART as wait_for.
 */
struct native_wait {
	uint64_t seen;		/* protocol_events when the caller last looked */
	uint64_t nsec_deadline; /* UINT64_MAX: none */
	/* the progress thread: sleeps at once, and is not told of what nobody waits for */
	bool resident;
};
int native_wait(const struct native_wait *w);
/* How long it is worth to spin now, in ns, perhaps 0. Under the lock. */
uint64_t native_budget(void);
/* Makes progress, under the lock, which it gives up meanwhile, until look() says something else
 * than -EAGAIN. Returns that; -EINTR; -ETIMEDOUT. */
int native_look_until(int (*look)(void *arg), void *arg, uint64_t nsec_deadline);
/* The same for pulc_select: with other descriptors. Returns what ppoll does; 0 also when something
 * has happened. */
int native_wait_fds(const struct native_wait *w, struct pollfd *fds, size_t n_fds);
/* Wakes those of our own threads that sleep. Under the lock. */
void native_wake_sleepers(void);
void native_wait_forked(void);
void native_look_at_channel(void);
/* In a call that found nothing and does not wait: who never waits would never hear of psid. Now and
 * then; under the lock. */
void native_glance(void);
/*
 * What a sleeper does before it sleeps by its own means. True: something is there or has happened.
 * *ret_nsec: how long it may sleep before it looks again; 0: for ever. native_unwatch after either.
 * set NULL: nobody can be told. Without the lock.
 */
bool native_watch(struct pulc_waitset *set, uint64_t seen, uint64_t *ret_nsec);
void native_unwatch(struct pulc_waitset *set);

/* ---- native_short.c -------------------------------------------------------------------------- */
/* May a short message be taken right from its link now, past progress? Under the lock. */
bool native_may_be_short(void);
/*
 * A wait for a short message. Its caller looks himself, by taking what is there, at first and after
 * each turn; a turn is made whenever there was nothing.
 */
struct native_short {
	bool takes_any; /* what is there is to be taken whatever it is; else only a word is */
	bool has_begun, is_turn;
	bool has_found;	     /* something is there, and this look is the last one */
	unsigned n, n_turns; /* turns that were made; that there may be */
	uint64_t seen;	     /* protocol_events when it began */
	const void *line; /* where the answer will be told; NULL: not where the next message goes */
	struct shm_ahead ahead; /* what else is to be asked for */
	struct signal_counts signals;
};
static inline void native_short_init(struct native_short *w)
{
	w->takes_any = true;
	w->has_begun = false;
}
/*
 * last: from whom nothing was taken. 1: look again; has_found: at native_core.last. Else at who is
 * awaited, as far as he is still there: another thread may wait for somebody else. 0: it is not
 * worth it, or something else has happened; -EINTR. Under the lock, which it gives up meanwhile.
 */
int native_short_turn(struct native_short *w, struct peer *last);
/* It ends before anything was found. */
static inline void native_short_end(void)
{
	turn_looked_in_vain(&native_core.turn);
}
/* Waits for a moment, in which messages gather at this link, the only one. Under the lock, which it
 * gives up. */
void native_let_gather(struct hal_link *link);

/* ---- native_sem.c ---------------------------------------------------------------------------- */
void native_sem_forked(void);
/* Brings the semaphores to a new psid, under the client lock. 0; negative errno: not all of them,
 * yet. */
int native_sem_return(void);

/* ---- native_thread.c ------------------------------------------------------------------------- */
/* The progress thread is told to end. Under the lock. */
bool native_thread_ends(void);
void native_thread_forked(void);

/* ---- native_protocol.c ----------------------------------------------------------------------- */

/* Handlers on the stack are the parent's. */
void native_protocol_forked(void);

/* ---- native_net.c ---------------------------------------------------------------------------- */
/*
 * Puts the descriptors of links whose news come from the kernel into the epoll set, and takes those
 * out of whom nothing is wanted now. Each set has a bit of its own. Returns how many there are.
 * Under the lock.
 */
#define NATIVE_NET_WAIT 1u
#define NATIVE_NET_FD 2u
unsigned native_net_gather(int epoll_fd, unsigned bit);
/* What to sleep on besides a bell: the channel to psid, or a set of it and those. Takes the
 * lock. */
int native_net_fd(void);
void native_net_forked(void);

/*
 * Many links to other nodes are not asked each for itself, but all together, and then those that
 * have told of something. All under the lock.
 */
#define NATIVE_NET_LOOK 4u /* in peer.gathered: its link tells whether anybody sleeps or not */
#define NATIVE_N_FAR_MANY 4u
static inline bool native_net_is_many(void)
{
	return UNLIKELY(native_core.n_far >= NATIVE_N_FAR_MANY);
}
/* One call into the kernel for all of them. Returns one that told of something, or NULL. */
struct peer *native_net_look(void);
/* Nothing is known of it that would be worth a question. */
static inline bool native_net_is_quiet(const struct peer *peer)
{
	const unsigned both = NATIVE_NET_LOOK | NATIVE_NET_WAIT;

	return native_net_is_many() && (peer->gathered & both) == both && peer->link &&
	       !peer->heard && !peer->held && !peer->orphan && !peer->any_closing &&
	       !peer->no_room && STAILQ_EMPTY(&peer->pending) &&
	       !atomic_load_explicit(peer->link->inside, memory_order_relaxed);
}
/* pending(), of those that are not quiet. */
static inline bool native_net_pending(struct peer *peer)
{
	bool is = !native_net_is_quiet(peer) && peer->link->ops->pending(peer->link);

	if (UNLIKELY(!is && peer->heard))
		peer->heard = false;
	return is;
}

/* ---- native_fd.c ----------------------------------------------------------------------------- */
void native_fd_forked(void);

#endif
