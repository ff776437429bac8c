/* See passing.c. */
#ifndef PULC_PRELOAD_PASSING_H
#define PULC_PRELOAD_PASSING_H

#include <sys/socket.h>

/* msg is about to be sent: takes care of the connections among its descriptors. */
void pre_passing_sends(const struct msghdr *msg);
/* msg was received. */
void pre_passing_received(const struct msghdr *msg);

#endif
