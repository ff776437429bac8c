/* When psid ends: a signal, a request, or nothing to do for a while. */
#ifndef PULC_PSID_LIFECYCLE_H
#define PULC_PSID_LIFECYCLE_H

struct psid;

int psid_lifecycle_start(struct psid *psid);
void psid_lifecycle_close(struct psid *psid);
/* A process has attached; a process has gone. */
void psid_lifecycle_busy(struct psid *psid);
void psid_lifecycle_idle(struct psid *psid);

#endif
