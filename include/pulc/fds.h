/*
 * pulc/fds.h: the descriptors that PULC itself holds inside a process.
 *
 * They live at high numbers, away from the lowest free ones that a program counts on, and are
 * close-on-exec. Each is remembered with the variable that holds it, so that it can be moved when
 * the program claims its number. Functions return 0 or a negative errno; all may be called from any
 * thread.
 */
#ifndef PULC_FDS_H
#define PULC_FDS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Moves the descriptor in *fd to a high number, close-on-exec, and remembers fd as its home until
 * pulc_fd_release. On failure *fd is closed and set to -1. Errors: -EMFILE: no number to be had
 * within PULC's share. Threads: *fd may be read by others meanwhile, but only written here and by
 * evict.
 */
int pulc_fd_adopt(int *fd);

/* Puts a duplicate of fd, which stays open, into *home as pulc_fd_adopt does. Errors: as there, and
 * *home is -1. */
int pulc_fd_copy(int fd, int *home);

/* A duplicate of fd at a high number, for a moment: nobody remembers it. fd is closed; if there is
 * none, it is the answer. */
int pulc_fd_lift(int fd);

/* The descriptor in *from lives in *to from now on; *from becomes -1. */
void pulc_fd_rehome(int *from, int *to);

/* Closes *fd, forgets it, sets it to -1. *fd < 0: nothing happens. */
void pulc_fd_release(int *fd);

/* How many descriptors PULC may have in this process: an eighth of the limit when it began, and not
 * very many. */
unsigned pulc_fd_room(void);

/* True if this number is PULC's own: to the program it is not open. */
bool pulc_fd_is_own(int fd);

/* The lowest own number >= from, or -1. */
int pulc_fd_next_own(int from);

/* The program wants this very number (dup2 and the like): moves PULC's descriptor to another one.
 * Not own: 0. */
int pulc_fd_evict(int fd);

#ifdef __cplusplus
}
#endif

#endif
