/* `pulcctl top`: the cluster at a glance, again and again. */
#ifndef PULCCTL_TOP_H
#define PULCCTL_TOP_H

#include "options.h"

/* On a terminal until interrupted, or until psid ends; else once, or as --watch says. Returns the
 * exit status. */
int ctl_top(const struct ctl_options *options);

#endif
