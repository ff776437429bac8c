/* A player: makes the calls that the driver gives it. */
#ifndef PULC_TESTS_PLAYER_H
#define PULC_TESTS_PLAYER_H

#include "world.h"

/* Makes calls until the process is ended. */
_Noreturn void player_run(struct world *world, struct player *player);
/* The same in a program that was just executed; the call during which it was has then returned. */
_Noreturn void player_begin(unsigned index);

#endif
