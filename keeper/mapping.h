/* Which rank is on which node, as PMI's process mapping tells it. */
#ifndef PULC_KEEPER_MAPPING_H
#define PULC_KEEPER_MAPPING_H

#include <stddef.h>

#include "job.pb-c.h"

/* "(vector,(0,4,2))": from node 0 on 4 nodes of 2 ranks each. Returns 0, -EMSGSIZE, -ENOMEM,
 * -EBADMSG: ranks are missing. */
int mapping_of_places(const Pulc__Job__Start *start, char *buf, size_t size);

#endif
