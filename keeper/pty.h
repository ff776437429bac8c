/* A terminal for one task. */
#ifndef PULC_KEEPER_PTY_H
#define PULC_KEEPER_PTY_H

#include "keeper.h"

/* Makes a terminal for the task: our end serves its input and output, theirs[0..2] are one
 * descriptor. Returns 0, negative errno. */
int keeper_pty_open(struct task *task, int theirs[3]);
/* The owner's terminal has another size. */
void keeper_window(struct keeper *k, const Pulc__Job__WindowSize *window);

#endif
