/* The membership's socket and clock. */
#ifndef PULC_PSID_GOSSIP_H
#define PULC_PSID_GOSSIP_H

#include "cluster.h"
#include "loop.h"
#include "seal.h"
#include "swim.h"

struct psid_gossip {
	struct psid_swim swim;
	struct psid_seal seal;
	int fd;
	int family; /* of the socket */
	uv_poll_t poll;
	uv_timer_t timer;
	bool is_open, is_running;
	struct psid_cluster_traffic traffic;
};

/*
 * Binds the socket to where we are to be found, or to the port at any address. Returns 0; negative
 * errno, with a line in the log. psid_gossip_deinit in any case.
 */
int psid_gossip_open(struct psid_cluster *cluster, const struct psid_address *address);
void psid_gossip_deinit(struct psid_cluster *cluster);
/* Puts it into the loop. Returns 0, negative errno. */
int psid_gossip_attach(struct psid_cluster *cluster);
/* From now on the membership runs: its self and its seeds are set. */
void psid_gossip_start(struct psid_cluster *cluster);
/* psid_swim_ops.send; data is the cluster. */
void psid_gossip_send(void *data, const struct psid_address *to, const uint8_t *body, size_t len);
/* Something outside has changed what the membership has to do. */
void psid_gossip_kick(struct psid_cluster *cluster);
/* Says good-bye; handles close in the loop. */
void psid_gossip_close(struct psid_cluster *cluster);

#endif
