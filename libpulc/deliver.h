/* The last bytes of a stream, left to psid. */
#ifndef PULC_LIBPULC_DELIVER_H
#define PULC_LIBPULC_DELIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "private.h"

/* As tcp_pass_on (protocols/tcp.h). Takes no lock. */
bool deliver_rest(int fd, int memory, uint64_t size, bool shut);
/* Before s is ended by somebody who keeps its socket: if that leaves psid something to deliver, its
 * end will be noticed. */
void deliver_begins(struct pulc_stream *s);

/* ---- under the client lock ------------------------------------------------------------------- */

/* The channel is gone. */
void deliver_lost(void);
/* It was the channel alone: psid is the one that it was. */
void deliver_found(void);
/* Resets what psid has not delivered, once it is time. */
void deliver_look(void);

/* ---- no lock --------------------------------------------------------------------------------- */

/* How long until then, ns; UINT64_MAX: there is nothing. */
uint64_t deliver_patience(void);

#endif
