/*
 * A cluster in virtual time: many memberships (psid/cluster/swim.h) and a network that delays,
 * loses and divides. The same seed gives the same course of events.
 */
#ifndef PULC_TESTS_CLUSTER_SIM_H
#define PULC_TESTS_CLUSTER_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "swim.h"

#define SIM_SEC 1000000ull
#define SIM_MSEC 1000ull
/* What a datagram costs besides its body: IP, UDP and the seal. */
#define SIM_SIZE_OVERHEAD (28u + 40u)

struct sim_node {
	struct sim *sim;
	unsigned index;
	struct psid_swim swim;
	bool up;       /* runs; a node that does not is silent */
	bool stopped;  /* runs later: what arrives waits */
	unsigned side; /* of a partition: hears only its own */
	uint64_t usec_due;
	unsigned n_given_up;
	enum psid_swim_remark last_remark;
	unsigned n_remarks;
	uint64_t n_sent, size_sent;		   /* datagrams, bytes with SIM_SIZE_OVERHEAD */
	struct sim_letter *waiting, **waiting_end; /* while stopped */
};

struct sim {
	struct sim_node *nodes;
	unsigned n;
	uint64_t usec_now;
	uint64_t random;
	unsigned permille_loss;
	uint64_t usec_delay_min, usec_delay_max;
	/* What the nodes were told by psid_swim_ops.changed. */
	uint64_t n_suspected_falsely; /* alive nodes, by any observer */
	uint64_t n_buried_falsely;
	struct sim_event *heap;
	size_t n_heap, n_room;
};

/* n nodes, none running. Delays from 100 us to 1 ms, no loss. */
void sim_init(struct sim *sim, unsigned n, uint64_t seed);
void sim_deinit(struct sim *sim);
/* Starts a node that knows these seeds (indices), in a life of its own. */
void sim_start(struct sim *sim, unsigned i, const unsigned *seeds, size_t n_seeds);
void sim_start_as(struct sim *sim, unsigned i, const char *name, const unsigned *seeds,
		  size_t n_seeds);
/* Starts all of them, knowing each other. */
void sim_start_acquainted(struct sim *sim);
/* Gone without a word; sim_start brings it back. */
void sim_kill(struct sim *sim, unsigned i);
void sim_leave(struct sim *sim, unsigned i);
/* As by SIGSTOP and SIGCONT. */
void sim_stop(struct sim *sim, unsigned i);
void sim_continue(struct sim *sim, unsigned i);
/* The first k nodes on one side; 0 heals. */
void sim_divide(struct sim *sim, unsigned k);
void sim_run(struct sim *sim, uint64_t usec);

uint64_t sim_id(const struct sim *sim, unsigned i);
/* What i thinks of j; UNKNOWN: nothing. */
enum psid_node_state sim_opinion(const struct sim *sim, unsigned i, unsigned j);
/* Nodes that run, among those of i's side, and think that of j. */
unsigned sim_count(const struct sim *sim, unsigned j, enum psid_node_state state);
/* Everybody who runs knows that everybody who runs is alive. */
bool sim_agreed(const struct sim *sim);
/* Runs until agreed, at most so long. Returns the time taken; UINT64_MAX. */
uint64_t sim_run_until_agreed(struct sim *sim, uint64_t usec_max);
/* Runs until all that run think this of j. Returns the time taken; UINT64_MAX. */
uint64_t sim_run_until_all(struct sim *sim, unsigned j, enum psid_node_state state,
			   uint64_t usec_max);

#endif
