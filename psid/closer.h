/* Closing and emptying what clients have: in helper threads, because it may take for ever. */
#ifndef PULC_PSID_CLOSER_H
#define PULC_PSID_CLOSER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "loop.h"

struct psid;
struct psid_user;
struct psid_closing;

TAILQ_HEAD(psid_closings, psid_closing);

struct psid_closer {
	pthread_mutex_t lock;
	pthread_cond_t more, fewer;	  /* closings; threads */
	struct psid_closings ready, done; /* under the lock, as what follows */
	unsigned n_threads, n_idle, n_ready;
	bool stopping;
	uv_async_t finished;
	/* The loop's: closings not yet reported done; users' that the helpers have; those to come,
	 * and how many were promised. */
	unsigned n_left, n_running;
	struct psid_closings spare;
	unsigned n_spare, n_promised;
};

/* Returns 0; negative errno. */
int psid_closer_start(struct psid_closer *closer, uv_loop_t *loop);
/*
 * False: a close still hangs, and its thread would touch what is taken down; leave without
 * tidying up.
 */
bool psid_closer_stop(struct psid_closer *closer);
/* How many closes are under way. */
unsigned psid_closer_pending(const struct psid_closer *closer);

/*
 * May descriptors come in? Asked before each message, and before a client is accepted: then all
 * that they bring can be closed, without memory. False: not now.
 */
bool psid_closer_is_ready(struct psid_closer *closer);
/* A descriptor stays for longer than the message that brought it. Returns 0; -ENOMEM. */
int psid_closer_promise(struct psid_closer *closer);
void psid_closer_unpromise(struct psid_closer *closer);
/*
 * Closes fd some time soon, on the account of user (NULL: nobody's); done(arg), if given, is called
 * by the loop once the descriptor is really gone. Takes fd.
 */
void psid_close_foreign(struct psid *psid, struct psid_user *user, int fd, void (*done)(void *arg),
			void *arg);
/* The same for one that was promised. */
void psid_close_promised(struct psid *psid, struct psid_user *user, int fd, void (*done)(void *arg),
			 void *arg);

struct psid_emptying {
	int fd;
	uint64_t at, size;
};
/* Gives back this part of a memory that others have, some time soon. Was promised, and still is
 * when it is done; the descriptor stays open, and must until then. */
void psid_empty_promised(struct psid_user *user, const struct psid_emptying *what,
			 void (*done)(void *arg), void *arg);

#endif
