/*
 * What the metrics say: OpenMetrics 1.0, one family after the other, from psid's own tables.
 * docs/metrics.md is the normative list of names; a test compares.
 *
 * All labels are fixed words of ours, so nothing that a user chooses reaches a reader, and the text
 * is of a bounded size whatever goes on. Counters begin at 0 with each psid.
 */
#include "metrics.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.pb-c.h"
#include "clock.h"
#include "cluster.h"
#include "job.h"
#include "macros.h"
#include "psid.h"

static void family(FILE *out, const char *name, const char *type, const char *help)
{
	(void)fprintf(out, "# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

static void gauge(FILE *out, const char *name, uint64_t value, const char *help)
{
	family(out, name, "gauge", help);
	(void)fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void counter(FILE *out, const char *name, uint64_t value, const char *help)
{
	family(out, name, "counter", help);
	(void)fprintf(out, "%s_total %" PRIu64 "\n", name, value);
}

/* ---- families with labels -------------------------------------------------------------------- */

/* As pulc-reasons(7) calls it: REASON_LIMIT_AREAS is limit-areas. */
static void reason_name(int reason, char *buf, size_t size)
{
	const ProtobufCEnumValue *value =
		protobuf_c_enum_descriptor_get_value(&pulc__wire__reason__descriptor, reason);
	const char *name = value ? strchr(value->name, '_') : NULL;
	size_t n = 0;

	for (; name && *++name && n + 1 < size; n++)
		buf[n] = *name == '_' ? '-' : (char)tolower((unsigned char)*name);
	buf[n] = '\0';
}

static void by_reason(FILE *out, const char *name, const uint64_t counts[PSID_N_REASONS],
		      const char *help)
{
	char reason[32];

	family(out, name, "counter", help);
	for (int i = PULC__WIRE__REASON__REASON_NONE + 1; i < (int)PSID_N_REASONS; i++) {
		reason_name(i, reason, sizeof(reason));
		(void)fprintf(out, "%s_total{reason=\"%s\"} %" PRIu64 "\n", name, reason,
			      counts[i]);
	}
}

static void nodes(FILE *out, const struct psid_cluster *cluster)
{
	uint64_t n_in[PSID_NODE_LEFT + 1] = { 0 }, n_drained = 0;
	const struct psid_node *node = NULL;

	while ((node = psid_node_next(cluster, node ? node->id : 0))) {
		n_in[node->state]++;
		n_drained += psid_node_is_up(node) && node->drained;
	}
	family(out, "pulc_nodes", "gauge", "Nodes of the cluster, as this one knows them.");
	for (int i = 0; i <= PSID_NODE_LEFT; i++)
		(void)fprintf(out, "pulc_nodes{state=\"%s\"} %" PRIu64 "\n",
			      psid_node_state_name((enum psid_node_state)i), n_in[i]);
	gauge(out, "pulc_nodes_drained", n_drained, "Nodes that are there and take no new tasks.");
}

static void gossip(FILE *out, const struct psid_cluster *cluster)
{
	struct psid_cluster_traffic traffic = psid_cluster_traffic(cluster);

	counter(out, "pulc_gossip_sent_datagrams", traffic.n_sent, "Datagrams to other nodes.");
	counter(out, "pulc_gossip_received_datagrams", traffic.n_received,
		"Datagrams that came, of whomever.");
	counter(out, "pulc_gossip_refused_datagrams", traffic.n_refused,
		"Datagrams that could not be read, or came again.");
	counter(out, "pulc_gossip_sent_bytes", traffic.size_sent,
		"Bytes of datagrams to other nodes, with IP and UDP.");
	counter(out, "pulc_gossip_received_bytes", traffic.size_received,
		"Bytes of datagrams that came, with IP and UDP.");
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void daemon_itself(FILE *out, const struct psid *psid)
{
	family(out, "pulc_psid", "info", "The daemon.");
	(void)fprintf(out, "pulc_psid_info{version=\"%s\",serves=\"%s\"} 1\n", PULC_VERSION,
		      psid->config->system ? "system" : "user");
	gauge(out, "pulc_uptime_seconds",
	      (nsec_now() / NSEC_PER_USEC - psid->usec_started) / USEC_PER_SEC,
	      "Since the daemon started.");
}

static void clients(FILE *out, const struct psid *psid)
{
	gauge(out, "pulc_clients", psid->n_processes, "Processes attached.");
	gauge(out, "pulc_clients_limit", psid->config->max_processes,
	      "Processes that may be attached.");
	by_reason(out, "pulc_refused_clients", psid->counts.n_refused,
		  "Clients that were sent away.");
	counter(out, "pulc_malformed_messages", psid->counts.n_malformed,
		"Messages that made no sense; each cost its client the connection.");
}

static void connections(FILE *out, const struct psid *psid)
{
	gauge(out, "pulc_connections", psid->conns.n, "Connections on rings.");
	gauge(out, "pulc_hints", psid->n_hints, "Connections told of, not on rings.");
	gauge(out, "pulc_ports", psid->ports.n, "Ports of native programs.");
	counter(out, "pulc_upgrades", psid->counts.n_upgrades, "Connections that came on rings.");
	counter(out, "pulc_ring_bytes", psid->counts.size_rings,
		"Bytes that went through rings and queues, counted when their connection ends.");
	counter(out, "pulc_traffic_bytes", psid->traffic.size_moved,
		"Bytes that went through rings, queues and links, of a moment ago.");
	by_reason(out, "pulc_denied_upgrades", psid->counts.n_denied_for,
		  "Upgrades that were denied.");
	counter(out, "pulc_forwarded_wakeups", psid->counts.n_rings,
		"Wake-ups that processes could not send each other.");
}

static void memory(FILE *out, const struct psid *psid)
{
	gauge(out, "pulc_areas", psid->n_areas, "Areas of shared memory.");
	gauge(out, "pulc_memory_bytes", psid->size_bytes, "Shared memory given out.");
	gauge(out, "pulc_memory_limit_bytes", psid->config->max_bytes,
	      "Shared memory that may be given out.");
}

static void tasks(FILE *out, const struct psid *psid)
{
	const struct psid_node *self = psid_node_self(psid->cluster);

	gauge(out, "pulc_jobs", psid->jobs->by_id.n, "Jobs with a part on this node.");
	gauge(out, "pulc_tasks", self->load.n_tasks, "Tasks that run on this node.");
	gauge(out, "pulc_tasks_cpus", self->load.n_cpus, "Processors that they asked for.");
	gauge(out, "pulc_cpus", self->n_cores, "Processors that tasks may use.");
}

char *psid_metrics_text(const struct psid *psid, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);
	bool failed;

	if (!out)
		return NULL;
	daemon_itself(out, psid);
	clients(out, psid);
	connections(out, psid);
	memory(out, psid);
	tasks(out, psid);
	nodes(out, psid->cluster);
	gossip(out, psid->cluster);
	(void)fputs("# EOF\n", out);
	failed = ferror(out) != 0;
	if (fclose(out) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}
