/* Names that the ranks of a job publish for each other. */
#ifndef PULC_KEEPER_NAMES_H
#define PULC_KEEPER_NAMES_H

#include "keeper.h"

/* At the head: a question of a rank of that place. */
void keeper_names_take(struct keeper *k, uint32_t place, const Pulc__Job__Names *msg);
/* At the head: what goes with the task does. */
void keeper_names_task_ended(struct keeper *k, uint32_t rank);
/* The answer to a question of a rank here. */
void keeper_names_answered(struct keeper *k, const Pulc__Job__Names *names);

#endif
