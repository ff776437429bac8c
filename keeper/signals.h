/* Signals for the tasks. */
#ifndef PULC_KEEPER_SIGNALS_H
#define PULC_KEEPER_SIGNALS_H

#include <stdint.h>

struct channel;
struct keeper;

/* A signal to the process group of each task, or of one: only is one more than its rank, 0: all of
 * them. Tasks that are to begin yet get it when they have. */
void keeper_signal(struct keeper *k, int number, uint32_t only);
/* The tasks have begun. */
void keeper_signals_begin(struct keeper *k);
/* A keeper has called the head: it hears what was sent before. */
void keeper_signals_replay(struct keeper *k, struct channel *channel);

#endif
