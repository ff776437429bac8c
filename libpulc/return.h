/* Coming back to a psid with what another one has made. All under the client lock. */
#ifndef PULC_LIB_RETURN_H
#define PULC_LIB_RETURN_H

#include <stdbool.h>

#include "channel.h"

/* psid knows none of our connections, or (not all) has not answered us: a parent asked. */
void return_forget(bool all);
/* Tells psid of every connection that it does not know, as far as the channel takes it. */
void return_all(void);
/* The channel was full, though psid reads: return_all is to be called again. */
bool return_is_due(void);
void return_answered(const Pulc__Wire__Returned *m);

enum return_state {
	RETURN_DONE,	/* psid knows them all */
	RETURN_WAITING, /* it has not answered yet */
	RETURN_NEVER,	/* some it will not know */
};
enum return_state return_state(void);

/* Bytes of credit in use by this process's connections. */
uint64_t return_credit(void);

#endif
