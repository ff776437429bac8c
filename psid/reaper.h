/* The end of clients, at a moment when nothing else looks at them. */
#ifndef PULC_PSID_REAPER_H
#define PULC_PSID_REAPER_H

#include "client.h"

int psid_reaper_start(struct psid *psid);
void psid_reaper_close(struct psid *psid);
/* This client's socket, or the client altogether, ends soon. Harmless when repeated. */
void psid_doom(struct psid_client *client);
bool psid_is_doomed(const struct psid_client *client);

#endif
