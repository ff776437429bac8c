/* The keeper's side of the talk with the owner of the job, or with the head keeper. */
#ifndef PULC_KEEPER_OWNER_H
#define PULC_KEEPER_OWNER_H

#include "keeper.h"

/* Listens to fd (head), or calls the head keeper. Returns 0, negative errno. */
int keeper_owner_start(struct keeper *k, int fd);
/* A frame for this node's tasks: from the owner, or passed on by the head. */
void keeper_take(struct keeper *k, const struct frame *frame);
/* What another rank, or the head keeper for it, tells a rank here or asks it. */
void keeper_told(struct keeper *k, const Pulc__Job__Message *msg);
/* Tells the owner's people one line. */
void keeper_say(struct keeper *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Everything here may be over: reports it if so. */
void keeper_look_for_end(struct keeper *k);

#endif
