/* One psid: its loop and its tables. Each part belongs to the file named beside it. */
#ifndef PULC_PSID_H
#define PULC_PSID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "closer.h"
#include "config.h"
#include "deadline.h"
#include "deliver.h"
#include "ended.h"
#include "loop.h"
#include "map.h"
#include "remarks.h"

#define PSID_N_REASONS 25u	 /* of client.proto; the test of metrics compares */
#define PSID_N_CONTROLS_USER 64u /* pulcctl and friends at a time, beside a user's processes */

struct psid_client;
struct psid_conn;
struct psid_cluster;
struct psid_jobs;
struct psid_metrics;
struct psid_partitions;
struct psid_reload;
struct psid_remote;
struct psid_slab;
struct psid_stewards;

struct psid_counts {
	uint64_t n_upgrades;
	uint64_t n_denied;
	uint64_t n_denied_for[PSID_N_REASONS], n_refused[PSID_N_REASONS]; /* by Reason */
	uint64_t n_malformed;
	uint64_t n_rings;
	uint64_t size_rings;
};

/* traffic.c: what goes through rings, queues and links. */
struct psid_traffic {
	uint64_t size_moved;  /* by all that there are and were, in the looks so far */
	uint64_t size_looked; /* of it, at the last look at all of them */
	uint64_t usec_looked;
	uint64_t rate; /* bytes a second, as of that look */
};

static inline void psid_count_reason(uint64_t counts[PSID_N_REASONS], unsigned reason)
{
	if (reason < PSID_N_REASONS)
		counts[reason]++;
}

struct psid {
	uv_loop_t loop;
	struct psid_config *config;
	struct psid_closer closer;	   /* closer.c */
	struct psid_deliveries deliveries; /* deliver.c */
	struct psid_counts counts;	   /* report.c shows them */
	struct psid_traffic traffic;
	uint64_t usec_started;
	uint64_t netns;	       /* proof.c: cookie of our own network namespace */
	int diag_fd;	       /* diag.c */
	int route_fd;	       /* route.c */
	uint64_t bell_context; /* bell.c */
	int bell_fd;

	/* listener.c */
	int listen_fd, lock_fd;
	bool listen_given; /* the socket is somebody else's, who keeps it */
	uv_poll_t listen_poll;
	uv_timer_t listen_pause;

	/* client.c, reaper.c */
	struct psid_map clients, processes; /* by number, by process */
	uint32_t last_client;
	uint32_t n_processes;
	struct psid_deadlines hellos, farewells, agains;
	struct psid_deadlines unread; /* unread.c */
	TAILQ_HEAD(, psid_client) doomed;
	uv_idle_t reaper;
	uv_timer_t idle_exit; /* lifecycle.c, as the signals */
	uv_signal_t sigint, sigterm, sighup;
	bool stopping;

	/* user.c */
	struct psid_map users;
	uint64_t size_bytes;
	uint32_t n_areas;
	struct psid_remarks remarks; /* remarks.c */

	/* hint.c, handover.c */
	struct psid_map hints;
	uint32_t n_hints;
	struct psid_deadlines handovers;

	/* witness.c */
	struct psid_map witnesses;
	struct psid_ear {
		int fd;
		uint16_t port;
		uv_poll_t poll;
	} ears[2];

	struct psid_cluster *cluster; /* cluster/ */

	/* conn.c, slab.c */
	struct psid_map conns, cookies, slabs;
	uint64_t last_conn, last_slab;
	struct psid_ended ended;	/* ended.c */
	uint64_t instance;		/* tells this psid from others, never 0 */
	TAILQ_HEAD(, psid_conn) doubts; /* doubt.c */
	size_t n_doubts, n_looks;	/* all; those that are still to be looked at this time */
	uv_timer_t doubt_timer;

	struct psid_map ports, port_names; /* ports.c */
	struct psid_map task_ports;	   /* task_ports.c */
	uint32_t last_port;
	/* port_moves.c: ports that are given away, by user and process; clients that want a certain
	 * one, by its number */
	struct psid_map offers, wishes;
	uint64_t last_move;
	struct psid_map sems, sem_names; /* sems.c */
	struct psid_remote *remote;	 /* remote.c */

	struct psid_partitions *partitions; /* partition/ */
	struct psid_stewards *stewards;
	struct psid_jobs *jobs;	      /* jobs/ */
	struct psid_metrics *metrics; /* metrics.c; NULL: none */

	struct psid_reload *reload; /* reload.c: the one that is under way */
	uv_timer_t beat;	    /* notify.c */
	char status_told[128];
};

/* Prepares all parts, listens. Returns 0; negative errno, with a line in the log. */
int psid_start(struct psid *psid, struct psid_config *config);
/* Runs until somebody stops it, then takes everything down. */
void psid_run(struct psid *psid);
/* Ends psid_run: clients are told, the socket goes away. Harmless when repeated. */
void psid_stop(struct psid *psid);

#endif
