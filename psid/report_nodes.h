/* What psid tells about the cluster, and the one thing that it may be told to do with it. */
#ifndef PULC_PSID_REPORT_NODES_H
#define PULC_PSID_REPORT_NODES_H

#include "client.h"

/* Each returns 0; -EBADMSG. */
int psid_report_nodes(struct psid_client *client);
int psid_report_drain(struct psid_client *client, const Pulc__Wire__DrainRequest *msg);

#endif
