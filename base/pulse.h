/* CLOCK_REALTIME, about right and cheap, for who needs it again and again: base/pulse.c. */
#ifndef PULC_BASE_PULSE_H
#define PULC_BASE_PULSE_H

#include <stdint.h>

#include "clock.h"
#include "macros.h"

/* Zeroed at the beginning. One thread at a time. */
struct pulse {
	uint64_t ticks;	      /* of the processor's counter when the clocks were last read ... */
	uint64_t nsec;	      /* ... and CLOCK_REALTIME then */
	uint64_t n_good;      /* ticks from then on for which the next one holds; 0: none */
	uint64_t rate;	      /* ns a tick, 32 bits behind the point; 0: not known */
	uint64_t nsec_steady; /* CLOCK_MONOTONIC then: nobody sets that one */
};

/* Always 0 where there is no such counter. */
static inline uint64_t pulse_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

/*
 * About now, in nanoseconds that may be half as long or twice: for what is done now and then. The
 * real clock waits for all loads before it, and so would the bytes that an answer tells of.
 */
static inline uint64_t pulse_about(uint64_t ticks)
{
	return ticks ? ticks / 2 : nsec_now();
}
static inline uint64_t pulse_about_now(void)
{
	return pulse_about(pulse_ticks());
}

/* Reads the clocks. */
uint64_t pulse_renew(struct pulse *p);

/* CLOCK_REALTIME, ns, within some 100 ns, when pulse_ticks has said so, just now. */
static inline uint64_t pulse_at(struct pulse *p, uint64_t ticks)
{
	uint64_t gone = ticks - p->ticks;

	if (UNLIKELY(gone >= p->n_good))
		return pulse_renew(p);
	return p->nsec + (gone * p->rate >> 32);
}

/* Now. */
static inline uint64_t pulse_now(struct pulse *p)
{
	return pulse_at(p, pulse_ticks());
}

#endif
