/* A hand-over: two matched hints, from Want to Upgrade or Deny. */
#ifndef PULC_PSID_HANDOVER_H
#define PULC_PSID_HANDOVER_H

#include <stdint.h>

#include "hint.h"

void psid_handovers_start(struct psid *psid);
void psid_handovers_close(struct psid *psid);
void psid_handover_start(struct psid_hint *a, struct psid_hint *b);
/* The hint goes away; the other one is told. Harmless when in none. */
void psid_handover_leave(struct psid_hint *hint);
/* Has its socket come? */
bool psid_handover_holds(const struct psid_hint *hint);
/* Message Socket: takes the descriptor *fd. Returns 0. */
int psid_handover_socket(struct psid_client *client, uint64_t token, int *fd);
struct psid_witness;
/* A UDP socket's owner has sent the nonce, from this address. */
void psid_handover_witness(struct psid_witness *witness, struct psid *psid,
			   const uint8_t address[16], uint16_t port);

#endif
