/* Ports of other nodes: questions about them, and clients joined with clients there. */
#ifndef PULC_PSID_REMOTE_H
#define PULC_PSID_REMOTE_H

#include "client.h"
#include "node.h"

struct psid_remote;

/* Returns 0; negative errno. */
int psid_remote_start(struct psid *psid);
/* The loop must run on to finish; then free. */
void psid_remote_close(struct psid *psid);
void psid_remote_free(struct psid *psid);

/* The number that programs know a node by; never 0. */
uint32_t psid_remote_number(uint64_t node);
/* This node's number in its cluster; 0: it is in none. */
uint32_t psid_remote_self(const struct psid *psid);
/* Is this, a name or a number in digits, or a number, another node? What is not known counts as
 * one. */
bool psid_remote_is_name(const struct psid *psid, const char *node);
bool psid_remote_is_number(const struct psid *psid, uint32_t node);

/* Messages PortFind and PortLink with such a node. Return 0; -EBADMSG. */
int psid_remote_find(struct psid_client *client, const Pulc__Wire__PortFind *msg);
int psid_remote_link(struct psid_client *client, const Pulc__Wire__PortLink *msg);
/* Message Closed, if it is about a link to another node. */
void psid_remote_closed(struct psid_client *client, uint64_t conn);

/* Tells everybody elsewhere whom the client is joined with that it has opened, or closed, this
 * port. */
void psid_remote_tell(struct psid_client *client, uint32_t port, bool opened);
/* The client has read what was kept for it: what it has missed is asked for. */
void psid_remote_catch_up(struct psid_client *client);
/* Is it about to be joined with somebody elsewhere? */
bool psid_remote_is_meeting(const struct psid_client *client);
/* The client has no channel any more. */
void psid_remote_forget(struct psid_client *client);
/* Of report_ports.c: how many it is joined with elsewhere; *ret_node: where, NULL: on several
 * nodes. */
unsigned psid_remote_count(const struct psid_client *client, const struct psid_node **ret_node);

/* Of report_peers.c: each of them: what the client knows it by, and its node's name; "": not
 * known. */
void psid_remote_each(const struct psid_client *client,
		      void (*f)(uint32_t number, const char *node, void *arg), void *arg);

#endif
