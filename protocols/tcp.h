/*
 * The tcp protocol: the bytes of one kernel TCP connection, partly in the kernel, partly in rings.
 * Non-blocking; whoever calls decides how to wait and whom to wake. docs/upgrade.md is normative.
 */
#ifndef PULC_PROTOCOLS_TCP_H
#define PULC_PROTOCOLS_TCP_H

#include <stdbool.h>
#include <sys/socket.h>

#include <pulc/stream.h>

#include "macros.h"
#include "stream.h"

/* What a call did that others may wait for. */
#define TCP_SENT 1u   /* bytes were published: serve shm_due_rx */
#define TCP_TAKEN 2u  /* space was published: serve shm_due_tx */
#define TCP_WANTED 4u /* credit was taken or found short: see that there is enough */

struct tcp {
	struct shm_stream ring;
	enum pulc_role role;
	/* bytes of credit spent on rings, returned at the end by the process that spent them */
	uint64_t size_credit;
	bool no_switch; /* sending stays on the kernel for good */
	/* every receive of the peer knows of the ring, for no other was under way */
	bool receives_know;
	/* Under tx_lock: bytes that count as unread may be with the kernel already. */
	bool returning;
	_Atomic bool stuck;	/* tcp_is_stuck */
	_Atomic bool peer_gone; /* the kernel's end of file was seen without the peer's own word */
	_Atomic bool end_awaited;     /* tcp_end_await */
	_Atomic uint64_t nsec_looked; /* when the kernel was last asked for end of file */
	/* Calls inside the kernel that began before the connection was attached. */
	_Atomic uint32_t n_native_sends;
	_Atomic uint32_t n_native_receives;
};

/* Grants bytes to grow a ring with; set once by libpulc. PENDING: psid has not answered yet,
 * TCP_WANTED has it asked. */
enum tcp_credit { TCP_CREDIT_DENIED, TCP_CREDIT_PENDING, TCP_CREDIT_GRANTED };
extern enum tcp_credit (*tcp_take_credit)(uint64_t size) __attribute__((visibility("hidden")));

/* After shm_stream_bind: takes over socket state that programs may have set before. */
void tcp_attach(struct tcp *t, int fd);
/* Is this socket option part of that? Once it has changed, attach again. */
bool tcp_heeds(int level, int option);
/* Once attached: says so in the area if the socket was shut down before. */
void tcp_note_shut(struct tcp *t, int fd);
/* Says that this side looks at the ring, if nobody is inside a kernel receive. True when it
 * does. */
bool tcp_watch(struct tcp *t);

/*
 * Sends what can be sent now. Returns a count > 0 (or 0 for len 0), -EAGAIN: full, -EPIPE, or
 * another errno of send(2); -EDEADLK: called from a signal handler that interrupted this very call.
 * flags: MSG_OOB goes to the kernel; MSG_ZEROCOPY means nothing without SO_ZEROCOPY, which keeps a
 * connection there. *did collects TCP_ bits.
 */
ssize_t tcp_push(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags,
		 unsigned *did);
/* Goes over to the ring, and from the kernel's part of what is received, as far as that can be done
 * by now, without a byte to send or to take. Costs up to five system calls, none where both are
 * done. */
void tcp_begin(struct tcp *t, int fd);
/* The last send would have gone on in a larger ring or through the kernel, but could not yet:
 * nothing will tell when. */
static inline bool tcp_is_stuck(const struct tcp *t)
{
	return atomic_load_explicit(&t->stuck, memory_order_relaxed);
}
/* Receives what is there. Returns a count, 0: end of stream, -EAGAIN: nothing, or an errno of
 * recv(2). flags: MSG_PEEK, MSG_TRUNC. look: ask the kernel for end of file even if that was just
 * done. */
ssize_t tcp_pull(struct tcp *t, int fd, const struct iovec *iov, size_t n, int flags, bool look,
		 unsigned *did);

/* Either side has shut down, closed or died: only the kernel knows all of what that means. */
bool tcp_is_ending(const struct tcp *t);
/* The ring has bytes, and before them there may be some that the kernel has, or is still to bring:
 * only tcp_poll and tcp_has know. */
bool tcp_is_split(struct tcp *t);
/* The ring has ended with fewer than SO_RCVLOWAT bytes. With those behind it, in the kernel, they
 * may be enough, which again only tcp_poll knows; the kernel tells nobody of fewer. */
bool tcp_is_short(struct tcp *t);
/* At least `size` bytes can be received at once, or an error. Takes the receive lock, and asks the
 * kernel while that has a part. */
bool tcp_has(struct tcp *t, int fd, uint64_t size);
/* Split, and SO_RCVLOWAT bytes have been sent: what is not there yet comes through the kernel,
 * which tells nobody of fewer. Takes the receive lock. */
bool tcp_is_split_enough(struct tcp *t, int fd);
/* Which of POLLIN, POLLOUT the rings alone answer for: not of bytes behind some of the kernel's
 * (tcp_is_split). No system call. */
unsigned tcp_ready(struct tcp *t, unsigned events);
/* Exact readiness, rings and kernel together. */
unsigned tcp_poll(struct tcp *t, int fd, unsigned events);

int tcp_shutdown(struct tcp *t, int fd, int how);
/* Before the last descriptor of this process is closed. */
void tcp_close(struct tcp *t, int fd);
/* psid says that nobody holds the other end any more. No lock needed. */
void tcp_note_dead(struct tcp *t);
/* What is sent from now on goes through the kernel, as soon as that cannot overtake. */
void tcp_keep_on_kernel(struct tcp *t);
/*
 * This side goes on with the kernel alone; what is unread in the peer's ring comes there as soon as
 * the peer looks (tcp_owes). The caller then tells whoever waits for this side. Returns 0; -EAGAIN:
 * again, what is in the own ring does not fit into the kernel yet; -EBUSY: sending has gone back,
 * but what is unread is in the ring only, from a peer that is no more or had ended its ring;
 * -ETIMEDOUT: this side has left, and a peer that gets no processor is yet to say which of the two
 * it is, as tcp_reclaim finds out; -EDEADLK, -EBADMSG.
 */
int tcp_leave(struct tcp *t, int fd);
/* How long it waits for a peer in the midst of that. */
extern uint64_t tcp_leave_nsec_wait __attribute__((visibility("hidden")));
/*
 * If it was reset, and that was told, it ends for the kernel too, which has not seen that bytes in
 * a ring were not read, and would take more. Not before: who gets the socket and is to tell the
 * error finds the connection by it.
 */
void tcp_end_left(const struct tcp *t, int fd);
/*
 * For a side that tcp_leave has answered -EBUSY or -ETIMEDOUT: somebody who can't read the ring
 * gets the socket. True if it is so; when the last who can closes and there is still something in
 * the ring, the connection is reset.
 */
bool tcp_goes_outside(struct tcp *t);
/* The last who can read the ring closes or ends, and others may go on with the kernel's part: left,
 * or reset. */
void tcp_close_for_outside(struct tcp *t, int fd);
/* Bytes of a peer that has left lie unread in the ring. The kernel has not seen them, and would end
 * in order what is a reset to that peer if it ends now. */
bool tcp_refuses(const struct tcp *t);
/* Is there such a one, and is this process the last who can? */
bool tcp_is_last_inside(const struct tcp *t);
/* Nobody who holds the socket is to take what is in the kernel for all of it: ECONNRESET, then end
 * of file. */
void tcp_reset(int fd);
/* Nothing that lies in the ring is to be read there any more: its bytes mean something else in the
 * kernel. */
void tcp_leave_for_good(struct tcp *t);
/* The program has ended the connection and kept the socket: whatever process holds it, nothing in
 * the rings is about it any more. True: a reset is still to be told of which the kernel does not
 * know (tcp_take_error). */
bool tcp_disconnected(struct tcp *t, int fd);
/* The socket has another connection now. False: the program has not ended this one; true: of what
 * it left to be told nothing is. */
bool tcp_connected_anew(struct tcp *t);
/* Was that done? */
bool tcp_is_disconnected(const struct tcp *t);
/* The same, or is just being done, or was done by somebody who knows nothing of rings. */
bool tcp_is_dissolved(const struct tcp *t, int fd);
/* This side has left, but what it left behind could still be read from the ring. */
bool tcp_may_reclaim(struct tcp *t);
/*
 * Reads the ring again, for as long as the peer uses it. 1: so it is; 0: the kernel alone serves;
 * -EAGAIN: the peer is about to decide which, and doesn't run; until then nothing may be read.
 */
int tcp_reclaim(struct tcp *t);
/* False once what is received comes from the kernel for good. */
bool tcp_reads_ring(const struct tcp *t);
/* The kernel alone serves this side: by tcp_leave, of whatever process. */
static inline bool tcp_has_left(const struct tcp *t)
{
	return UNLIKELY(shm_own_notice(&t->ring) & SHM_LEFT) && !tcp_reads_ring(t);
}
/* How long a receiver that is owed may take nothing while somebody waits for it. */
#define TCP_NSEC_OWED (5 * NSEC_PER_SEC)
/* Bytes in our ring are to be sent once more, through the kernel. Two loads. */
bool tcp_owes(const struct tcp *t);
/* Sends them, as far as the kernel takes them. 1: all. */
int tcp_return(struct tcp *t, int fd);
/* The same before exec, be it called by a signal handler amid a send of this very thread.
 * -EDEADLK: what it interrupted was this, and nobody can tell how much was sent. */
int tcp_return_leaving(struct tcp *t, int fd);
/* The same for a process that hands the socket on, or ends beside others that have it: waits for
 * room, some seconds at most. */
void tcp_return_all(struct tcp *t, int fd);
/* For the last process that can send, which ends: of what the kernel has no room for psid takes
 * care. False: it does not, and there is to be waited for room. */
bool tcp_pass_on_ending(struct tcp *t, int fd);
/* What a receiver that is owed has not taken yet, of the debt or of what the kernel has for it. */
uint64_t tcp_unpaid(const struct tcp *t, int fd);
/* Gives the bytes in `memory`, a sealed memfd, with a descriptor of the socket to psid, which sends
 * them and then ends the stream. False: there is none. Set by libpulc, called under tx_lock. */
extern bool (*tcp_pass_on)(int fd, int memory, uint64_t size, bool shut)
	__attribute__((visibility("hidden")));
/* It was given them. */
bool tcp_is_passed_on(const struct tcp *t);
/* What is written to the socket, past this side, comes behind all that it has sent. */
static inline bool tcp_has_sent(const struct tcp *t)
{
	return shm_tx_mode(&t->ring) != SHM_TX_RING && !tcp_owes(t);
}
/* True once what this side has left in the peer's ring is on its way. */
bool tcp_is_returned(const struct tcp *t);
/* The next byte to be received is the one behind urgent data (or is that, in line). */
bool tcp_at_mark(struct tcp *t, int fd);
/* The first n bytes to be received are all that come before the mark; there is one, and they were
 * looked at. Takes the receive lock. */
bool tcp_mark_is_behind(struct tcp *t, int fd, uint64_t n);
/* What can be received at once: of the ring nothing, as long as bytes before it are under way
 * through the kernel. 0; -EAGAIN: called from a signal handler inside a receive, or the kernel's
 * counters would not stand still; -EBADMSG: the peer's make no sense. */
int tcp_inq(struct tcp *t, int fd, uint64_t *ret_size);
int tcp_outq(struct tcp *t, int fd, uint64_t *ret_size);
/* Adds the bytes of the rings to what the kernel said: len bytes of struct tcp_info. */
void tcp_add_info(struct tcp *t, void *info, size_t len);
/* Has the peer ended the stream, so that TCP_INQ counts the end like a byte? Not by a reset alone,
 * nor is it this side that shut down. */
bool tcp_end_counts(struct tcp *t, int fd);
/* Was it reset by what the two ends know of each other? */
bool tcp_is_reset(struct tcp *t);
/* Is one pending? */
bool tcp_has_reset(const struct tcp *t);
/* The same of a side that has left, before it sends through the kernel: asks that for the end of a
 * peer that has bytes of the ring unread. */
bool tcp_finds_reset(struct tcp *t, int fd);
/* May there be one before long: has the peer bytes of the ring unread, and not left itself? */
bool tcp_may_be_reset(struct tcp *t);
/* Has such a reset, of which the kernel knows nothing, ended what urgent data can be received of?
 * Not behind the end of the stream. */
bool tcp_urgent_is_gone(struct tcp *t, int fd);
/* Takes the pending error (ECONNRESET, EPIPE or 0); puts it back for the next call, when this one
 * told of bytes instead. */
int tcp_take_error(struct tcp *t, int fd);
/* The same for a receive, which is not told of a broken pipe. */
int tcp_take_receive_error(struct tcp *t, int fd);
void tcp_keep_error(struct tcp *t, int error);
/* A call answers ECONNRESET, whoever knew of it: the other one of kernel and ring does not tell it
 * again. */
void tcp_note_told(struct tcp *t);

/* Which of POLLIN, POLLOUT go through the kernel at present: where the next byte is. No system
 * call. */
unsigned tcp_on_kernel(struct tcp *t);
/* Kernel events worth sleeping for besides the bell, for a waiter on `events`. */
short tcp_kernel_events(struct tcp *t, unsigned events);

#endif
