/* Which addresses are this node's. */
#ifndef PULC_PSID_ROUTE_H
#define PULC_PSID_ROUTE_H

#include <stdint.h>

/* Returns a descriptor to ask through; negative errno. */
int psid_route_open(void);
/*
 * Is this an address of psid's network namespace, at which one socket can be reached: none of a
 * broadcast or a multicast? Returns 1, 0; negative errno when the kernel does not answer.
 */
int psid_route_is_local(int route, const uint8_t address[16]);

#endif
