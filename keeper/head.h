/* The head keeper: what is said about the whole job passes here. */
#ifndef PULC_KEEPER_HEAD_H
#define PULC_KEEPER_HEAD_H

#include "keeper.h"

/* listen_fd: where the keepers of other nodes call; negative: there are none. Returns 0, negative
 * errno. */
int keeper_head_start(struct keeper *k, int listen_fd);
/* The owner has said what to run: the keepers that have called hear it. */
void keeper_head_spec(struct keeper *k);
/* Something has happened to tasks of this node. On other nodes it goes up. */
void keeper_head_report(struct keeper *k, const Pulc__Job__Message *msg);
/* The place of a rank; beyond the last one: there is no such rank. */
uint32_t keeper_head_place_of(const struct keeper *k, uint32_t rank);
/* An answer, or a question, for the tasks of a place. */
void keeper_head_tell(struct keeper *k, uint32_t place, const Pulc__Job__Message *msg);
/* A frame of the owner's: goes on to the nodes that it concerns besides this one. */
void keeper_head_down(struct keeper *k, const struct frame *frame);
/* The tasks of this node have read so much of the job's input. */
void keeper_head_input_read(struct keeper *k, uint32_t n);
/* The owner is gone: so is the job, on every node. */
void keeper_head_abandon(struct keeper *k);
/* The whole job is to end, on every node. Only the head may say so. */
void keeper_head_end(struct keeper *k);
/* The same, or the end of this node's part, and the owner hears why; "": he does not. */
void keeper_head_end_for(struct keeper *k, const char *why);
/* A signal for every task of the job. */
void keeper_head_signal(struct keeper *k, int number, uint32_t only);
/* Is there a keeper that has not called yet, and still may? */
bool keeper_head_awaits_callers(const struct keeper *k);
/* This node has no task, process or byte left. */
void keeper_head_done(struct keeper *k);

/* A keeper has called; from now on its frames are ours. Returns 0, -EINVAL: there is no such place,
 * or it is taken. */
int keeper_head_attached(struct keeper *k, uint32_t here, struct channel *channel);
/* Its connection has ended. */
void keeper_head_detached(struct keeper *k, struct channel *channel);
/* psid says that a place is lost, or was never started. A keeper that has called is asked first. */
void keeper_head_lost(struct keeper *k, uint32_t here, const char *text);

#endif
