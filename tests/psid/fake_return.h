/* Fake clients that come back to a psid with connections of the one before, or ask for their side
 * again. */
#ifndef PULC_TESTS_PSID_FAKE_RETURN_H
#define PULC_TESTS_PSID_FAKE_RETURN_H

#include "psid/fake_client.h"

/* What a client says of one side; filled in from its socket and its slabs, to be changed before it
 * is sent. */
struct fake_kept {
	Pulc__Wire__Kept kept;
	struct fake_hint named; /* tuple and cookie */
};
void fake_kept_fill(struct fake_kept *k, const struct fake_upgrade *u, unsigned side, int socket,
		    uint64_t token);
uint64_t fake_inode(int fd);
void fake_return_send(struct fake_client *c, struct fake_kept *k, int slab_fd);
/* Sends one side and returns the connection's number in psid's answer. */
uint64_t fake_return(struct fake_client *c, const struct fake_upgrade *u, unsigned side, int socket,
		     uint64_t token);
void fake_ask_attach(struct fake_client *c, int socket, uint64_t token);
/* The entries of `pulcctl sockets` that name a connection. */
unsigned fake_count_sockets(struct daemon *d, const char *path);

#endif
