/*
 * The protocol of shared ports: a port has one owner, and guests, which are processes forked from
 * whoever opened it, ask the owner to send and to receive with it. docs/native.md is normative for
 * its frames.
 *
 * Everything under the caller's lock; nothing blocks: whoever calls decides how to wait.
 */
#ifndef PULC_PROTOCOLS_GUEST_H
#define PULC_PROTOCOLS_GUEST_H

#include "port.h"
#include "protocol.h"

/* Frame kinds; the word is (port << 32 | the guest's number of the request). From the guest: */
#define GUEST_SEND 1u	   /* struct guest_ask, and the first bytes */
#define GUEST_SEND_MORE 2u /* the next ones */
#define GUEST_RECEIVE 3u   /* struct guest_ask */
#define GUEST_WITHDRAW 4u  /* it has not been done for me, and is not to be */
#define GUEST_TAKEN 5u	   /* the message is here */
/* From the owner: */
#define GUEST_ANSWER 6u	     /* struct guest_answer, and the first bytes */
#define GUEST_ANSWER_MORE 7u /* the next ones */

/* guest_ask.flags */
#define GUEST_DONTWAIT 1u
#define GUEST_PEEK 2u /* a receive that leaves the message there, */
#define GUEST_LOOK 4u /* or only waits until there is one */
#define GUEST_PART 8u /* a send of which more follows as another request: right for a stream only */

/* Bytes of one request. */
#define GUEST_SEND_MAX PORT_MESSAGE_MAX
/* A guest may ask to send while what it has asked for before, and was not told of, is less than
 * this. */
#define GUEST_WINDOW PORT_WINDOW
/* Requests of one guest at one owner that are not answered. */
#define GUEST_N_MAX 1024u

struct guest_ask {
	uint64_t key;  /* of the port; who has it was forked from its opener */
	uint64_t size; /* of what is sent; of the buffer */
	uint32_t node; /* whom to, or from whom; */
	uint32_t port; /* 0: from any */
	uint64_t flags;
};

struct guest_answer {
	int64_t result; /* bytes sent, or 0; negative errno; PORT_ELSEWHERE: it is not here */
	uint64_t size;	/* of the whole message; with PORT_ELSEWHERE: bytes sent */
	uint64_t len;	/* bytes that follow, with this frame and others */
	uint32_t node;	/* whose they are */
	uint32_t port;
};
_Static_assert(sizeof(struct guest_ask) == 32 && sizeof(struct guest_answer) == 32, "on the wire");

extern const struct protocol guest_protocol __attribute__((visibility("hidden")));

/* ---- what a guest asks: guest_ask.c ---------------------------------------------------------- */

enum guest_stage {
	GUEST_PARKED, /* its owner is to be found */
	GUEST_ASKS,   /* has more to say to it */
	GUEST_ASKED,
	GUEST_COMES, /* a part of its answer is here, */
	GUEST_OWES,  /* or all, and the owner is to be told */
};

/* What a call of a guest's wants. */
struct guest_call {
	TAILQ_ENTRY(guest_call) link;
	void *owner; /* libpulc's */
	struct peer *peer;
	uint64_t key;
	uint32_t number; /* of the port */
	uint32_t id;
	bool is_send;
	unsigned flags; /* GUEST_ */
	uint32_t node, port;
	const struct iovec *iov;
	unsigned n;
	size_t size; /* of all pieces */
	size_t base,
		/* a send: bytes in earlier requests, bytes said of this one; a receive: `at` bytes
		 * are here */
		at;
	enum guest_stage stage;
	bool withdrawn; /* a send: the owner was asked to leave it */
	/* a send: its owner has the port no longer, and may have closed it without seeing this */
	bool doubts;
	unsigned n_parked; /* so often it was not where psid had said */
	/* the answer */
	bool complete;
	int error;
	size_t size_whole, size_coming;
	uint32_t source, source_node;
};
TAILQ_HEAD(guest_calls, guest_call);

/* Begins, parked: iov, n, is_send, flags, node, port, number, key are the caller's to fill in; all
 * else is 0. */
void guest_call_begin(struct guest_call *c);
/* An earlier one of its kind on the port is parked; or, of sends, is with another owner than this
 * peer (NULL: not known yet): it is not to be passed. */
bool guest_call_is_behind(const struct guest_call *c, const struct peer *peer);
/* The owner is to be found at this peer. */
void guest_call_at(struct guest_call *c, struct peer *peer);
/* It will not be found. */
void guest_call_fail(struct guest_call *c, int error);
/* Takes it back. 0: it is complete, with -ECANCELED if nothing of it was done; 1: the owner was
 * asked; -EAGAIN: it cannot be asked now. */
int guest_call_cancel(struct guest_call *c);
/* All that are not complete; NULL ends. */
struct guest_call *guest_call_next(const struct guest_call *c);

/* ---- what an owner does for guests: guest_serve.c -------------------------------------------- */

/* How a destination, or a source, becomes known without waiting. 0; -EINPROGRESS: later; their
 * errors. */
struct guest_finder {
	int (*out)(struct port *port, uint32_t node, uint32_t to, struct port_out **ret_out);
	int (*source)(struct port *port, uint32_t node, uint32_t from);
};
extern const struct guest_finder *guest_finder __attribute__((visibility("hidden")));

/* The port is closed: its guests hear of it. */
void guest_port_end(struct port *port);
/* It is to pass to another process: nothing new is begun for its guests. */
void guest_port_hold(struct port *port);
/* Nothing of a guest's is under way. */
bool guest_port_rests(const struct port *port);
/* It has passed: guests are to look for it anew. */
void guest_port_moved(struct port *port);

/* ---- both ------------------------------------------------------------------------------------ */

/* Calls and requests that are not over. */
extern unsigned guest_n_open __attribute__((visibility("hidden")));
/* Goes on with all of them, in progress. */
void guest_move_on(void);
void guest_calls_move_on(void);
void guest_requests_move_on(void);
/* There is something to do that needs no news. */
bool guest_any_to_move(void);
/* In a forked child, before its ports are forgotten. */
void guest_forked(void);

/* From the handler. */
int guest_asked(struct peer *peer, const struct hal_frame *f);
int guest_answered(struct peer *peer, const struct hal_frame *f);
void guest_calls_gone(const struct peer *peer);
/* The peer has that port no longer. */
void guest_calls_closed(const struct peer *peer, uint32_t number);
void guest_requests_gone(const struct peer *peer);
void guest_calls_forked(void);
void guest_requests_forked(void);

#endif
