/* Making a cluster's key. */
#ifndef PULCCTL_KEYGEN_H
#define PULCCTL_KEYGEN_H

#include <stdbool.h>

/*
 * Makes a new key in a new file; NULL: where psid.conf(5) suggests it, in /etc/pulc for root, in the
 * user's configuration else; says what was done and what is to be done. Returns 0; negative errno,
 * after saying what is wrong.
 */
int ctl_keygen(const char *path, bool json);

#endif
