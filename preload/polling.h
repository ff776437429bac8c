/* See poll.c, poll_short.c, poll_ahead.c, poll_pieces.c. */
#ifndef PULC_PRELOAD_POLL_H
#define PULC_PRELOAD_POLL_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "wait.h"

/* True if a descriptor's readiness is not the kernel's alone: then poll.c's waits, otherwise libc's
 * own call. */
bool pre_poll_concerned(const struct pollfd *fds, nfds_t n);

/* What memory alone says of a list (poll_short.c): a count, which is poll's answer, with all of
 * revents set; waits: 0 is no answer. PRE_POLL_UNSURE: poll.c is to find out; due: and to ask the
 * kernel, whatever its own count of calls says. */
#define PRE_POLL_UNSURE (-1)
int pre_poll_glance(struct pollfd *fds, nfds_t n, bool waits, bool *ret_due);

/* poll_ahead.c: a list that is the kernel's alone, before a wait that may sleep: is it worth while
 * to look first? */
bool pre_poll_begins_ahead(const struct pollfd *fds, nfds_t n);
struct pre_poll_list {
	struct pollfd *fds;
	nfds_t n;
	uint64_t deadline;
	const sigset_t *mask;
};
/* Looks, as pre_look_ahead does. */
int pre_poll_look_ahead(struct pre_poll_list *list, struct pre_signals *signals);
/* poll and ppoll of such a list: perhaps a look, and libc's own call. */
int pre_poll_of_kernel(struct pollfd *fds, nfds_t n, int msec);
int pre_ppoll_of_kernel(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			const sigset_t *mask);

/* poll_pieces.c: how many of a list the kernel takes at once, where it takes fewer than n; 0: it
 * takes all, or none. */
nfds_t pre_poll_piece_of(nfds_t n);
/* Looks at all of it. A count or -errno. */
long pre_poll_by_pieces(struct pollfd *fds, nfds_t n, nfds_t size_piece);

/* poll(2) until deadline (0: does not wait), with mask in place while asleep, if not NULL, of any
 * length. Returns a count or -errno. */
int pre_poll_select(struct pollfd *fds, nfds_t n, uint64_t deadline, const sigset_t *mask);

#endif
