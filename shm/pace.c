/*
 * The better way to write long pieces into a ring whose reader is far behind.
 *
 * With ordinary stores the lines have moved on to the shared cache when the reader gets there, if the two processors share one: twice as fast as past
 * the caches. If they don't, each line is fetched from the other's cache over a long way: four times slower. No
 * processor says which it is, and virtual ones change it as they run. So ordinary stores are tried, and what counts is how fast the bytes go.
 *
 * A measurement is of SIZE_MEASURED bytes that were written one way while the reader was far behind all the time, and begins when the reader has taken what was
 * written before in the other way: so the writer's time for them is the reader's as well. If the reader comes near it is broken off. Past
 * the caches a byte takes PSEC_USUAL until it was measured. Ordinary stores that were slower are tried again after SIZE_AGAIN.
 *
 * Source: measured (docs/native.md, "How long messages are copied").
 */
#include "pace.h"

#include "clock.h"
#include "macros.h"

#define SIZE_MEASURED (256ull << 10)
#define SIZE_AGAIN (256ull << 20)
#define PSEC_USUAL 80u
/* A writer that lost its processor meanwhile has learnt nothing: one such measurement must not turn the choice. */
#define PSEC_MOST 300u

static void turn(struct shm_pace *p, bool past, uint64_t head)
{
	p->past = past;
	p->since = head;
	p->begun = 0;
}

static void learn(struct shm_pace *p, uint64_t head)
{
	uint64_t now = (nsec_now() - p->nsec) * 1000 / (head - p->begun);
	uint64_t *psec = &p->psec[p->past];

	now = MIN(now, (uint64_t)PSEC_MOST);
	*psec = *psec ? (7 * *psec + now) / 8 : now;
	p->begun = 0;
}

static bool is_past_better(const struct shm_pace *p)
{
	return p->psec[0] > (p->psec[1] ? p->psec[1] : PSEC_USUAL);
}

bool shm_pace_is_ordinary(struct shm_pace *p, uint64_t head, uint64_t tail)
{
	if (p->begun && head - p->begun >= SIZE_MEASURED) {
		learn(p, head);
		if (p->past != is_past_better(p))
			turn(p, !p->past, head);
	} else if (p->past && head - p->since >= SIZE_AGAIN) {
		turn(p, false, head);
	}
	if (!p->begun && (int64_t)(tail - p->since) >= 0) {
		p->begun = head;
		p->nsec = nsec_now();
	}
	return !p->past;
}
