/* Sockets that psid has no use for. */
#ifndef PULC_PSID_STRAY_H
#define PULC_PSID_STRAY_H

#include <stdint.h>

#include "client.h"

/* Closes *fd, which it takes, and then denies the token; without memory it denies it at once, and
 * takes nothing. Returns 0. */
int psid_return_stray(struct psid_client *client, uint64_t token, int *fd,
		      Pulc__Wire__Reason reason);

#endif
