/* Message areas: memory of a client's in which it builds messages that others read where they
 * lie. */
#ifndef PULC_PSID_MESSAGE_AREA_H
#define PULC_PSID_MESSAGE_AREA_H

#include "client.h"

/* Message MessageArea. Returns 0. */
int psid_message_area(struct psid_client *client, const Pulc__Wire__MessageArea *msg);
/* The client is gone: who has mapped the memory keeps it as long as he wants. */
void psid_message_area_drop(struct psid_client *client);

#endif
