/* Ending everything that a job has started here. */
#ifndef PULC_KEEPER_KILL_H
#define PULC_KEEPER_KILL_H

struct keeper;

/* Opens what kills the cgroup, if there is one; before the user is changed. */
void keeper_kill_open(struct keeper *k);
/* SIGKILL to every process that descends from a task, now and until none is left. Harmless when
 * repeated. */
void keeper_kill(struct keeper *k);

#endif
