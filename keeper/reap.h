/* The children: tasks, helpers, and what tasks have left behind. */
#ifndef PULC_KEEPER_REAP_H
#define PULC_KEEPER_REAP_H

#include "keeper.h"

/* What a keeper is deaf to, and its tasks are not. */
#define KEEPER_SIGNALS_IGNORED                                                                     \
	SIGPIPE, SIGHUP, SIGINT, SIGUSR1,                                                          \
		SIGUSR2 /* a scheduler sends the latter to all it knows of */

/* Returns 0, negative errno. */
int keeper_reap_start(struct keeper *k);
/* Looks for children that have ended. */
void keeper_reap(struct keeper *k);
/* No process of the job is left, or none that counts. */
void keeper_all_gone(struct keeper *k);
/* The helper processes that are no part of the job, ended by 0. */
const pid_t *keeper_helpers(struct keeper *k);

#endif
