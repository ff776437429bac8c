/* What a process tells psid of a connected TCP socket. */
#ifndef PULC_LIB_HINT_H
#define PULC_LIB_HINT_H

#include "private.h"

/* The two ends of a connection; addresses as IPv6, ports in host order. */
struct hint_ends {
	uint8_t local[16], remote[16];
	uint16_t local_port, remote_port;
};

/* False: it is not connected, or not by IP. */
bool hint_ends(int fd, struct hint_ends *ends);
/* Why this connection can't leave the kernel, as far as this side can tell; NONE. */
Pulc__Wire__Reason hint_obstacle(struct pulc_stream *s, int fd, const struct hint_ends *ends);
/* Sends the hint for s, which has a token, and notes its cookie. Under the client lock; does not block. -ENOTCONN, -EAGAIN. */
int hint_send(struct pulc_stream *s, int fd, const struct hint_ends *ends,
	      Pulc__Wire__Reason reason);

#endif
