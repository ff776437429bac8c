/* From a client's datagram to the function that serves it. */
#ifndef PULC_PSID_DISPATCH_H
#define PULC_PSID_DISPATCH_H

#include <stddef.h>
#include <stdint.h>

struct psid_client;

/*
 * Decodes one message and acts on it; a message that makes no sense dooms the client. Takes the
 * descriptors.
 */
void psid_dispatch(struct psid_client *client, const uint8_t *buf, size_t len, const int *fds,
		   size_t n_fds);

#endif
