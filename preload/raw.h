/* System calls without libc, for the time before libc's functions are found and for what must not touch errno. */
#ifndef PULC_PRELOAD_RAW_H
#define PULC_PRELOAD_RAW_H

#include "rawsys.h"

#define pre_raw6 raw_syscall6
#define pre_raw raw_syscall

#endif
