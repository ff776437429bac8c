/* Letting clients in. */
#ifndef PULC_PSID_ADMIT_H
#define PULC_PSID_ADMIT_H

#include <sys/socket.h>

#include "client.h"

/*
 * Who is at the other end of fd, and a descriptor that tells when it exits. Returns 0; negative
 * errno.
 */
int psid_identify(int fd, struct ucred *ret_cred, int *ret_pidfd);
/* A new client, before it has said anything: waits for its Hello, or refuses it. */
void psid_admit(struct psid_client *client);
/*
 * After its Hello: a number, a board area, Welcome. Returns 0; the Reason (positive) of a
 * refusal; negative errno.
 */
int psid_client_attach(struct psid_client *client, const Pulc__Wire__Hello *hello);

#endif
