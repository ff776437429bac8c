/* Where this node is found. */
#ifndef PULC_PSID_WHERE_H
#define PULC_PSID_WHERE_H

#include "address.h"

/*
 * The address of this machine that leads to `to`, or, if that is NULL or leads nowhere, the first
 * of its interfaces', 127.0.0.1 if there is none. The port stays as it is.
 */
void psid_where(const struct psid_address *to, struct psid_address *address);

#endif
