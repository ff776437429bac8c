/* Reading the settings once more while psid runs. */
#ifndef PULC_PSID_RELOAD_H
#define PULC_PSID_RELOAD_H

#include <stdbool.h>

#include "client.pb-c.h"

struct psid;
struct psid_client;

/*
 * Takes what is new, for whatever begins from now on; or, if anything is wrong, nothing. Logs
 * which. The files are read aside, client (or NULL) is answered when that is done.
 */
void psid_reload(struct psid *psid, const struct psid_client *client);
/* A reload is still reading, and refers to psid. */
bool psid_is_reloading(const struct psid *psid);

/* Messages of clients; 0, or -EBADMSG. */
int psid_reload_asked(struct psid_client *client);
int psid_log_level_asked(struct psid_client *client, const Pulc__Wire__LogLevelRequest *request);

#endif
