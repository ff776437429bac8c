/* Drawing the lines of a sequence. */
#ifndef PULC_TESTS_DRAW_H
#define PULC_TESTS_DRAW_H

#include "stage.h"

/* Of what: connections, UDP sockets, or both and all that processes and threads do with them; and
 * those once more with what programs seldom do. */
enum draw { DRAW_STREAMS, DRAW_DATAGRAMS, DRAW_MIXED, DRAW_WIDE, N_DRAWS };

#define N_PENDING_LINES 3

struct drawer {
	uint64_t state; /* of the generator: the seed at first */
	enum draw draw;
	unsigned n_lines, n_drawn; /* wanted, and done */
	unsigned n_players, n_in_hat;
	unsigned family;
	unsigned n_unaccepted; /* connections, at most */
	int sleeper;	       /* -1: nobody sleeps */
	int accepting;	       /* who was to accept one with the last line, -1: nobody */
	bool is_closed_under;  /* something was closed since the sleeper's call began */
	bool bears_stop;       /* the sleeper's call has that trait */
	bool is_stepwise;      /* the sleeper's call is one that the shim makes step by step */
	bool has_urgent, has_death, has_lowat;
	char pending[N_PENDING_LINES][CALL_MAX]; /* lines that come next, the last one first */
	unsigned n_pending;
};

void drawer_init(struct drawer *d, uint64_t seed, enum draw draw);
/* The next line, as the players stand. False: that was all. */
bool draw_line(struct drawer *d, const struct stage *stage, char line[CALL_MAX]);

#endif
