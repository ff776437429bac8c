/* TLS between the keepers of a job: a plug-in, for only jobs on several nodes pay for loading
 * it. */
#ifndef PULC_KEEPER_TLS_H
#define PULC_KEEPER_TLS_H

#include "frame.h"

#define TLS_SIZE_KEY 32u
#define TLS_SYMBOL "keeper_tls"

struct tls;

struct keeper_tls {
	/* Does what need not be done for each connection; the first ones take longer otherwise. */
	void (*prepare)(void);
	/*
	 * One side of a connection over fd, a connected non-blocking stream socket that stays the
	 * caller's. key: TLS_SIZE_KEY bytes that both sides have; who has others gets no
	 * connection. The handshake happens within the first reads and writes. NULL: no memory, or
	 * no TLS.
	 */
	struct tls *(*open)(int fd, const uint8_t *key, bool is_server);
	/*
	 * Reads and writes, context being what open gave. -EINPROGRESS from write: it waits for the
	 * other side to say something, not for room. -EPROTO: the other side has another key, or no
	 * sense.
	 */
	struct frame_ops io;
	void (*close)(struct tls *tls); /* NULL is allowed */
};

#endif
