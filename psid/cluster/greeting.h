/* What two psids say before they encrypt: enough to tell people why they don't understand each
 * other. */
#ifndef PULC_PSID_GREETING_H
#define PULC_PSID_GREETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys.h"
#include "settings.h"

/* Of what two psids say to each other, and the processes that they join: neither can tell what of
 * the other's it does not know, so whoever changes a frame of either changes this. */
#define PSID_PEER_VERSION_MIN 3u
#define PSID_PEER_VERSION_MAX 3u
#define PSID_SIZE_GREETING 52u

struct psid_greeting {
	uint16_t version_min, version_max;
	bool by_certificate;
	uint64_t fingerprint; /* of the key that it uses */
	char cluster[PSID_SIZE_CLUSTER_NAME];
};

void psid_greeting_make(const struct psid_cluster_config *config, const struct psid_keyring *ring,
			struct psid_greeting *ret_greeting);
void psid_greeting_pack(const struct psid_greeting *greeting, uint8_t bytes[PSID_SIZE_GREETING]);
/* Returns 0, -EBADMSG: it is none. */
int psid_greeting_unpack(const uint8_t bytes[PSID_SIZE_GREETING],
			 struct psid_greeting *ret_greeting);
/*
 * Do they fit, their key being one of ours? Returns 0; -EPROTO, and in why a line for people, in
 * which "they" are the other side.
 */
int psid_greeting_compare(const struct psid_greeting *ours, const struct psid_keyring *ring,
			  const struct psid_greeting *theirs, char *why, size_t size);
/* The largest version that both have; 0: there is none. */
uint32_t psid_version_of_both(uint32_t min_a, uint32_t max_a, uint32_t min_b, uint32_t max_b);

#endif
