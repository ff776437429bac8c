/* What the environment of a process sets: numbers, and words. A set-user-id program's sets none. */
#ifndef PULC_LIB_ENVIRONMENT_H
#define PULC_LIB_ENVIRONMENT_H

#include <stdlib.h>
#include <string.h>

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

/* Returns which of two words the variable is; -1: it is not set, or another, and the log says of
 * that that it is passed over. */
static inline int environment_word(const char *name, const char *const words[2])
{
	const char *value = secure_getenv(name);

	if (!value || !*value)
		return -1;
	for (int i = 0; i < 2; i++)
		if (strcmp(value, words[i]) == 0)
			return i;
	pulc_log("%s=%s: expected %s or %s: passed over", name, value, words[0], words[1]);
	return -1;
}

#endif
