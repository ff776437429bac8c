/* A client: one accepted socket and the process behind it. */
#ifndef PULC_PSID_CLIENT_H
#define PULC_PSID_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "channel.h"
#include "deadline.h"
#include "layout.h"
#include "loop.h"
#include "map.h"
#include "outbox.h"

#define PSID_SIZE_PROGRAM 65
#define PSID_SIZE_PATH_TEXT 96 /* "shm, tcp (io_uring) " and the name of a node */

struct psid;
struct psid_hint;
struct psid_holder;
struct psid_joint;
struct psid_listing;
struct psid_pair;
struct psid_port;
struct psid_sem_hold;
struct psid_user;

enum psid_client_state {
	PSID_CLIENT_NEW,      /* has not said Hello */
	PSID_CLIENT_ATTACHED, /* takes part */
	PSID_CLIENT_REFUSED,  /* was told to go, or is left alone: we wait for it to close */
	PSID_CLIENT_DETACHED, /* no socket any more, but the process lives and holds connections */
};

TAILQ_HEAD(psid_hint_queue, psid_hint);

struct psid_client {
	struct psid_map_node node;	 /* psid->clients, by id */
	struct psid_map_node by_process; /* psid->processes, by pid */
	struct psid *psid;
	struct psid_user *user;
	uint32_t id;
	pid_t pid;
	enum psid_client_state state;
	Pulc__Wire__Role role;
	char program[PSID_SIZE_PROGRAM];
	uint64_t usec_attached;

	int fd, pidfd;
	uv_poll_t poll, exit_poll;
	unsigned n_handles; /* libuv's, not yet closed: the memory is theirs */
	struct psid_outbox outbox;
	struct psid_listing *listing;  /* batch.c: that it is being sent; NULL */
	struct psid_deadline deadline; /* Hello, or farewell */
	struct psid_deadline again;    /* until then nothing is written to it, or read: talk.c */
	bool exited;		       /* the process is gone */
	bool counted;		       /* in its user's n_clients or n_controls */
	bool released;		       /* only libuv still knows us */
	bool in_group;		       /* of operators */
	bool paused;		       /* not read from: see psid_user_is_jammed */
	bool misses_news;	       /* as some of its holdings say */

	/* talk.c */
	TAILQ_ENTRY(psid_client) unheard_link; /* user->unheard, if it is queued */
	bool queued;

	/* reaper.c */
	TAILQ_ENTRY(psid_client) doomed_link;
	unsigned n_rounds; /* 0: not doomed */
	unsigned n_waits;  /* turns in which its user was not heard to the end */

	/* hint.c */
	struct psid_map hints; /* by token */
	struct psid_hint_queue waiting, shown;
	uint32_t n_waiting, n_shown;
	uint32_t n_failures; /* sockets promised and not shown */

	/* conn.c, pair.c */
	TAILQ_HEAD(, psid_holder) holdings; /* links first */
	uint32_t n_holdings;
	struct psid_map pairs; /* what this client has towards others, by their id */

	/* ports.c */
	LIST_HEAD(, psid_port) ports;
	uint32_t n_ports;

	/* port_moves.c */
	bool takes;		      /* it wants a port that is given to it, */
	struct psid_map_node by_wish; /* psid->wishes, if it takes a certain one */
	uint32_t takes_port;	      /* this one; 0: any */
	struct psid_port *taking;     /* and that is being handed over */

	/* sems.c */
	LIST_HEAD(, psid_sem_hold) sems;
	uint32_t n_sems;

	/* joint.c */
	LIST_HEAD(, psid_joint) joints;
	uint32_t n_joints;
	char path[PSID_SIZE_PATH_TEXT]; /* report_ports.c */

	/* bells.c, credit.c */
	int boards_fd;
	struct shm_boards *boards;
	int bells[SHM_N_BOARDS];
	uint64_t size_credit;

	int messages_fd; /* message_area.c */
};

/*
 * Takes fd, an accepted socket, and begins to listen to it. Whatever goes wrong, fd is closed in
 * the end.
 */
void psid_client_new(struct psid *psid, int fd);
/* Reads from it, and writes to it if there is something left to say. */
void psid_client_listen(struct psid_client *client);
/* For psid->agains: what could be neither sent nor received is tried once more. */
void psid_client_again(struct psid_deadline *again);
/* From now on whatever it says is passed over, until it closes. */
void psid_client_ignore(struct psid_client *client);
/* Sends Refuse and hangs up. text is one line for people. */
void psid_client_refuse(struct psid_client *client, Pulc__Wire__Reason reason, const char *text);
/*
 * Sends a message, now or when the client reads again. A client that does not read for too long
 * is doomed; nothing is freed here. Returns 0; -EMFILE: its descriptors can't be kept until the
 * client reads, this message alone will not arrive; other negative errno: none will.
 */
int psid_client_send(struct psid_client *client, const Pulc__Wire__ToClient *msg, const int *fds,
		     uint32_t n_fds);
/* The same in two steps, of which only the first one can be short of descriptors; the second one
 * takes the letter. */
int psid_client_write(struct psid_client *client, const Pulc__Wire__ToClient *msg, const int *fds,
		      uint32_t n_fds, struct psid_letter **ret_letter);
int psid_client_post(struct psid_client *client, struct psid_letter *letter);
/* The client has sent nonsense: counted, logged, doomed. */
void psid_client_malformed(struct psid_client *client, const char *what);
/* What it has said is not read any more. */
void psid_client_unqueue(struct psid_client *client);
/* Reads on from a client of this user that was paused. */
void psid_client_resume(struct psid_client *client, const struct psid_user *user);

/* For the reaper: closes the socket and forgets everything that needs one. */
void psid_client_detach(struct psid_client *client);
/* Takes back everything and frees it. */
void psid_client_free(struct psid_client *client);

struct psid_client *psid_client_find(struct psid *psid, uint32_t id);

/* Shorthand for message constructors. */
#define PSID_MESSAGE(name, kind, body)                                                             \
	Pulc__Wire__ToClient name = PULC__WIRE__TO_CLIENT__INIT;                                   \
	name.body_case = PULC__WIRE__TO_CLIENT__BODY_##kind;                                       \
	name.body

#endif
