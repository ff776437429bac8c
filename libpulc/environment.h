/* Numbers that the environment of a process sets. A set-user-id program's sets none. */
#ifndef PULC_LIB_ENVIRONMENT_H
#define PULC_LIB_ENVIRONMENT_H

#include <stdlib.h>

#include "log.h"
#include "number.h"

/* Returns whether the variable is a number of at most max; the log says of another value that it is
 * passed over. */
static inline bool environment_number(const char *name, uint64_t max, uint64_t *ret)
{
	const char *value = secure_getenv(name);

	if (!value || !*value)
		return false;
	if (number_read(value, max, ret))
		return true;
	pulc_log("%s=%s: expected a number: passed over", name, value);
	return false;
}

#endif
