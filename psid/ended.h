/* Sockets of connections that have ended, which somebody may still have. */
#ifndef PULC_PSID_ENDED_H
#define PULC_PSID_ENDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PSID_N_ENDED_SETS 32u
#define PSID_N_ENDED 64u /* in each */

struct psid_ended {
	struct psid_ended_set {
		uint64_t cookies[PSID_N_ENDED];
		uint32_t n; /* ever noted */
	} sets[PSID_N_ENDED_SETS];
};

/* All that the rings had for this side was received, and nothing is to be told: whoever has the
 * socket needs the kernel alone. */
void psid_ended_note(struct psid_ended *ended, uid_t uid, uint64_t cookie);
bool psid_ended_is(const struct psid_ended *ended, uid_t uid, uint64_t cookie);

#endif
