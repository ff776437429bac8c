/* See poll.c. */
#ifndef PULC_PRELOAD_POLL_H
#define PULC_PRELOAD_POLL_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* True if a descriptor's readiness is not the kernel's alone: then pre_poll_wait, otherwise libc's own call. */
bool pre_poll_concerned(const struct pollfd *fds, nfds_t n);

/* poll(2) until deadline (0: does not wait), with mask in place while asleep, if not NULL. Returns a count or -errno. */
int pre_poll_wait(struct pollfd *fds, nfds_t n, uint64_t deadline, const sigset_t *mask);

#endif
