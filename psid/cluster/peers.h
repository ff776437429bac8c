/* The peers: psids that we talk to, or have something to say to. */
#ifndef PULC_PSID_PEERS_H
#define PULC_PSID_PEERS_H

#include "deadline.h"
#include "greeting.h"
#include "link.h"
#include "map.h"
#include "peer.h"
#include "frames.h"
#include "tls.h"

#define PSID_N_PEER_KINDS 128u /* numbers of the body of peer.proto's Message are below */

struct psid_peer {
	struct psid_map_node by_id;
	TAILQ_ENTRY(psid_peer) dirty;
	struct psid_cluster *cluster;
	uint64_t id, life;	 /* life: of the psid that we are, or were last, connected with */
	struct psid_link *link;	 /* in use, or being made by us; NULL: none */
	struct psid_queue queue; /* what waits for a link */
	struct psid_deadline idle, beat, retry;
	unsigned n_holds, n_failures;
	bool is_dirty, was_full;
	bool is_busy; /* something was said since `idle` was set */
};

struct psid_peers {
	struct {
		psid_peer_handler *serve;
		void *data;
	} handlers[PSID_N_PEER_KINDS];
	struct psid_queue to_self;
	struct psid_map table;
	TAILQ_HEAD(, psid_peer) dirty;
	struct psid_deadlines handshakes, idles, beats, retries;
	LIST_HEAD(, psid_link) links;
	unsigned n_links;
	uint64_t n_garbage;
	struct psid_tls tls;
	struct psid_greeting greeting;
	int fd; /* listens */
	uv_poll_t poll;
	uv_timer_t pause; /* of the listening */
	bool is_open;
};

void psid_peers_init(struct psid_cluster *cluster);
void psid_peers_deinit(struct psid_cluster *cluster);
/* Listens. Returns 0; negative errno, with a line in the log. */
int psid_peers_open(struct psid_cluster *cluster, const struct psid_address *address);
/* Puts it into the loop. Returns 0, negative errno. */
int psid_peers_attach(struct psid_cluster *cluster);
void psid_peers_close(struct psid_cluster *cluster);
/* This node is dead, has left, or is in another life. */
void psid_peers_gone(struct psid_cluster *cluster, const struct psid_node *node);
/* Nobody answers our datagrams: asks the seeds by TCP why that may be, for the log. */
void psid_peers_inquire(struct psid_cluster *cluster);
/* What was put off: messages to ourselves, and what is to be sent. */
void psid_peers_turn(struct psid_cluster *cluster);
/* Hands a message to its handler. Returns 0; -EBADMSG. */
int psid_peers_serve(struct psid_cluster *cluster, uint64_t from, uint64_t life,
		     const Pulc__Peer__Message *msg);

/* hello.c: who is at the other end, before anything else is said */
int psid_hello_say(struct psid_link *link, uint64_t to);
int psid_hello_take(struct psid_link *link, const Pulc__Peer__Message *msg);

/* door.c: who knocks */
int psid_door_open(struct psid_cluster *cluster, const struct psid_address *address);
int psid_door_attach(struct psid_cluster *cluster);
void psid_door_close(struct psid_cluster *cluster);

/* peers.c, for hello.c */
struct psid_peer *psid_peer_get(struct psid_cluster *cluster, uint64_t id);
/* From now on the link is the peer's; another that it had is ended. */
void psid_peer_take_link(struct psid_peer *peer, struct psid_link *link, uint64_t life);
/* The peer says that it is connecting to us: its link is the one. */
void psid_peer_yield(struct psid_peer *peer);
/* Packs a message onto a link. Returns 0, -ENOMEM. */
int psid_link_say(struct psid_link *link, const Pulc__Peer__Message *msg);

#define PSID_PEER_MESSAGE(name, kind, field)                                                       \
	Pulc__Peer__Message name = PULC__PEER__MESSAGE__INIT;                                      \
	name.body_case = PULC__PEER__MESSAGE__BODY_##kind;                                         \
	name.field

#endif
