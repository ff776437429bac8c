/* Where a line of memory is, among the caches of several processors. */
#ifndef PULC_BASE_LINE_H
#define PULC_BASE_LINE_H

/*
 * The line was just written, and another processor waits for it: moves it to the cache that all
 * share, where that one finds it without asking ours. Only a hint (CLDEMOTE; the instruction is a
 * no-op on processors that do not know it). Not for a line that is written again at once.
 */
static inline void line_pass_on(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile(".byte 0x0f, 0x1c, 0x07" : : "D"(line) : "memory");
#else
	(void)line;
#endif
}

/*
 * Asks for the line of `at`, which is to be written. The compiler's builtin asks for one to be read
 * where it has to do for the oldest processors, and so for its way twice.
 */
static inline void line_ask_to_write(const void *at)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
	__builtin_prefetch(at, 1, 3);
#endif
}

/* The same, to be read. */
static inline void line_ask(const void *at)
{
	__builtin_prefetch(at, 0, 3);
}

#endif
