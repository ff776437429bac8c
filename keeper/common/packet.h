/* Messages of fixed sizes with descriptors beside them, over Unix sockets of packets. */
#ifndef PULC_KEEPER_PACKET_H
#define PULC_KEEPER_PACKET_H

#include <stddef.h>

#define PACKET_N_FDS 6u /* descriptors that go with one */

/* No send or receive on it takes longer than a few seconds from now on: the other side may be
 * stopped. */
void packet_limit(int fd);
/*
 * One message each; waits as long as the socket lets it. Returns 0; -EBADMSG: not of this size;
 * -EPIPE: closed; -ETIMEDOUT; negative errno. Of descriptors received, ret_fds is filled with those
 * that came, the rest is -EBADF; they are the caller's in any case, and closed by exec.
 */
int packet_send(int fd, const void *message, size_t size, const int *fds, size_t n_fds);
int packet_recv(int fd, void *message, size_t size, int ret_fds[PACKET_N_FDS]);
/* Those that are not negative, one after the other. Returns a bit for each: 1 for the first. */
unsigned packet_gather(const int *fds, size_t n, int ret_fds[PACKET_N_FDS], size_t *ret_n);

#endif
