/*
 * Talking to other psids. Messages of peer.proto, in order for each node, over connections that
 * are opened when there is something to say and closed when there is not. docs/cluster.md.
 *
 * Nothing here blocks, and no callback is called from within psid_peer_send.
 */
#ifndef PULC_PSID_PEER_H
#define PULC_PSID_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node.h"
#include "peer.pb-c.h"

#define PSID_PEER_SIZE_MAX (4u << 20)	 /* one encoded message */
#define PSID_PEER_SIZE_FULL (1u << 20)	 /* queued for one node: time to stop producing */
#define PSID_PEER_SIZE_LIMIT (64u << 20) /* queued for one node: no more is taken */

struct psid_cluster;

/*
 * Queues a message for a node; it is packed at once and stays the caller's. To ourselves too: that
 * arrives in a later turn of the loop. Messages arrive in order; when the connection breaks some
 * may be lost, and `lost` of psid_cluster_watch is called.
 * Returns 0; -EHOSTUNREACH: no such node, or it is dead or has left; -EMSGSIZE; -ENOBUFS: more than
 * PSID_PEER_SIZE_LIMIT is queued; -ENOMEM.
 */
int psid_peer_send(struct psid_cluster *cluster, uint64_t node, const Pulc__Peer__Message *msg);

/* Is there a connection that could be used at once? */
bool psid_peer_is_connected(const struct psid_cluster *cluster, uint64_t node);

/* Is more than PSID_PEER_SIZE_FULL queued? Then `drained` is called when it no longer is. */
bool psid_peer_is_full(const struct psid_cluster *cluster, uint64_t node);

/*
 * Keeps a connection to this node open, or opens it, with signs of life, so that its loss is
 * noticed soon; counted. Returns 0; -EHOSTUNREACH, -ENOMEM.
 */
int psid_peer_hold(struct psid_cluster *cluster, uint64_t node);
void psid_peer_unhold(struct psid_cluster *cluster, uint64_t node);

/*
 * What to do with an arriving message of one kind. from: the node, and its life at that time. msg
 * is valid until the return. Returns 0; -EBADMSG: makes no sense, the peer is dropped.
 */
typedef int psid_peer_handler(void *data, uint64_t from, uint64_t life,
			      const Pulc__Peer__Message *msg);
void psid_peer_on(struct psid_cluster *cluster, Pulc__Peer__Message__BodyCase kind,
		  psid_peer_handler *handler, void *data);

#endif
