/* The HAL of two processes of different nodes: frames over a connected TCP socket. */
#ifndef PULC_HAL_TCP_LINK_H
#define PULC_HAL_TCP_LINK_H

#include "hal.h"

enum hal_tcp_way {
	HAL_TCP_BEST,  /* io_uring where the kernel allows it */
	HAL_TCP_PLAIN, /* non-blocking calls and epoll */
	HAL_TCP_URING, /* or fail */
};

/*
 * A link over this socket, which becomes the link's unless this fails. 0; -ENOMEM; -EINVAL: no
 * stream socket; -EMFILE; with HAL_TCP_URING what the kernel says against it. Where io_uring is
 * forbidden on pain of death, ask for HAL_TCP_PLAIN.
 */
int hal_tcp_open(int fd, enum hal_tcp_way way, struct hal_link **ret_link);
bool hal_tcp_is_uring(const struct hal_link *link);

/* What the link carries is shown to psid from now on, as a link to the process that psid calls so
 * (shm/pairs.h). */
void hal_tcp_show(struct hal_link *link, uint32_t client);

/*
 * Where a link's descriptors are kept: `keep` puts a duplicate of fd into *home and stands by it
 * until `release`. NULL, as they begin: they stay where the kernel has put them. Set before the
 * first link is opened.
 */
extern int (*hal_tcp_keep_fd)(int fd, int *home) __attribute__((visibility("hidden")));
extern void (*hal_tcp_release_fd)(int *home) __attribute__((visibility("hidden")));

#endif
