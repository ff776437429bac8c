/* The kernel's own count of a connection's bytes: the truth that the switch relies on. */
#ifndef PULC_PROTOCOLS_TCP_COUNT_H
#define PULC_PROTOCOLS_TCP_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include <pulc/stream.h>

/* Bytes ever written to the kernel socket by anybody. Nobody may be writing meanwhile. Returns 0;
 * -EAGAIN: not to be told right now; -EPERM: never (fast open, counters that disagree, a state in
 * which one may not switch). */
int tcp_count_written(int fd, enum pulc_role role, uint64_t *ret_bytes);
/* How many of the first kernel_at bytes are still to be read from it. more: the peer may have sent
 * others behind them. Nobody may be reading meanwhile. Returns 0; -EAGAIN; -EBADMSG: more were read
 * than were written, or nobody can tell any more (more, and the connection was reset). */
int tcp_count_left(int fd, uint64_t kernel_at, bool more, uint64_t *ret_bytes);
/* Did the peer end the stream, and not by a reset alone? kernel_at, more: as above. */
bool tcp_count_has_fin(int fd, uint64_t kernel_at, bool more);
/* Which end is it, by the byte that the connecting side's SYN is counted as? 0: not to be told. */
enum pulc_role tcp_count_role(int fd);
/* True if the socket's own FIN is on its way: it was shut down for writing. */
bool tcp_count_is_shut(int fd);
/* True if it was shut down for reading; once the peer has ended that makes no difference, and is
 * not found. */
bool tcp_count_is_deaf(int fd);
/* True if it is no connection any more: reset, or dissolved. */
bool tcp_count_is_closed(int fd);
/* Sends off what cork or Nagle hold back. */
void tcp_push_corked(int fd);

#endif
