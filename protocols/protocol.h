/*
 * The protocol switch of links, and what protocols share: peers, and frames that wait for room.
 *
 * A peer is a process that we have a link to. The switch reads a frame's protocol number and hands
 * the frame to the handler of that number; handlers stand side by side, know nothing of each other,
 * and code their own words. Everything here happens under one lock, the caller's.
 */
#ifndef PULC_PROTOCOLS_PROTOCOL_H
#define PULC_PROTOCOLS_PROTOCOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "hal.h"

#define PROTOCOLS_MAX 32u
#define PROTOCOL_PORT 1u
#define PROTOCOL_TAG 2u
#define PROTOCOL_GUEST 3u

/* A port that psid has granted to a peer. */
struct granted {
	uint32_t port;
	bool anew; /* closed, and granted again meanwhile */
	/* Psid has said that it is closed. That counts when all is read that was sent before; */
	uint32_t n_closed;
	uint32_t n_over;      /* where not all is here at once, the peer says when */
	uint64_t heard, over; /* protocol_era then */
};

/* The end of a peer's port: all that it had sent is handed over. */
struct port_end {
	uint32_t port;
	/* It has one of that number again, and has itself said of all ways that had begun that they
	 * end. */
	bool is_anew;
	uint64_t heard; /* who began to wait at an earlier protocol_era waits for the former one, */
	uint64_t over;	/* and what began at an earlier one is the former one's */
};

struct pending;
STAILQ_HEAD(pending_list, pending);
struct port_in;
struct tag_peer;

#define PEER_N_OVER_EARLY 16u

#define PEER_HELD_NEWS 1u /* it cannot be judged before psid has told us more */
#define PEER_HELD_FULL 2u /* too much is unread of ways from it that have ended */

struct peer {
	TAILQ_ENTRY(peer) link_all;
	struct hal_link *link; /* NULL: the peer is gone */
	uint32_t client;       /* psid's number of the process */
	uint32_t pid;	       /* whose memory may be asked for; 0: psid has not said */
	uint32_t node;	       /* where it runs; 0: here */
	uint32_t n_refs;
	uint64_t conn; /* psid's number of the link; 0: to ourselves */
	void *owner;   /* libpulc's */
	int error;    /* link NULL: -ECONNRESET: it is gone; -EBADMSG: what it said made no sense */
	unsigned did; /* HAL_DID_: what its sleepers have not been told; if any, */
	struct peer *next_to_tell; /* one of protocol_to_tell */
	uint8_t held;	  /* PEER_HELD_: why its oldest frame stays on the link; 0: it does not */
	bool orphan;	  /* psid will tell us nothing more */
	uint8_t gathered; /* libpulc's: the sets that its descriptor is in, */
	bool heard;	  /* and whether it has told of something since nothing was found */
	uint8_t waiting;  /* guest_ask.c's: which kinds of calls wait for room at it */
	bool any_closing;
	bool no_room; /* a frame was refused for want of room since one was sent */
	bool untold;  /* a frame was sent that needs nobody's work */
	/* HAL_WATCH_: what libpulc's progress thread was to be told of when it last fell asleep */
	uint8_t attended;
	uint64_t size_left; /* port_budget.c's: memory of what is unread of its ended ways */
	/* port_credit.c's: what is unread, as far as its sender knows, of ours there and here; */
	uint64_t size_there, size_here;
	bool is_near;	  /* and it is told of all that is taken here */
	uint32_t n_holds; /* port.c's: ways to it that are to wait */
	/* port_long.c's: datagrams that began with leave, ours there and theirs here, */
	uint64_t n_long_there, n_long_here;
	struct port_in *long_under_way; /* and the one of theirs that has more to come */
	struct granted *granted;
	uint32_t n_granted, n_granted_max;
	struct pending_list pending; /* frames that found no room, oldest first */
	uint32_t n_pending;
	struct port_in *in_last; /* whose frame came last: probably the next one's too */
	struct tag_peer *tags;	 /* of the protocol of tagged messages; NULL: it was never used */
	/* ports that were over before psid has told of them, the last ones */
	uint32_t over_early[PEER_N_OVER_EARLY];
	uint32_t n_over_early;
	/* native_select.c's: the end of a port is to leave before its closing is over, and the mark
	 * of hal_ops.flush */
	bool is_to_hear;
	uint64_t mark_said;
};
TAILQ_HEAD(peers, peer);

struct protocol {
	const char *name;
	/*
	 * next() of the peer's link has shown this frame; copy() its payload as need be. Returns 0:
	 * the frame is taken; -EAGAIN: leave it there, it will be shown again; -EBADMSG: the peer
	 * makes no sense: its link is closed. May send on any link.
	 */
	int (*arrived)(struct peer *peer, const struct hal_frame *f);
	/* The link is closed, peer->error says why. number: the protocol's own. */
	void (*gone)(struct peer *peer, unsigned number);
	void (*closed)(struct peer *peer, const struct port_end *end);
};

/* Counts psid's words that a port is closed. Who hears from a port of a peer's remembers this, who
 * begins something towards one peer_era. */
extern uint64_t protocol_era __attribute__((visibility("hidden")));

/* Counts what may end somebody's waiting. Written under the lock of the process; a thread that
 * waits looks without it. */
extern _Atomic uint64_t protocol_events __attribute__((visibility("hidden")));
/* A message has reached the last buffer that waited for it: the turn ends, so that the next buffer
 * is there before the next message is taken. */
extern bool protocol_enough __attribute__((visibility("hidden")));
/* Progress stopped for the sake of others, and can go on without any news. Likewise. */
extern _Atomic bool protocol_unfinished __attribute__((visibility("hidden")));

static inline uint64_t protocol_events_now(void)
{
	return atomic_load_explicit(&protocol_events, memory_order_relaxed);
}

static inline void protocol_count_event(void)
{
	atomic_store_explicit(&protocol_events, protocol_events_now() + 1, memory_order_relaxed);
}

static inline bool protocol_is_unfinished(void)
{
	return atomic_load_explicit(&protocol_unfinished, memory_order_relaxed);
}

static inline void protocol_set_unfinished(bool unfinished)
{
	atomic_store_explicit(&protocol_unfinished, unfinished, memory_order_relaxed);
}

/* Returns 0; -EEXIST; -EINVAL: no such number. The struct stays the caller's, for ever. */
int protocol_register(unsigned number, const struct protocol *p);
void protocol_unregister(unsigned number);

/* A peer with one reference; NULL: no memory. The link becomes the peer's. */
struct peer *peer_new(struct hal_link *link, uint32_t client);
struct peer *peer_ref(struct peer *peer);
void peer_unref(struct peer *peer);

/* psid's word on its ports. 0; -ENOMEM. */
int peer_grant(struct peer *peer, uint32_t port);
void peer_revoke(struct peer *peer, uint32_t port);
/* The peer's own word, behind all that it has sent from that port. Psid's word alone counts where
 * what was sent is here (HAL_PRESENT), and there this does nothing. */
void peer_over(struct peer *peer, uint32_t port);
/* All but these. */
void peer_revoke_others(struct peer *peer, const uint32_t *ports, size_t n);
bool peer_has(const struct peer *peer, uint32_t port);
/* The protocol_era of what is begun now towards that port: one that is closed for all that is known
 * has nobody to answer, and what is begun there ends with it. */
uint64_t peer_era(const struct peer *peer, uint32_t port);

/* Peers of which something was done that their sleepers have not been told. */
extern struct peer *protocol_to_tell __attribute__((visibility("hidden")));
/* HAL_DID_, to be told before the lock is left. */
static inline void peer_did(struct peer *peer, unsigned did)
{
	if (!peer->did) {
		peer->next_to_tell = protocol_to_tell;
		protocol_to_tell = peer;
	}
	peer->did |= did;
}
void protocol_tell(void);
/* In a forked child: all that was done was the parent's doing. */
void protocol_tell_forget(void);

/*
 * Hands over what has arrived, and sends what waits for room; at most so many frames. Returns true
 * if the link broke: error is set, the protocols were told, and the caller frees the link with
 * protocol_drop_link.
 */
bool peer_serve(struct peer *peer, unsigned n_max);
/* Ends the link for this reason. */
void peer_break(struct peer *peer, int error);

/* Sends a frame now. -EAGAIN: others wait already, or no room; errors of hal_ops.send; peer->error
 * without a link. */
int peer_send(struct peer *peer, const struct hal_frame *f, const struct iovec *iov, unsigned n);
/*
 * The same, or puts a copy behind those that wait. -ENOBUFS: too many control frames wait, -ENOMEM.
 * *left, which may be NULL, is counted up while the copy waits, and down when it is sent or will
 * never be.
 */
int peer_send_later(struct peer *peer, const struct hal_frame *f, const struct iovec *iov,
		    unsigned n, uint32_t *left);
/* The peer has so many bytes still to take: then whoever waits is told of room as if a frame had
 * been refused. */
bool peer_is_behind(struct peer *peer, uint64_t size);
/* A control frame without payload that the peer sees when it looks: who makes progress on a
 * program's behalf is not woken for it. */
int peer_send_idly(struct peer *peer, const struct hal_frame *f);
/* The counter will not be there any more. */
void peer_forget_counter(struct peer *peer, const uint32_t *left);

#endif
