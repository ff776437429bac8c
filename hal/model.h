/* What a message costs on a link, and what follows from it: hal/model.c. */
#ifndef PULC_HAL_MODEL_H
#define PULC_HAL_MODEL_H

#include <stdint.h>

/* Both ends of a link have costs of their own; "in": from a sender's memory into the transport,
 * "out": to a receiver's. */
struct hal_costs {
	uint32_t nsec_frame; /* more for a message in one frame more */
	uint32_t psec_in;    /* for each byte, picoseconds */
	uint32_t psec_out;
};

/* Bounds of what is believed of a measurement, ps for a byte; ns for a frame. */
#define HAL_PSEC_LEAST 10u
#define HAL_PSEC_MOST 2000u
#define HAL_NSEC_LEAST 20u
#define HAL_NSEC_MOST 2000u
/* No piece of a long message is smaller. */
#define HAL_PIECE_LEAST 4096u

/* A long frame of so many bytes took so long: moves its cost for a byte, psec_in or psec_out,
 * towards it, an eighth of the way. */
void hal_costs_learn(struct hal_costs *costs, uint32_t *psec, uint64_t size, uint64_t nsec)
	__attribute__((visibility("hidden")));
/* A short one, of which each byte costs psec: moves nsec_frame. */
void hal_costs_learn_frame(struct hal_costs *costs, uint32_t psec, uint64_t size, uint64_t nsec)
	__attribute__((visibility("hidden")));
/* The best size of the pieces that a message of `size` bytes is cut into, a power of two that is at
 * most `most`, or that. */
uint32_t hal_piece(const struct hal_costs *costs, uint64_t size, uint32_t most)
	__attribute__((visibility("hidden")));

#endif
