/*
 * The parts of the cluster put together, and what the rest of psid asks it for: the membership
 * (swim.c) with its socket (gossip.c), the connections to peers (peers.c), this node's load
 * (load.c), and placement (place.c). docs/cluster.md is the whole picture.
 *
 * Without ClusterName this node is all of the cluster: no socket, no timer, no thread; it can be
 * asked for the same things.
 *
 * Nothing that happens is told to anybody at once: changes, lost peers and messages to ourselves
 * wait for the loop's next turn, so that no caller of ours is called back before we return.
 */
#include "cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "config.h"
#include "inside.h"
#include "log.h"
#include "macros.h"
#include "placed.h"
#include "rate.h"
#include "where.h"

#define USEC_SAMPLE (USEC_PER_SEC / 5) /* a sample is good for so long */
#define N_NODES_MAX 4096
#define N_PORTS_TRIED 16

uint64_t psid_usec_now(void)
{
	return nsec_now() / NSEC_PER_USEC;
}

static uint64_t msec_since_1970(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- what the rest of psid asks -------------------------------------------------------------- */

bool psid_cluster_is_on(const struct psid_cluster *cluster)
{
	return cluster->config->name[0] != '\0';
}

const char *psid_cluster_name(const struct psid_cluster *cluster)
{
	return cluster->config->name;
}

const struct psid_node *psid_node_self(const struct psid_cluster *cluster)
{
	return cluster->self;
}

const struct psid_node *psid_node_find(const struct psid_cluster *cluster, uint64_t id)
{
	return psid_members_find(&cluster->gossip.swim.members, id);
}

const struct psid_node *psid_node_find_name(const struct psid_cluster *cluster, const char *name)
{
	const struct psid_node *node = psid_node_find(cluster, psid_node_id(name));

	return node && strcmp(node->name, name) == 0 ? node : NULL;
}

const struct psid_node *psid_node_next(const struct psid_cluster *cluster, uint64_t after)
{
	return psid_members_after(&cluster->gossip.swim.members, after);
}

uint64_t psid_node_usec_age(const struct psid_cluster *cluster, const struct psid_node *node)
{
	uint64_t usec_now = psid_usec_now();

	return node == cluster->self || node->usec_load > usec_now ? 0 : usec_now - node->usec_load;
}

struct psid_cluster_traffic psid_cluster_traffic(const struct psid_cluster *cluster)
{
	return cluster->gossip.traffic;
}

uint64_t psid_node_usec_since(const struct psid_node *node)
{
	uint64_t usec_now = psid_usec_now();

	return usec_now - MIN(usec_now, node->usec_state);
}

void psid_cluster_watch(struct psid_cluster *cluster, struct psid_cluster_watch *watch)
{
	LIST_INSERT_HEAD(&cluster->watches, watch, link);
}

void psid_cluster_unwatch(struct psid_cluster_watch *watch)
{
	LIST_REMOVE(watch, link);
}

/* ---- this node ------------------------------------------------------------------------------- */

void psid_cluster_sample(struct psid_cluster *cluster)
{
	struct psid_node *self = cluster->self;
	uint64_t usec_now = psid_usec_now();
	uint16_t n_cores = self->n_cores;

	if (cluster->meter.usec_last && usec_now < cluster->meter.usec_last + USEC_SAMPLE)
		return;
	psid_load_sample(&cluster->meter, usec_now, &self->load);
	if (cluster->rate)
		self->load.rate = psid_rate_pack(cluster->rate(cluster->rate_data));
	self->load.number = (uint16_t)MAX(self->load.number + 1, 1);
	self->usec_load = usec_now;
	self->mib_memory = cluster->meter.mib_memory;
	self->n_cores = psid_load_cores();
	if (self->placed)
		psid_placed_seen(self->placed, usec_now, 0);
	if (self->n_cores != n_cores)
		psid_swim_touch(&cluster->gossip.swim, usec_now);
}

void psid_cluster_tasks(struct psid_cluster *cluster, uint32_t n_tasks, uint32_t n_cpus)
{
	struct psid_load *load = &cluster->self->load;
	uint16_t n_before = load->n_cpus;

	load->n_tasks = (uint16_t)MIN(n_tasks, (uint32_t)UINT16_MAX);
	load->n_cpus = (uint16_t)MIN(n_cpus, (uint32_t)UINT16_MAX);
	load->number = (uint16_t)MAX(load->number + 1, 1);
	if (cluster->self->placed && load->n_cpus > n_before)
		psid_placed_seen(cluster->self->placed, 0, load->n_cpus - n_before);
}

void psid_cluster_meter(struct psid_cluster *cluster, psid_cluster_rate *rate, void *data)
{
	cluster->rate = rate;
	cluster->rate_data = data;
}

void psid_cluster_drain(struct psid_cluster *cluster, bool drained)
{
	if (cluster->self->drained == drained)
		return;
	psid_log(PSID_INFO, drained ? "this node takes no new tasks" : "this node takes tasks");
	cluster->self->drained = drained;
	psid_swim_touch(&cluster->gossip.swim, psid_usec_now());
	psid_event(cluster, PSID_EVENT_CHANGED, cluster->self->id);
	psid_gossip_kick(cluster);
}

int psid_cluster_drain_other(struct psid_cluster *cluster, uint64_t id, bool drained)
{
	Pulc__Peer__Drain drain = PULC__PEER__DRAIN__INIT;
	PSID_PEER_MESSAGE(msg, DRAIN, drain) = &drain;

	drain.drained = drained;
	return psid_peer_send(cluster, id, &msg);
}

/* ---- what the membership says ---------------------------------------------------------------- */

static void log_change(struct psid_cluster *cluster, const struct psid_node *node,
		       enum psid_node_state before, bool is_new)
{
	char text[PSID_SIZE_ADDRESS_TEXT];
	enum psid_occasion occasion = PSID_LOG_NODE_HERE;
	const char *what = NULL;

	if (node->state == PSID_NODE_ALIVE && (is_new || before == PSID_NODE_LEFT))
		what = "is here";
	else if (node->state == PSID_NODE_ALIVE && before == PSID_NODE_DEAD)
		what = "is back";
	else if (node->state == PSID_NODE_DEAD && before != PSID_NODE_UNKNOWN)
		what = "is dead";
	else if (node->state == PSID_NODE_LEFT && before != PSID_NODE_UNKNOWN)
		what = "has left";
	if (node->state == PSID_NODE_DEAD)
		occasion = PSID_LOG_NODE_DEAD;
	else if (node->state == PSID_NODE_LEFT)
		occasion = PSID_LOG_NODE_LEFT;
	if (what)
		psid_log_of(occasion, PSID_INFO, node->name, "node %s at %s %s", node->name,
			    psid_address_text(&node->address, text), what);
	else
		psid_log(PSID_DEBUG, "node %s is %s", node->name,
			 psid_node_state_name(node->state));
	(void)cluster;
}

static void on_changed(void *data, struct psid_node *node, enum psid_node_state before, bool is_new)
{
	struct psid_cluster *cluster = data;

	log_change(cluster, node, before, is_new);
	if (psid_node_is_up(node) && before != PSID_NODE_ALIVE && before != PSID_NODE_SUSPECT)
		psid_misfit_over(cluster, node->id);
	if (is_new && node->placed)
		node->placed->n = 0;
	if (!psid_node_is_up(node) || (is_new && before != PSID_NODE_UNKNOWN))
		psid_peers_gone(cluster, node);
	psid_event(cluster, PSID_EVENT_CHANGED, node->id);
}

static void on_loaded(void *data, struct psid_node *node, uint32_t n_more)
{
	(void)data;
	if (node->placed)
		psid_placed_seen(node->placed, node->usec_load, n_more);
}

static void on_given_up(void *data)
{
	struct psid_cluster *cluster = data;

	psid_log_of(PSID_LOG_GIVEN_UP, PSID_WARNING, NULL,
		    "the other nodes had given this one up: it did not answer them");
	psid_event(cluster, PSID_EVENT_GIVEN_UP, cluster->self->id);
}

static void on_remark(void *data, enum psid_swim_remark remark, const struct psid_address *from)
{
	struct psid_cluster *cluster = data;
	char text[PSID_SIZE_ADDRESS_TEXT];

	if (!psid_may_complain(&cluster->complaints, from, PSID_COMPLAIN_REMARK + remark))
		return;
	(void)psid_address_text(from, text);
	switch (remark) {
	case PSID_SWIM_JOINED:
		psid_log(PSID_INFO, "%s has let us into the cluster \"%s\"", text,
			 cluster->config->name);
		break;
	case PSID_SWIM_ALONE:
		psid_log(PSID_WARNING, "no seed of the cluster \"%s\" answers",
			 cluster->config->name);
		psid_peers_inquire(cluster);
		break;
	case PSID_SWIM_NAME_TAKEN:
		psid_log(PSID_ERROR,
			 "the name \"%s\" belongs to the node at %s: choose another NodeName",
			 cluster->self->name, text);
		break;
	case PSID_SWIM_NOT_LISTED:
		psid_log(PSID_ERROR, "%s is not one of the nodes that ClusterNodes lists", text);
		break;
	case PSID_SWIM_FULL:
		psid_log(PSID_ERROR, "the cluster has %u nodes: no more fit in", N_NODES_MAX);
		break;
	case PSID_SWIM_GARBAGE:
		psid_log(PSID_WARNING, "%s has the key, and says what makes no sense", text);
		break;
	}
}

static const struct psid_swim_ops swim_ops = {
	.send = psid_gossip_send,
	.changed = on_changed,
	.loaded = on_loaded,
	.given_up = on_given_up,
	.remark = on_remark,
};

/* ---- from start to end ----------------------------------------------------------------------- */

static void on_later(uv_idle_t *later)
{
	struct psid_cluster *cluster = CONTAINER_OF(later, struct psid_cluster, later);

	(void)uv_idle_stop(later);
	psid_events_turn(cluster);
	psid_peers_turn(cluster);
}

void psid_cluster_later(struct psid_cluster *cluster)
{
	if (!cluster->stopping)
		(void)uv_idle_start(&cluster->later, on_later);
}

/* The host's name up to what a node's name may not have. */
static void own_name(const struct psid_cluster_config *config, char name[PSID_SIZE_NAME])
{
	size_t len = 0;

	if (config->node_name[0]) {
		(void)strcpy(name, config->node_name);
		return;
	}
	if (gethostname(name, PSID_SIZE_NAME) == 0) {
		name[PSID_SIZE_NAME - 1] = '\0';
		while (psid_node_name_ok(name, len + 1))
			len++;
	}
	name[len] = '\0';
	if (len == 0)
		(void)strcpy(name, "localhost");
}

static struct psid_version own_version(void)
{
	unsigned major = 0, minor = 0, patch = 0;

	(void)sscanf(PULC_VERSION, "%u.%u.%u", &major, &minor, &patch);
	return (struct psid_version){ (uint8_t)major, (uint8_t)minor, (uint8_t)patch };
}

static int add_self(struct psid_cluster *cluster)
{
	struct psid_swim_params params = { .usec_period = cluster->config->msec_probe * 1000ull,
					   .n_nodes_max = N_NODES_MAX,
					   .closed = cluster->config->n_nodes > 0 };
	struct psid_swim *swim = &cluster->gossip.swim;
	char name[PSID_SIZE_NAME];
	int r;

	(void)getrandom(&params.random, sizeof(params.random), GRND_NONBLOCK);
	own_name(cluster->config, name);
	r = psid_swim_init(swim, &params, &swim_ops, cluster);
	if (r == 0)
		r = psid_swim_be(swim, name, &cluster->config->address, msec_since_1970());
	if (r < 0)
		return r;
	cluster->self = swim->self;
	swim->self->n_cores = psid_load_cores();
	swim->self->version = own_version();
	swim->self->usec_state = psid_usec_now();
	return 0;
}

/* The configured list: all the others, and ourselves among them. */
static int expect_nodes(struct psid_cluster *cluster)
{
	struct psid_node *self = cluster->self;
	bool is_listed = cluster->config->n_nodes == 0;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < cluster->config->n_nodes; i++) {
		const struct psid_static_node *node = &cluster->config->nodes[i];

		if (strcmp(node->name, self->name) != 0) {
			r = psid_swim_expect(&cluster->gossip.swim, node->name, &node->address);
			continue;
		}
		is_listed = true;
		if (psid_address_is_any(&self->address))
			self->address = node->address;
	}
	if (is_listed)
		return r;
	psid_log(PSID_ERROR, "this node, \"%s\", is not one of those that ClusterNodes lists",
		 self->name);
	return -EINVAL;
}

static void on_seeds(struct psid_cluster *cluster)
{
	const struct psid_swim *swim = &cluster->gossip.swim;
	struct psid_node *self = cluster->self;
	char text[PSID_SIZE_ADDRESS_TEXT];

	if (psid_address_is_any(&self->address))
		psid_where(swim->n_seeds ? &swim->seeds[0] : NULL, &self->address);
	psid_log(PSID_INFO, "node %s of the cluster \"%s\" at %s", self->name,
		 cluster->config->name, psid_address_text(&self->address, text));
	psid_gossip_start(cluster);
}

/* A port that is free for datagrams and for connections. */
static int find_port(struct psid_cluster *cluster)
{
	struct psid_address *address = &cluster->self->address;
	int r = -EADDRINUSE;

	for (int i = 0; r == -EADDRINUSE && i < N_PORTS_TRIED; i++) {
		CLEANUP_FD int probe = -EBADF;

		psid_gossip_deinit(cluster);
		address->port = 0;
		r = psid_gossip_open(cluster, address);
		if (r == 0)
			r = psid_address_port(cluster->gossip.fd, &address->port);
		if (r == 0)
			r = psid_address_open(address, cluster->gossip.family, SOCK_STREAM, &probe);
	}
	return r;
}

/* All that may well fail, before anything is in the loop. */
static int open_all(struct psid_cluster *cluster)
{
	int r = psid_rekey_first(cluster);

	if (cluster->self->address.port == 0)
		cluster->self->address.port = PSID_PORT;
	if (r == 0)
		r = expect_nodes(cluster);
	if (r == 0 && cluster->config->any_port)
		r = find_port(cluster);
	else if (r == 0)
		r = psid_gossip_open(cluster, &cluster->self->address);
	if (r == 0)
		r = psid_peers_open(cluster, &cluster->self->address);
	return r;
}

static int attach(struct psid_cluster *cluster)
{
	int r = psid_gossip_attach(cluster);

	if (r == 0)
		r = psid_peers_attach(cluster);
	if (r < 0)
		return r;
	psid_cluster_sample(cluster);
	psid_seeds_start(cluster, on_seeds);
	return 0;
}

int psid_cluster_start(uv_loop_t *loop, const struct psid_config *config,
		       struct psid_cluster **ret_cluster)
{
	struct psid_cluster *cluster = calloc(1, sizeof(*cluster));
	int r;

	if (!cluster)
		return -ENOMEM;
	cluster->loop = loop;
	cluster->config = &config->cluster;
	cluster->gossip.fd = -EBADF;
	LIST_INIT(&cluster->watches);
	psid_load_init(&cluster->meter, config->cluster.load_from);
	psid_peers_init(cluster);
	r = add_self(cluster);
	if (r == 0 && psid_cluster_is_on(cluster))
		r = open_all(cluster);
	if (r < 0) {
		psid_cluster_free(cluster);
		return r;
	}
	*ret_cluster = cluster;
	(void)uv_idle_init(loop, &cluster->later);
	return psid_cluster_is_on(cluster) ? attach(cluster) : 0;
}

void psid_cluster_stop(struct psid_cluster *cluster)
{
	cluster->stopping = true;
	uv_close((uv_handle_t *)&cluster->later, NULL);
	if (!psid_cluster_is_on(cluster))
		return;
	psid_gossip_close(cluster);
	psid_peers_close(cluster);
	psid_seeds_close(cluster);
}

void psid_cluster_free(struct psid_cluster *cluster)
{
	if (!cluster)
		return;
	psid_peers_deinit(cluster);
	psid_events_deinit(cluster);
	psid_gossip_deinit(cluster);
	psid_swim_deinit(&cluster->gossip.swim);
	explicit_bzero(&cluster->ring, sizeof(cluster->ring));
	free(cluster);
}
