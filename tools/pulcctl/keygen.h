/* Making and changing a cluster's key. */
#ifndef PULCCTL_KEYGEN_H
#define PULCCTL_KEYGEN_H

#include "options.h"

/*
 * Does with the key file what the options say; without one: with the one that psid.conf(5)
 * suggests, in /etc/pulc for root, in the user's configuration else. Says what was done and what is
 * to be done. Returns 0; negative errno, after saying what is wrong.
 */
int ctl_keygen(const struct ctl_options *options);

#endif
