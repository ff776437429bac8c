/* Words of the own area that only the tcp protocol of this family gives a meaning to. */
#ifndef PULC_PROTOCOLS_TCP_LOCAL_H
#define PULC_PROTOCOLS_TCP_LOCAL_H

#include "tcp.h"

/* shm_side.rx_mode: which part of the stream is being read */
enum { TCP_RX_KERNEL = 0, TCP_RX_RING = 1, TCP_RX_KERNEL_AGAIN = 2 };

/* shm_side.local */
#define TCP_LOCAL_SHUT_RD 0x1u		 /* shut down for reading by this side */
#define TCP_LOCAL_RESET SHM_LOCAL_UNTOLD /* an error to be told once */
#define TCP_LOCAL_RESET_SEEN 0x4u	 /* the connection was reset; told or to be told */
#define TCP_LOCAL_FOR_GOOD 0x10u	 /* has left for a reason that makes the ring useless */
#define TCP_LOCAL_EOF 0x8u		 /* the kernel's end of file was observed */
#define TCP_LOCAL_OUTSIDE 0x20u		 /* somebody who can't read the ring holds the socket too */
#define TCP_LOCAL_PASSED_ON 0x80u	 /* psid sends the last bytes and ends the stream */
#define TCP_LOCAL_DISCONNECTED                                                                     \
	0x40u /* by connect(2) with AF_UNSPEC: the socket is another connection's, or none's */
#define TCP_LOCAL_URGENT                                                                           \
	0x100u /* urgent data was sent through the kernel: nobody who has this side begins a ring */

/* Pieces of an iovec that are handed to the kernel at once where it must not read beyond a byte. */
#define TCP_IOV 256

void tcp_set_local(struct tcp *t, uint32_t flag);
/* Goes on behind a ring that has ended and is read out. */
void tcp_settle_end(struct tcp *t);
/*
 * The kernel's end of file was seen, or the peer says that it closed. Notes a peer that is gone
 * without its own word for it, and a reset that the survivor must make: bytes of ours are unread
 * and nobody is left to read them.
 */
void tcp_note_end(struct tcp *t);
/* The second half of that, by what the peer has said up to now. */
void tcp_note_reset(struct tcp *t);
/* A reset by one who had shut down before: to the kernel a broken pipe, of which a receiver, at the
 * end of the stream, does not hear. */
bool tcp_is_broken_pipe(const struct tcp *t);
/* Has the kernel seen that end? For calls that ask the kernel nothing else: psid says of a death
 * only once nobody can hold that side. */
void tcp_look_for_end(struct tcp *t, int fd);
/* It has closed, or ended otherwise. */
static inline bool tcp_peer_left(const struct tcp *t)
{
	return (shm_peer_notice(&t->ring) & (SHM_CLOSED | SHM_DEAD)) || t->peer_gone;
}

/* The peer has said that it ends, nothing is left to read, and nobody has waited for the kernel's
 * word on that yet. */
bool tcp_end_is_awaited(const struct tcp *t);
/* Waits for it, tcp_end_nsec_wait at most. */
extern uint64_t tcp_end_nsec_wait __attribute__((visibility("hidden")));
void tcp_end_await(struct tcp *t, int fd);
/* Under tx_lock: RING to ENDED, if the receiver reads the ring before what follows it, or will
 * never read again. */
bool tcp_try_end(struct tcp *t, uint64_t peer_notice);
/* Bytes that the kernel would take before it stops a sender, where the programs of both ends have
 * given it buffers for that; else UINT64_MAX. */
uint64_t tcp_size_of_buffers(const struct tcp *t);
/* Under tx_lock, for a peer that has left: what is unread goes through the kernel. 1: all of it; 0:
 * there is more; -EBADMSG. */
int tcp_return_locked(struct tcp *t, int fd);
/*
 * tx_lock for one who leaves. A handler that does so amid a section of its own thread's has the
 * lock already, and need not wait: what a section has not published yet is as if it had not been
 * begun. TCP_AMID_RETURN: but for one that gives bytes to the kernel, and has not noted it yet.
 */
enum tcp_way { TCP_AMID_RETURN, TCP_AMID_SEND, TCP_LOCKED };
enum tcp_way tcp_enter_leaving(struct tcp *t);
void tcp_leave_entered(struct tcp *t, enum tcp_way way);
/* Under tx_lock, right after the ring was ended or the stream shut: has the peer just left? Then
 * the ring is given up. */
bool tcp_return_instead(struct tcp *t);
/* How a stream ends that owes bytes. */
enum tcp_last {
	TCP_LAST_CLOSED,  /* by the last descriptor of the socket */
	TCP_LAST_SHUT,	  /* it is shut down */
	TCP_LAST_OF_MANY, /* others may go on sending */
};
/* The same at the end of a stream: psid sends what the kernel has no room for, or it is waited for,
 * some seconds. True: psid also ends the stream, once all is sent; nobody else may. */
bool tcp_return_last(struct tcp *t, int fd, enum tcp_last last);
extern uint64_t tcp_last_nsec_wait __attribute__((visibility("hidden")));

#endif
