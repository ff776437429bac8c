/*
 * One key, several uses: each gets a secret of its own, derived with HMAC-SHA256 under a name for the
 * use and the cluster's name, so that nothing learned of one tells about another. Clusters of
 * different names do not understand each other even if they share a key.
 *
 * The fingerprint is sent in clear, for a clear word where two nodes have different keys. It is
 * derived like the secrets; the key has 256 random bits, so it can't be guessed from it.
 */
#include "keys.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "key.h"
#include "log.h"

void psid_keys_mix(const uint8_t key[PSID_SIZE_SECRET], const void *label, size_t len,
		   uint8_t ret_secret[PSID_SIZE_SECRET])
{
	(void)HMAC(EVP_sha256(), key, PSID_SIZE_SECRET, label, len, ret_secret, NULL);
}

void psid_keys_derive(const uint8_t *key, size_t size, const char *cluster_name,
		      struct psid_keys *ret_keys)
{
	uint8_t root[PSID_SIZE_SECRET], fingerprint[PSID_SIZE_SECRET];

	(void)HMAC(EVP_sha256(), key, (int)size, (const uint8_t *)cluster_name,
		   strlen(cluster_name), root, NULL);
	psid_keys_mix(root, "gossip 1", 8, ret_keys->gossip);
	psid_keys_mix(root, "peers 1", 7, ret_keys->peers);
	/* The same for all names of clusters: a wrong name is then not taken for a wrong key. */
	(void)HMAC(EVP_sha256(), key, (int)size, (const uint8_t *)"fingerprint 1", 13, fingerprint,
		   NULL);
	memcpy(ret_keys->fingerprint, fingerprint, sizeof(ret_keys->fingerprint));
	explicit_bzero(root, sizeof(root));
}

static const char *what_is_wrong(int r)
{
	switch (r) {
	case -EPERM:
		return "others than its owner can read it, or it is neither ours nor root's: chmod "
		       "600";
	case -EBADMSG:
		return "no key of a cluster: `pulcctl keygen` makes one";
	default:
		return strerror(-r);
	}
}

int psid_keys_read(const char *path, const char *cluster_name, struct psid_keys *ret_keys)
{
	uint8_t key[WIRE_SIZE_KEY];
	int r = wire_key_read(path, key);

	if (r < 0) {
		psid_log(PSID_ERROR, "ClusterKeyFile %s: %s", path, what_is_wrong(r));
		return r;
	}
	psid_keys_derive(key, sizeof(key), cluster_name, ret_keys);
	explicit_bzero(key, sizeof(key));
	return 0;
}
