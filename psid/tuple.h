/* The two ends of a TCP connection, or of a flow of datagrams, as one of them sees it. */
#ifndef PULC_PSID_TUPLE_H
#define PULC_PSID_TUPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "client.pb-c.h"

/* Normalised: IPv4 is v4-mapped. No padding: compared as memory. */
struct psid_tuple {
	uint8_t local[16], remote[16];
	uint16_t local_port, remote_port; /* host order */
};

/* Returns 0; -EBADMSG: not a tuple. */
int psid_tuple_read(const Pulc__Wire__Tuple *wire, struct psid_tuple *ret_tuple);
/* Points wire into tuple. */
void psid_tuple_write(const struct psid_tuple *tuple, Pulc__Wire__Tuple *wire);
/* The same connection from its other end. */
struct psid_tuple psid_tuple_mirror(const struct psid_tuple *tuple);
bool psid_tuple_equal(const struct psid_tuple *a, const struct psid_tuple *b);
uint64_t psid_tuple_hash(const struct psid_tuple *tuple);
bool psid_tuple_is_ipv4(const struct psid_tuple *tuple);
/* The remote end's address alone decides how a local one that may be the wildcard is to be read. */
bool psid_tuple_is_remote_ipv4(const struct psid_tuple *tuple);
/* The local address is "whatever address of this node". */
bool psid_tuple_is_wildcard(const struct psid_tuple *tuple);
/* An address that means something on one link only. */
bool psid_tuple_is_link_local(const struct psid_tuple *tuple);

#endif
