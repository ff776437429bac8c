/*
 * Seeds may be names, and name services may block: they are asked in libuv's helper threads, and
 * what is not found is asked for again, since at boot the name service may come later than we do.
 */
#include "seeds.h"

#include <string.h>

#include "inside.h"
#include "log.h"
#include "macros.h"

#define MSEC_AGAIN 20000

static void on_timer(uv_timer_t *timer);

static void add(struct psid_cluster *cluster, const struct psid_address *address)
{
	if (psid_swim_seed(&cluster->gossip.swim, address) < 0)
		psid_log(PSID_WARNING, "more seeds than are needed: the rest is not used");
}

static void finish_one(struct psid_cluster *cluster)
{
	struct psid_seeds *seeds = &cluster->seeds;
	bool all = true;

	if (--seeds->n_asked > 0 || seeds->is_closed)
		return;
	for (uint32_t i = 0; i < cluster->config->n_seeds; i++)
		all = all && seeds->seeds[i].is_known;
	if (!all)
		(void)uv_timer_start(&seeds->timer, on_timer, MSEC_AGAIN, 0);
	if (seeds->done)
		seeds->done(cluster);
	seeds->done = NULL;
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *result)
{
	struct psid_seed *seed = CONTAINER_OF(request, struct psid_seed, request);
	struct psid_cluster *cluster = seed->cluster;
	size_t i = (size_t)(seed - cluster->seeds.seeds);
	struct psid_address address;

	if (status < 0 && !cluster->seeds.is_closed)
		psid_log(PSID_WARNING, "ClusterSeeds: %s: %s", cluster->config->seeds[i],
			 uv_strerror(status));
	for (struct addrinfo *info = result; info; info = info->ai_next) {
		if (cluster->seeds.is_closed ||
		    psid_address_from_socket(info->ai_addr, &address) < 0)
			continue;
		address.port = seed->port;
		add(cluster, &address);
		seed->is_known = true;
	}
	uv_freeaddrinfo(result);
	finish_one(cluster);
}

static void ask(struct psid_cluster *cluster, uint32_t i)
{
	static const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
	struct psid_seed *seed = &cluster->seeds.seeds[i];
	const char *text = cluster->config->seeds[i];
	struct psid_address address;
	char host[PSID_SIZE_SEED];

	seed->cluster = cluster;
	seed->port = PSID_PORT;
	if (psid_address_parse(text, PSID_PORT, &address) == 0) {
		add(cluster, &address);
		seed->is_known = true;
		return;
	}
	cluster->seeds.n_asked++;
	if (psid_address_split(text, host, sizeof(host), &seed->port) < 0 ||
	    uv_getaddrinfo(cluster->loop, &seed->request, on_resolved, host, NULL, &hints) < 0)
		finish_one(cluster);
}

static void ask_all(struct psid_cluster *cluster)
{
	cluster->seeds.n_asked++; /* so that it is not over before all are asked */
	for (uint32_t i = 0; i < cluster->config->n_seeds; i++)
		if (!cluster->seeds.seeds[i].is_known)
			ask(cluster, i);
	finish_one(cluster);
}

static void on_timer(uv_timer_t *timer)
{
	ask_all(CONTAINER_OF(timer, struct psid_cluster, seeds.timer));
}

void psid_seeds_start(struct psid_cluster *cluster, void (*done)(struct psid_cluster *cluster))
{
	cluster->seeds.done = done;
	cluster->seeds.is_started = true;
	(void)uv_timer_init(cluster->loop, &cluster->seeds.timer);
	ask_all(cluster);
}

void psid_seeds_close(struct psid_cluster *cluster)
{
	if (!cluster->seeds.is_started)
		return;
	cluster->seeds.is_closed = true;
	uv_close((uv_handle_t *)&cluster->seeds.timer, NULL);
	for (uint32_t i = 0; i < cluster->config->n_seeds; i++)
		if (!cluster->seeds.seeds[i].is_known)
			(void)uv_cancel((uv_req_t *)&cluster->seeds.seeds[i].request);
}
