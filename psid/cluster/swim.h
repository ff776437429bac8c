/*
 * Membership: who is in the cluster, alive or not. SWIM (Das, Gupta, Motivala, DSN 2002) with
 * Lifeguard's refinements (Dadgar, Phillips, Currey, DSN-W 2018); docs/cluster.md says what and
 * why.
 *
 * Pure logic: no socket, no clock, no thread. Whoever drives it hands it datagrams and the time,
 * and sends what it wants sent; psid does that with a socket (gossip.c), the tests with a simulated
 * network in virtual time.
 */
#ifndef PULC_PSID_SWIM_H
#define PULC_PSID_SWIM_H

#include <sys/queue.h>

#include "codec.h"
#include "members.h"

#define PSID_SWIM_SIZE_MAX 1200u /* of one datagram's body: no path fragments it */
#define PSID_SWIM_N_PROBES 8u
#define PSID_SWIM_N_RELAYS 32u
#define PSID_SWIM_N_SEEDS 272u /* configured seeds, resolved, and nodes */

/* Things that people should know. */
enum psid_swim_remark {
	PSID_SWIM_JOINED,     /* somebody has let us in */
	PSID_SWIM_ALONE,      /* no seed answers */
	PSID_SWIM_NAME_TAKEN, /* another living node has our name; `from` is its address */
	PSID_SWIM_NOT_LISTED, /* `from` is not in the configured list of nodes */
	PSID_SWIM_FULL,	      /* more nodes than n_nodes_max */
	PSID_SWIM_GARBAGE,    /* `from` knows the key, and makes no sense */
};

struct psid_swim;

/* What it calls, from within psid_swim_receive, psid_swim_run and the setters. */
struct psid_swim_ops {
	/* Sends a datagram, which may get lost. body is valid until the return. */
	void (*send)(void *data, const struct psid_address *to, const uint8_t *body, size_t len);
	/*
	 * Another node was `before` and is now what it is. is_new: in another life, or not known
	 * before. It may be forgotten at any time after the return.
	 */
	void (*changed)(void *data, struct psid_node *node, enum psid_node_state before,
			bool is_new);
	/* News of a node's load has come: it shows n_more processors in use than before. */
	void (*loaded)(void *data, struct psid_node *node, uint32_t n_more);
	/* The others had declared us dead; it has been contradicted. */
	void (*given_up)(void *data);
	void (*remark)(void *data, enum psid_swim_remark remark, const struct psid_address *from);
};

struct psid_swim_params {
	uint64_t usec_period; /* each node probes one other node so often */
	size_t n_nodes_max;
	bool closed;	 /* nobody but psid_swim_expect's nodes is let in */
	uint64_t random; /* any number; the same one gives the same course of events */
};

struct psid_probe {
	uint64_t target; /* 0: unused */
	uint16_t number;
	bool is_scheduled; /* that of the period, whose failure speaks against our own health */
	uint8_t n_rounds;  /* of asking again, and asking others to help */
	uint8_t n_helpers, n_excuses;
	uint64_t usec_next; /* the next round, or the end */
	uint64_t usec_start;
};

/* A probe that we make for another node. */
struct psid_relay {
	uint64_t origin; /* 0: unused */
	uint64_t target;
	uint16_t number, number_origin;
	uint64_t usec_end;
};

TAILQ_HEAD(psid_node_list, psid_node);
LIST_HEAD(psid_suspicion_list, psid_suspicion);

struct psid_swim {
	struct psid_swim_params params;
	const struct psid_swim_ops *ops;
	void *data;
	struct psid_members members;
	struct psid_node *self;
	uint64_t usec_now;     /* of the call that we are in */
	uint64_t msec_since;   /* what time it was, as lives count it, when usec_now was 0 */
	uint64_t usec_due;     /* of the next psid_swim_run */
	uint64_t usec_changed; /* something in the table did */
	uint32_t digest;       /* of all nodes that are up */
	bool started;
	bool out;	     /* we have left, or somebody else has our name */
	uint64_t n_given_up; /* the incarnations that the others have given up, of this life */

	uint64_t usec_forget; /* news.c */

	/* probe.c */
	uint64_t *order; /* ids, shuffled */
	size_t n_order, n_order_room, at_order;
	struct psid_probe probes[PSID_SWIM_N_PROBES];
	struct psid_relay relays[PSID_SWIM_N_RELAYS];
	uint16_t last_number;
	unsigned poor_health; /* Lifeguard's local health multiplier, 0 to 8 */
	uint64_t usec_probe;  /* the next one */

	/* suspicion.c */
	struct psid_suspicion_list suspicions;

	/* spread.c */
	struct psid_node_list hot, warm;
	size_t n_urgent;
	uint64_t usec_flush; /* not before */

	/* join.c */
	struct psid_address seeds[PSID_SWIM_N_SEEDS];
	size_t n_seeds;
	bool joined;
	bool is_refused;  /* somebody has said no */
	bool is_newcomer; /* the table is being filled for the first time */
	bool learning;	  /* from somebody who has told the others already */
	unsigned n_tries;
	uint64_t usec_join; /* the next try; also of finding again who was lost */

	/* sync.c */
	struct psid_address sync_peer;
	uint64_t sync_cursor;
	unsigned n_sync_tries; /* 0: none is under way */
	uint64_t usec_agreed;  /* somebody had the same digest */
	uint64_t usec_sync;    /* its next try, or not before that time another */
};

/*
 * A cluster of one node, `name` at `address`. life: milliseconds since 1970. Returns 0, -ENOMEM.
 * ops must outlive it.
 */
int psid_swim_init(struct psid_swim *swim, const struct psid_swim_params *params,
		   const struct psid_swim_ops *ops, void *data);
int psid_swim_be(struct psid_swim *swim, const char *name, const struct psid_address *address,
		 uint64_t life);
void psid_swim_deinit(struct psid_swim *swim);

/* A node that is configured: known, not heard of. A seed as well. Returns 0, -EEXIST, -ENOMEM,
 * -ENOSPC. */
int psid_swim_expect(struct psid_swim *swim, const char *name, const struct psid_address *address);
/* Somebody to ask for the others. Returns 0; -ENOSPC: enough of them. */
int psid_swim_seed(struct psid_swim *swim, const struct psid_address *address);

/* The greatest life that can be true at that time, whatever clocks say: a greater one is a lie. */
uint64_t psid_swim_life_max(const struct psid_swim *swim, uint64_t usec_now);

/* Begins: from now on psid_swim_run is called when it is due. */
void psid_swim_start(struct psid_swim *swim, uint64_t usec_now);
/* Does what is due. Returns when to call again at the latest. */
uint64_t psid_swim_run(struct psid_swim *swim, uint64_t usec_now);
/* A datagram has arrived. psid_swim_run afterwards. */
void psid_swim_receive(struct psid_swim *swim, uint64_t usec_now, const struct psid_origin *from,
		       const uint8_t *body, size_t len);
/* One has, sealed by that node in a life that is over; in from: the newest that is known. */
void psid_swim_outdated(struct psid_swim *swim, uint64_t usec_now, const struct psid_origin *from);

/* What this node says of itself has changed: self's n_cores, mib_memory, drained, address. */
void psid_swim_touch(struct psid_swim *swim, uint64_t usec_now);
/* Tells some of the others that we leave; nothing is done afterwards. */
void psid_swim_leave(struct psid_swim *swim, uint64_t usec_now);

#endif
