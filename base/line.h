/* Where a line of memory is, among the caches of several processors. */
#ifndef PULC_BASE_LINE_H
#define PULC_BASE_LINE_H

/*
 * The line was just written, and another processor waits for it: moves it to the cache that all share, where that one finds it without asking ours. Only a
 * hint (CLDEMOTE; the instruction is a no-op on processors that do not know it). Not for a line that is written again at once.
 */
static inline void line_pass_on(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile(".byte 0x0f, 0x1c, 0x07" : : "D"(line) : "memory");
#else
	(void)line;
#endif
}

#endif
