/* See passing.c. */
#ifndef PULC_PRELOAD_PASSING_H
#define PULC_PRELOAD_PASSING_H

#include <stdbool.h>
#include <sys/socket.h>

/* What a message does with sockets of the shim: nothing; it passes them on, of which all is noted;
 * it will be refused; or it is to be, for a number that is not open to the program (EBADF). */
enum pre_passing { PRE_PASSES_NOTHING, PRE_PASSES, PRE_PASSES_HARDLY, PRE_PASSES_CLOSED };

/* Are sockets of the shim, or PULC's own descriptors, among those of msg, which is to be sent
 * through via? */
bool pre_passing_concerns(int via, const struct msghdr *msg);
/* msg is about to be sent through via. */
enum pre_passing pre_passing_begins(int via, const struct msghdr *msg, int flags);
/* n: the call's answer, a failure as negative errno. */
void pre_passing_ends(enum pre_passing passing, const struct msghdr *msg, ssize_t n);
/* msg was received, with these flags. */
void pre_passing_received(const struct msghdr *msg, int flags);

#endif
