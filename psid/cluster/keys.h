/* What is derived from the cluster's key. */
#ifndef PULC_PSID_KEYS_H
#define PULC_PSID_KEYS_H

#include <stddef.h>
#include <stdint.h>

#define PSID_SIZE_SECRET 32u
#define PSID_SIZE_FINGERPRINT 8u

struct psid_keys {
	uint8_t gossip[PSID_SIZE_SECRET]; /* seal.c */
	uint8_t peers[PSID_SIZE_SECRET];  /* tls.c */
	uint8_t fingerprint
		[PSID_SIZE_FINGERPRINT]; /* tells one key from another, and nothing else */
};

/* Reads the key file. Returns 0; negative errno, with a line in the log. */
int psid_keys_read(const char *path, const char *cluster_name, struct psid_keys *ret_keys);
/* From the key itself. */
void psid_keys_derive(const uint8_t *key, size_t size, const char *cluster_name,
		      struct psid_keys *ret_keys);
/* HMAC-SHA256. */
void psid_keys_mix(const uint8_t key[PSID_SIZE_SECRET], const void *label, size_t len,
		   uint8_t ret_secret[PSID_SIZE_SECRET]);

#endif
