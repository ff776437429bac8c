/* Proof of owning a UDP socket: to send from it what only its owner was told. */
#ifndef PULC_PSID_WITNESS_H
#define PULC_PSID_WITNESS_H

#include <stdint.h>

#include "hint.h"

/* One nonce on its way from a client's socket to psid's ears. */
struct psid_witness {
	struct psid_map_node node; /* psid->witnesses, by nonce[0] */
	uint64_t nonce[2];
	bool asked;
};

/* Without ears (no loopback, no IPv6) flows of that family stay on the kernel. */
void psid_witness_start(struct psid *psid);
void psid_witness_stop(struct psid *psid);
/* Can flows of this hint's family be proven here? */
bool psid_witness_can(const struct psid_hint *hint);
/* Asks the hint's client to send from its socket. Returns 0; negative errno. */
int psid_witness_ask(struct psid_witness *witness, const struct psid_hint *hint);
/* Nothing is expected any more. Harmless when nothing was. */
void psid_witness_drop(struct psid_witness *witness, struct psid *psid);

#endif
