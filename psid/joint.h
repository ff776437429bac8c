/* Inside of remote.c and joint.c: a client of ours and one of another node. */
#ifndef PULC_PSID_JOINT_H
#define PULC_PSID_JOINT_H

#include "client.h"
#include "deadline.h"
#include "cluster.h"
#include "peer.h"

struct psid_ask;
struct psid_meeting;

struct psid_joint {
	LIST_ENTRY(psid_joint) all, by_client;
	struct psid_client *client;
	uint64_t node, life;
	uint32_t other;	 /* its number at its psid */
	uint32_t number; /* what our client knows it by */
	uint64_t conn;	 /* the number of our client's end */
	bool is_joined;	 /* our client has its end, and what follows is over */
	struct psid_deadline deadline;
	struct psid_meeting *meeting;
	int fd; /* our end; -EBADF: not yet */
	bool has_ports;
	bool is_untold;	 /* the other psid has missed news of our client's ports, */
	bool is_behind;	 /* or our client of the other one's */
	uint32_t *ports; /* of the other's */
	size_t n_ports;
};

struct psid_remote {
	struct psid *psid;
	LIST_HEAD(, psid_joint) joints;
	LIST_HEAD(, psid_ask) asks;
	unsigned n_asks, n_meeting;
	uint32_t last_ask;
	struct psid_deadlines asks_due, joints_due;
	struct psid_cluster_watch watch;
};

/* ---- joint.c --------------------------------------------------------------------------------- */
/* NULL: they have nothing to do with each other. */
struct psid_joint *psid_joint_find(const struct psid_client *client, uint64_t node, uint32_t other);
/* Does this node lead what it does together with that one? */
bool psid_joint_leads(const struct psid *psid, uint64_t node);
/* Brings them together; psid_asks_settle says how it ended. Returns 0; negative errno. */
int psid_joint_begin(struct psid_client *client, uint64_t node, uint64_t life, uint32_t other);
/* The other node's psid forgets what it has of these two. */
void psid_joint_part(const struct psid_client *client, uint64_t node, uint32_t other);
/* What was said to that node, or by it, may be lost; or it is another one's life by now. */
void psid_joints_lost(struct psid_remote *remote, uint64_t node);
/* The node is in another state or life, or there is room for what is to be said to it. */
void psid_joints_changed(struct psid_remote *remote, const struct psid_node *node);
void psid_joints_start(struct psid_remote *remote);
/* The client has no channel any more. */
void psid_joints_forget(struct psid_client *client);

/* Says something to the other node's psid. Returns as psid_peer_send. */
int psid_joint_say(const struct psid_client *client, uint64_t node, Pulc__Peer__Message *msg);

/* ---- joint_news.c ---------------------------------------------------------------------------- */
#define PSID_JOINT_PORTS 1024u /* of a client, at most */

/* All ports of our client, to the other psid. Returns as psid_peer_send. */
int psid_joint_say_ports(const struct psid_joint *joint);
/* The same, later if it can't be said now. */
void psid_joint_say_again(struct psid_joint *joint);
/* What either side has missed is said, or asked for, as far as there is room now. */
void psid_joint_say_missed(struct psid_joint *joint);
/* Ports of the other one, to our client. Returns as psid_client_send. */
int psid_joint_tell(const struct psid_joint *joint, const Pulc__Peer__PortsOf *ports);
/* The same, unless our client is behind: then all are asked for later. */
void psid_joint_hear(struct psid_joint *joint, const Pulc__Peer__PortsOf *ports);
/* Our client does not know the other one yet: kept until then. Returns 0; -EBADMSG: too many. */
int psid_joint_keep(struct psid_joint *joint, const Pulc__Peer__PortsOf *ports);

/* ---- remote.c -------------------------------------------------------------------------------- */
/* Answers what our client has asked and what waited for this. */
void psid_asks_settle(const struct psid_joint *joint, Pulc__Wire__PortError error);

#endif
