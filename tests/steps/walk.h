/*
 * Walks a scene of several processes through the named points of base/step.h: once to see which of
 * them one of the processes comes past, then again for each of those, where it is killed. The
 * scene's other processes say themselves what they must find.
 */
#ifndef PULC_TESTS_STEPS_WALK_H
#define PULC_TESTS_STEPS_WALK_H

#include <stdbool.h>
#include <sys/types.h>

#include "step_page.h"

/* The points that a program walks: the six together are all that there are. */
#define STEPS_OF_RINGS 0, STEP_SEM_TAKEN
#define STEPS_OF_SEMS STEP_SEM_TAKEN, STEP_BLOCK_AREA
#define STEPS_OF_BLOCKS STEP_BLOCK_AREA, STEP_TAG_OFFERED
#define STEPS_OF_TAGS STEP_TAG_OFFERED, STEP_GIVE_SAID
#define STEPS_OF_PORTS STEP_GIVE_SAID, STEP_GUEST_FOUND
#define STEPS_OF_GUESTS STEP_GUEST_FOUND, N_STEPS

/* `who`: for the log. */
void steps_walk(const char *who, void (*run_scene)(void), unsigned first, unsigned end);
/* Somebody was killed at each of these. Frees what the walks have needed. */
void steps_end(unsigned first, unsigned end);

/* In a scene: this process is the one, from now on. */
void step_victim(pid_t pid);
/* It was killed. */
bool step_is_killed(void);
/* This one of the scene's processes has ended. */
bool step_has_ended(pid_t pid);
/* Waits until the victim, or somebody else, has come past that point; or there is no victim any
 * more. */
void step_await_victim(enum step step);
void step_await_others(enum step step);

#endif
