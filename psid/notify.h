/* Telling systemd how we are, where there is one to tell. */
#ifndef PULC_PSID_NOTIFY_H
#define PULC_PSID_NOTIFY_H

struct psid;

/* Signs of life and of what we do, from now on. Returns 0, negative errno. */
int psid_notify_start(struct psid *psid);
void psid_notify_close(struct psid *psid);
void psid_notify_ready(const struct psid *psid);
/* Followed by ready. */
void psid_notify_reloading(void);
void psid_notify_stopping(void);

#endif
