/* Drawing the lines of a sequence. */
#ifndef PULC_TESTS_DRAW_H
#define PULC_TESTS_DRAW_H

#include "stage.h"

struct drawer {
	uint64_t state; /* of the generator: the seed at first */
	bool datagrams;
	unsigned n_lines, n_drawn; /* wanted, and done */
	unsigned n_players, n_in_hat;
	bool has_urgent, has_death, has_lowat;
};

void drawer_init(struct drawer *d, uint64_t seed, bool datagrams);
/* The next line, as the players stand. False: that was all. */
bool draw_line(struct drawer *d, const struct stage *stage, char line[CALL_MAX]);

#endif
