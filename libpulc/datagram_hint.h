/* What a process tells psid of a flow of datagrams. All under the client lock; nothing blocks. */
#ifndef PULC_LIB_DATAGRAM_HINT_H
#define PULC_LIB_DATAGRAM_HINT_H

#include "datagram.h"

/* Set in the tokens of flows, apart from those of connections. */
#define TOKEN_FLOW (1ull << 62)

/* The name under which psid knows f: given, taken back, looked up (NULL: nobody's). */
void flow_register(struct flow *f);
void flow_unregister(struct flow *f);
struct flow *flow_find(uint64_t token);

/* A cookie of the socket (SO_COOKIE, SO_NETNS_COOKIE); 0: it has none. */
uint64_t flow_cookie(int fd, int name);
/* The local address of a flow: a sender's is what its datagrams carry. False: it has none yet. */
bool flow_local(const struct flow *f, int fd, struct datagram_address *ret);
/* Why this flow can't leave the kernel, as far as this side can tell; NONE. */
Pulc__Wire__Reason flow_obstacle(const struct flow *f, int fd,
				 const struct datagram_address *local);
/* Sends the hint. Returns 0, -ENOTCONN or -EAGAIN. */
int flow_hint(struct flow *f, int fd, const struct datagram_address *local,
	      Pulc__Wire__Reason reason);
/* Shows that the socket is ours by sending from it. A program's own number that means another file
 * by now is no socket of this cookie. */
void flow_prove(struct flow *f, const Pulc__Wire__Prove *m);

#endif
