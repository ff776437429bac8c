/* Bytes a second in one byte, for the news of a node's load. */
#ifndef PULC_PSID_RATE_H
#define PULC_PSID_RATE_H

#include <stdint.h>

#define PSID_RATE_UNIT 64u /* bytes a second: below half of that is nothing */
/* The greatest of all, 960 GiB a second: what is more is that much. */
#define PSID_RATE_MAX ((15ull << 30) * PSID_RATE_UNIT)

/* The byte that says so, to the nearest: a sixteenth off at most, or half a unit. */
uint8_t psid_rate_pack(uint64_t bytes);
/* What that byte says. Every byte says something, PSID_RATE_MAX at most. */
uint64_t psid_rate_unpack(uint8_t rate);

#endif
