/* Between the keeper and libpmix. */
#ifndef PULC_KEEPER_SERVE_H
#define PULC_KEEPER_SERVE_H

#include "frame.h"

#define SERVE_FD 3

/* A message of the keeper's, which is ours. Main thread. Returns 0, negative errno: it is over. */
int serve_take(Pulc__Job__Message *msg);

/* To the keeper, from any thread; blocks while the keeper does not read. */
void serve_put(const Pulc__Job__Message *msg);

/* space.c: makes the job known to libpmix and fills in what its tasks need. Returns 0, -EIO. */
int serve_register(const Pulc__Job__Start *start, Pulc__Job__PmixReady *ret_ready);

#endif
