/* The dialogue with psid that takes a stream off the kernel: docs/upgrade.md. */
#ifndef PULC_LIB_UPGRADE_H
#define PULC_LIB_UPGRADE_H

#include "private.h"
#include "receive.h"

/* A data call was made on a stream that is not attached: count it, hint when it is time, look at
 * the channel. */
void upgrade_step(struct pulc_stream *s, int fd);
/* The slabs that an Upgrade names: those that came with it, or that we have. False: they are
 * lacking. Under the client lock. */
bool upgrade_slabs(const Pulc__Wire__Upgrade *m, struct received *r, struct slab **ret_own,
		   struct slab **ret_peer);
/* Messages of psid that concern streams, slabs and other clients. Under the client lock. */
void upgrade_dispatch(const Pulc__Wire__ToClient *msg, struct received *r);
/* Asks for the memory of an upgraded connection of which we have the socket only. Under the client
 * lock. 0; -EAGAIN; -ENOTCONN. */
int upgrade_ask_again(struct pulc_stream *s);
/* Nobody holds the other end of conn, whose memory does not say so. Under the client lock. */
void upgrade_dead(uint64_t conn);
/* psid is gone: what s has under way with it begins anew. Under the client lock. */
void upgrade_begin_anew(struct pulc_stream *s);
/* The same for all streams: whatever was under way begins anew. Under the client lock. */
void upgrade_psid_lost(void);
/* The process's last descriptor of a stream that is not attached is about to be closed. Takes the
 * client lock itself. */
void upgrade_closing(struct pulc_stream *s, int fd);
/* Nobody uses the stream any more: its memory goes back. Under the client lock. */
void upgrade_release(struct pulc_stream *s);
/* Tells psid that this process no longer holds connection conn. Under the client lock. */
void upgrade_closed(uint64_t conn);
/* The same for a stream that is attached. This process says in its memory before that it counts
 * itself off, or that it has not. */
void upgrade_leaving(struct pulc_stream *s);
void upgrade_left(struct pulc_stream *s);
void upgrade_stays(struct pulc_stream *s);
/* The same for a flow, under the client lock from the first word to the last. */
void upgrade_flow_leaving(const struct slab *own, uint32_t slot);
void upgrade_flow_left(const struct slab *own, uint32_t slot, uint64_t conn);
void upgrade_flow_stays(const struct slab *own, uint32_t slot);
/* For people: why this stream, upgraded or not, is on the kernel. */
void upgrade_note(struct pulc_stream *s, enum pulc_reason reason);
/* A forked child tells psid what it has inherited. Under the client lock. */
void upgrade_adopt(void);

#endif
