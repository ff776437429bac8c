/* The keeper as a client of psid: so that the job can be seen, and ended, from outside. */
#ifndef PULC_KEEPER_LINK_H
#define PULC_KEEPER_LINK_H

#include "keeper.h"

/* Begins to look for psid. Returns 0, negative errno. */
int keeper_link_start(struct keeper *k);
/* Something has happened to tasks: psid will hear of it soon. */
void keeper_link_tasks(struct keeper *k);
/*
 * Everything here is over: psid is told now. Returns false if it has not welcomed us yet:
 * keeper_look_for_end is called again when it has, or takes too long.
 */
bool keeper_link_settle(struct keeper *k);

#endif
