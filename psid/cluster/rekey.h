/* Other keys for a cluster that runs. */
#ifndef PULC_PSID_REKEY_H
#define PULC_PSID_REKEY_H

#include "keys.h"
#include "tls.h"

struct psid_cluster;

/*
 * Would this node and the others that are here still understand each other? Returns 0; -EBUSY, and
 * in why a line for people that names a node.
 */
int psid_rekey_check(const struct psid_cluster *cluster, const struct psid_keyring *ring, char *why,
		     size_t size);
/* Uses the first from now on, accepts all. Connections stay. Returns 0; -ENOMEM: nothing has
 * changed. */
int psid_rekey(struct psid_cluster *cluster, const struct psid_keyring *ring);
/* Other certificates for connections from now on; takes them. */
void psid_recertify(struct psid_cluster *cluster, struct psid_tls *next);

#endif
