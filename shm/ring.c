/*
 * Long copies into and out of a ring: see ring.h.
 *
 * Into it they go past the caches, where the processor can.
 * Such stores are seen by others in any order, also after an ordinary store that comes later. So they end with a fence of
 * their own, and whoever publishes the bytes need not know how they were copied. Elsewhere it is a plain copy.
 *
 * Out of it each line is asked for SIZE_AHEAD bytes before it is copied: it comes from another processor's cache or from memory, and the
 * processor's own guesses stop at each page and each record. To ask for a line that is not there, or not mapped, does nothing. A reader who is far behind asks
 * earlier, and for the second cache, which can wait for more lines at once than the first; one who is not would take lines away that the writer is about to write.
 * The lines of the program's buffer are asked for as well, to be written, unless they lie behind it: it may be larger than the nearest caches, and stores leave in order, each one
 * waiting for its line.
 *
 * Source: measured (docs/native.md, "How long messages are copied").
 */
#include "ring.h"

#define SIZE_LINE 64u
#define SIZE_AHEAD 2048u
#define SIZE_AHEAD_BACKLOG 16384u
#define SIZE_AHEAD_TO 1024u

#if defined(__x86_64__)
#include <emmintrin.h>

static inline void copy_line(char *to, const char *from)
{
	const __m128i *f = (const __m128i *)from;
	__m128i *t = (__m128i *)to;
	__m128i a = _mm_loadu_si128(f), b = _mm_loadu_si128(f + 1), c = _mm_loadu_si128(f + 2),
		d = _mm_loadu_si128(f + 3);

	_mm_stream_si128(t, a);
	_mm_stream_si128(t + 1, b);
	_mm_stream_si128(t + 2, c);
	_mm_stream_si128(t + 3, d);
}

void ring_copy_past(void *to, const void *from, size_t len)
{
	size_t first = MIN(-(uintptr_t)to % SIZE_LINE, len), n_lines = (len - first) / SIZE_LINE;
	const char *f = (const char *)from + first;
	char *t = (char *)to + first;

	memcpy(to, from, first);
	for (size_t i = 0; i < n_lines; i++)
		copy_line(t + i * SIZE_LINE, f + i * SIZE_LINE);
	memcpy(t + n_lines * SIZE_LINE, f + n_lines * SIZE_LINE, (len - first) % SIZE_LINE);
	_mm_sfence();
}
#else
void ring_copy_past(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}
#endif

void ring_copy_ahead(void *to, const void *from, size_t len, bool backlog)
{
	const char *f = from;
	char *t = to;
	size_t at = 0;

	for (; at + SIZE_LINE <= len; at += SIZE_LINE) {
		if (at + SIZE_AHEAD_TO < len)
			line_ask_to_write(t + at + SIZE_AHEAD_TO);
		if (backlog)
			__builtin_prefetch(f + at + SIZE_AHEAD_BACKLOG, 0, 2);
		else
			__builtin_prefetch(f + at + SIZE_AHEAD, 0, 3);
		memcpy(t + at, f + at, SIZE_LINE);
	}
	memcpy(t + at, f + at, len - at);
}
