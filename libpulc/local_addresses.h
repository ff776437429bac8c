/* Which addresses are this node's own. */
#ifndef PULC_LIB_LOCAL_ADDRESSES_H
#define PULC_LIB_LOCAL_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

/* Addresses are 16 bytes, IPv4 v4-mapped. `local` is the connection's own end: equal addresses mean
 * the same node. May ask the kernel (one bind on a socket that is closed at once). */
bool is_local_address(const uint8_t remote[16], const uint8_t local[16]);

#endif
