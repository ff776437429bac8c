/* The short way of short messages, of ports and of tags: protocols/at_once.c. Under the caller's
 * lock; all that is not so simple is left alone. */
#ifndef PULC_PROTOCOLS_AT_ONCE_H
#define PULC_PROTOCOLS_AT_ONCE_H

#include "port.h"
#include "tag.h"

/* Some bytes in one piece and one frame, to a destination that is known. True: all is sent. False:
 * nothing is done; port_push may do it, or says why not. */
bool port_push_at_once(struct port *port, uint32_t node, uint32_t to, const void *buf, size_t len);
/*
 * Takes the next frame of this source right from its link, if it is a whole message or bytes of a
 * stream, nobody stands before and nothing else is the matter: the bytes taken. -EAGAIN: all other
 * cases. any: whatever the frame is; else only a word is taken, by the link's lane, which is sooner
 * asked for. Other peers are not looked at: that is the caller's to do in time.
 */
ssize_t port_take_at_once(struct port_in *in, void *buf, size_t size, bool any);

/* Sends a short message for which there is credit and room. False: nothing is done. */
bool tag_send_at_once(struct peer *peer, uint64_t tag, const void *buf, size_t len);
/*
 * Takes the next frame right from this peer's link, if it is a short message that fits and nothing
 * stands before. False: nothing is done. Other peers are not looked at. any: as above.
 */
bool tag_take_at_once(struct tag_receive *r, struct peer *peer, bool any);

#endif
