/* Which job of a partition begins next, and where: what the node that decides about it knows. */
#ifndef PULC_PSID_PLAN_H
#define PULC_PSID_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "book.h"
#include "peer.pb-c.h"
#include "place.h"

#define PSID_SIZE_WHY 192u
#define PSID_SIZE_JOB 80u
#define PSID_N_TICKETS_MAX 4096u /* that wait in one partition */

struct psid_cluster;

/* A job that wants to run. */
struct psid_ticket {
	TAILQ_ENTRY(psid_ticket) link;
	char job[PSID_SIZE_JOB];
	uint64_t asker; /* the node where it was asked for */
	uint32_t uid;
	uint64_t msec_since; /* since 1970: its place in the queue */
	uint64_t usec_arrived, usec_refreshed;
	Pulc__Wire__Submit *submit;
	struct psid_candidate *hosts; /* that it named */
	size_t n_hosts;
	uint64_t n_passed; /* processors that were given to jobs behind it */
	char why[PSID_SIZE_WHY];
	uint32_t position;
	bool is_told;	  /* the asker knows both */
	bool is_possible; /* on an empty partition */
};

/* A copy, to be freed with pulc__wire__submit__free_unpacked. NULL: no memory. */
Pulc__Wire__Submit *psid_submit_copy(const Pulc__Wire__Submit *submit);
/* How its tasks are to be placed. */
enum psid_strategy psid_strategy_of(const Pulc__Wire__Submit *submit);

/* Processors that it asks for, in all. */
uint64_t psid_ticket_n_cpus(const struct psid_ticket *ticket);

/* What a job has on a node. */
struct psid_holding {
	TAILQ_ENTRY(psid_holding) link;
	char job[PSID_SIZE_JOB], partition[64];
	char reservation[PSID_SIZE_JOB]; /* whose processors it uses; "": none */
	uint64_t node, asker;		 /* asker: of those that were granted */
	uint32_t uid, n_tasks, n_cpus;
	bool is_told;	    /* by the node; else it was granted and is on its way there */
	uint64_t usec_made; /* granted */
};

struct psid_plan_node {
	uint64_t id, usec_told;
	uint32_t n_cpus, n_jobs; /* in use, while it is decided */
	uint32_t n_reserved;	 /* processors, in a plan of a reservation */
};

struct psid_plan {
	char partition[PSID_SIZE_JOB]; /* or a reservation */
	bool is_reservation;
	TAILQ_HEAD(, psid_ticket) tickets; /* in the order of the queue */
	TAILQ_HEAD(, psid_holding) holdings;
	size_t n_tickets;
	struct psid_plan_node *nodes; /* by id */
	size_t n_nodes;
};

/*
 * What becomes of a ticket: it is granted, with the shares of its tasks in their order, refused or
 * waits (why). The last is said once for each reason and place in the queue.
 */
typedef void psid_plan_verdict(void *data, const struct psid_ticket *ticket,
			       Pulc__Peer__Answer answer, const Pulc__Peer__Share *shares,
			       size_t n_shares);

/* Returns NULL: no memory. */
struct psid_plan *psid_plan_new(const char *partition);
struct psid_plan *psid_plan_free(struct psid_plan *plan);
bool psid_plan_is_idle(const struct psid_plan *plan);

/* Takes a wish, or hears that it still stands. Returns 0; -EBADMSG: it makes no sense; -ENOSPC: too
 * many; -ENOMEM. */
int psid_plan_want(struct psid_plan *plan, uint64_t asker, const Pulc__Peer__Want *want,
		   uint64_t usec_now);
void psid_plan_unwant(struct psid_plan *plan, uint64_t asker, const char *job);
/* What a node has told of all jobs that run on it. Returns 0; -EBADMSG; -ENOMEM. */
int psid_plan_told(struct psid_plan *plan, uint64_t node, const Pulc__Peer__Use *use,
		   uint64_t usec_now);
/* A node is gone: what it wanted, has and has told. */
void psid_plan_forget(struct psid_plan *plan, uint64_t node);
/*
 * Looks which tickets can be granted now, and says of each what has become of it. Those that are
 * granted, refused or forgotten by who asked are no more afterwards.
 */
void psid_plan_decide(struct psid_plan *plan, struct psid_cluster *cluster,
		      const struct psid_partition *partition, uint64_t usec_now,
		      psid_plan_verdict *verdict, void *data);

#endif
