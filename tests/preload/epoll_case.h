/* The few epoll verbs that the epoll cases share. */
#ifndef PULC_TESTS_EPOLL_CASE_H
#define PULC_TESTS_EPOLL_CASE_H

#include "case.h"

#include <sys/epoll.h>

/* Adds or modifies; the tag comes back in the log. Logs a failure only. */
int watch(struct play *p, int ep, int op, int fd, unsigned events, unsigned tag);
#define ADD(ep, fd, events, tag) watch(p, ep, EPOLL_CTL_ADD, fd, events, tag)
#define MOD(ep, fd, events, tag) watch(p, ep, EPOLL_CTL_MOD, fd, events, tag)
#define DEL(ep, fd) watch(p, ep, EPOLL_CTL_DEL, fd, 0, 0)
/* Waits, logs the events sorted by tag. */
int wait_events(struct play *p, int ep, int n_max, int msec);
#define WAIT(ep, msec) wait_events(p, ep, 64, msec)
/* A wait that expects events soon, and one that expects none. */
#define EXPECT(ep) wait_events(p, ep, 64, 3000)
#define EXPECT_NONE(ep) wait_events(p, ep, 64, 0)

/* Waits until n different tags have come, in as many waits as it takes, or for 3 s in vain; logs
 * each once. An answer need not hold all that is ready (docs/differences.md). */
int gather_events(struct play *p, int ep, int n);

#endif
