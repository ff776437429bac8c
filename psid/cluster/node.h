/* A node of the cluster, as this psid knows it. */
#ifndef PULC_PSID_NODE_H
#define PULC_PSID_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "address.h"
#include "key.h"

#define PSID_SIZE_NAME 64u /* of a node, with its end */

/* Numbers of the wire: those of larger value win over the smaller at the same incarnation. */
enum psid_node_state {
	PSID_NODE_UNKNOWN = 0, /* configured, never heard of */
	PSID_NODE_ALIVE = 1,
	PSID_NODE_SUSPECT = 2, /* does not answer: gets no new work, keeps what it has */
	PSID_NODE_DEAD = 3,
	PSID_NODE_LEFT = 4, /* said good-bye */
};

struct psid_version {
	uint8_t major, minor, patch;
};

/* What a node says of itself again and again. */
struct psid_load {
	uint16_t number;	/* of this news, counted by the node; 0: none yet */
	uint16_t centi_foreign; /* hundredths of runnable processes that are no tasks of PULC */
	uint16_t n_tasks;	/* tasks it runs */
	uint16_t n_cpus;	/* processors they asked for */
	uint8_t percent_memory; /* available */
	/* of the last 10 s: PSI some of cpu, memory, io; 255: not known */
	uint8_t percent_stall[3];
	uint8_t rate; /* rate.h: what its programs move over memory */
};

struct psid_suspicion;
struct psid_placed;

struct psid_node {
	uint64_t id;   /* 48 bits, made from the name: the same in every life */
	uint64_t life; /* milliseconds since 1970 when it began; greater in each life; 0: unknown */
	uint32_t incarnation; /* the node itself raises it, to contradict what is said of it */
	enum psid_node_state state;
	bool drained; /* wants no new tasks */
	char *name;
	struct psid_address address; /* of its gossip and its peer connections */
	struct psid_version version;
	uint16_t n_cores;	    /* that its psid may use */
	uint32_t mib_memory;	    /* of the machine */
	uint32_t keys[WIRE_N_KEYS]; /* their numbers: it uses the first and accepts the others */
	uint8_t n_keys;		    /* 0: not in a cluster, or not known */

	struct psid_load load;
	uint64_t usec_load;  /* when that news was made, our clock */
	uint64_t usec_state; /* when it came into this state, our clock */
	char *why;	     /* misfit.c: we did not understand each other; NULL: we do */
	uint64_t usec_heard; /* when a datagram of its own last arrived; 0: never */

	struct psid_placed *placed; /* place.c; NULL: nothing */

	/* swim.c and its parts */
	struct psid_suspicion *suspicion;
	TAILQ_ENTRY(psid_node) hot, warm; /* spread.c: its state, its load is to be passed on */
	uint8_t n_hot, n_warm;		  /* so often; 0: not in the list */
	bool urgent;			  /* its state has not been passed on at all */
	bool is_enlisted;		  /* probe.c: in the order of probes */
	uint32_t digest;		  /* its part of the table's */
};

/* Where a datagram comes from: who has sealed it, in which of its lives, and the address. */
struct psid_origin {
	uint64_t id, life;
	struct psid_address address;
};

/* The id of a name: 48 bits of its SHA-256. */
uint64_t psid_node_id(const char *name);
/* 1 to 63 letters, digits, '-', '_' and '.', beginning with a letter or digit. */
bool psid_node_name_ok(const char *name, size_t len);
const char *psid_node_state_name(enum psid_node_state state);

/* Is this one that messages may be sent to? */
static inline bool psid_node_is_up(const struct psid_node *node)
{
	return node->state == PSID_NODE_ALIVE || node->state == PSID_NODE_SUSPECT;
}

#endif
