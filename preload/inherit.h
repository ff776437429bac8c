/* See inherit.c. */
#ifndef PULC_PRELOAD_INHERIT_H
#define PULC_PRELOAD_INHERIT_H

#include "file.h"

/* Called once, at the program's start: finds the upgraded connections that it was given. */
void pre_inherit_start(void);

/* Takes the connection at fd up. Its file; NULL: it could not be had, and is none any more. May
 * wait for psid. */
struct pre_file *pre_inherit(int fd);

/* The socket's SO_COOKIE; 0: fd is none. */
uint64_t pre_cookie_of(int fd);

/* In a forked child: whoever was taking one up is not here. */
void pre_inherit_forked(void);

/* Calls visit for each open descriptor of the calling process, PULC's own left out. */
void pre_each_open(void (*visit)(int fd, void *arg), void *arg);

#endif
