/* Monotonic time, in the unit its name says. */
#ifndef PULC_BASE_CLOCK_H
#define PULC_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_USEC 1000ull
#define USEC_PER_SEC 1000000ull

static inline uint64_t nsec_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline struct timespec timespec_from_nsec(uint64_t nsec)
{
	return (struct timespec){
		.tv_sec = (time_t)(nsec / NSEC_PER_SEC),
		.tv_nsec = (long)(nsec % NSEC_PER_SEC),
	};
}

/* Tells the core that this is a spin loop; without it the partner's store arrives later. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
