/*
 * Requests of guests inside their owner: guest_serve.c has their frames, guest_work.c does them.
 */
#ifndef PULC_PROTOCOLS_GUEST_WORK_H
#define PULC_PROTOCOLS_GUEST_WORK_H

#include "guest.h"

enum guest_request_stage {
	GUEST_COMING,  /* bytes of a send are still to come */
	GUEST_NEW,     /* to be begun; one that only looks stays so until there is something */
	GUEST_POSTED,  /* a receive, in the port's row, */
	GUEST_QUEUED,  /* or a send, in its destination's; until it is complete */
	GUEST_ANSWERS, /* its answer is to be sent */
	GUEST_LENT,    /* its message is with the guest, which has not said so */
	GUEST_OVER,
};

struct guest;

struct guest_request {
	TAILQ_ENTRY(guest_request) link;
	struct guest *guest; /* NULL: it has its answer, or is gone */
	struct port *port;   /* NULL: refused, or the port is gone */
	uint64_t word;
	enum guest_request_stage stage;
	bool is_send;
	unsigned flags;
	uint32_t node, other; /* whom to; from whom, 0: anybody */
	size_t size;
	unsigned char *data; /* what is sent; NULL: refused, or not needed any more */
	size_t size_counted; /* of the guest's window: bytes that are kept, or are to be */
	size_t n_said;	     /* bytes of it that are here; of the answer that have left, */
	bool has_begun;	     /* if any of it has */
	struct iovec iov;    /* data, for the sending */
	struct port_out *out;
	struct port_sending sending;
	struct port_borrow borrow;
	uint64_t events; /* when its source was not to be found */
	unsigned n_looks;
	int64_t result;
};
TAILQ_HEAD(guest_requests, guest_request);
extern struct guest_requests guest_requests __attribute__((visibility("hidden")));

/* Begins it, or sees how far it is. *waits: some send before it waits for its destination to be
 * found; set if this one does. */
void guest_work(struct guest_request *q, bool *waits);
/* The bytes of a send are needed no more: its guest may send others. */
void guest_data_free(struct guest_request *q);
/* It comes to nothing, for this reason; bytes that are still to come are dropped. */
void guest_refuse(struct guest_request *q, int error);
/* The guest wants a send no more, all of which is here. */
void guest_stop(struct guest_request *q);
/* The guest wants nothing more. False: a datagram of which a part has left follows by itself. */
bool guest_drop(struct guest_request *q);
/* No more than forgotten: in a forked child. */
void guest_forget(struct guest_request *q);
/* The guest is told before it is done, and nobody waits any more. False: not now. */
bool guest_answer_early(struct guest_request *q, int64_t result);

#endif
