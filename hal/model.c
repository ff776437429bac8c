/*
 * A model of the transfer of a long message, and the size of its pieces.
 *
 * Model. A message of n bytes in pieces of f goes in and comes out at the same time, but for the
 * first piece, which must be in before it can come out. With `a` for each piece, and `b` and `c`
 * for a byte on its slower and its faster way,
 *
 * 	t(f) = b * n  +  c * f  +  a * n / f
 *
 * Pieces of 2f are better than pieces of f as long as c * f < a * n / (2f): so small pieces for
 * messages that are hardly longer than one, large ones for those of which the first piece is a
 * small part. The minimum is flat; powers of two are near enough.
 *
 * What a byte costs each end measures by itself, now and then, at messages that are sent anyway:
 * processors that are far apart, or share their caches, make a factor of three, and virtual
 * machines change it while they run. What a frame costs beside its bytes is measured likewise, at
 * short frames: their time less that of their bytes. Each of the two is taken off the other's
 * measurement, and since the frames of the one are at least twice as long as those of the other,
 * both come to rest. A measurement in which the process lost its processor is cut to the most that
 * is believed, and forgotten with the next ones.
 *
 * Source: bip-1997, 2 (messages cut and pipelined, pieces by the message's length, from a model of
 * the steps).
 */
#include "model.h"

#include "macros.h"

/* An eighth of the way. */
static void move(uint32_t *cost, uint64_t now, uint32_t least, uint32_t most)
{
	now = MIN(MAX(now, (uint64_t)least), (uint64_t)most);
	*cost = (uint32_t)((7 * (uint64_t)*cost + now + 4) / 8);
}

static uint64_t less(uint64_t nsec, uint64_t part)
{
	return nsec > part ? nsec - part : 0;
}

void hal_costs_learn(struct hal_costs *costs, uint32_t *psec, uint64_t size, uint64_t nsec)
{
	uint64_t bytes = MIN(less(nsec, costs->nsec_frame), UINT64_MAX / 1000);

	move(psec, size ? bytes * 1000 / size : 0, HAL_PSEC_LEAST, HAL_PSEC_MOST);
}

void hal_costs_learn_frame(struct hal_costs *costs, uint32_t psec, uint64_t size, uint64_t nsec)
{
	move(&costs->nsec_frame, less(nsec, psec * size / 1000), HAL_NSEC_LEAST, HAL_NSEC_MOST);
}

uint32_t hal_piece(const struct hal_costs *costs, uint64_t size, uint32_t most)
{
	uint64_t psec = MIN(costs->psec_in, costs->psec_out), f = HAL_PIECE_LEAST;
	uint64_t psec_frames = size * costs->nsec_frame * 1000;

	while (f < most && 2 * f * f * psec < psec_frames)
		f *= 2;
	return (uint32_t)MIN(f, (uint64_t)most);
}
