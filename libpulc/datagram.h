/*
 * UDP sockets: what the datagram_*.c files know of a socket and of its flows. docs/udp.md is
 * normative.
 */
#ifndef PULC_LIB_DATAGRAM_H
#define PULC_LIB_DATAGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/single_threaded.h>

#include "private.h"
#include "receive.h"
#include "udp.h"

/* One socket's address, IPv4 v4-mapped. No padding: compared as memory. */
struct datagram_address {
	uint8_t bytes[16];
	uint16_t port;
	uint16_t reserved;
};
static inline bool datagram_same(const struct datagram_address *a, const struct datagram_address *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}
static inline unsigned datagram_hash(const struct datagram_address *a)
{
	uint32_t words[5];

	memcpy(words, a, sizeof(words));
	return (words[3] ^ words[2] ^ words[0] ^ words[4] * 0x9e3779b1u) * 0x85ebca6bu >> 16;
}

enum flow_state {
	FLOW_HINTED,   /* psid knows it, or is to be told */
	FLOW_ATTACHED, /* both ends' memory is mapped */
	FLOW_OVER,     /* in no table any more: freed when nobody can be using it */
};

/* One direction between this socket and another. Under the client lock but for queue. */
struct flow {
	struct udp_flow queue;
	pulc_stream *stream;
	struct flow *next;	/* of the same socket */
	struct flow *hash_next; /* by token */
	struct datagram_address peer;
	bool sends;
	bool told;    /* psid has an entry under this token */
	bool waiting; /* ... and is to answer */
	bool opened;  /* a receiver's: the sender may use it */
	bool left;    /* no holder of it any more, though not closed */
	bool forked;  /* the last fork has counted one more */
	_Atomic int state;
	int pid; /* the process that attached it */
	unsigned n_denied;
	uint64_t token, conn, nsec_renew;
	struct slab *own_slab, *peer_slab;
	uint32_t own_slot;
};

/* Somebody that the socket exchanges datagrams with through the kernel. */
struct acquaintance {
	struct datagram_address peer;
	uint32_t n;
	uint64_t nsec_next; /* psid is not to be told before */
};

/* An ECONNREFUSED that the program is to be told. */
enum datagram_loss {
	LOSS_NONE,
	LOSS_SEEN,    /* what was sent to the peer will be taken by nobody */
	LOSS_REFUSED, /* the kernel's own, which a call of ours has taken: of this any call hears, and before all else. In another process that has the
		       * socket: a sign to ask whether it still is to be told */
};

#define N_MET 16u
#define N_DESTINATIONS 64u

struct datagram {
	struct udp rx;
	struct udp_entry entry;
	_Atomic uint32_t n_inside; /* calls that may be using a flow */
	_Atomic uint32_t n_native_receives;
	/* flows that wait for those to end, or for the kernel to note arrivals */
	_Atomic uint32_t n_unopened;
	int family;
	bool connected; /* then only peer's datagrams are received */
	struct datagram_address peer;
	struct flow *_Atomic to_peer;
	struct flow *_Atomic to[N_DESTINATIONS]; /* by hash, the next free one */
	struct flow *_Atomic last_sent;		 /* where an answer is likely to go */
	_Atomic bool has_destinations;
	_Atomic uint8_t loss;
	_Atomic bool shut; /* by shutdown(2) */
	_Atomic bool shut_rd;
	_Atomic bool has_over;	    /* a flow may have ended */
	_Atomic uint32_t n_changes; /* of what is received from: to be watched anew */
	/* who is to be told of the first flow, where there is none to place it in; 0: free */
	_Atomic uint64_t watches[SHM_N_WATCHES];
	/* the kernel has said so, and of no error, and was not sent through since */
	_Atomic bool writable;
	_Atomic bool known; /* the next two */
	_Atomic bool nonblock;
	_Atomic uint64_t usec_rcvtimeo;

	/* who is met; one thread at a time, others don't count */
	_Atomic bool meeting;
	struct acquaintance met[2][N_MET];
	uint32_t n_nameless;

	/* under the client lock */
	struct flow *flows;
	uint32_t n_waiting;
	bool over_for_good; /* no new flows */
	bool reason_told;
	enum pulc_reason reason;
	uint64_t nsec_look, nsec_shared;
	uint64_t nsec_checked,
		head_checked; /* that the peer is there: when, and what had been sent by then */
};

/* Around every use of a flow: while somebody is inside none is freed. */
static inline void datagram_enter(struct datagram *d)
{
	if (__libc_single_threaded)
		atomic_store_explicit(&d->n_inside,
				      atomic_load_explicit(&d->n_inside, memory_order_relaxed) + 1,
				      memory_order_relaxed);
	else
		(void)atomic_fetch_add(&d->n_inside, 1);
}
static inline void datagram_leave(struct datagram *d)
{
	if (__libc_single_threaded)
		atomic_store_explicit(&d->n_inside,
				      atomic_load_explicit(&d->n_inside, memory_order_relaxed) - 1,
				      memory_order_relaxed);
	else
		(void)atomic_fetch_sub(&d->n_inside, 1);
}
/* The flow to whom an answer is likely to be waited for from; NULL: unknown. Between enter and
 * leave. */
static inline struct flow *datagram_awaited(struct datagram *d)
{
	struct flow *to_peer = atomic_load_explicit(&d->to_peer, memory_order_acquire);

	return to_peer ? to_peer : atomic_load_explicit(&d->last_sent, memory_order_acquire);
}
static inline struct flow *flow_of(struct udp_flow *queue)
{
	return CONTAINER_OF(queue, struct flow, queue);
}

/* ---- datagram.c ------------------------------------------------------------------------------ */
extern const struct handler datagram_handler __attribute__((visibility("hidden")));
/* Whether another process may have the socket: asked anew now and then. */
bool datagram_is_shared_still(pulc_stream *s);
static inline bool datagram_is_shared(pulc_stream *s)
{
	return __builtin_expect(atomic_load_explicit(&s->datagram->rx.shared, memory_order_relaxed),
				0) &&
	       datagram_is_shared_still(s);
}
/* True: not an address that a flow could lead to. */
bool datagram_read_address(const struct sockaddr *addr, socklen_t len,
			   struct datagram_address *ret_address);

/* ---- datagram_flow.c ------------------------------------------------------------------------- */
/* The socket sent to, or received from, this one through the kernel: counts, hints when it is
 * time. */
void datagram_met(pulc_stream *s, int fd, bool sends, const struct datagram_address *peer);
/* Looks at the channel if psid's word is awaited; opens flows that could not be opened yet. */
void datagram_step(pulc_stream *s, int fd);
/* Opens flows to their senders, where nothing hinders. Under the client lock. */
void datagram_open(pulc_stream *s);
/* The flow that leads there, attached; NULL: none. Between enter and leave. */
struct flow *datagram_flow_to(struct datagram *d, const struct datagram_address *peer);
/* Ends a flow's sending; what it has sent remains. */
void datagram_flow_over(pulc_stream *s, struct flow *f);
/* Frees flows that have ended. Not inside. */
void datagram_reap(pulc_stream *s);
/* No datagram goes through flows from now on until new ones are made; what is in queues remains, or
 * goes back to the senders. */
void datagram_stop_all(pulc_stream *s, bool give_back);
/* This process gives up holding its flows, where another one holds them or if it is for good; and
 * takes them up again. */
void datagram_leave_flows(pulc_stream *s, bool for_good);
void datagram_stay_flows(pulc_stream *s);
/* A fork is about to happen (under the client lock). */
void datagram_forking(pulc_stream *s);
void datagram_fork_failed(pulc_stream *s);
/* Others are counted, but have been killed: no process has the socket but this one. */
bool datagram_is_only_holder(const struct flow *f);
/* A holder less, unless we have left. The peer is told. */
void datagram_close_queue(struct flow *f);
/* For the handler's life. */
void datagram_flows_closing(pulc_stream *s);
void datagram_flows_release(pulc_stream *s);
void datagram_flows_begin_anew(pulc_stream *s);
/* Messages for flows; false: not for one. Under the client lock. */
bool datagram_dispatch(const Pulc__Wire__ToClient *msg, struct received *r);

/* ---- datagram_loss.c ------------------------------------------------------------------------- */
/* If the receiver of f has given datagrams back: sends them by fd once more. */
void datagram_send_unread(struct flow *f, int fd);
/* And ends f. Between enter and leave. */
bool datagram_send_again(pulc_stream *s, struct flow *f, int fd);
/* Is a connected socket's peer still there, with datagrams of ours unread? Asks the kernel only if
 * they are so for long. Sets d->loss. Returns how long the answer may be trusted, ns. */
uint64_t datagram_check_peer(pulc_stream *s);
/* What is to be told, as far as this process knows alone, or with the others that have the
 * socket. */
enum datagram_loss datagram_ask_loss(pulc_stream *s);
static inline enum datagram_loss datagram_loss(pulc_stream *s)
{
	struct datagram *d = s->datagram;

	if (__builtin_expect(atomic_load_explicit(&d->loss, memory_order_relaxed) == LOSS_NONE,
			     1) &&
	    __builtin_expect(!atomic_load_explicit(&d->rx.shared, memory_order_relaxed), 1))
		return LOSS_NONE;
	return datagram_ask_loss(s);
}
static inline bool datagram_has_loss(pulc_stream *s)
{
	return datagram_loss(s) != LOSS_NONE;
}
/* Whether to ask, of a socket that no other process has. */
static inline bool datagram_seems_refused(const struct datagram *d)
{
	return __builtin_expect(
		atomic_load_explicit(&d->loss, memory_order_relaxed) == LOSS_REFUSED, 0);
}
/* A call that does not tell of the socket's error has taken it from the kernel: the next one that
 * does will, in whichever process. */
void datagram_keep_refusal(pulc_stream *s);
/* A new socket has none; nor has one that a child has for itself from now on, whatever its parent
 * knew. */
void datagram_forget_refusal(pulc_stream *s);
/* Then, once, -ECONNREFUSED: what the kernel would say after a datagram to a closed port. Else
 * 0. */
int datagram_take_loss(pulc_stream *s);

/* ---- datagram_transfer.c --------------------------------------------------------------------- */
ssize_t datagram_send(pulc_stream *s, int fd, const void *buf, size_t len, int flags);
ssize_t datagram_recv(pulc_stream *s, int fd, void *buf, size_t len, int flags);
ssize_t datagram_sendmsg(pulc_stream *s, int fd, const struct msghdr *msg, int flags);
ssize_t datagram_recvmsg(pulc_stream *s, int fd, struct msghdr *msg, int flags);

/* ---- datagram_wait.c ------------------------------------------------------------------------- */
/* Waits for a datagram; as stream_wait. The kernel was asked just before. */
struct wait datagram_wait_begin(uint64_t usec_timeout);
int datagram_wait(pulc_stream *s, int fd, struct wait *w);
/* As those of streams (private.h), where the kernel has nothing. ticks: the counter, just now. */
bool datagram_wait_turn(pulc_stream *s, uint64_t ticks);
bool datagram_wait_briefly(pulc_stream *s, bool has_looked);
int datagram_watch(pulc_stream *s, pulc_waitset *set, unsigned bit, unsigned events);
void datagram_unwatch(pulc_stream *s, pulc_waitset *set, unsigned bit);
uint64_t datagram_patience(pulc_stream *s, pulc_waitset *set);
bool datagram_peer_here(pulc_stream *s);
/* Tells the peer's waiters that they find something. */
void datagram_tell(struct udp_flow *queue);
/* Whoever waits for this socket looks again, and places its watch anew. */
void datagram_rouse(pulc_stream *s);
/* The same when s receives by one flow more, or, ended, which nobody finds any more, by one less.
 * Under the client lock. */
void datagram_flows_changed(pulc_stream *s, const struct udp_flow *ended);

/* ---- datagram_kernel.c: a socket of our own to ask the kernel with. Under the client lock but for
 * those that say so. */
void datagram_kernel_prepare(void);
void datagram_kernel_forked(void);
/* What could be sent to that peer through the kernel without fragments, bytes: larger ones are its
 * affair. */
uint32_t datagram_kernel_size_max(const struct flow *f);
/* Which source address would the kernel give a datagram to `to`? 0; negative errno: none, or it is
 * no single socket's. */
int datagram_kernel_source(const struct datagram_address *to, uint8_t ret_source[16]);
/* Bytes of a packet on the way there, headers included; 0: unknown. */
uint32_t datagram_kernel_mtu(const struct datagram_address *to);
/* Is there a socket that would receive a datagram from here to there? True if the kernel does not
 * tell. Takes the client lock. */
bool datagram_kernel_has_receiver(const struct datagram_address *from,
				  const struct datagram_address *to);
/* As udp_settle_kernel. Takes the client lock. */
bool datagram_kernel_settle(const struct udp_entry *entry);
/* Around each call of this thread that sends through the kernel; no lock. */
void datagram_kernel_enters(void);
void datagram_kernel_entered(struct udp_entry *entry);
/* Does the kernel note arrivals by now? */
bool datagram_kernel_notes(void);

#endif
