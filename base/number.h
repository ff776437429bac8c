/* Numbers as people write them into the environment. */
#ifndef PULC_BASE_NUMBER_H
#define PULC_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* The largest that make sense, of what more than one program reads. */
#define NUMBER_SPIN_USEC_MAX (UINT64_MAX / 1000 - 1) /* in nanoseconds less than forever */
#define NUMBER_HINT_AFTER_MAX UINT32_MAX

/* A decimal number without anything else, at most max. Returns whether text is one. */
static inline bool number_read(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t n = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || n > max / 10)
			return false;
		n = n * 10 + (uint64_t)(*text - '0');
		if (n > max)
			return false;
	}
	*ret = n;
	return true;
}

#endif
