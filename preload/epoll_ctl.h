/* See epoll_ctl.c. */
#ifndef PULC_PRELOAD_EPOLL_CTL_H
#define PULC_PRELOAD_EPOLL_CTL_H

#include <stdbool.h>

#include "file.h"

/* True if this thread holds a lock: pre_file_catch_up follows when it has let go. */
bool pre_file_later(struct pre_file *f);
/* Does for f's memberships what its state asks for: it was closed, or its stream attached. */
void pre_file_catch_up(struct pre_file *f);

#endif
