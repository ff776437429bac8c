/* Lines in the log that users cause: of each user so many a minute. */
#ifndef PULC_PSID_REMARKS_H
#define PULC_PSID_REMARKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "log.h"

#define PSID_N_REMARKED 64u

struct psid_remarks {
	struct psid_remarked {
		uid_t uid;
		uint64_t usec_began; /* 0: unused */
		unsigned n, n_left_out;
	} users[PSID_N_REMARKED];
	unsigned n_left_out; /* about others, for which there is no place */
};

/* May a line of this level about this user be written now? Then it is taken as written. */
bool psid_may_remark(struct psid_remarks *remarks, uid_t uid, enum psid_level level);

#endif
