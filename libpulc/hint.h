/* What a process tells psid of a connected TCP socket. */
#ifndef PULC_LIB_HINT_H
#define PULC_LIB_HINT_H

#include "private.h"

/* False: it is not connected, or not by IP. */
bool hint_ends(int fd, struct hint_ends *ends);
/* The tuple of the messages; made of pointers into ends. */
void hint_tuple(const struct hint_ends *ends, Pulc__Wire__Tuple *ret_tuple);
/* Why this connection can't leave the kernel, as far as this side can tell; NONE. */
Pulc__Wire__Reason hint_obstacle(struct pulc_stream *s, int fd, const struct hint_ends *ends);
/* Sends the hint for s, which has a token, and notes its cookie and ends. Under the client lock;
 * does not block. -ENOTCONN, -EAGAIN. */
int hint_send(struct pulc_stream *s, int fd, const struct hint_ends *ends,
	      Pulc__Wire__Reason reason);

#endif
