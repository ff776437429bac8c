/* Commands that do something once: stop, kill, drain, undrain, reload, loglevel. */
#ifndef PULCCTL_ACT_H
#define PULCCTL_ACT_H

#include "options.h"

/* Returns the exit status, after saying what went wrong. */
int ctl_act(const struct ctl_options *options);

#endif
