/* The parts of the cluster, for the files of this folder. */
#ifndef PULC_PSID_CLUSTER_INSIDE_H
#define PULC_PSID_CLUSTER_INSIDE_H

#include <sys/queue.h>

#include "cluster.h"
#include "complain.h"
#include "events.h"
#include "gossip.h"
#include "keys.h"
#include "load.h"
#include "members.h"
#include "peers.h"
#include "seeds.h"

struct psid_cluster {
	uv_loop_t *loop;
	const struct psid_cluster_config *config;
	struct psid_keyring ring;
	/* and the membership in it, which exists without a cluster too */
	struct psid_gossip gossip;
	struct psid_seeds seeds;
	struct psid_complaints complaints;
	struct psid_node *self;
	struct psid_load_meter meter;
	psid_cluster_rate *rate; /* what this node's programs move; NULL: nobody knows */
	void *rate_data;
	uint64_t place_cursor; /* place.c: the node that NEXT took last */
	struct psid_peers peers;
	LIST_HEAD(, psid_cluster_watch) watches;
	struct psid_events events; /* events.c */
	uv_idle_t later;	   /* once, in the loop's next turn: what was put off */
	bool stopping;
};

/* Has what was put off done in the loop's next turn. */
void psid_cluster_later(struct psid_cluster *cluster);
uint64_t psid_usec_now(void);
/* misfit.c: why a connection with somebody has failed; is_host: his port is not a node's */
void psid_misfit_link(struct psid_cluster *cluster, const struct psid_address *address,
		      bool is_host, const char *why);
/* why what somebody sends can't be read: says nothing of a node that is heard */
void psid_misfit_datagram(struct psid_cluster *cluster, const struct psid_address *address,
			  const char *why);
/* We understand that node. */
void psid_misfit_over(struct psid_cluster *cluster, uint64_t id);
/* rekey.c: the keys to begin with. Returns 0; negative errno, with a line in the log. */
int psid_rekey_first(struct psid_cluster *cluster);

static inline struct psid_members *psid_members_of(struct psid_cluster *cluster)
{
	return &cluster->gossip.swim.members;
}

#endif
