/*
 * Time from the processor's own counter.
 *
 * To read the clock costs as much as half a datagram's way through memory, most of it because what
 * stands before has to be done first, and for the arithmetic of a clock that is always right. Who
 * can bear 100 ns counts ticks since it last read the clock, for a millisecond at most.
 *
 * The rate is measured between two readings, by a clock that is never set. A counter that does not
 * keep to the rate found before (a machine that was moved, counters of two processors that differ)
 * is not used until it does. Processors whose counter is not at hand read the clock each time.
 */
#include "pulse.h"

#include <stdbool.h>

#include "clock.h"

#define NSEC_GOOD (1000 * NSEC_PER_USEC)
/* What is measured in less time is not exact enough, in more does not fit. */
#define NSEC_MEASURED_MIN (100 * NSEC_PER_USEC)
#define NSEC_MEASURED_MAX (2 * NSEC_PER_SEC)
#define PARTS_OFF 1024u
/* Who loses the processor between two readings does not know which belong together. */
#define NSEC_APART (1 * NSEC_PER_USEC)

static uint64_t real_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static bool is_off(uint64_t rate, uint64_t before)
{
	return (rate > before ? rate - before : before - rate) > before / PARTS_OFF;
}

/* What the time since the last reading says of the rate. */
static void measure(struct pulse *p, uint64_t nsec, uint64_t n_ticks, uint64_t n_apart)
{
	uint64_t before = p->rate;

	p->n_good = 0;
	p->rate = nsec < NSEC_MEASURED_MAX && n_ticks ? (nsec << 32) / n_ticks : 0;
	if (p->rate && before && !is_off(p->rate, before) && n_apart < (NSEC_APART << 32) / p->rate)
		p->n_good = (NSEC_GOOD << 32) / p->rate;
}

uint64_t pulse_renew(struct pulse *p)
{
	uint64_t begun = pulse_ticks(), steady = nsec_now(), now = real_now();
	uint64_t ticks = pulse_ticks();

	if (!ticks || steady - p->nsec_steady < NSEC_MEASURED_MIN)
		return now;
	measure(p, steady - p->nsec_steady, ticks - p->ticks, ticks - begun);
	p->nsec_steady = steady;
	p->nsec = now;
	p->ticks = ticks;
	return now;
}
