/*
 * Long copies into and out of a ring, and how long they take: see ring.h.
 *
 * Into it they go past the caches, where the processor can. Such stores are seen by others in any
 * order, also after an ordinary store that comes later. So they end with a fence of their own, and
 * whoever publishes the bytes need not know how they were copied. Elsewhere it is a plain copy.
 *
 * Out of it each line is asked for SIZE_AHEAD bytes before it is copied: it comes from another
 * processor's cache or from memory, and the processor's own guesses stop at each page and each
 * record. To ask for a line that is not there, or not mapped, does nothing. A reader who is far
 * behind asks earlier, and for the second cache, which can wait for more lines at once than the
 * first; one who is not would take lines away that the writer is about to write. The lines of the
 * program's buffer are asked for as well, to be written, unless they lie behind it: it may be
 * larger than the nearest caches, and stores leave in order, each one waiting for its line. A line
 * of the buffer is stored whole, wherever its bytes lie in the ring, behind a record's header: a
 * load that needs two lines costs less than a store that does. Where the processor has AVX, half a
 * line goes with each instruction.
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

/* One register where there are such, else two; anywhere in memory. */
typedef long long half_line __attribute__((vector_size(SIZE_LINE / 2), aligned(1), may_alias));

static inline __attribute__((always_inline)) void copy_asking(char *to, const char *from,
							      size_t len, bool backlog)
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
	copy_asking(to, from, len, backlog);
}

static bool is_wide(void)
{
	return __builtin_cpu_supports("avx");
}
#else
#define copy_wide copy_asking

static bool is_wide(void)
{
	return false;
}
#endif

void ring_copy_ahead(void *to, const void *from, size_t len, bool backlog)
{
	if (LIKELY(is_wide()))
		copy_wide(to, from, len, backlog);
	else
		copy_asking(to, from, len, backlog);
}

void ring_put_timed(struct shm_stream *s, uint32_t r, uint64_t at, size_t size, uint64_t begun)
{
	const struct shm_timed t = { at, size, s->tx_size[r], nsec_now() - begun };

	if (shm_pace_wrote(&s->pace, &t, ring_load(&s->peer->pace_read)))
		atomic_store_explicit(&s->own->pace_since, s->pace.since, memory_order_relaxed);
}

void ring_got_timed(struct shm_stream *s, uint32_t r, uint64_t at, size_t size, uint64_t begun)
{
	const struct shm_timed t = { at, size, s->rx_size[r], nsec_now() - begun };
	uint64_t told = shm_pace_read(&s->pace_reader, &t, ring_load(&s->peer->pace_since));

	if (told)
		atomic_store_explicit(&s->own->pace_read, told, memory_order_relaxed);
}
