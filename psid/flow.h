/* Flows: the datagrams of one UDP socket to another. */
#ifndef PULC_PSID_FLOW_H
#define PULC_PSID_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "hint.h"

static inline bool psid_flow_is(const struct psid_hint *hint)
{
	return hint->transport != PULC__WIRE__TRANSPORT__TRANSPORT_TCP;
}

/* What sender's and receiver's hints of one flow have in common. */
uint64_t psid_flow_hash(const struct psid_hint *hint);
/* Looks for the other end of a new hint. */
void psid_flow_match(struct psid_hint *hint);
/*
 * Is the socket that sent from this address the one that was hinted? Returns 0, or the Reason
 * (positive) why not.
 */
int psid_flow_prove(const struct psid_hint *hint, const uint8_t address[16], uint16_t port);
/*
 * Do the kernel's own rules lead this flow from this socket to that one? Each hint's Reason why
 * not, or NONE.
 */
void psid_flow_check(const struct psid_hint *a, const struct psid_hint *b,
		     Pulc__Wire__Reason *ret_a, Pulc__Wire__Reason *ret_b);

#endif
