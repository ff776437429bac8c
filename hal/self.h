/* The HAL of a process to itself. */
#ifndef PULC_HAL_SELF_H
#define PULC_HAL_SELF_H

#include "hal.h"

/* The owner sets link->arrived before the first send. 0; -ENOMEM. */
int hal_self_open(struct hal_link **ret_link);

#endif
