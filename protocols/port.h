/*
 * The port protocol: kinds S, M and D. docs/native.md is normative for its frames and its flow
 * control.
 *
 * A frame's word is (to << 32 | from), each a port number of the node of whoever has it. Everything
 * under the caller's lock; nothing blocks: whoever calls decides how to wait.
 */
#ifndef PULC_PROTOCOLS_PORT_H
#define PULC_PROTOCOLS_PORT_H

#include "layout.h"
#include "macros.h"
#include "pairs.h"
#include "protocol.h"

/* Frame kinds; data has one of the first four. */
#define PORT_FIRST                                                                                 \
	0x1u /* of a message; if not also the last, 8 bytes with the message's size precede the payload */
#define PORT_LAST 0x2u
#define PORT_CREDIT 4u	/* struct port_about: cost of all that was ever taken */
#define PORT_REFUSED 5u /* struct port_about: there is no such port (any more) */
#define PORT_CLOSED 6u	/* the sender's port is closed, nothing more will come */
#define PORT_HOLD 7u	/* struct port_about: begin nothing, or no long datagram, until GO */
#define PORT_GO 8u	/* struct port_about */
/* A port that passes to another process; all but CARRY and MORE: payload: the hand-over's number, 8
 * bytes. */
#define PORT_MOVE 9u	 /* from the owner to everybody: begin no message to it, and say so */
#define PORT_STOPPED 10u /* the answer: none is under way */
#define PORT_STAYS 11u	 /* it was called off */
#define PORT_MOVED 12u	 /* ask psid anew whose it is */
#define PORT_CARRIES 13u /* to the taker: what is unread follows, */
#define PORT_CARRY 14u	 /* the beginning of a message (struct port_carried), */
#define PORT_MORE 15u	 /* and how it goes on; */
#define PORT_CARRIED 16u /* that was all */
#define PORT_WHOSE                                                                                 \
	17u /* from the owner, who has lost psid: did the taker hear that it is its own? */
#define PORT_MINE 18u  /* the answer: yes; */
#define PORT_YOURS 19u /* no, and it will not */
#define PORT_KEY                                                                                   \
	20u /* to the taker, before CARRIED: what guests show (guest.h); payload: 8 bytes */
#define PORT_BEGIN                                                                                 \
	21u /* struct port_about: data follows, to a port that is taken for one of this kind */
#define PORT_WANTS 22u /* struct port_about: a long datagram is to begin beyond PORT_PEER_LONG, */
#define PORT_MAY 23u   /* and the answer, struct port_about: it may, before any other one */
#define PORT_OVER 24u  /* behind all that this port has sent, where psid's word may overtake it */

/* What a source and its destination say of the one way between them: of which, as numbers of ports
 * are used again. */
struct port_about {
	uint64_t life; /* of the way, from BEGIN on: a number that the source gives once; never 0 */
	/* BEGIN: enum port_kind, CREDIT: cost, HOLD: enum port_hold, WANTS and MAY: a number of the
	 * source's; else 0 */
	uint64_t value;
};
/* With the kind, of a way that begins no long datagram before HOLD or GO has answered. */
#define PORT_ASKS 0x100u
enum port_hold {
	PORT_HOLD_ALL,	/* what has begun may be finished */
	PORT_HOLD_LONG, /* datagrams of more than a frame */
	PORT_HOLD_NONE,
};

/* What a source may have on its way to one port and unread there, bytes of cost; a message may
 * begin while less is used. */
#define PORT_WINDOW SHM_PORT_WINDOW
#define PORT_MESSAGE_MAX (16u << 20)
/* What all ways from one process to another may have so: beyond it one begins only if nothing of it
 * is unread, and beyond the second one none of more than a frame that has no leave. */
#define PORT_PEER_WINDOW (64u << 20)
#define PORT_PEER_LONG (96u << 20)
#define PORT_PEER_NEAR (PORT_PEER_WINDOW / 2) /* from here on all that is taken is told */
/* A message costs its length and this, so that small ones are bounded too. */
#define PORT_OVERHEAD 64u

#define PORT_N_BUCKETS 64u

/* Why a source or a destination has ended that lives on in another process. Not to be told to
 * anybody. */
#define PORT_ELSEWHERE (-ESTALE)

/* port_out.held */
#define PORT_HELD_BUDGET 1u /* the receiver keeps too much already */
#define PORT_HELD_MOVE 2u   /* it passes to another process */
#define PORT_HELD_NEW 4u    /* BEGIN has not been sent */

enum port_kind { PORT_S = 1, PORT_M = 2, PORT_D = 3 };

struct port_message;
TAILQ_HEAD(port_messages, port_message);

/* What a receiver wants. */
struct port_request {
	TAILQ_ENTRY(port_request) link; /* of the port's requests, if it is posted */
	const struct iovec *iov;
	unsigned n;
	size_t size;   /* of all pieces */
	uint32_t from; /* this source only; 0: any */
	uint32_t from_node;
	bool peek;
	bool once;   /* a stream's: complete with the first bytes, though there is room for more */
	bool posted; /* in the port's row */
	uint64_t turn; /* the order of posting */
	/* the answer */
	bool complete;
	int error;	   /* why nothing will come from the source */
	size_t done;	   /* bytes copied */
	size_t size_whole; /* of the message, kind D: may be more */
	uint32_t source;   /* port it came from */
	uint32_t source_node;
	/* a long message on its way straight to the buffers */
	struct port_in *bound;
};
TAILQ_HEAD(port_requests, port_request);

/* A receive without a buffer: it gets the message itself, and can give it back. */
struct port_borrow {
	struct port_request request;
	struct port_message *message;
};

/* One by one: to clear the whole would take longer than to receive a short message. */
static inline void port_request_init(struct port_request *r, const struct iovec *iov, unsigned n,
				     size_t size)
{
	r->iov = iov;
	r->n = n;
	r->size = size;
	r->from = r->from_node = 0;
	r->peek = r->once = r->posted = r->complete = false;
	r->turn = 0;
	r->error = 0;
	r->done = r->size_whole = 0;
	r->source = r->source_node = 0;
	r->bound = NULL;
}

/* What a sender wants; all but the pieces and their size begin as 0. */
struct port_sending {
	const struct iovec *iov;
	unsigned n;
	size_t size, at; /* bytes in all, bytes sent */
	bool begun;
	/* queued: nobody waits inside of a call for it */
	TAILQ_ENTRY(port_sending) link;
	bool complete;
	int error;
};
TAILQ_HEAD(port_sendings, port_sending);

/* A source, as the receiving port sees it. */
struct port_in {
	LIST_ENTRY(port_in) link;
	struct port *port;
	struct peer *peer;
	uint64_t life; /* of BEGIN; 0: it is waited for, and has not begun */
	uint64_t era;  /* protocol_era then */
	uint64_t word; /* of its data; 0: it has not begun */
	uint32_t from;
	int ended; /* negative errno: nothing more will come, and why */
	/* cost of all that ever was so: of what has begun, the whole */
	uint64_t begun, taken, told;
	uint32_t step; /* it is told of each such part */
	struct port_messages queue;
	struct port_message *partial;
	struct port_request *direct;
	size_t size_long;		  /* of the message under way */
	uint64_t size_unread;		  /* memory of `queue` */
	uint32_t shown;			  /* its entry in what psid is shown (shm/pairs.h) */
	bool sought;			  /* somebody has asked for it since something was kept */
	bool waits;			  /* it was told to wait, */
	enum port_hold held;		  /* with what, */
	LIST_ENTRY(port_in) link_held;	  /* and stands among those */
	uint32_t n_borrowed;		  /* of its messages: it stays */
	uint64_t wants;			  /* WANTS, unanswered; 0: it does not, */
	LIST_ENTRY(port_in) link_wanting; /* or stands among those */
	uint64_t may; /* it has leave for that one of its process's (port_long.c) */
};

/* A destination, as the sending port sees it. */
struct port_out {
	LIST_ENTRY(port_out) link;
	struct port *port;
	struct peer *peer;
	uint32_t to;
	enum port_kind kind;  /* of the destination: messages or bytes */
	int error;	      /* why nothing more can be sent */
	uint32_t n_waiting;   /* frames accepted, without room yet */
	uint32_t n_inside;    /* calls that wait: it stays */
	unsigned held;	      /* PORT_HELD_: it may not be sent to */
	uint64_t life;	      /* of BEGIN */
	uint64_t era;	      /* protocol_era, when it was found there */
	bool busy;	      /* a long message of somebody who waits for room is under way */
	bool waits;	      /* it took nothing more when it was last tried */
	bool no_long;	      /* no datagram of more than a frame may begin */
	uint64_t sent, freed; /* cost of what has begun, the whole, and of what was taken of it */
	uint64_t wants, may;  /* the last number that was asked for with WANTS, and answered */
	uint32_t shown;	      /* its entry in what psid is shown (shm/pairs.h) */
	struct port_sendings queue; /* in order; before all who have not begun */
	TAILQ_ENTRY(port_out) link_queued;
	uint64_t mark; /* of hal_ops.flush, while the port is being closed */
};

LIST_HEAD(port_ins, port_in);
LIST_HEAD(port_outs, port_out);

struct port {
	LIST_ENTRY(port) link;
	uint32_t number;
	enum port_kind kind;
	void *owner; /* libpulc's */
	struct port_ins ins[PORT_N_BUCKETS];
	struct port_outs outs[PORT_N_BUCKETS];
	unsigned n_ins, n_outs;
	uint64_t size_unread;	       /* memory of `messages` */
	struct port_messages messages; /* to be received, in order of arrival */
	/* oldest first; nothing that one of them wants is in `messages` */
	struct port_requests posted;
	struct port_ins wanting; /* sources that wait for leave */
	struct port_out *out_last;
	struct port_in *in_last; /* to whose reader bytes went last: probably the next one's too */
	struct port_give *give;	 /* it passes to another process */
	uint32_t shown;		 /* its entry in what psid is shown (shm/state.h), */
	unsigned n_held,
		n_waits; /* and of that: sources that are held, destinations that are waited for */
	uint64_t place;	 /* of what is queued next */
	uint64_t key;	 /* of its guests (guest.h); 0: it can have none */
	bool crowded;	 /* it keeps too much, and all its sources know */
};

/* What comes of this source is what the request is for. */
static inline bool port_is_from(const struct port_in *in, const struct port_request *r)
{
	return !r->from || (r->from == in->from && r->from_node == in->peer->node);
}

extern const struct protocol port_protocol __attribute__((visibility("hidden")));

/* A port that psid has granted. NULL: no memory. */
struct port *port_new(uint32_t number, enum port_kind kind);
/* Tells all its peers, and frees it. Nobody is inside a call. */
void port_free(struct port *port);
/* Where psid's word of its end may overtake what it has sent: it is behind that. */
void port_say_over(struct peer *peer, uint32_t number);
/* As port_free in a forked child: nobody is told. */
void port_forget(struct port *port);
struct port *port_find(uint32_t number);
/* All of them; NULL begins and ends. */
struct port *port_next(const struct port *port);
/* The same, but nobody finds it until it is entered. */
struct port *port_new_apart(uint32_t number, enum port_kind kind);
void port_enter(struct port *port);

/* ---- sending --------------------------------------------------------------------------------- */

struct port_out *port_out_search(struct port *port, uint32_t node, uint32_t to);
static inline struct port_out *port_out_find(struct port *port, uint32_t node, uint32_t to)
{
	struct port_out *out = port->out_last;

	return LIKELY(out && out->to == to && out->peer->node == node)
		       ? out
		       : port_out_search(port, node, to);
}
/* It has neither credit nor leave to send, or may be tried again. */
void port_out_wait(struct port_out *out, bool waits);
/* It is to wait with this. */
void port_out_hold(struct port_out *out, enum port_hold what);
/* Calls f for each of all ports' destinations; f may free it. */
void port_each_out(void (*f)(struct port_out *out, void *arg), void *arg);
/* NULL: no memory. */
struct port_out *port_out_new(struct port *port, uint32_t to, enum port_kind kind,
			      struct peer *peer);
void port_out_free(struct port_out *out);

/*
 * Sends on. Returns 0: all is sent; -EAGAIN: no credit or no room now, call again with what is left
 * of it; -EMSGSIZE; -ECONNREFUSED: no such port there; -ECONNRESET: its process is gone; -EBADMSG:
 * it made no sense.
 */
int port_push(struct port_out *out, struct port_sending *s);
/* A message has begun, or is about to; a negative cost takes back. */
static inline void port_count_sent(struct port_out *out, uint64_t cost)
{
	out->sent += cost;
	out->peer->size_there += cost;
	shm_pair_set(out->shown, 0, out->sent - out->freed);
}
/* What a way may have unread when another message begins. */
static inline uint64_t port_window(uint64_t size_peer)
{
	return LIKELY(size_peer < PORT_PEER_WINDOW) ? PORT_WINDOW : 1;
}
static inline bool port_has_credit(const struct port_out *out)
{
	return out->sent - out->freed < port_window(out->peer->size_there);
}
/* No credit is wanting and nothing is wrong. */
static inline bool port_may_begin(const struct port_out *out)
{
	/* One branch for all of them. */
	return !((unsigned)out->error | out->busy | out->held | out->n_waiting) &&
	       port_has_credit(out);
}
/* The rest of a message that has begun is copied and will be sent as there is room. 0; -ENOMEM. */
int port_push_later(struct port_out *out, struct port_sending *s);
/* Nothing can be sent to this destination any more. */
static inline bool port_is_end(ssize_t e)
{
	return e == -ECONNRESET || e == -ECONNREFUSED || e == -EBADMSG;
}
/* Sends as soon as there is room, by port_push_queued; s->complete says when. out is not to be used
 * afterwards, it may be gone then. */
void port_send_queue(struct port_out *out, struct port_sending *s);
/* Takes back one that is not complete. */
void port_send_unqueue(struct port_out *out, struct port_sending *s);
/* Sends what is queued, as far as credit and room go. */
void port_push_queued(void);
/* Destinations with a queue, sources that were told to wait, ports of others that pass to another
 * process: what port_push_queued sees to. */
TAILQ_HEAD(port_row, port_out);
struct move;
LIST_HEAD(port_moves, move);
extern struct port_row port_queued __attribute__((visibility("hidden")));
extern struct port_ins port_held __attribute__((visibility("hidden")));
extern struct port_moves port_moves __attribute__((visibility("hidden")));
extern bool port_credit_owed __attribute__((visibility("hidden"))); /* a source was not told */
static inline bool port_any_to_move(void)
{
	return !TAILQ_EMPTY(&port_queued) || !LIST_EMPTY(&port_held) || !LIST_EMPTY(&port_moves) ||
	       port_credit_owed;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Takes what is there. Returns 0: the request is complete; -EAGAIN; or why nothing will come from
 * r->from. */
int port_take(struct port *port, struct port_request *r);
/* It gets what comes next, after those that were posted before; r->complete tells when, r->error
 * how. */
void port_post(struct port *port, struct port_request *r);
/* Takes it back; what has arrived in part is kept. -ENOMEM: a message is lost, the peer's link
 * ends. */
int port_unpost(struct port *port, struct port_request *r);
/* A receive of up to so many bytes of a stream, or of a whole datagram. Posted and taken back as
 * any. */
void port_borrow_init(struct port_borrow *b, size_t size);
static inline bool port_is_borrow(const struct port_request *r)
{
	return r->n == 0 && r->size;
}
/* What is lent: its bytes; NULL: nothing is. */
const unsigned char *port_borrow_bytes(const struct port_borrow *b, size_t *ret_len);
/* It was received. */
void port_borrow_end(struct port_borrow *b);
/* It was not: it is to be received where it stood. Serves who waits for it. */
void port_borrow_return(struct port_borrow *b);
/* It stays lent, but its port will be gone. */
void port_borrow_detach(struct port_borrow *b);
/* Is there something to receive? */
static inline bool port_has(const struct port *port)
{
	return !TAILQ_EMPTY(&port->messages);
}
/* The port's reader, or that of this one source, has looked and found nothing. */
void port_long_sought(struct port *port, struct port_in *in);
/* The same question, by a reader: if there is nothing, what waits for him may come. */
static inline bool port_look(struct port *port)
{
	if (UNLIKELY(!port_has(port) && !LIST_EMPTY(&port->wanting)))
		port_long_sought(port, NULL);
	return port_has(port);
}

/* ---- inside: port.c, port_arrive.c, port_queue.c --------------------------------------------- */

/* The source at this peer, unless it has ended. */
struct port_in *port_in_find(const struct port *port, const struct peer *peer, uint32_t from);
/* Of all that had this number: the first with something to take, else the last one. NULL also if it
 * was last heard of elsewhere. */
struct port_in *port_in_of(const struct port *port, uint32_t node, uint32_t from);
struct port_in *port_in_new(struct port *port, struct peer *peer, uint32_t from);
void port_in_end(struct port_in *in, int why);
int port_arrived(struct peer *peer, const struct hal_frame *f);
/* Posts it again, where it stood. */
void port_repost(struct port *port, struct port_request *r);
/* Nothing more is for it. */
void port_take_off(struct port *port, struct port_request *r);
/* Something has been queued, or a source has ended: whoever wants it is served. */
void port_serve_posted(struct port *port);
/* A source is told of each such part of its window that was taken. */
#define PORT_TOLD (256u << 10)
void port_tell_taken(struct port_in *in);
/* This much of what the source has sent needs no room any more. */
static inline void port_taken(struct port_in *in, uint64_t cost)
{
	in->taken += cost;
	if (UNLIKELY(in->taken - in->told >= in->step))
		port_tell_taken(in);
}
/* Copies the payload of the frame that is shown. -ENOMEM. */
int port_queue_frame(struct port_in *in, uint32_t len, uint32_t skip);
/* A message of kind D that comes in several frames. */
int port_queue_begin(struct port_in *in, size_t size);
int port_queue_more(struct port_in *in, uint32_t len, uint32_t skip, bool last);
void port_queue_free(struct port_in *in);
void port_queue_drop_partial(struct port_in *in);
/* Pieces [at, at + len) of an iovec, at most n_max of them. Returns their number; *ret_len: the
 * bytes that they have. */
unsigned port_slice(const struct iovec *iov, unsigned n, size_t at, size_t len, struct iovec *to,
		    unsigned n_max, size_t *ret_len);

/* ---- port_credit.c --------------------------------------------------------------------------- */
/* May the source begin a message? No honest one begins another. */
bool port_credit_allows(const struct port_in *in);
/* One of more than a frame needs leave. */
bool port_credit_is_full(const struct peer *peer);
/* The peer has much unread: its sources are told of all that is taken. */
void port_credit_near(struct peer *peer);
/* A message begins to come, which costs that, whole; a negative cost takes back. */
static inline void port_credit_begun(struct port_in *in, uint64_t cost)
{
	in->begun += cost;
	in->peer->size_here += cost;
	if (UNLIKELY(in->peer->size_here >= PORT_PEER_NEAR))
		port_credit_near(in->peer);
}
/* The source is told of what was taken in such parts as its process is. */
void port_credit_step(struct port_in *in);
/* Nothing more comes of the source. */
void port_credit_leave(struct port_in *in);
/* Tells whom it could not be said to before. */
void port_credit_move_on(void);
/* The destination has told of so much more. */
void port_credit_freed(struct port_out *out, uint64_t freed);
/* What was sent there concerns nobody any more. */
void port_credit_end(struct port_out *out);
/* Nothing can be sent to this destination any more, and why. */
void port_out_end(struct port_out *out, int why);

/* ---- port_long.c ----------------------------------------------------------------------------- */
/* May a long datagram begin there, beyond PORT_PEER_LONG? Asks for it. */
bool port_long_may(struct port_out *out);
/* One has. */
void port_long_began(struct peer *peer);
/* MAY. 0; -EBADMSG. */
int port_long_answered(struct port_out *out, uint64_t number);
/* WANTS. 0; -EBADMSG. */
int port_long_wanted(struct port_in *in, uint64_t number);
/* Has the source leave to begin one? */
bool port_long_has_leave(const struct port_in *in);
/* It does, */
void port_long_begun(struct port_in *in);
/* and all of it is there. */
void port_long_ended(struct port_in *in);
/* The source is going. Others may have leave now. */
void port_long_forget(struct port_in *in);
/* Gives leave to whom somebody waits for with a receive. */
void port_long_move_on(void);

/* ---- port_budget.c --------------------------------------------------------------------------- */
/* What all ports may keep, in bytes; 0: the usual. */
void port_budget_set(uint64_t size);
uint64_t port_budget_used(void);
/* So much more is kept of this source; its sender may be told to wait. */
void port_budget_take(struct port_in *in, size_t size);
void port_budget_give(size_t size);
/* The source has begun; asks: it waits for an answer. */
void port_budget_begun(struct port_in *in, bool asks);
/* May the peer begin no other way now? Then its link is held until it may. */
bool port_budget_bars(struct peer *peer);
/* So much more is unread of the peer's ways that have ended. */
void port_budget_leave(struct peer *peer, size_t size);
/* The source is going. */
void port_budget_forget(struct port_in *in);
/* A receive is posted that would get what the source sends. */
bool port_is_posted_for(const struct port_in *in);
/* Lets go whom there is room for again. */
void port_budget_move_on(void);

/* Of a port: `kind` is CLOSED or has the number of a hand-over. As peer_send_later. */
int port_control(struct peer *peer, uint64_t word, unsigned kind, uint64_t value);
/* Of the way from a source, or to a destination. */
int port_say(struct peer *peer, uint64_t word, unsigned kind, struct port_about about);
int port_say_back(const struct port_in *in, unsigned kind, uint64_t value);
/* The same, of what nobody will say again: however many wait. */
int port_control_surely(struct peer *peer, uint64_t word, unsigned kind, uint64_t value);
int port_say_back_surely(const struct port_in *in, unsigned kind, uint64_t value);

/* ---- port_move.c: ports of others that pass from one process to another ---------------------- */

/* What the owner of the port says of it: MOVE, STAYS or MOVED. As protocol.arrived. */
int port_move_said(struct peer *peer, uint32_t number, unsigned kind, uint64_t move);
/* Answers whom it can be answered by now. */
void port_moves_on(void);
/* Is this port of the peer's about to pass to another one? */
bool port_is_moving(const struct peer *peer, uint32_t number);
/* The peer is gone, or has no longer this port (0: any) that it had before (protocol_era): what was
 * about to pass has passed, as far as can be known here. */
void port_moves_end(struct peer *peer, uint32_t number, uint64_t before);
void port_moves_forked(void);
/* Somebody waits for what has passed to another process, and is to be found there:
 * native_move.c. */
extern bool port_any_elsewhere __attribute__((visibility("hidden")));
/* It is found at this peer; the messages that wait go there. */
void port_out_rebind(struct port_out *out, struct peer *peer);

/* ---- port_give.c: one of ours ---------------------------------------------------------------- */

/* Begins to give the port to the peer. -ENOMEM. */
int port_give_begin(struct port *port, struct peer *to, uint64_t move);
/* Asks this peer to stop, once. 0; or why it cannot be asked now. */
int port_give_ask(struct port *port, struct peer *peer);
/* The peer has. */
void port_give_stopped(struct port *port, const struct peer *peer, uint64_t move);
/* Sends on what is unread, once all who were asked have stopped. 0: all is sent; -EAGAIN; or why it
 * cannot be. */
int port_give_on(struct port *port);
/* All of it is on its way to the taker, which may have heard from psid that it is its own. */
bool port_give_is_carried(const struct port *port);
/* Asks the taker, once, whose it is. 0: it is the taker's; -ENOTCONN: it is ours; -EAGAIN: there is
 * no answer yet. */
int port_give_settle(struct port *port);
/* The taker's answer. */
void port_give_answered(struct port *port, const struct peer *peer, uint64_t move, bool is_theirs);
/* All who were asked hear that it stays. */
void port_give_off(struct port *port);
/* It is the peer's now: forgotten here, and all who were asked hear that. */
void port_give_done(struct port *port);
/* No more than forgotten: in a forked child. */
void port_give_forget(struct port *port);
/* Is any being given? */
bool port_give_any(void);

/* ---- port_take.c: one that becomes ours, one at a time --------------------------------------- */

/* Expects its messages from the peer. -ENOMEM. */
int port_take_begin(uint32_t number, enum port_kind kind, struct peer *from, uint64_t move);
/* CARRIES, CARRY, MORE, CARRIED. As protocol.arrived. */
int port_take_arrived(struct peer *peer, const struct hal_frame *f);
bool port_take_is_complete(void);
/* The owner's link has broken. */
bool port_take_is_lost(void);
/* The port, with all that it was given; its own from now on. */
struct port *port_take_end(void);
/* Nothing comes of it. */
void port_take_forget(void);
/* WHOSE: the owner does not know. 0; -EAGAIN: cannot be answered now. What has not been taken by
 * now will not be. */
int port_take_asked(struct peer *peer, uint32_t number, uint64_t move);
/* The owner knows what has become of it, or (0) of nothing any more. */
void port_take_told(const struct peer *peer, uint32_t number);
void port_take_forked(void);

/* A message in a CARRY, before its bytes. */
struct port_carried {
	uint32_t node;
	int32_t ended; /* its source has */
	uint64_t size;
};
/* port_queue.c. The next of what is unread; its source and bytes. */
struct port_message *port_queue_next(const struct port *port, const struct port_message *m);
size_t port_queue_look(const struct port_message *m, struct port_in **ret_in,
		       const unsigned char **ret_data);
/* Copies the frame's payload behind what came of in->partial; when all of that is there, it is to
 * be received. 0; -EBADMSG. */
int port_queue_carry(struct port_in *in, struct hal_link *link, uint32_t len, uint32_t skip);

#endif
