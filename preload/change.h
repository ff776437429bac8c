/* A number is about to become somebody else's, or nobody's: see change.c. */
#ifndef PULC_PRELOAD_CHANGE_H
#define PULC_PRELOAD_CHANGE_H

#include <stdbool.h>

/* Before the kernel's call that closes or replaces fd, which is in the table or not. True: whoever
 * comes by the number waits until pre_change_ends. False: nobody has to, nothing has been done.
 * source: what dup2 puts there, -1: nothing. */
bool pre_change_begins(int fd, int source);
/* After it, and after pre_file_share for what the number has become; source as before. */
void pre_change_ends(int fd, int source);
/* In a forked child: the thread that was about to change a number is not here. */
void pre_change_forked(void);

#endif
