/* The processes that descend from one process. */
#ifndef PULC_KEEPER_DESCENDANTS_H
#define PULC_KEEPER_DESCENDANTS_H

#include <sys/types.h>

/*
 * SIGKILLs what descends from `ancestor` now, sparing it, and the children of it in `spare` (ends
 * with 0; NULL: none) with all that descends from them. Reads /proc; what forks meanwhile may be
 * missed: repeat until there is nothing left. Returns how many were found.
 */
unsigned descendants_kill(pid_t ancestor, const pid_t *spare);

#endif
