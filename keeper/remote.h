/* Connections between the keepers of one job. */
#ifndef PULC_KEEPER_REMOTE_H
#define PULC_KEEPER_REMOTE_H

#include "keeper.h"

/* Makes TLS ready, for whoever is copied from us. */
void keeper_remote_prepare(void);
/* Not the head: calls the head keeper and makes that the channel to the owner. Blocks for some
 * seconds at most. Returns 0, negative errno. */
int keeper_remote_call(struct keeper *k);
/* Head: takes calls at fd. keeper_head_attached is called for each keeper that has said which it
 * is. Returns 0, negative errno. */
int keeper_remote_listen(struct keeper *k, int fd);

#endif
