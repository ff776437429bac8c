/* Several hints that wait for the same one: which of them is believed first? */
#ifndef PULC_PSID_RIVALS_H
#define PULC_PSID_RIVALS_H

#include <stdbool.h>
#include <sys/types.h>

struct psid_hint;

struct psid_rivals {
	const struct psid_hint *hint; /* that they wait for */
	struct psid_hint *best;	      /* of those so far, or NULL */
	bool asked, known;	      /* who made the socket at the other end */
	uid_t maker;
};

/* One more of them. */
void psid_rivals_add(struct psid_rivals *rivals, struct psid_hint *other);

#endif
