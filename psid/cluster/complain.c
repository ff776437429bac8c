/*
 * Whoever can reach our port can make us write a line; so of each kind one a minute is written
 * about each address, and about all addresses together no more than fit into the table: when it is
 * full of lines of the last minute, new ones are not written.
 */
#include "complain.h"

#include <string.h>

#include "clock.h"

#define USEC_SILENCE (60 * USEC_PER_SEC)

unsigned psid_complaint_kind(const char *text)
{
	unsigned hash = 2166136261u; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return hash | 1u << 31; /* no number of the enumeration */
}

bool psid_may_complain(struct psid_complaints *complaints, const struct psid_address *about,
		       unsigned kind)
{
	uint64_t usec_now = nsec_now() / NSEC_PER_USEC;
	size_t i, at = PSID_N_COMPLAINTS;

	for (i = 0; i < PSID_N_COMPLAINTS; i++) {
		bool is_over = complaints->last[i].usec == 0 ||
			       complaints->last[i].usec + USEC_SILENCE < usec_now;

		if (!is_over && complaints->last[i].kind == kind &&
		    memcmp(complaints->last[i].ip, about->ip, sizeof(about->ip)) == 0)
			return false;
		if (is_over)
			at = i;
	}
	if (at == PSID_N_COMPLAINTS)
		return false;
	complaints->last[at].kind = kind;
	complaints->last[at].usec = usec_now;
	memcpy(complaints->last[at].ip, about->ip, sizeof(about->ip));
	return true;
}
