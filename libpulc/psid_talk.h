/* One conversation with psid about jobs: a question, and all of its answer. */
#ifndef PULC_LIBPULC_PSID_TALK_H
#define PULC_LIBPULC_PSID_TALK_H

#include <stddef.h>

#include "client.pb-c.h"

/* Connects and says who we are. Returns 0 with a descriptor; -ENOENT, -EPERM: no psid for us; other
 * negative errno. */
int psid_talk_open(Pulc__Wire__Role role, int *ret_fd);
/*
 * The next answer, but for Welcome; waits for it. Returns 0 with a message to free; -ECONNREFUSED:
 * psid has refused, and why has one line (PULC_SIZE_WHY bytes, or NULL); -ETIMEDOUT, -EPIPE,
 * -EBADMSG, -ENOMEM.
 */
int psid_talk_receive(int fd, char *why, Pulc__Wire__ToClient **ret_msg);

#endif
