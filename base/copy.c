/*
 * Long copies: see copy.h.
 *
 * Past the caches, stores are seen by others in any order, also after an ordinary store that comes
 * later. So such a copy ends with a fence of its own, and whoever publishes the bytes need not know
 * how they were copied. Elsewhere than on x86-64 it is a plain copy.
 *
 * Ordinary stores are not left to libc. From 2 KiB on its memcpy uses `rep movsb` where the
 * processor says that this is fast; AMD's Zen 3 says so, and copies 2 or 3 GB/s instead of 40 to 80
 * with it if the destination lies 1 to 31 bytes behind the source, counted within a page: what a
 * buffer that begins at a page and a place behind a short header do. A program's buffer and its
 * place in a ring may stay so for as long as the connection lives.
 *
 * Each line is asked for SIZE_AHEAD bytes before it is copied: it may have to come from another
 * processor's cache or from memory, and the processor's own guesses stop at each page and each
 * record. To ask for a line that is not there, or not mapped, does nothing. A reader who is far
 * behind asks earlier, and for the second cache, which can wait for more lines at once than the
 * first; one who is not would take lines away that the writer is about to write.
 *
 * The lines of the destination are asked for as well, to be written, unless they lie behind it: it
 * may be larger than the nearest caches, or lie in another processor's, and stores leave in order,
 * each one waiting for its line. A line of it is stored whole, wherever its bytes lie in the
 * source: a load that needs two lines costs less than a store that does. Where the processor has
 * AVX, half a line goes with each instruction.
 *
 * Source: measured (docs/native.md, "How long messages are copied").
 */
#include "copy.h"

#include <stdint.h>

#include "line.h"
#include "macros.h"

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

void copy_past(void *to, const void *from, size_t len)
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
void copy_past(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}
#endif

/* One register where there are such, else two; anywhere in memory. */
typedef long long half_line __attribute__((vector_size(SIZE_LINE / 2), aligned(1), may_alias));

static inline __attribute__((always_inline)) void copy_lines(char *to, const char *from, size_t len,
							     bool backlog)
{
	size_t at = MIN(-(uintptr_t)to % SIZE_LINE, len);

	memcpy(to, from, at);
	for (; at + SIZE_LINE <= len; at += SIZE_LINE) {
		const half_line *f = (const half_line *)(from + at);
		half_line *t = (half_line *)(to + at), first = f[0], second = f[1];

		if (at + SIZE_AHEAD_TO < len)
			line_ask_to_write(to + at + SIZE_AHEAD_TO);
		if (backlog)
			__builtin_prefetch(from + at + SIZE_AHEAD_BACKLOG, 0, 2);
		else
			__builtin_prefetch(from + at + SIZE_AHEAD, 0, 3);
		t[0] = first;
		t[1] = second;
	}
	memcpy(to + at, from + at, len - at);
}

#if defined(__x86_64__)
__attribute__((target("avx"))) static void copy_wide(char *to, const char *from, size_t len,
						     bool backlog)
{
	copy_lines(to, from, len, backlog);
}

static bool is_wide(void)
{
	return __builtin_cpu_supports("avx");
}
#else
#define copy_wide copy_lines

static bool is_wide(void)
{
	return false;
}
#endif

static inline void copy_widest(char *to, const char *from, size_t len, bool backlog)
{
	if (LIKELY(is_wide()))
		copy_wide(to, from, len, backlog);
	else
		copy_lines(to, from, len, backlog);
}

void copy_long(void *to, const void *from, size_t len)
{
	copy_widest(to, from, len, false);
}

void copy_backlog(void *to, const void *from, size_t len)
{
	copy_widest(to, from, len, true);
}
