/*
 * One key, several uses: each gets a secret of its own, derived with HMAC-SHA256 under a name for
 * the use and the cluster's name, so that nothing learned of one tells about another. Clusters of
 * different names do not understand each other even if they share a key.
 */
#include "keys.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "fingerprint.h"

void psid_keys_mix(const uint8_t key[PSID_SIZE_SECRET], const void *label, size_t len,
		   uint8_t ret_secret[PSID_SIZE_SECRET])
{
	(void)HMAC(EVP_sha256(), key, PSID_SIZE_SECRET, label, len, ret_secret, NULL);
}

static void derive(const uint8_t key[WIRE_SIZE_KEY], const char *cluster_name,
		   struct psid_keys *ret_keys)
{
	uint8_t root[PSID_SIZE_SECRET];

	(void)HMAC(EVP_sha256(), key, WIRE_SIZE_KEY, (const uint8_t *)cluster_name,
		   strlen(cluster_name), root, NULL);
	psid_keys_mix(root, "gossip 1", 8, ret_keys->gossip);
	psid_keys_mix(root, "peers 1", 7, ret_keys->peers);
	ret_keys->fingerprint = wire_key_fingerprint(key);
	explicit_bzero(root, sizeof(root));
}

void psid_keyring_derive(const struct wire_keys *keys, const char *cluster_name,
			 struct psid_keyring *ret_ring)
{
	ret_ring->n = keys->n;
	for (size_t i = 0; i < keys->n; i++)
		derive(keys->keys[i], cluster_name, &ret_ring->keys[i]);
}

int psid_keyring_read(const char *path, const char *cluster_name, struct psid_keyring *ret_ring,
		      char *why, size_t size)
{
	struct wire_keys keys;
	int r = wire_keys_read(path, &keys, why, size);

	if (r < 0)
		return r;
	psid_keyring_derive(&keys, cluster_name, ret_ring);
	explicit_bzero(&keys, sizeof(keys));
	return 0;
}

bool psid_keyring_equal(const struct psid_keyring *a, const struct psid_keyring *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (a->keys[i].fingerprint != b->keys[i].fingerprint)
			return false;
	return a->n == b->n;
}

bool psid_keyring_has(const struct psid_keyring *ring, uint64_t fingerprint)
{
	for (size_t i = 0; i < ring->n; i++)
		if (ring->keys[i].fingerprint == fingerprint)
			return true;
	return false;
}

bool psid_keyring_has_number(const struct psid_keyring *ring, uint32_t number)
{
	for (size_t i = 0; i < ring->n; i++)
		if (wire_key_number(ring->keys[i].fingerprint) == number)
			return true;
	return false;
}

char *psid_keyring_text(const struct psid_keyring *ring, char text[PSID_SIZE_KEYRING_TEXT])
{
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < ring->n; i++)
		n += (size_t)snprintf(text + n, PSID_SIZE_KEYRING_TEXT - n, "%s%08x",
				      i > 0 ? ", " : "",
				      wire_key_number(ring->keys[i].fingerprint));
	return text;
}
