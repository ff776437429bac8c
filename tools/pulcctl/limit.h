/* Limits of a partition, as words: "cores=8". */
#ifndef PULCCTL_LIMIT_H
#define PULCCTL_LIMIT_H

#include "client.pb-c.h"

/* Takes "cores=8" or "time=2h" into the partition, "none" for no limit. Returns its bit of
 * PartitionPart, or -EINVAL after saying why. */
int ctl_limit_take(const char *text, Pulc__Wire__Partition *partition);
/* "cores=8,time=2h" to free; NULL: there are none, or no memory. */
char *ctl_limits_text(const Pulc__Wire__Partition *partition);

#endif
