/* One message over the client socket: a SOCK_SEQPACKET datagram with its descriptors. */
#ifndef PULC_WIRE_CHANNEL_H
#define PULC_WIRE_CHANNEL_H

#include <stddef.h>
#include <sys/types.h>

#include "client.pb-c.h"

#define WIRE_VERSION 1u
#define WIRE_LAYOUT 12u	     /* SHM_VERSION, for commands, that look into no shared memory */
#define WIRE_SIZE_MAX 16384u /* bytes of one encoded message */
#define WIRE_FDS_MAX 4u
#define WIRE_ADOPT_MAX 512u /* ends that one Adopt names */

/*
 * Sends an encoded message; never blocks, raises no signal, uses no libc entry point that a shim
 * interposes. Returns 0; -EAGAIN: the other side does not read; -ETOOMANYREFS: descriptors of ours,
 * or of others of our user, that nobody has received yet are too many, and no poll tells when they
 * no longer are; -EPIPE, -ECONNRESET: the other side is gone; -EMSGSIZE: larger than WIRE_SIZE_MAX
 * or more than WIRE_FDS_MAX descriptors. The descriptors stay the caller's.
 */
int wire_send(int fd, const void *buf, size_t len, const int *fds, size_t n_fds);
int wire_send_from_client(int fd, const Pulc__Wire__FromClient *msg, const int *fds, size_t n_fds);
int wire_send_to_client(int fd, const Pulc__Wire__ToClient *msg, const int *fds, size_t n_fds);

/*
 * Receives one message into buf (WIRE_SIZE_MAX bytes) without blocking; descriptors come
 * O_CLOEXEC and are the caller's. Returns 0 and sets the ret_ parameters; -EAGAIN: nothing there;
 * -EPIPE: the other side has closed; -EBADMSG: truncated, empty, or too many descriptors; -EMFILE:
 * not all of them found a place, and *ret_len is set. In both cases those received are closed.
 */
int wire_recv(int fd, void *buf, size_t *ret_len, int ret_fds[WIRE_FDS_MAX], size_t *ret_n_fds);

/*
 * wire_recv for psid, to whom a client's descriptor is a weapon: closing one may block, so none is
 * closed here, nor by the kernel. Returns as wire_recv; ret_fds and ret_n_fds are set in any case,
 * and the caller's. A message that makes no sense (-EBADMSG) stays where it is; so does one whose
 * descriptors don't fit in just now: -EMFILE.
 */
int wire_recv_hostile(int fd, void *buf, size_t *ret_len, int ret_fds[WIRE_FDS_MAX],
		      size_t *ret_n_fds);

/*
 * A fixed arena as protobuf-c allocator: decoding inside somebody else's process must not call
 * malloc.
 */
struct wire_arena {
	ProtobufCAllocator allocator;
	size_t used;
	_Alignas(16) unsigned char bytes[32768];
};
void wire_arena_init(struct wire_arena *arena);

#endif
