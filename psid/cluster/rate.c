/*
 * Bytes a second in one byte: a floating-point number of five bits of exponent and three of
 * mantissa, in units of 64 bytes a second. News of loads is what an idle cluster mostly says, so
 * what it is to tell of traffic has this one byte.
 *
 * The numbers below eight units are exact multiples; from there on each doubling has eight steps.
 * So eight steps more are a factor of two everywhere but at the bottom, where they are half a
 * kilobyte a second. No byte is without a meaning, and none says more than a machine's memory
 * moves: what a peer sends needs no other check.
 */
#include "rate.h"

#include "macros.h"

#define N_STEPS 8u /* of a doubling */

uint8_t psid_rate_pack(uint64_t bytes)
{
	uint64_t rate = MIN(bytes, PSID_RATE_MAX), step = PSID_RATE_UNIT;
	unsigned exponent = 0;

	for (; rate >= 2 * N_STEPS * step; step *= 2)
		exponent++;
	/* What is rounded up to sixteen steps is eight of the next exponent: the bytes count on. */
	return (uint8_t)(exponent * N_STEPS + (rate + step / 2) / step);
}

uint64_t psid_rate_unpack(uint8_t rate)
{
	unsigned exponent = rate / N_STEPS;
	uint64_t n = rate % N_STEPS;

	if (exponent > 0)
		n = (n + N_STEPS) << (exponent - 1);
	return n * PSID_RATE_UNIT;
}
