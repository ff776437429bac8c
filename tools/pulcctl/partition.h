/* Making and deleting partitions. */
#ifndef PULCCTL_PARTITION_H
#define PULCCTL_PARTITION_H

#include "options.h"

/* Returns the exit status, after saying what went wrong. */
int ctl_partition(const struct ctl_options *options);

#endif
