/*
 * One psid put together. Its parts: listener (who knocks), client (who is in), hint and handover
 * (who belongs together), flow and witness (the same for datagrams), conn, pair and slab (what they
 * share), bells (how they wake each other), user (what they may have), remarks (what is written
 * about them), report (what can be seen), traffic (how much is moved), closer (what may hang),
 * lifecycle and reaper (how things end), cluster (the other nodes), partition (which of them are
 * for whom), metrics (what can be counted).
 *
 * Everything runs in one loop in one thread, but closes of foreign descriptors. Nothing in the
 * loop may block: clients are stopped, slow and hostile.
 */
#include "psid.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "bell.h"
#include "cleanup.h"
#include "client.h"
#include "clock.h"
#include "doubt.h"
#include "cluster.h"
#include "handover.h"
#include "jobs.h"
#include "lifecycle.h"
#include "listener.h"
#include "log.h"
#include "macros.h"
#include "metrics.h"
#include "notify.h"
#include "partitions.h"
#include "proof.h"
#include "reaper.h"
#include "reload.h"
#include "remote.h"
#include "traffic.h"
#include "unread.h"
#include "witness.h"

#define MSEC_HELLO 5000
#define MSEC_FAREWELL 1000
#define MSEC_AGAIN 20

static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/*
 * Processes outlive psids. Their numbers for clients, connections, slabs and ports of the psid
 * before us must not be taken for ours, so ours begin somewhere else.
 */
static void draw_numbers(struct psid *psid)
{
	uint32_t drawn[6] = { 0 };

	(void)getrandom(drawn, sizeof(drawn), GRND_NONBLOCK);
	psid->last_client = drawn[0] & 0x3fffffffu;
	psid->last_conn = (uint64_t)drawn[1] << 20; /* below 2^53: JSON's numbers hold it */
	psid->last_slab = (uint64_t)drawn[2] << 20;
	psid->last_port = drawn[3];
	psid->instance = ((uint64_t)drawn[4] << 32 | drawn[5]) | 1;
}

static void on_deadline(struct psid_deadline *deadline)
{
	psid_doom(CONTAINER_OF(deadline, struct psid_client, deadline));
}

static int fail(const char *what, int r)
{
	psid_log(PSID_ERROR, "%s: %s", what, strerror(-r));
	return r;
}

/* What is needed of the kernel. */
static int open_kernel(struct psid *psid)
{
	int r;

	r = psid_proof_start(psid);
	if (r < 0)
		return fail("sockets can't be checked (sock_diag, SO_NETNS_COOKIE)", r);
	r = psid_bell_start(psid);
	if (r < 0)
		psid_log(PSID_WARNING, "can't ring for others (asynchronous I/O): %s",
			 strerror(-r));
	return 0;
}

static int start_loop(struct psid *psid)
{
	int r = uv_loop_init(&psid->loop);

	if (r < 0)
		return r;
	psid_handovers_start(psid);
	psid_witness_start(psid);
	psid_deadlines_init(&psid->hellos, &psid->loop, MSEC_HELLO, on_deadline);
	psid_deadlines_init(&psid->farewells, &psid->loop, MSEC_FAREWELL, on_deadline);
	psid_deadlines_init(&psid->agains, &psid->loop, MSEC_AGAIN, psid_client_again);
	psid_unread_start(psid);
	r = psid_closer_start(&psid->closer, &psid->loop);
	if (r == 0)
		r = psid_deliveries_start(&psid->deliveries, &psid->loop);
	if (r == 0)
		r = psid_cluster_start(&psid->loop, psid->config, &psid->cluster);
	if (r == 0)
		psid_traffic_start(psid);
	if (r == 0)
		r = psid_remote_start(psid);
	if (r == 0)
		r = psid_reaper_start(psid);
	if (r == 0)
		r = psid_doubt_start(psid);
	if (r == 0)
		r = psid_lifecycle_start(psid);
	if (r == 0)
		r = psid_partitions_start(psid);
	if (r == 0)
		r = psid_stewards_start(psid);
	if (r == 0)
		r = psid_jobs_start(psid);
	if (r == 0)
		r = psid_notify_start(psid);
	if (r == 0)
		r = psid_listener_start(psid);
	if (r == 0)
		psid->metrics = psid_metrics_start(psid);
	return r;
}

int psid_start(struct psid *psid, struct psid_config *config)
{
	int r;

	*psid = (struct psid){ .config = config,
			       .usec_started = nsec_now() / NSEC_PER_USEC,
			       .diag_fd = -EBADF,
			       .route_fd = -EBADF,
			       .ears = { { .fd = -EBADF }, { .fd = -EBADF } },
			       .bell_fd = -EBADF,
			       .listen_fd = -EBADF,
			       .lock_fd = -EBADF };
	psid_log_init(config->log_level);
	psid_map_seed();
	draw_numbers(psid);
	raise_descriptor_limit();
	r = psid_listener_open(psid);
	if (r < 0)
		goto fail;
	r = open_kernel(psid);
	if (r < 0)
		goto fail;
	r = start_loop(psid);
	if (r < 0) {
		fail("can't start", r);
		goto fail;
	}
	psid_log_of(PSID_LOG_READY, PSID_INFO, NULL, "psid " PULC_VERSION " serves %s at %s",
		    config->system ? "this node" : "its user", config->socket);
	psid_notify_ready(psid);
	return 0;
fail:
	psid_listener_drop(psid);
	psid_proof_stop(psid);
	psid_bell_stop(psid);
	return r;
}

void psid_stop(struct psid *psid)
{
	struct psid_map_node *node = NULL;

	if (psid->stopping)
		return;
	psid->stopping = true;
	psid_log_of(PSID_LOG_ENDS, PSID_INFO, NULL, "psid ends");
	psid_notify_stopping();
	psid_listener_stop(psid);
	while ((node = psid_map_next(&psid->clients, node))) {
		struct psid_client *client = CONTAINER_OF(node, struct psid_client, node);

		if (client->fd >= 0 && client->state != PSID_CLIENT_REFUSED)
			psid_client_refuse(client, PULC__WIRE__REASON__REASON_SHUTDOWN,
					   "psid is going away");
	}
	uv_stop(&psid->loop);
}

/* Runs the loop until closes, deliveries, or a reload, that are under way are done, but not for
 * long. */
static void finish_closes(struct psid *psid)
{
	uint64_t nsec_end = nsec_now() + NSEC_PER_SEC / 2;

	while ((psid_closer_pending(&psid->closer) > 0 || psid->deliveries.n > 0 ||
		psid_is_reloading(psid)) &&
	       nsec_now() < nsec_end)
		(void)uv_run(&psid->loop, UV_RUN_NOWAIT);
}

void psid_run(struct psid *psid)
{
	struct psid_map_node *node;

	while (!psid->stopping)
		(void)uv_run(&psid->loop, UV_RUN_DEFAULT);
	psid_metrics_stop(psid->metrics);
	while ((node = psid_map_next(&psid->clients, NULL)))
		psid_client_free(CONTAINER_OF(node, struct psid_client, node));
	psid_unread_close(psid);
	finish_closes(psid);
	psid_proof_stop(psid);
	psid_bell_stop(psid);
	if (!psid_deliveries_stop(&psid->deliveries) || !psid_closer_stop(&psid->closer) ||
	    psid_is_reloading(psid))
		return; /* a helper hangs and still refers to us */
	psid_lifecycle_close(psid);
	psid_notify_close(psid);
	psid_doubt_close(psid);
	psid_jobs_close(psid);
	psid_stewards_close(psid);
	psid_partitions_close(psid);
	psid_reaper_close(psid);
	psid_remote_close(psid);
	psid_cluster_stop(psid->cluster);
	psid_handovers_close(psid);
	psid_witness_stop(psid);
	psid_deadlines_close(&psid->hellos);
	psid_deadlines_close(&psid->farewells);
	psid_deadlines_close(&psid->agains);
	psid_deadlines_close(&psid->unread);
	while (uv_run(&psid->loop, UV_RUN_DEFAULT) != 0)
		;
	psid_cluster_free(psid->cluster);
	psid_remote_free(psid);
	(void)uv_loop_close(&psid->loop);
	psid_map_deinit(&psid->clients);
	psid_map_deinit(&psid->processes);
	psid_map_deinit(&psid->users);
	psid_map_deinit(&psid->hints);
	psid_map_deinit(&psid->conns);
	psid_map_deinit(&psid->cookies);
	psid_map_deinit(&psid->slabs);
	psid_map_deinit(&psid->ports);
	psid_map_deinit(&psid->port_names);
	psid_map_deinit(&psid->offers);
	psid_map_deinit(&psid->wishes);
	psid_map_deinit(&psid->sems);
	psid_map_deinit(&psid->sem_names);
	psid_map_deinit(&psid->task_ports);
}
