/*
 * The greeting, in clear, from both sides at once, before TLS. Only for people and for
 * compatibility: which versions, which cluster, which key is used (its fingerprint), key or
 * certificates. A handshake that fails for want of the same key says nothing of use; this does, on
 * both sides.
 *
 * Anybody on the way could change it. He gains a refused connection; the versions are said again
 * under TLS (Hello), and must be the same.
 */
#include "greeting.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "codec.h"
#include "fingerprint.h"
#include "macros.h"
#include "node.h"

static const uint8_t magic[4] = { 'P', 'U', 'L', 'C' };

#define FLAG_CERTIFICATE 1u

void psid_greeting_make(const struct psid_cluster_config *config, const struct psid_keyring *ring,
			struct psid_greeting *ret_greeting)
{
	*ret_greeting = (struct psid_greeting){ .version_min = PSID_PEER_VERSION_MIN,
						.version_max = PSID_PEER_VERSION_MAX,
						.by_certificate = config->certificate[0] != '\0',
						.fingerprint = ring->keys[0].fingerprint };
	memcpy(ret_greeting->cluster, config->name, sizeof(ret_greeting->cluster));
}

void psid_greeting_pack(const struct psid_greeting *greeting, uint8_t bytes[PSID_SIZE_GREETING])
{
	struct psid_writer w = { .at = bytes, .end = bytes + PSID_SIZE_GREETING };

	memset(bytes, 0, PSID_SIZE_GREETING);
	for (size_t i = 0; i < sizeof(magic); i++)
		psid_put(&w, magic[i], 1);
	psid_put(&w, greeting->version_min, 2);
	psid_put(&w, greeting->version_max, 2);
	psid_put(&w, greeting->by_certificate ? FLAG_CERTIFICATE : 0, 1);
	psid_put(&w, greeting->fingerprint, 8);
	memcpy(w.at, greeting->cluster, strlen(greeting->cluster));
}

int psid_greeting_unpack(const uint8_t bytes[PSID_SIZE_GREETING],
			 struct psid_greeting *ret_greeting)
{
	struct psid_reader r = { .at = bytes + sizeof(magic), .end = bytes + PSID_SIZE_GREETING };
	struct psid_greeting greeting = { 0 };

	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	greeting.version_min = (uint16_t)psid_get(&r, 2);
	greeting.version_max = (uint16_t)psid_get(&r, 2);
	greeting.by_certificate = psid_get(&r, 1) & FLAG_CERTIFICATE;
	greeting.fingerprint = psid_get(&r, 8);
	memcpy(greeting.cluster, r.at, sizeof(greeting.cluster) - 1);
	if (!psid_node_name_ok(greeting.cluster, strlen(greeting.cluster)))
		return -EBADMSG;
	*ret_greeting = greeting;
	return 0;
}

uint32_t psid_version_of_both(uint32_t min_a, uint32_t max_a, uint32_t min_b, uint32_t max_b)
{
	uint32_t version = MIN(max_a, max_b);

	return version >= min_a && version >= min_b ? version : 0;
}

int psid_greeting_compare(const struct psid_greeting *ours, const struct psid_keyring *ring,
			  const struct psid_greeting *theirs, char *why, size_t size)
{
	char text[PSID_SIZE_KEYRING_TEXT];

	if (psid_version_of_both(ours->version_min, ours->version_max, theirs->version_min,
				 theirs->version_max) == 0)
		(void)snprintf(why, size,
			       "they speak versions %u to %u of the protocol between psids, we %u "
			       "to %u: install the same version of PULC",
			       theirs->version_min, theirs->version_max, ours->version_min,
			       ours->version_max);
	else if (strcmp(ours->cluster, theirs->cluster) != 0)
		(void)snprintf(why, size,
			       "they belong to the cluster \"%s\", we to \"%s\" (ClusterName)",
			       theirs->cluster, ours->cluster);
	else if (!psid_keyring_has(ring, theirs->fingerprint))
		(void)snprintf(why, size, "they use the key %08x, we have only %s (ClusterKeyFile)",
			       wire_key_number(theirs->fingerprint), psid_keyring_text(ring, text));
	else if (ours->by_certificate != theirs->by_certificate)
		(void)snprintf(why, size, "%s use certificates, %s the key (ClusterCertificate)",
			       theirs->by_certificate ? "they" : "we",
			       theirs->by_certificate ? "we" : "they");
	else
		return 0;
	return -EPROTO;
}
