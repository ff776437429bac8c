/*
 * Names of nodes and of their states. A node's id is made from its name, so that everybody knows it
 * without asking, in messages it takes six bytes whatever the name, and it is the same after a
 * restart. Two of 2,000 names collide once in a hundred million clusters; the later node is then
 * told to choose another name, as if it had the first one's.
 */
#include "node.h"

#include <ctype.h>
#include <openssl/sha.h>
#include <string.h>

uint64_t psid_node_id(const char *name)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	uint64_t id = 0;

	(void)SHA256((const unsigned char *)name, strlen(name), digest);
	for (size_t i = 0; i < 6; i++)
		id = id << 8 | digest[i];
	return id ? id : 1;
}

bool psid_node_name_ok(const char *name, size_t len)
{
	if (len == 0 || len >= PSID_SIZE_NAME || !isalnum((unsigned char)name[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && !(name[i] && strchr("-_.", name[i])))
			return false;
	return true;
}

const char *psid_node_state_name(enum psid_node_state state)
{
	switch (state) {
	case PSID_NODE_UNKNOWN:
		return "unknown";
	case PSID_NODE_ALIVE:
		return "alive";
	case PSID_NODE_SUSPECT:
		return "suspect";
	case PSID_NODE_DEAD:
		return "dead";
	case PSID_NODE_LEFT:
		return "left";
	}
	return "?";
}
