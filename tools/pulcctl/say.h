/* How pulcctl ends, and what it says then. */
#ifndef PULCCTL_SAY_H
#define PULCCTL_SAY_H

#include "query.h"

enum exit_status { EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_NO_PSID = 3 };

/* Says what error r of a conversation means. Returns the exit status. */
int ctl_say_error(const struct ctl_psid *psid, int r);
/* Names the nodes whose part of the answer is missing. */
void ctl_say_silent(const struct ctl_replies *replies);

#endif
