/* What tells one key of a cluster from another. */
#ifndef PULC_WIRE_FINGERPRINT_H
#define PULC_WIRE_FINGERPRINT_H

#include "key.h"

/* In the greeting and in TLS. Nothing else can be learned from it. */
uint64_t wire_key_fingerprint(const uint8_t key[WIRE_SIZE_KEY]);
/* Its first half: what nodes say of themselves, and people are shown, as eight hexadecimal
 * digits. */
static inline uint32_t wire_key_number(uint64_t fingerprint)
{
	return (uint32_t)(fingerprint >> 32);
}

#endif
