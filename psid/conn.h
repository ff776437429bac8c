/* Upgraded connections: two sides, each held by one or more processes. */
#ifndef PULC_PSID_CONN_H
#define PULC_PSID_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client.h"
#include "hint.h"
#include "holder.h"
#include "slab.h"
#include "tuple.h"

/* One side; absent (slab NULL) when a client has returned the other one and its own holder is not
 * back. */
struct psid_side {
	struct psid_map_node by_cookie; /* psid->cookies; with its flow, of a UDP socket */
	struct psid_conn *conn;
	struct psid_slab *slab;
	uint32_t slot;
	uint64_t cookie;
	bool proven;	/* psid has held the socket, or the kernel says that it is its user's */
	uint64_t token; /* of the first holder */
	struct psid_tuple tuple;
	Pulc__Wire__Transport transport;
	struct psid_user *user;
	LIST_HEAD(, psid_holder) holders;
	uint32_t n_holders, n_lost;
	uint64_t size_seen; /* traffic.c: bytes it had written, at the last look */
	bool unclaimed;	    /* the side says that it is held, by processes we don't know (yet) */
	Pulc__Wire__Reason reason;
};

struct psid_conn {
	struct psid_map_node by_id; /* psid->conns */
	struct psid *psid;
	uint64_t id;
	struct psid_side sides[2];
	/* return.c: where the absent side is, says the other one */
	uint64_t awaited_ino;
	uint32_t awaited_slot;
	/* doubt.c */
	TAILQ_ENTRY(psid_conn) doubt_link;
	bool doubted;
	bool told_dead; /* nobody holds the absent side */
};

/*
 * Makes the connection of two proven hints and sends Upgrade to both. Returns 0; the Reason
 * (positive) of a refusal; negative errno.
 */
int psid_conn_new(const struct psid_hint *a, const struct psid_hint *b);
/* Is this flow of this socket upgraded already? */
bool psid_conn_has_flow(const struct psid_hint *hint);
/* The side of a TCP socket with this cookie, if it is this user's or proven. */
struct psid_side *psid_side_find(const struct psid *psid, uint64_t cookie,
				 const struct psid_user *user);
/* The side of a TCP socket with this cookie that is this user's. */
struct psid_side *psid_side_of(const struct psid *psid, uint64_t cookie,
			       const struct psid_user *user);
struct psid_side *psid_side_other(const struct psid_side *side);
/* What those who hold it call it, never 0: each of the two ends has a number of its own. */
uint64_t psid_side_number(const struct psid_side *side);
bool psid_conn_is_half(const struct psid_conn *conn);
/* An absent side, its connection in the tables, with slab and slot, with transport and tuple if it
 * is a flow's, gets all else that it needs. Returns 0; negative errno. */
int psid_side_enter(struct psid_side *side, uint64_t cookie);
/* Does anybody have a descriptor of its socket, as far as one can tell? */
bool psid_side_is_held(const struct psid_side *side);
/* Lies something in the other side's ring that this one has not taken, or has it an error to
 * tell? */
bool psid_side_has_more(const struct psid_side *side);
/* Frees the connection if nobody will use it any more. */
void psid_conn_tidy(struct psid_conn *conn);
/* The kernel has said that nobody holds the socket of this side. */
void psid_side_end(struct psid_side *side);
/* The client, which has a detached one of the same process for forerunner, holds the side from now
 * on. */
int psid_side_claim(struct psid_side *side, struct psid_client *client);
/* It holds that side no more. */
void psid_side_disclaim(struct psid_side *side, struct psid_client *client);

/* Messages. Return 0; -EBADMSG. */
int psid_conn_closed(struct psid_client *client, uint64_t number);
int psid_conn_note(struct psid_client *client, uint64_t number, Pulc__Wire__Reason reason);
int psid_conn_adopt(struct psid_client *client, const Pulc__Wire__Adopt *msg);

/* The client has lost its channel: nothing tells any more what it does with its connections. */
void psid_conns_doubt(struct psid_client *client);
/* The client is gone without having closed what it held. False: there is more, for later. */
bool psid_conns_forget(struct psid_client *client, uint64_t nsec_until);

#endif
