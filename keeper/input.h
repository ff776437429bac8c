/* Standard input: from the owner to one task or to all. */
#ifndef PULC_KEEPER_INPUT_H
#define PULC_KEEPER_INPUT_H

#include "keeper.h"

#define INPUT_SIZE_WINDOW 65536u /* bytes that may be under way */

/* Does this task get the job's input? */
bool keeper_input_wanted(const struct keeper *k, const struct task *task);
/* Takes fd, the writing end. */
void keeper_input_open(struct task *task, int fd);
/* The task reads no more, or is gone. */
void keeper_input_close(struct task *task);
/* The tasks are there: they get what has come before them. */
void keeper_input_begin(struct keeper *k);
/* More input, or its end. */
void keeper_input(struct keeper *k, const struct frame *frame);

#endif
