/*
 * The cluster: this psid's membership in it, its peers and its load, put together. It exists in
 * every psid; without a configured cluster this node is all of it, and nothing runs.
 */
#ifndef PULC_PSID_CLUSTER_H
#define PULC_PSID_CLUSTER_H

#include <sys/queue.h>

#include "loop.h"
#include "node.h"

struct psid_cluster;
struct psid_config;

/* Returns 0; negative errno, with a line in the log. config must outlive it. */
int psid_cluster_start(uv_loop_t *loop, const struct psid_config *config,
		       struct psid_cluster **ret_cluster);
/* Says good-bye to the others and closes everything; the loop must run on to finish. */
void psid_cluster_stop(struct psid_cluster *cluster);
/* After the loop has run out. Harmless with NULL. */
void psid_cluster_free(struct psid_cluster *cluster);

/* Is a cluster configured? */
bool psid_cluster_is_on(const struct psid_cluster *cluster);
const char *psid_cluster_name(const struct psid_cluster *cluster);

/* Nodes stay valid until the loop's next turn. */
const struct psid_node *psid_node_self(const struct psid_cluster *cluster);
const struct psid_node *psid_node_find(const struct psid_cluster *cluster, uint64_t id);
const struct psid_node *psid_node_find_name(const struct psid_cluster *cluster, const char *name);
/* The one with the next larger id; 0 begins, NULL ends. */
const struct psid_node *psid_node_next(const struct psid_cluster *cluster, uint64_t after);
/* How old the news of this node's load is. 0 for ourselves. */
uint64_t psid_node_usec_age(const struct psid_cluster *cluster, const struct psid_node *node);

/* Datagrams of the membership so far; sizes with IP and UDP. */
struct psid_cluster_traffic {
	uint64_t n_sent, n_received, size_sent, size_received;
	uint64_t n_refused;
};
struct psid_cluster_traffic psid_cluster_traffic(const struct psid_cluster *cluster);

/* How long it has been in its state. */
uint64_t psid_node_usec_since(const struct psid_node *node);

/*
 * Who wants to know what happens. Any callback may be NULL; all are called from the loop, none from
 * within a call of ours.
 */
struct psid_cluster_watch {
	/* Something about this node has changed: it is new, or in another state, or in a new
	 * life. */
	void (*changed)(void *data, const struct psid_node *node);
	/*
	 * What was sent to this node, or was on its way from there, may be lost: the connection
	 * broke, or the node is dead, has left, or is in a new life.
	 */
	void (*lost)(void *data, uint64_t id);
	/* Less than half of PSID_PEER_SIZE_FULL is queued for this node, after it was full. */
	void (*drained)(void *data, uint64_t id);
	/*
	 * The others had given us up: they believed us dead, and `lost` was called there for us. We
	 * have contradicted, and are a member again, in the same life.
	 */
	void (*given_up)(void *data);
	void *data;
	LIST_ENTRY(psid_cluster_watch) link;
};
void psid_cluster_watch(struct psid_cluster *cluster, struct psid_cluster_watch *watch);
void psid_cluster_unwatch(struct psid_cluster_watch *watch);

/* Tasks that run here, and the processors they asked for; at each change. */
void psid_cluster_tasks(struct psid_cluster *cluster, uint32_t n_tasks, uint32_t n_cpus);
/* What this node's programs move, in bytes a second; asked at each sample of its load. */
typedef uint64_t psid_cluster_rate(void *data);
void psid_cluster_meter(struct psid_cluster *cluster, psid_cluster_rate *rate, void *data);
/* The load of this node as of now, if the last look is older than a moment. */
void psid_cluster_sample(struct psid_cluster *cluster);
/* From now on this node wants, or wants no, new tasks. */
void psid_cluster_drain(struct psid_cluster *cluster, bool drained);
/* The same for another node, which is told. Returns as psid_peer_send. */
int psid_cluster_drain_other(struct psid_cluster *cluster, uint64_t id, bool drained);

#endif
