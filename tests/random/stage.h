/* The players and what is played with them. */
#ifndef PULC_TESTS_RANDOM_STAGE_H
#define PULC_TESTS_RANDOM_STAGE_H

#include "world.h"

#include <stdio.h>

#define LINE_MAX 2400

struct stage {
	struct world *world;
	bool asleep[N_PLAYERS]; /* inside a call that waits for others */
	bool until_rings;	/* warm-ups go on until bytes pass through rings */
	pid_t psid;		/* whose work is waited for, 0: nobody's */
	unsigned step;
};

/* What is known beforehand about a call. */
enum expected { EXPECT_ANYTHING, EXPECT_RETURN, EXPECT_SLEEP };

/* preloaded: bit n, player n runs with this library in front. Starts players 0 and 1. 0, or -1. */
int stage_open(struct stage *stage, const char *library, unsigned preloaded);
void stage_close(struct stage *stage);
/* Plays one line, "p0 send a 17 -" say. ret_outcome, of ANSWER_MAX bytes, is what is behind the
 * arrow; empty where nothing is to be compared. False: there is no such line. */
bool stage_play(struct stage *stage, const char *line, enum expected expected, char *ret_outcome);
/* Behind a line: has that player's call ended meanwhile? */
bool stage_woken(struct stage *stage, unsigned player, enum expected expected, char *ret_outcome);

#endif
