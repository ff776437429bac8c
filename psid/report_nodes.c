/*
 * The report of the cluster: every node that this psid knows, in the order of their names' ids, as
 * it knows them. The load that is shown is the one that placement goes by (cluster/place.c).
 */
#include "report_nodes.h"

#include <errno.h>
#include <stdio.h>

#include "batch.h"
#include "client.h"
#include "cluster.h"
#include "macros.h"
#include "operator.h"
#include "peer.h"
#include "place.h"
#include "psid.h"
#include "rate.h"
#include "user.h"

static const char *path_to(const struct psid_cluster *cluster, const struct psid_node *node)
{
	if (node == psid_node_self(cluster))
		return "local";
	return psid_peer_is_connected(cluster, node->id) ? "tls" : "none";
}

static void fill_load(const struct psid_cluster *cluster, const struct psid_node *node,
		      Pulc__Wire__NodeEntry *ret_entry)
{
	const struct psid_load *load = &node->load;

	ret_entry->cores = node->n_cores;
	ret_entry->centi_load = psid_place_load(node);
	ret_entry->n_tasks = load->n_tasks;
	ret_entry->n_cpus = load->n_cpus;
	ret_entry->n_cpus_placed = psid_place_unseen(node);
	ret_entry->mib_memory = node->mib_memory;
	ret_entry->percent_memory = load->percent_memory;
	ret_entry->percent_stall_cpu = load->percent_stall[0];
	ret_entry->percent_stall_memory = load->percent_stall[1];
	ret_entry->percent_stall_io = load->percent_stall[2];
	ret_entry->stale = psid_place_is_stale(cluster, node);
	if (psid_node_is_up(node) && !ret_entry->stale)
		ret_entry->bytes_per_second = psid_rate_unpack(load->rate);
	ret_entry->age_usec = load->number ? psid_node_usec_age(cluster, node) : 0;
}

/* What an entry points to, as long as it lives. */
struct texts {
	char version[16];
	char key[WIRE_N_KEYS][9];
	char *keys[WIRE_N_KEYS];
};

static void fill_keys(const struct psid_node *node, struct texts *texts,
		      Pulc__Wire__NodeEntry *ret_entry)
{
	for (size_t i = 0; i < node->n_keys; i++) {
		(void)snprintf(texts->key[i], sizeof(texts->key[i]), "%08x", node->keys[i]);
		texts->keys[i] = texts->key[i];
	}
	ret_entry->keys = texts->keys;
	ret_entry->n_keys = node->n_keys;
}

static void fill_node(const struct psid_cluster *cluster, const struct psid_node *node,
		      struct texts *texts, Pulc__Wire__NodeEntry *ret_entry)
{
	char *version = texts->version;

	pulc__wire__node_entry__init(ret_entry);
	(void)snprintf(version, sizeof(texts->version), "%u.%u.%u", node->version.major,
		       node->version.minor, node->version.patch);
	ret_entry->name = node->name;
	ret_entry->state = (char *)psid_node_state_name(node->state);
	ret_entry->drained = node->drained;
	ret_entry->self = node == psid_node_self(cluster);
	ret_entry->addr = (ProtobufCBinaryData){ sizeof(node->address.ip),
						 (uint8_t *)node->address.ip };
	ret_entry->port = node->address.port;
	ret_entry->version = node->state == PSID_NODE_UNKNOWN ? (char *)"" : version;
	ret_entry->why = node->why ? node->why : (char *)"";
	ret_entry->path = (char *)path_to(cluster, node);
	ret_entry->since_usec = psid_node_usec_since(node);
	ret_entry->id = node->id;
	ret_entry->life_msec = node->life;
	ret_entry->incarnation = node->incarnation;
	fill_load(cluster, node, ret_entry);
	fill_keys(node, texts, ret_entry);
}

static void list_nodes(struct psid_listing *listing)
{
	static struct texts texts[PSID_N_BATCH + 1]; /* of those in the batch, and the next */
	const struct psid_cluster *cluster = listing->client->psid->cluster;
	const struct psid_item *item;
	const struct psid_node *node;
	struct psid_batch batch;
	size_t n = 0;
	Pulc__Wire__NodesReply reply = PULC__WIRE__NODES_REPLY__INIT;
	PSID_MESSAGE(msg, NODES, nodes) = &reply;

	psid_batch_init(&batch, listing->client, &msg, &reply.n_nodes, &reply.more);
	reply.nodes = (Pulc__Wire__NodeEntry **)batch.pointers;
	reply.cluster = (char *)psid_cluster_name(cluster);
	while ((item = psid_listing_next(listing))) {
		Pulc__Wire__NodeEntry entry;

		node = psid_node_find(cluster, item->key);
		if (!node)
			continue;
		fill_node(cluster, node, &texts[n++ % ARRAY_SIZE(texts)], &entry);
		psid_batch_add(&batch, &entry.base, sizeof(entry));
	}
	psid_batch_end(&batch, psid_listing_has_more(listing));
}

int psid_report_nodes(struct psid_client *client)
{
	const struct psid_cluster *cluster = client->psid->cluster;
	const struct psid_node *node = NULL;
	struct psid_listing *listing;
	size_t n = 0;

	if (!psid_listing_may(client))
		return -EBADMSG;
	psid_cluster_sample(client->psid->cluster);
	while ((node = psid_node_next(cluster, node ? node->id : 0)))
		n++;
	listing = psid_listing_new(client, n, list_nodes);
	if (!listing)
		return 0;
	while ((node = psid_node_next(cluster, node ? node->id : 0)))
		psid_listing_add(listing, node->id, 0);
	psid_listing_start(listing);
	return 0;
}

/* ---- drain ----------------------------------------------------------------------------------- */

static const char *drain(struct psid_cluster *cluster, const char *name, bool drained)
{
	const struct psid_node *node = psid_node_find_name(cluster, name);

	if (!name[0])
		node = psid_node_self(cluster);
	if (!node)
		return "no node of that name";
	if (node == psid_node_self(cluster)) {
		psid_cluster_drain(cluster, drained);
		return "";
	}
	return psid_cluster_drain_other(cluster, node->id, drained) < 0
		       ? "that node is not there now"
		       : "";
}

int psid_report_drain(struct psid_client *client, const Pulc__Wire__DrainRequest *request)
{
	Pulc__Wire__DrainReply reply = PULC__WIRE__DRAIN_REPLY__INIT;
	PSID_MESSAGE(msg, DRAIN, drain) = &reply;

	if (!psid_is_operator(client)) {
		psid_client_refuse(client, PULC__WIRE__REASON__REASON_USER,
				   "only operators of this psid may drain a node");
		return 0;
	}
	reply.error = (char *)drain(client->psid->cluster, request->node, request->drained);
	(void)psid_client_send(client, &msg, NULL, 0);
	return 0;
}
