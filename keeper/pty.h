/* A terminal for one task. */
#ifndef PULC_KEEPER_PTY_H
#define PULC_KEEPER_PTY_H

#include "keeper.h"

/* Has the task a terminal? */
bool keeper_is_pty(const struct task *task);
/* Makes a terminal for the task: our end serves its input and output, theirs[0..2] are one
 * descriptor. Returns 0, negative errno. */
int keeper_pty_open(struct task *task, int theirs[3]);
/* Input is over; last: its last byte, a newline if there was none. Returns 0; -EAGAIN: there was no
 * room to say so, again later. */
int keeper_pty_end_input(struct task *task, uint8_t last);
/* The owner's terminal has another size. */
void keeper_window(struct keeper *k, const Pulc__Job__WindowSize *window);

#endif
