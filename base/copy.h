/*
 * Copies of long pieces, which cost more than to begin them: with ordinary stores, past the caches,
 * or out of what another processor has just written. Anywhere in memory, not overlapping.
 */
#ifndef PULC_BASE_COPY_H
#define PULC_BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* From here on a piece is long. Below, all ways hardly differ. */
#define COPY_LONG 2048u

/* With ordinary stores. */
void copy_long(void *to, const void *from, size_t len) __attribute__((visibility("hidden")));
/* Out of a ring with much more behind it that has been written: asks for lines from further away.
 */
void copy_backlog(void *to, const void *from, size_t len) __attribute__((visibility("hidden")));
/* Past this processor's caches, where it can; done when it returns. */
void copy_past(void *to, const void *from, size_t len) __attribute__((visibility("hidden")));

/* Of any length, also 0. */
static inline void copy_bytes(void *to, const void *from, size_t len)
{
	if (len >= COPY_LONG)
		copy_long(to, from, len);
	else if (len > 0) /* else there may be no buffer */
		memcpy(to, from, len);
}

#endif
