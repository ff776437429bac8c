/* What the tasks say on their standard output and error. */
#ifndef PULC_KEEPER_OUTPUT_H
#define PULC_KEEPER_OUTPUT_H

#include "keeper.h"

/* Takes fd, the reading end. */
void keeper_output_open(struct output *output, int fd);
/* Every task of this node has begun: reads what they say, from now on. */
void keeper_output_begin(struct keeper *k);
/* The owner can take more of a stream. */
void keeper_output_credit(struct keeper *k, const struct frame *frame);
/* Sends what the task has said so far, as far as its credit goes. */
void keeper_output_drain(struct task *task);
/* Nobody of the job lives any more: what is in the pipes is all. */
void keeper_output_last(struct keeper *k);

#endif
