/*
 * A key's fingerprint is sent in clear, and shown to people. It is derived like the secrets; the
 * key has 256 random bits, so it can't be guessed from it. It is the same for all names of
 * clusters: a wrong name is then not taken for a wrong key.
 *
 * In a file of its own because of OpenSSL, which libraries and most commands do without.
 */
#include "fingerprint.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

uint64_t wire_key_fingerprint(const uint8_t key[WIRE_SIZE_KEY])
{
	uint8_t mac[EVP_MAX_MD_SIZE] = { 0 };
	uint64_t fingerprint = 0;

	(void)HMAC(EVP_sha256(), key, WIRE_SIZE_KEY, (const uint8_t *)"fingerprint 1", 13, mac,
		   NULL);
	for (size_t i = 0; i < sizeof(fingerprint); i++)
		fingerprint = fingerprint << 8 | mac[i];
	return fingerprint;
}
