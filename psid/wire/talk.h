/* Conversations with psid of those that have no part in connections: commands, keepers, the calls
 * of pulc/job.h. */
#ifndef PULC_WIRE_TALK_H
#define PULC_WIRE_TALK_H

#include <stddef.h>
#include <stdint.h>

#include "client.pb-c.h"

/*
 * Connects to the psid that wire_connect finds, asking one that is busy so many times, 20 ms apart.
 * Returns 0 with a descriptor; -ENOENT, -EPERM: no psid for us; -ETIMEDOUT: it is busy; other
 * negative errno. path (may be NULL) gets the place of its socket.
 */
int wire_talk_call(unsigned n_tries, char *path, size_t size, int *ret_fd);

/* Says who we are. Returns as wire_send, but 0 also if psid has hung up: its Refuse is there to
 * read. */
int wire_talk_hello(int fd, Pulc__Wire__Role role, const char *program);
/* The same, of a command that is about to become a process: psid refuses it if it would refuse
 * that, for its version or its user. */
int wire_talk_hello_for(int fd, const char *program);

/*
 * The next message, to be freed; descriptors that come with it are closed. Returns 0; -EAGAIN:
 * nothing there; -EPIPE: psid has closed; -EBADMSG: it makes no sense; other negative errno.
 */
int wire_talk_take(int fd, Pulc__Wire__ToClient **ret_msg);
/* The same, waited for until then. -ETIMEDOUT: nothing came. */
int wire_talk_receive(int fd, uint64_t nsec_end, Pulc__Wire__ToClient **ret_msg);
/* Waits until a descriptor is readable. Returns 0, -ETIMEDOUT, other negative errno. */
int wire_talk_await(int fd, uint64_t nsec_end);

#endif
