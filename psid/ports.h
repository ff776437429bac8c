/* Ports of this node: who has which number and name. */
#ifndef PULC_PSID_PORTS_H
#define PULC_PSID_PORTS_H

#include "client.h"

#define PSID_PORT_NAME_MAX 64u
#define PSID_N_PORTS_CLIENT 1024u
#define PSID_N_PORTS_USER (64 * PSID_N_PORTS_CLIENT)

struct psid_port {
	struct psid_map_node by_number; /* psid->ports */
	struct psid_map_node by_name;	/* psid->port_names, if it has one */
	LIST_ENTRY(psid_port) by_client;
	struct psid_client *client;
	uint32_t number;
	Pulc__Wire__PortKind kind;
	char name[PSID_PORT_NAME_MAX + 1];
	/* task_ports.c: the task that is found by it */
	struct psid_map_node by_task; /* psid->task_ports, if job is not NULL */
	char *job;
	uint32_t rank;
	/* port_moves.c */
	uint32_t given_to; /* the process that it is for; 0: it is not given away, or has a taker */
	struct psid_map_node by_offer; /* psid->offers, if it is given away */
	/* who is about to have it: nobody is joined with its owner for its sake */
	struct psid_client *taker;
	uint64_t move;
	bool ready, told; /* the taker is; the owner has been told so */
};

/* Messages. Return 0; -EBADMSG. */
int psid_port_open(struct psid_client *client, const Pulc__Wire__PortOpen *msg);
int psid_port_close(struct psid_client *client, uint32_t number);
int psid_port_find(struct psid_client *client, const Pulc__Wire__PortFind *msg);

/* NULL: nobody has it. */
struct psid_port *psid_port_get(const struct psid *psid, uint32_t number);
uint64_t psid_hash_name(const char *name);
struct psid_port *psid_port_named(const struct psid *psid, const char *name);
void psid_port_reply(struct psid_client *client, uint32_t request, Pulc__Wire__PortError error,
		     const struct psid_port *port);
/* The client is gone. */
void psid_ports_forget(struct psid_client *client);

/* Tells everybody whom the client is joined with that it has, or has no longer, this port. */
void psid_port_tell(struct psid_client *client, uint32_t port, bool has);

/* port_moves.c. Messages PortGive and PortTake. Return 0; -EBADMSG. */
int psid_port_give(struct psid_client *client, const Pulc__Wire__PortGive *msg);
int psid_port_take(struct psid_client *client, const Pulc__Wire__PortTake *msg);
/* The port is going. */
void psid_port_move_end(struct psid_port *port);
/* The client has no channel any more. */
void psid_port_moves_forget(struct psid_client *client);
/* A meeting of this client's with one of another node is over. */
void psid_port_moves_go_on(struct psid_client *client);

/* task_ports.c. Message PortOfTask. Returns 0; -EBADMSG. */
int psid_port_of_task(struct psid_client *client, const Pulc__Wire__PortOfTask *msg);
/* The port that a task of this node is found by; 0: none. */
uint32_t psid_port_find_task(const struct psid *psid, const char *job, uint32_t rank);
/* All that tasks are found by; NULL begins and ends. */
struct psid_port *psid_port_next_of_task(const struct psid *psid, const struct psid_port *after);
/* No task is found by this port any more. */
void psid_port_unname_task(struct psid_port *port);

#endif
