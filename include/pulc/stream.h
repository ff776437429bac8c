/*
 * pulc/stream.h: the byte streams of connected TCP sockets, and the datagrams of UDP sockets, for
 * socket shims.
 *
 * The kernel owns such a socket's life, PULC its bytes. A stream is this process's view of one
 * kernel socket, of either kind; every descriptor of that socket (dup) uses the same stream, and
 * each call is told which descriptor to use. All functions return 0 or a count, or a negative
 * errno, and never touch errno. docs/upgrade.md and docs/udp.md say what happens underneath.
 */
#ifndef PULC_STREAM_H
#define PULC_STREAM_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pulc_stream pulc_stream;
typedef struct pulc_waitset pulc_waitset;

/* Which end of the connection this is: the kernel counts the connector's SYN as a byte. */
enum pulc_role { PULC_CONNECTED = 1, PULC_ACCEPTED = 2 };

/* Answer of the data calls: make this very call on the kernel, then say so with
 * pulc_stream_send_end or pulc_stream_recv_end. No errno has this value. */
#define PULC_USE_KERNEL (-4096)
/* The call is to begin once more, from its descriptor: a signal handler that asks for SA_RESTART
 * has ended its wait. */
#define PULC_BEGIN_AGAIN (-4097)

/* What libpulc needs of the program's own libc, so that sleeping in it is a cancellation point
 * and other preloaded libraries see it. NULL members: the kernel is asked directly. */
struct pulc_sys {
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
};
void pulc_sys_set(const struct pulc_sys *sys);

/* A stream for the connected TCP socket fd. Costs no system call. Ownership: the caller's, one
 * reference. */
int pulc_stream_new(int fd, enum pulc_role role, pulc_stream **ret_stream);
/* A stream of the datagrams of the UDP socket fd, just made; family: AF_INET, AF_INET6. Ownership:
 * as above. */
int pulc_stream_new_datagram(int fd, int family, pulc_stream **ret_stream);
/* Datagrams: each call moves one, and what the kernel socket says of itself is never out of
 * date. */
bool pulc_stream_is_datagram(const pulc_stream *s);
pulc_stream *pulc_stream_ref(pulc_stream *s);
pulc_stream *pulc_stream_unref(pulc_stream *s);

/* Call before the last descriptor of this process is closed; fd is still open (-1: it was closed
 * already, unnoticed). Does not close it, does not drop the reference. */
void pulc_stream_closing(pulc_stream *s, int fd);

/* connect(2) with AF_UNSPEC has ended the connection of fd. Other processes may hold the socket:
 * the kernel alone serves it there from now on. False: pulc_stream_closing follows; true: there is
 * a reset to be told that the kernel knows nothing of, so it follows only after the socket was
 * connected anew (pulc_stream_connected), or is closed. */
bool pulc_stream_disconnected(pulc_stream *s, int fd);

/* fd, one of several descriptors of s in this process, is about to be closed or is closed; `other`
 * stays. */
void pulc_stream_loses(pulc_stream *s, int fd, int other);
/* Calls of other threads that are under way go on with *home: theirs is closed or about to be.
 * NULL: there are none any more. Where it was the last one of this process, pulc_stream_closing
 * follows when they have ended. */
void pulc_stream_moved(pulc_stream *s, const int *home);
/* The descriptor for the rest of a call that was given fd and has waited: another thread may have
 * closed that meanwhile. */
int pulc_stream_fd(const pulc_stream *s, int fd);

/* Why a stream is kept on the kernel; pulcctl shows it by the names of pulc-reasons(7). */
enum pulc_reason {
	PULC_REASON_SHARED = 16,      /* another process may hold the socket */
	PULC_REASON_STDIO = 17,	      /* used through libc's own streams */
	PULC_REASON_UNSUPPORTED = 18, /* an operation that rings can't serve */
};

/* Never upgrade this one. If it is upgraded already, what it sends goes to the kernel from now on
 * and the peer is asked to do the same. */
void pulc_stream_keep_on_kernel(pulc_stream *s, int fd, enum pulc_reason reason);

/* True if the kernel alone serves s, now and later: it was never upgraded, or has been given back.
 * Of datagrams, those that wait in queues are forgotten. */
bool pulc_stream_is_kernels(const pulc_stream *s);
/* True if s, which is not attached, is known to have its other end on another node, as it is after
 * a few calls. */
bool pulc_stream_is_far(const pulc_stream *s);

/*
 * Takes a connection over which nothing is sent further on its way into rings, as a data call
 * would: until it is attached this counts as one, afterwards both directions begin, and fd must not
 * be closed meanwhile. Of datagrams nothing is done. Blocking: never, and no lock may be held that
 * the callback of pulc_stream_on_attached takes. Costs some system calls in the life of a
 * connection, and one now and then where its peer does not come along.
 */
void pulc_stream_advance(pulc_stream *s, int fd);

/*
 * Around an accept(2) of TCP connections on fd, which may block, and may be a descriptor that does
 * not. Before it: looks whether there is one for as long as a wait for a ring would spin, if that
 * has paid lately. Returns 0: make the call; -EINTR: a handler has run that ends it. After it: its
 * answer, a descriptor or negative. Threads: each for itself.
 */
int pulc_accept_begins(int fd);
void pulc_accept_ended(int fd);

/*
 * Around a wait of an event loop for many descriptors that is the kernel's alone. accepted: fd is a
 * TCP connection that this thread has just accepted; of what is sent and received libpulc knows.
 * begins: to be asked once before each wait that may sleep. True if it is worth while to look
 * first: this thread has served somebody since it asked last, and looking has paid lately. looks:
 * looks for as long as a wait for a ring would spin, and not beyond nsec_deadline (CLOCK_MONOTONIC;
 * UINT64_MAX: no end). look asks the kernel without waiting, and answers what the wait would, 0:
 * nothing is there, negative: no more looks. Returns what look has found; -EINTR: a handler has
 * run, and nothing was found; 0: the kernel's own call is to be made. Threads: each for itself. A
 * handler may leave it by siglongjmp.
 */
void pulc_loop_accepted(int fd);
bool pulc_loop_begins(void);
int pulc_loop_looks(int (*look)(void *arg), void *arg, uint64_t nsec_deadline);

/* This process has begun a TCP connection, by connect(2). Blocking: never. */
void pulc_stream_connect_begun(void);
/* A number that is another one when a process at the other end of s, which is attached, has begun
 * one before it sent what can be received from s. */
uint64_t pulc_stream_peer_connects(const pulc_stream *s);

/* Data calls, with the semantics of the calls they are named for, blocking included. They answer
 * PULC_USE_KERNEL while the stream is on the kernel, and PULC_BEGIN_AGAIN where nothing is done
 * yet: what the caller's descriptor is, and whether it may wait, can have changed. -EPIPE never
 * raises SIGPIPE here. */
ssize_t pulc_stream_send(pulc_stream *s, int fd, const void *buf, size_t len, int flags);
ssize_t pulc_stream_recv(pulc_stream *s, int fd, void *buf, size_t len, int flags);
ssize_t pulc_stream_sendmsg(pulc_stream *s, int fd, const struct msghdr *msg, int flags);
ssize_t pulc_stream_recvmsg(pulc_stream *s, int fd, struct msghdr *msg, int flags);
void pulc_stream_send_end(pulc_stream *s, int fd, ssize_t n);
/* A call of another kind is about to send by the kernel socket itself (sendfile, splice). 0: make
 * it, then say so with pulc_stream_send_end; -EALREADY: the bytes go, or an error is to be told, by
 * the calls above. An error that waits for one of them goes on waiting. Blocking: never. Costs a
 * system call now and then, as a send does. */
int pulc_stream_send_begin(pulc_stream *s, int fd);
void pulc_stream_recv_end(pulc_stream *s, int fd, ssize_t n);

/* For datagrams: a call that was made on the kernel and has succeeded named this address; event:
 * POLLOUT: a datagram was sent there, POLLIN: one came from there. Other streams take no notice. */
void pulc_stream_met(pulc_stream *s, int fd, unsigned event, const struct sockaddr *addr,
		     socklen_t len);
/* connect(2) has been called again and has succeeded, or begun: for datagrams it may be called any
 * time. True: the connection of s was ended before (pulc_stream_disconnected), and fd has another
 * one now; nothing is told of the old one. */
bool pulc_stream_connected(pulc_stream *s, int fd);

/*
 * This thread is about to wait on, or move bytes through, the kernel socket itself, for POLLIN,
 * POLLOUT or both. Returns 0: until pulc_stream_kernel_leave those directions stay where they are;
 * -EALREADY: (part of) it is served by rings, use the calls here. Blocking: never. Costs no system
 * call.
 */
int pulc_stream_kernel_enter(pulc_stream *s, unsigned events);
void pulc_stream_kernel_leave(pulc_stream *s, unsigned events);

/* shutdown(2), on the kernel socket and in the rings. */
int pulc_stream_shutdown(pulc_stream *s, int fd, int how);
/* FIONREAD: bytes that can be received, kernel's and ring's together. */
int pulc_stream_inq(pulc_stream *s, int fd, int *ret_size);
/* SIOCOUTQ: bytes sent that the peer has not taken. */
int pulc_stream_outq(pulc_stream *s, int fd, int *ret_size);

/* SIOCATMARK: true if all bytes before urgent data were received. */
bool pulc_stream_at_mark(pulc_stream *s, int fd);
/* Adds the bytes that never saw the kernel to what the kernel said of them: len bytes of struct
 * tcp_info (linux/tcp.h). */
void pulc_stream_add_info(pulc_stream *s, void *info, size_t len);

/* The program changed O_NONBLOCK (of the open file description), or accepted s with it or without,
 * or changed a socket option, on the kernel. */
void pulc_stream_nonblock_changed(pulc_stream *s, bool nonblock);
void pulc_stream_option_changed(pulc_stream *s, int fd, int level, int option);

/* A pending error that only PULC knows (a reset made by the survivor): positive errno or 0; clears
 * it. */
int pulc_stream_take_error(pulc_stream *s);
/* The opposite: a call above was told this of the connection, a positive errno, or of a UDP
 * socket's peer, and has told its caller a success instead: the next one is to be told. Other
 * errors are forgotten. */
void pulc_stream_keep_error(pulc_stream *s, int error);
/* The connection was reset in a way that only PULC knows of, be it told or not: to the kernel it
 * may still stand. */
bool pulc_stream_is_reset(pulc_stream *s);

/*
 * Readiness. A stream that is not attached is polled on the kernel as ever. For an attached one,
 * ready() looks at memory only and may miss what only the kernel knows, but what it answers is
 * complete: once either side has shut down it asks the kernel as well. poll() is exact and may make
 * one system call. Both take and return POLLIN, POLLOUT, POLLRDHUP, POLLPRI ...; POLLERR and
 * POLLHUP are always reported by poll(). ready() adds PULC_ON_KERNEL(POLLIN),
 * PULC_ON_KERNEL(POLLOUT) for the directions that go through the kernel at present: when that
 * changes, only poll() tells the truth.
 */
#define PULC_ON_KERNEL(events) ((events) << 16)
bool pulc_stream_attached(const pulc_stream *s);
unsigned pulc_stream_ready(pulc_stream *s, int fd, unsigned events);
unsigned pulc_stream_poll(pulc_stream *s, int fd, unsigned events);

/* For edge-triggered users: a counter that changes whenever new data came. */
uint64_t pulc_stream_mark(pulc_stream *s);

/*
 * For who finds several attached streams ready: when the unread bytes of this one began to be sent,
 * by a clock that all processes of a node have in common. Of two that are not 0 the one came first
 * that is less in 32 bits that go round. 0: not known. A hint: it is the peer's word, and may be
 * older than what is unread.
 */
uint32_t pulc_stream_when(pulc_stream *s);
/* Now, by the same clock. */
uint32_t pulc_when(void);

/* Called once, from whatever thread does it, when a stream becomes attached: from then on its
 * readiness is no longer the kernel's alone. Called with no lock of libpulc held. */
void pulc_stream_on_attached(void (*callback)(pulc_stream *s, void *arg), void *arg);
void pulc_stream_set_user(pulc_stream *s, void *user);
void *pulc_stream_user(const pulc_stream *s);

/*
 * Waiting. A wait set is a board and a bell. watch() asks the peer of an attached stream to set
 * `bit` on the board when one of `events` (POLLIN, POLLOUT) may have come true; the request holds
 * until it fires once or unwatch(). The order that loses nothing: watch every stream, arm, look at
 * every stream again, sleep on pulc_waitset_fd (and on the kernel sockets) for at most
 * pulc_waitset_patience, disarm, take the bits. A set belongs to the process that made it and is
 * dead in a forked child (pulc_waitset_alive).
 */
int pulc_waitset_new(pulc_waitset **ret_set);
/* A forked child is no client of psid's before it needs to be, and has no boards: it becomes one,
 * and psid's answer is waited for, for milliseconds at most and once. Elsewhere nothing is done. */
void pulc_waitset_expect(void);
pulc_waitset *pulc_waitset_free(pulc_waitset *set);
bool pulc_waitset_alive(const pulc_waitset *set);
int pulc_waitset_fd(const pulc_waitset *set);
unsigned pulc_waitset_n_bits(const pulc_waitset *set);
void pulc_waitset_arm(pulc_waitset *set);
void pulc_waitset_disarm(pulc_waitset *set);
bool pulc_waitset_pending(const pulc_waitset *set);
/* Takes one set bit; false: none. */
bool pulc_waitset_take(pulc_waitset *set, unsigned *ret_bit);
/* Rings the set's own bell: for a waiter that leaves bits behind for another one. */
void pulc_waitset_ring(pulc_waitset *set);
/* Empties the bell after a sleep. */
void pulc_waitset_quiet(pulc_waitset *set);

/* Asks to be told on `bit` of events (POLLIN, POLLOUT). -ENOSPC: too many wait for it already; the
 * peer is asked to use the kernel. */
int pulc_stream_watch(pulc_stream *s, pulc_waitset *set, unsigned bit, unsigned events);
/* Withdraws what watch asked for; a bit may still come. */
void pulc_stream_unwatch(pulc_stream *s, pulc_waitset *set, unsigned bit);
/* The longest that a sleeper may trust this stream's peer to ring the bell, in ns; UINT64_MAX: for
 * ever. Finite only while the peer has not been introduced to the bell. */
uint64_t pulc_stream_patience(pulc_stream *s, pulc_waitset *set);

/*
 * psid's end. Rings need no psid, but those who sleep have to notice that another one came, and
 * tell it of their connections. Whoever sleeps over attached streams polls this descriptor too (-1:
 * none) for *ret_events and a hang-up, sleeps no longer than patience says (ns), and calls notice
 * afterwards, with no lock held: `said` if the descriptor had something to say. The mark changes
 * when the descriptor becomes another one; 0: there is none.
 */
int pulc_notice_fd(short *ret_events);
unsigned pulc_notice_mark(void);
uint64_t pulc_notice_patience(void);
void pulc_notice(bool said);

/* This thread's own wait set, made at first use, freed with the thread; NULL if there is none to be
 * had. */
pulc_waitset *pulc_waitset_mine(void);

/*
 * How long to spin before sleeping. start() answers the budget in ns (0: don't); end() tells what
 * came of it. One per waiting place (a thread, an epoll set).
 */
struct pulc_spin {
	uint32_t nsec_budget;
	uint32_t n_failures;
};
uint64_t pulc_spin_start(struct pulc_spin *spin, bool peer_on_this_cpu);
void pulc_spin_end(struct pulc_spin *spin, bool paid);
/* True when the peer of this stream last ran on the caller's processor: spinning would only delay
 * it. */
bool pulc_stream_peer_here(pulc_stream *s);

#ifdef __cplusplus
}
#endif

#endif
