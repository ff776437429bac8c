/* Closing what clients sent: in helper threads, because it may take for ever. */
#ifndef PULC_PSID_CLOSER_H
#define PULC_PSID_CLOSER_H

#include <pthread.h>
#include <stdbool.h>
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
	unsigned n_left; /* the loop's: closings not yet reported done */
	uv_async_t finished;
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
 * Closes fd some time soon, on the account of user; done(arg), if given, is called by the loop
 * once the descriptor is really gone. Takes fd in any case. When memory is out fd stays open and
 * done is called never: false.
 */
bool psid_close_foreign(struct psid *psid, struct psid_user *user, int fd, void (*done)(void *arg),
			void *arg);

#endif
