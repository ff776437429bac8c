/* Hints: connections and flows that a client would upgrade, or explains why not. */
#ifndef PULC_PSID_HINT_H
#define PULC_PSID_HINT_H

#include "client.h"
#include "tuple.h"

struct psid_handover;

enum psid_hint_state {
	PSID_HINT_SHOWN,   /* with a reason: for people only */
	PSID_HINT_WAITING, /* for the other end */
	PSID_HINT_MATCHED, /* in a hand-over */
	/* was asked for its socket and has not answered in time; not matched until then */
	PSID_HINT_LATE,
};

struct psid_hint {
	struct psid_map_node by_token; /* client->hints */
	struct psid_map_node by_tuple; /* psid->hints; not when only shown */
	TAILQ_ENTRY(psid_hint) link;   /* client->waiting or ->shown */
	struct psid_client *client;
	struct psid_handover *handover;
	uint64_t token, cookie, netns;
	struct psid_tuple tuple;
	enum psid_hint_state state;
	Pulc__Wire__Reason reason;
	Pulc__Wire__Transport transport;
	bool connector;
};

void psid_hints_init(struct psid_client *client);
/* Forgets all hints of a client and ends their hand-overs. */
void psid_hints_deinit(struct psid_client *client);

/* Messages. Return 0; -EBADMSG. */
int psid_hint_add(struct psid_client *client, const Pulc__Wire__Hint *msg);
int psid_hint_drop(struct psid_client *client, uint64_t token);

struct psid_hint *psid_hint_find(struct psid_client *client, uint64_t token);
/* Frees it; it must be in no hand-over. */
void psid_hint_free(struct psid_hint *hint);
/* Tells the client that nothing comes of it for now, and frees it. */
void psid_hint_deny(struct psid_hint *hint, Pulc__Wire__Reason reason);
/* Tells the client about a token that we have no hint of. */
void psid_deny(struct psid_client *client, uint64_t token, Pulc__Wire__Reason reason);

#endif
