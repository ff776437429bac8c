/* The few macros that every folder uses. */
#ifndef PULC_BASE_MACROS_H
#define PULC_BASE_MACROS_H

#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/*
 * What the processes of a server that forks write to for each connection lies on one page, for a
 * child copies each page that it writes to, and so does its parent: the first that begins the page,
 * the others, and a table of which mostly the beginning is used. What comes last begins a page, on
 * which the small variables of .bss find room, and the table behind them that every process begins
 * to use. Other tables of a page or more come then: zeroes that are in no file, for what is read of
 * a file comes with its neighbours, and a fork copies whatever it finds there, written or not. The
 * linker sorts them by these names.
 */
#define OFTEN_FIRST __attribute__((section(".data.usual.1"), aligned(4096)))
#define OFTEN __attribute__((section(".data.usual.2")))
#define OFTEN_LAST __attribute__((section(".data.usual.3")))
#define DATA_END __attribute__((section(".data.usual.4"), aligned(4096), used))
#define LARGE_FIRST __attribute__((section(".bss.large.1")))
#define LARGE __attribute__((section(".bss.large.2")))

/* Called in every forked child, or for every connection: lies beside the others of that kind. A
 * child has none of its parent's pages of code mapped, and takes a fault for each 64 KiB of it that
 * it comes to. */
#define USUAL __attribute__((hot))

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Marks what a shared library exports; everything else is hidden. */
#define PULC_EXPORT __attribute__((visibility("default")))

#define MIN(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) min_a_ = (a);                                                        \
		__typeof__(b) min_b_ = (b);                                                        \
		min_a_ < min_b_ ? min_a_ : min_b_;                                                 \
	})
#define MAX(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) max_a_ = (a);                                                        \
		__typeof__(b) max_b_ = (b);                                                        \
		max_a_ > max_b_ ? max_a_ : max_b_;                                                 \
	})

/* Rounds up to a multiple of `unit`, a power of two. */
#define ALIGN_UP(x, unit) (((x) + ((unit)-1)) & ~((__typeof__(x))(unit)-1))

static inline int is_power_of_two(uint64_t x)
{
	return x != 0 && (x & (x - 1)) == 0;
}

#endif
