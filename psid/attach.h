/* Sockets of upgraded connections in programs that have no memory of them. */
#ifndef PULC_PSID_ATTACH_H
#define PULC_PSID_ATTACH_H

#include "client.h"

/* Message Attach: takes *fd. Returns 0. */
int psid_attach(struct psid_client *client, uint64_t token, int *fd);

#endif
