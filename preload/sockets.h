/* See sockets.c. */
#ifndef PULC_PRELOAD_SOCKETS_H
#define PULC_PRELOAD_SOCKETS_H

#include <pulc/stream.h>

/* If fd is a stream: it is never upgraded, or given back to the kernel. */
void pre_keep_on_kernel(int fd, enum pulc_reason reason);
/* The same for the sake of somebody who moves its bytes past us. */
void pre_keep_for_others(int fd);

#endif
