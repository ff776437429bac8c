/* Private psids on the nodes of an allocation, for one pulcrun. */
#ifndef PULCRUN_LODGING_H
#define PULCRUN_LODGING_H

#include <sys/types.h>

#include "allocation.h"

/* A program that we have started, at the other end of a socket. */
struct helper {
	pid_t pid; /* 0: none */
	int fd;
	char line[256];
	size_t n_line;
};

struct lodging {
	struct helper front; /* the agent of the psid here, which has no tasks */
	struct helper nodes; /* the scheduler's command, with the agents of all nodes */
};

/*
 * Starts them, and returns when each node can take tasks; PULC_SOCKET in our environment is the
 * front's psid. Returns 0; negative errno after saying what is wrong, and then they are gone.
 */
int lodging_open(struct lodging *lodging, const struct scheduler *scheduler,
		 const struct allocation *allocation);
/* Ends them, and waits until they have; does nothing if there are none. */
void lodging_close(struct lodging *lodging);

/* helper.c: starts a program with one end of a socket as its standard input and output. Returns 0,
 * negative errno. */
int helper_start(struct helper *helper, char *const *words);
/* One line of what it says, without its end. Returns 0; -EPIPE: it has closed; -ETIMEDOUT;
 * -EMSGSIZE. */
int helper_hear(struct helper *helper, uint64_t nsec_end, char *buf, size_t size);
/* Returns 0; negative errno: it does not listen. */
int helper_tell(struct helper *helper, const char *text);
/* Drops what it says. Returns whether it is still there. */
bool helper_ignore(struct helper *helper);
/* It hears the end. */
void helper_hang_up(struct helper *helper);
/* Waits until it has ended, for a while; then it is killed. */
void helper_wait(struct helper *helper);

/* muster.c: the psid at PULC_SOCKET. Where it listens for other nodes, "10.0.0.1:41233"; it takes
 * no tasks from now on. */
int muster_front(char *buf, size_t size);
/* Waits until all of these are nodes of its cluster and alive. Returns 0; -EPIPE: the helper has
 * ended; -ETIMEDOUT, after naming those that are missing; other negative errno. */
int muster_nodes(const struct hosts *nodes, struct helper *helper);

#endif
