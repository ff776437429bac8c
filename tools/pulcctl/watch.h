/* Showing the same thing again and again. */
#ifndef PULCCTL_WATCH_H
#define PULCCTL_WATCH_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>

/* Prints one picture into out. Returns 0 or the exit status that ends the watch. */
typedef int ctl_picture(FILE *out, void *arg);

/*
 * Calls picture every usec microseconds and writes what it prints to stdout at once, on a terminal
 * over the picture before. A q from keys ends it (-1: there are none). While it waits for the next
 * picture, the signals of `blocked` are (NULL: those that are anyway); one that is handled then
 * brings the picture at once. Returns picture's exit status, or 0 after a q and when nobody reads
 * stdout any more.
 */
int ctl_watch(uint64_t usec, ctl_picture *picture, void *arg, int keys, const sigset_t *blocked);

#endif
