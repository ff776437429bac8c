/* What is derived from the cluster's keys. */
#ifndef PULC_PSID_KEYS_H
#define PULC_PSID_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"

#define PSID_SIZE_SECRET 32u
#define PSID_SIZE_KEYRING_TEXT 48u

/* Of one key. */
struct psid_keys {
	uint8_t gossip[PSID_SIZE_SECRET]; /* seal.c */
	uint8_t peers[PSID_SIZE_SECRET];  /* tls.c */
	uint64_t fingerprint;		  /* fingerprint.c */
};

/* Of all that the file has: the first is used, all are accepted. */
struct psid_keyring {
	struct psid_keys keys[WIRE_N_KEYS];
	size_t n;
};

/* Reads the key file. Returns 0; negative errno, and in why a line for people. */
int psid_keyring_read(const char *path, const char *cluster_name, struct psid_keyring *ret_ring,
		      char *why, size_t size);
/* From the keys themselves. */
void psid_keyring_derive(const struct wire_keys *keys, const char *cluster_name,
			 struct psid_keyring *ret_ring);
bool psid_keyring_equal(const struct psid_keyring *a, const struct psid_keyring *b);
/* Is a key of that fingerprint, or of that number, among them? */
bool psid_keyring_has(const struct psid_keyring *ring, uint64_t fingerprint);
bool psid_keyring_has_number(const struct psid_keyring *ring, uint32_t number);
/* Their numbers, as people know them. */
char *psid_keyring_text(const struct psid_keyring *ring, char text[PSID_SIZE_KEYRING_TEXT]);
/* HMAC-SHA256. */
void psid_keys_mix(const uint8_t key[PSID_SIZE_SECRET], const void *label, size_t len,
		   uint8_t ret_secret[PSID_SIZE_SECRET]);

#endif
