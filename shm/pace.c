/*
 * The better way to write long pieces into a ring: with ordinary stores, or past the writer's
 * caches.
 *
 * Ordinary stores leave the lines in the writer's caches, modified, or in the cache that it shares
 * with the reader. Past the caches they go to memory. Which costs less depends on how far the two
 * processors are from each other, by a factor of five either way. No processor says that, and
 * virtual ones change it as they run. So it is measured, at what is sent.
 *
 * What counts is the time of both: the writer's for writing a byte and the reader's for reading it.
 * A slow reader can't hide behind a fast writer then, nor a slow writer behind a fast reader, and
 * pauses of the program are no part of either. One piece in SHM_PACE_N is timed by either side. The
 * writer says from which byte on it has written in the present way; the reader's answer says the
 * same, so that both speak of the same way. Nothing counts until the ring has been written through
 * once, since before its lines are not where the way leaves them, and at the beginning the
 * program's memory is new as well.
 *
 * Ordinary stores are the way until they are found slow. The other way is taken when it was better
 * by a quarter the last time, and tried after SIZE_AGAIN; a trial that is not better than what was
 * before it goes back there, and the next one comes twice as late. So what a moment's disturbance
 * has decided lasts for SIZE_AGAIN only. A trial ends at once when the writer alone needs twice
 * what both have needed before.
 *
 * The reader's answer is a number that the writer compares and believes up to a bound: a lie costs
 * the liar's own connection its speed.
 *
 * Source: measured (docs/native.md, "How long messages are copied").
 */
#include "pace.h"

#define SIZE_COLD (8ull << 20)
#define SIZE_SETTLE (1ull << 20)
#define SIZE_AGAIN (64ull << 20)
#define SIZE_AGAIN_MAX (512ull << 20)
#define N_ENOUGH 4u
/* Past the caches, until it was measured. */
#define PSEC_USUAL 160u

/* A quarter of the way; but whoever lost his processor meanwhile has learnt little. */
static void learn(uint32_t *psec, const struct shm_timed *t)
{
	uint64_t now = MIN(t->nsec, UINT64_MAX / 1000) * 1000 / MAX(t->size, (uint64_t)1);

	now = MIN(MAX(now, (uint64_t)1), (uint64_t)SHM_PSEC_MOST);
	if (*psec == 0)
		*psec = (uint32_t)now;
	else
		*psec = (uint32_t)((3 * (uint64_t)*psec + MIN(now, 2 * (uint64_t)*psec) + 2) / 4);
}

static uint32_t known(const struct shm_pace *p, bool past)
{
	return p->psec[past] || !past ? p->psec[past] : PSEC_USUAL;
}

/* 0: it has not answered for this way yet. */
static uint32_t answer(uint64_t told, uint64_t since)
{
	return (uint32_t)(told >> 32) == (uint32_t)since ? MIN((uint32_t)told, SHM_PSEC_MOST) : 0;
}

static bool has_settled(const struct shm_timed *t, uint64_t since)
{
	uint64_t size = since ? MAX(SIZE_SETTLE, t->size_ring) : SIZE_COLD;

	return (int64_t)(t->at - since) >= (int64_t)size;
}

static bool turn(struct shm_pace *p, const struct shm_timed *t, bool is_trial)
{
	p->past = !p->past;
	p->is_trial = is_trial;
	p->since = t->at + t->size;
	p->n_timed = 0;
	p->psec_in = 0;
	return true;
}

/* Of this way, if that is known; 0: not yet. */
static uint32_t measured(const struct shm_pace *p, const struct shm_timed *t, uint32_t out)
{
	uint32_t other = known(p, !p->past);

	if (p->n_timed < N_ENOUGH)
		return 0;
	if (has_settled(t, p->since))
		return out ? p->psec_in + out : 0;
	return p->since && other && p->psec_in > 2 * other ? p->psec_in : 0;
}

/* What this way has been found to take decides. */
static bool judge(struct shm_pace *p, const struct shm_timed *t, uint32_t both, uint32_t other)
{
	bool was_trial = p->is_trial;

	p->is_trial = false;
	if (was_trial && other <= both) {
		p->size_again = MIN(2 * p->size_again, (uint64_t)SIZE_AGAIN_MAX);
		return turn(p, t, false);
	}
	if (was_trial)
		p->size_again = SIZE_AGAIN;
	if (other >= both - both / 4)
		return false;
	p->size_again = SIZE_AGAIN;
	return turn(p, t, false);
}

bool shm_pace_wrote(struct shm_pace *p, const struct shm_timed *t, uint64_t told)
{
	uint32_t other = known(p, !p->past), both;

	learn(&p->psec_in, t);
	p->n_timed++;
	both = measured(p, t, answer(told, p->since));
	if (both)
		p->psec[p->past] = both;
	if (both && other && judge(p, t, both, other))
		return true;
	p->size_again = MAX(p->size_again, (uint64_t)SIZE_AGAIN);
	return t->at - p->since >= p->size_again ? turn(p, t, true) : false;
}

uint64_t shm_pace_read(struct shm_pace_reader *p, const struct shm_timed *t, uint64_t since)
{
	if (since != p->since)
		*p = (struct shm_pace_reader){ .n = p->n, .since = since };
	if (!has_settled(t, since))
		return 0;
	learn(&p->psec, t);
	return ++p->n_timed < N_ENOUGH ? 0 : (uint64_t)(uint32_t)since << 32 | p->psec;
}
