/* A number is about to become somebody else's: see change.c. */
#ifndef PULC_PRELOAD_CHANGE_H
#define PULC_PRELOAD_CHANGE_H

#include "file.h"

struct pre_change {
	int fd;
	struct pre_file *old; /* whose number it was; NULL: nobody's, or closed by now */
	bool lingers;	      /* it was its last one */
	uint64_t signals;     /* the thread's mask before */
};

/* Before the kernel's call that changes fd in a program of several threads, whose table it is.
 * Whoever comes by the number waits until pre_change_ends; signals are held back. False: no memory,
 * nothing has begun. */
bool pre_change_begins(struct pre_change *change, int fd);
/* After it, and after pre_file_install or pre_file_share for the new file; is_done: it has not
 * failed. */
void pre_change_ends(struct pre_change *change, bool is_done);
void pre_change_forked(void);

#endif
