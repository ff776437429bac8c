/* Telling systemd how we are, where there is one to tell. */
#ifndef PULC_PSID_NOTIFY_H
#define PULC_PSID_NOTIFY_H

struct psid;

void psid_notify_ready(const struct psid *psid);
void psid_notify_stopping(void);

#endif
