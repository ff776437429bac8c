/* Connections of a psid before us, brought back by those who hold them. */
#ifndef PULC_PSID_RETURN_H
#define PULC_PSID_RETURN_H

#include "client.h"

/* Message Return: takes *fd if it keeps it. Returns 0; -EBADMSG. */
int psid_return(struct psid_client *client, const Pulc__Wire__Return *msg, int *fd);

#endif
