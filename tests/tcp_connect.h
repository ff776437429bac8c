/* Connected pairs of TCP sockets. */
#ifndef PULC_TESTS_TCP_CONNECT_H
#define PULC_TESTS_TCP_CONNECT_H

#include <sys/socket.h>

/*
 * A connected pair of TCP sockets over the loopback; [0] has connected. family: AF_INET,
 * AF_INET6, or 0 for an IPv4 connector and an IPv6 listener.
 */
void tcp_connect_pair(int fds[2], int family);
void tcp_close_pair(const int fds[2]);
/* One end whose last close lingers for a minute, for its peer, which the caller gets as well, reads
 * nothing. */
int tcp_connect_lingering(int *ret_peer);

#endif
