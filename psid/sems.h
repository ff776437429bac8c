/* Semaphores of this node: who finds them, and what becomes of counts whose holder has gone. */
#ifndef PULC_PSID_SEMS_H
#define PULC_PSID_SEMS_H

#include "client.h"

/* Messages. Return 0; -EBADMSG. */
int psid_sem_open(struct psid_client *client, const Pulc__Wire__SemOpen *msg);
int psid_sem_join(struct psid_client *client, const Pulc__Wire__SemJoin *msg, int *fd);
int psid_sem_close(struct psid_client *client, uint32_t holder);
/* The client is gone: what it had is free again. */
void psid_sems_forget(struct psid_client *client);

#endif
