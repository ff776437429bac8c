/*
 * pulc/pulc.h: ports, for programs written to them.
 *
 * A process opens ports; any process of the node, or of another node of its cluster, sends to them
 * by address. What arrives is delivered once, in order for each pair of ports, and never dropped: a
 * receiver that does not read makes its senders wait, and nobody else. A port has one of three
 * kinds, which says how what arrives is kept:
 *
 *   PULC_D  datagrams: each message by itself, up to PULC_MESSAGE_MAX bytes
 *   PULC_M  a byte stream for each source
 *   PULC_S  one byte stream, of all sources together
 *
 * Functions return 0 or a count, or a negative errno, and never touch errno. All may be called from
 * any thread, none from a signal handler (-EDEADLK when it has interrupted one of them).
 * docs/native.md says what happens underneath; pulc(3) is the manual page.
 *
 * Fork. A forked child attaches anew and opens ports of its own. Those that its parent has opened,
 * or was itself forked with, they share: all of them send from the port and receive from it at
 * once, and each message goes to exactly one of them. The port stays its owner's, which is whoever
 * has opened it, or to whom it was given (pulc_port_give, pulc_port_inherit); the others are its
 * guests. A guest's sends and receives are done for it by the owner, in whatever call of this
 * header the owner waits or looks, or by the owner's progress thread (pulc_progress_thread): so the
 * guest's calls wait until the owner makes one, with PULC_DONTWAIT too. When the owner has closed
 * the port, or has ended, they fail with -EPIPE.
 */
#ifndef PULC_PULC_H
#define PULC_PULC_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pulc_port pulc_port;
typedef struct pulc_op pulc_op;

enum pulc_kind { PULC_S = 1, PULC_M = 2, PULC_D = 3 };

/* Where a port is. node: its number in the cluster; 0: this one, always. */
struct pulc_address {
	uint32_t node;
	uint32_t port;
};

#define PULC_MESSAGE_MAX (16u << 20) /* bytes of the longest datagram */
#define PULC_NAME_MAX 64u	     /* bytes of the longest name of a port */
#define PULC_PORT_WELL_KNOWN 65535u  /* the highest number that can be asked for */

/* Flags of the calls that send and receive. */
#define PULC_DONTWAIT 0x1 /* -EAGAIN instead of waiting */
#define PULC_PEEK 0x2	  /* receive: leave it there */
#define PULC_TRUNC 0x4	  /* receive: return a datagram's whole length, even if it is cut off */

/*
 * Makes this process a client of the node's psid: the system's, or the user's private one. Opening
 * a port does it too; this call says why it cannot be done. It starts no psid: `psid --daemonize`
 * does, and `pulc PROGRAM` if there is none.
 *
 * Return: 0, also when it has been done before. Errors: -ENOENT: no psid runs; -EPERM: it refuses
 * this process (user, limit, other version), only other users have one, or PULC_DISABLE=1 is set;
 * -ETIMEDOUT: it does not answer; -ENOTCONN, of calls that ask it for more: it has ended meanwhile;
 * -EMFILE, -ENFILE, -ENOMEM: no descriptor is left; -EDEADLK: called from a signal handler, or from
 * a protocol's handler. What has failed is not tried again for half a second, in which the answer
 * is the same. PULC_LOG=stderr says where psids were looked for, why they refuse, and what to do.
 * Threads and fork: any thread; a forked child does it anew. Blocking: until psid has answered, at
 * most 5 s. Source: pulc-1998, 4.3 (registration at PSID, with a check of the version).
 */
int pulc_attach(void);

/*
 * Opens a port.
 *
 * kind: how arriving messages are kept. number: 1 to PULC_PORT_WELL_KNOWN, or 0 for any free one.
 * name: what pulc_find finds it by, 1 to PULC_NAME_MAX bytes without '@', or NULL. ret_port: the
 * port. Return: 0. Errors: as pulc_attach; -EINVAL: no such kind, number or name too long;
 * -EADDRINUSE: somebody has the number or the name; -EMFILE: this process has too many ports;
 * -ENOMEM. Ownership: the caller's, until pulc_port_close. Threads and fork: any thread; children
 * that are forked later are guests at the port. Blocking: until psid has answered. Source:
 * pulc-1998, 4.6.2; 4.6.3 (fork: parent and child share the port).
 */
int pulc_port_open(enum pulc_kind kind, uint32_t number, const char *name, pulc_port **ret_port);

/*
 * Closes a port. What was sent through it is still delivered; what was not received is lost;
 * whoever sends to it afterwards is refused. A guest only ends its being one.
 *
 * port: NULL does nothing. Return: 0. Errors: -EINTR: a signal came while messages waited for room;
 * the port is still open; -EBUSY: another thread is inside a call on it, or an operation of it is
 * not ended; -EDEADLK. Threads and fork: any thread. Blocking: while messages that were accepted
 * with PULC_DONTWAIT wait for room, and until the kernel has taken what was sent to other nodes.
 * Source: pulc-1998, 4.6.2.
 */
int pulc_port_close(pulc_port *port);

/* The address that others on this node send to; for those on others, node is what pulc_node tells.
 * Never fails, never blocks. */
struct pulc_address pulc_port_address(const pulc_port *port);

/*
 * Gives a port to another process of this node and of the same user, which takes it by
 * pulc_port_take, or a forked child by pulc_port_inherit. What is unread goes with it, and whoever
 * sends to it, or receives from it, goes on with its new owner, guests among them: in order,
 * nothing lost, nothing twice. It happens wholly or not at all. Who has given a port away is no
 * guest at it.
 *
 * port: no call or operation of it is under way. pid: the process. msec_timeout: -1: for ever.
 * Return: 0: it is the other process's, and port is freed. Errors: the port stays here, and nothing
 * is lost: -ETIMEDOUT: the other process has not taken it within the time, or a process that is
 * joined with this one has not answered; -EINTR; -ECONNRESET: the other process has ended or has
 * given up; -EPERM: it is another user's; -EBUSY: another thread is inside a call on the port, or
 * an operation of it is not ended; -EINVAL: pid is this process, or none; -ENOENT: psid does not
 * know the port, another one runs by now; -ENOTCONN: psid has ended; -ENOMEM; -ECHILD: this process
 * is a guest; -EDEADLK. Ownership: the port is freed on success, and the caller's on failure.
 * Threads and fork: any thread; calls on the port fail meanwhile (-EBUSY). Blocking: until the
 * other process has it, all processes that are joined with this one have made some call of this
 * header, and guests have taken what is on its way to them. If psid ends when everything is there
 * but not confirmed, also until the other process has said whose it is, whatever the time. Source:
 * pulc-1998, 4.6.2.
 */
int pulc_port_give(pulc_port *port, pid_t pid, int msec_timeout);

/*
 * Takes a port that another process gives to this one (pulc_port_give, before or after).
 *
 * number: which port; 0: any that is given to this process. msec_timeout: -1: for ever. ret_port:
 * the port. Return: 0. Errors: as pulc_attach; -ENOENT: there is no such port; -EPERM: it is
 * another user's; -EADDRINUSE: it is this process's already; -ETIMEDOUT: it was not given within
 * the time; -ECONNRESET: its owner has ended, or has given up; -EBUSY: another thread is in such a
 * call; -EMFILE: this process has too many ports; -EINTR; -ENOTCONN: psid has ended; -ENOMEM;
 * -EDEADLK. Ownership: the caller's, until pulc_port_close or pulc_port_give. Threads and fork: any
 * thread, one at a time. Blocking: until it is given and here. Source: pulc-1998, 4.6.2.
 */
int pulc_port_take(uint32_t number, int msec_timeout, pulc_port **ret_port);

/*
 * The same in a forked child, for a port of its parent's: the parent gives it to the child's
 * process, and the child goes on with the pulc_port that it has. A child that is not given a port
 * ends its wait when the parent has ended (-ECONNRESET, or -ENOENT), or in time.
 *
 * port: the parent's, opened before the fork. msec_timeout: -1: for ever. Return: 0: it is this
 * process's. Errors: as pulc_port_take; -EINVAL: it is this process's already; -EBUSY: also: a call
 * of it as a guest is under way, or an operation not ended. Ownership: as before. Threads and fork:
 * any thread, one at a time. Blocking: as pulc_port_take. Source: pulc-1998, 4.6.2.
 */
int pulc_port_inherit(pulc_port *port, int msec_timeout);

/*
 * This node's number in its cluster: the same in the eyes of all nodes and whenever it is started.
 *
 * ret_node: the number; 0: the node is in no cluster.
 * Return: 0.
 * Errors: as pulc_attach.
 * Threads and fork: any thread.
 * Blocking: until psid has answered, the first time.
 * Source: pulc-1998, 4.6.2.
 */
int pulc_node(uint32_t *ret_node);

/*
 * This process's number: how other processes of this node know it, as `peer` of the frames
 * (pulc_protocol_send) and of the messages with tags that it sends them, and as what pulc_peer_find
 * tells them of its ports. Those on other nodes know it by numbers of their own psid's. To itself a
 * process is peer 0.
 *
 * ret_process: the number, not 0. psid gives it to no other process; a process has another one
 * after a fork, and from a psid that was restarted. Return: 0. Errors: as pulc_attach. Threads and
 * fork: any thread; a forked child has its own. Blocking: until psid has answered, the first time.
 * Source: pulc-1998, 4.6.2.
 */
int pulc_process(uint32_t *ret_process);

/*
 * The address of the port of that name.
 *
 * name: 1 to PULC_NAME_MAX bytes, for a port of this node; of another one: "name@node", the node by
 * its name or number. ret_address: where it is. Return: 0. Errors: as pulc_attach; -EINVAL: empty
 * or too long; -ENOENT: no port has that name now, or no psid runs; -EHOSTUNREACH: there is no such
 * node, or it does not answer. Threads and fork: any thread. Blocking: until psid has answered; for
 * another node up to 10 s. Source: DESIGN 5 (name service through psid).
 */
int pulc_find(const char *name, struct pulc_address *ret_address);

/*
 * Sends to a port; its kind counts, not that of the port sent from. A datagram is sent whole. A
 * stream takes as many bytes as fit; without PULC_DONTWAIT, all of them.
 *
 * port: whose address the receiver sees. to: the destination. buf: len bytes, the caller's again
 * afterwards; NULL if len is 0. flags: PULC_DONTWAIT or 0. Return: the bytes sent: len, or with
 * PULC_DONTWAIT on a stream perhaps fewer. Errors: -EAGAIN: would wait; -EMSGSIZE: a datagram
 * longer than PULC_MESSAGE_MAX; -ECONNREFUSED: no such port (any more); -ECONNRESET: its process
 * has ended, or its node cannot be reached any more; -EBADMSG: its process wrote what makes no
 * sense, the link to it was ended; -EHOSTUNREACH: there is no such node, or it does not answer;
 * -EINVAL: unknown flags; -EMFILE, -ENOMEM: psid's limits; -EINTR: a signal handler ran before
 * anything was sent; -EPIPE: the port's owner has closed it or has ended, and may have sent this;
 * -EPERM: the owner is another user's; -ECHILD: the port can have no guests, for lack of random
 * bytes when it was opened, or is this process's own by pulc_port_take; -EBUSY: it is being given
 * away, or taken; -EDEADLK; and those of pulc_attach. Threads and fork: any thread; two threads'
 * messages do not mix. Blocking: while the receiver has too much unread from this port, or its
 * process from this process and nobody waits for this, unless PULC_DONTWAIT. A guest: until the
 * owner has answered; a signal ends that with -EINTR only if the owner says that nothing was sent,
 * or does not have all of it yet. Source: pulc-1998, 4.5.4 and 5.1.
 */
ssize_t pulc_send(pulc_port *port, const struct pulc_address *to, const void *buf, size_t len,
		  int flags);
/* The same, gathered from n pieces, 1,024 at most (-EINVAL). */
ssize_t pulc_sendv(pulc_port *port, const struct pulc_address *to, const struct iovec *iov, int n,
		   int flags);

/*
 * Receives from any source: one datagram, or as many bytes of one source as are there and fit.
 *
 * port: the receiver. buf: room for len bytes; what a datagram has beyond is cut off. ret_from:
 * whose it was; NULL: not wanted. flags: PULC_DONTWAIT, PULC_PEEK, PULC_TRUNC. Return: the bytes
 * received, which may be 0 for an empty datagram, and is for len 0 on a stream. Errors: -EAGAIN:
 * nothing there; -EINVAL: unknown flags; -EINTR; -ENOMEM: the rest of a message was lost; -EPIPE:
 * the port's owner has closed it or has ended; -EBADMSG: it wrote what makes no sense; -EPERM,
 * -ECHILD, -EBUSY: as pulc_send; -EDEADLK. The end of some source is no error here. Threads and
 * fork: any thread; each message goes to one, of this process or a guest, whoever has waited
 * longest. Each of these processes receives what a source sends in order; but a message that was on
 * its way to a guest which ended, or was interrupted, is received after later ones that others have
 * received meanwhile. Blocking: until something comes, unless PULC_DONTWAIT. A guest: until the
 * owner has answered. Source: pulc-1998, 4.5.2.
 */
ssize_t pulc_receive(pulc_port *port, void *buf, size_t len, struct pulc_address *ret_from,
		     int flags);
/*
 * The same, scattered into n pieces, 1,024 at most (-EINVAL), and from one source only.
 *
 * from: the source; NULL: any. Not for kind PULC_S (-EINVAL). Errors: as pulc_receive, and when
 * everything from that source is received: -EPIPE: its port was closed; -ECONNRESET: its process
 * has ended; -ECONNREFUSED: there is no such port; -EBADMSG; and those of pulc_send for a source
 * that was never heard of.
 */
ssize_t pulc_receivev(pulc_port *port, const struct iovec *iov, int n,
		      const struct pulc_address *from, struct pulc_address *ret_from, int flags);

struct pulc_tag; /* pulc/tag.h */

/* A port to wait for, or a message with a tag. */
struct pulc_wait {
	pulc_port *port;	    /* NULL: none */
	bool ready;		    /* answer: a receive would not wait */
	const struct pulc_tag *tag; /* if there is no port: which messages; NULL: passed over */
};

/*
 * Waits until something can be received from one of the ports, or one of the messages with tags, or
 * one of the descriptors has an event.
 *
 * ports, n_ports: may be NULL and 0; fds, n_fds: as for poll(2), may be NULL and 0. msec_timeout:
 * -1: for ever; 0: only looks. Return: how many ports are ready and descriptors have events; 0:
 * none within the time. Errors: -EINTR, -EINVAL, -ENOMEM as poll(2); -EBUSY: a port is being given
 * away, or taken; -EDEADLK; those of pulc_attach. Threads and fork: any thread. Of a guest's port
 * the owner tells; one whose owner is gone is ready. Blocking: as said; with 0 also until the
 * owners of guests' ports have answered. Source: DESIGN 3.3 (one wait for both worlds).
 */
int pulc_select(struct pulc_wait *ports, size_t n_ports, struct pollfd *fds, size_t n_fds,
		int msec_timeout);

/* ---- operations that nobody waits for -------------------------------------------------------- */

/*
 * A send or a receive that is begun in one call and ended in another. In between the library moves
 * it on inside of any call of this header that waits or looks, in any thread; pulc_fd and pulc_arm
 * tell of its end too. Operations are done in the order in which they were begun, together with the
 * calls that wait: a message is for the first who wants it, and sends to one destination go one
 * behind the other. Each operation that was begun is to be ended by pulc_op_end, exactly once, and
 * its port cannot be closed before.
 */

/*
 * Begins a send.
 *
 * port, to, buf, len: as for pulc_send. The bytes must stay as they are until the operation is
 * complete. ret_op: the operation, perhaps complete already. Return: 0. Errors: as pulc_send, but
 * neither -EAGAIN nor -EINTR: then nothing was begun. What goes wrong later is the operation's
 * result. Ownership: the operation is the caller's, to be ended. Threads and fork: any thread; in a
 * child that is forked later it is complete with -ECHILD, and the parent's goes on. Blocking:
 * never, but for psid's answer when the destination is new, or a guest does not know the owner.
 * Source: pulc-1998, 4.6.1.
 */
int pulc_isend(pulc_port *port, const struct pulc_address *to, const void *buf, size_t len,
	       pulc_op **ret_op);
/* The same, gathered from n pieces, 1,024 at most (-EINVAL); iov itself is copied. */
int pulc_isendv(pulc_port *port, const struct pulc_address *to, const struct iovec *iov, int n,
		pulc_op **ret_op);

/*
 * Begins a receive, from any source. On a stream it is complete with the first bytes that come.
 *
 * port, buf, len: as for pulc_receive. The buffer is the library's until the operation is ended.
 * ret_op: the operation, perhaps complete already. Return: 0. Errors: as pulc_receive, but neither
 * -EAGAIN nor -EINTR: then nothing was begun. Ownership: the operation is the caller's, to be
 * ended. Threads and fork: any thread; in a child that is forked later it is complete with -ECHILD,
 * and the parent's goes on. Blocking: never, but a guest for psid's answer while it does not know
 * the owner. Source: pulc-1998, 4.6.1 (posted receives).
 */
int pulc_ireceive(pulc_port *port, void *buf, size_t len, pulc_op **ret_op);
/*
 * The same, scattered into n pieces, 1,024 at most (-EINVAL), from one source only; iov itself is
 * copied.
 *
 * from: the source; NULL: any. Not for kind PULC_S (-EINVAL). flags: PULC_TRUNC or 0.
 * Errors: as pulc_receivev. Blocking: as pulc_isend.
 */
int pulc_ireceivev(pulc_port *port, const struct iovec *iov, int n, const struct pulc_address *from,
		   int flags, pulc_op **ret_op);

/*
 * Is it complete? Moves things on.
 *
 * op: not ended.
 * Return: 1: complete, pulc_op_end will not wait; 0: under way.
 * Errors: -EINVAL: op is NULL; -EDEADLK.
 * Threads and fork: any thread.
 * Blocking: never.
 * Source: bip-1997.
 */
int pulc_op_test(pulc_op *op);

/*
 * Waits until one of several operations is complete.
 *
 * ops: n of them, of any ports; NULL is passed over. msec_timeout: -1: for ever; 0: only looks.
 * Return: the index of the first that is complete.
 * Errors: -ETIMEDOUT: none is within the time; -EINVAL: there is none among them; -EINTR; -EDEADLK.
 * Threads and fork: any thread; nobody may end one of them meanwhile.
 * Blocking: as said.
 * Source: bip-1997.
 */
int pulc_op_wait(pulc_op *const *ops, size_t n, int msec_timeout);

/*
 * Waits until the operation is complete, tells what came of it, and frees it.
 *
 * op: not ended. ret_from: a receive's source; NULL: not wanted. Return: what pulc_send or
 * pulc_receive would have returned: the bytes. Errors: those of pulc_send and pulc_receive;
 * -ECANCELED: it was cancelled; -ECHILD: it is the parent's. And -EINTR, -EDEADLK, -EINVAL (op is
 * NULL), after which alone it is not ended. Ownership: the buffers are the caller's again. Threads
 * and fork: any thread, one for each operation. Blocking: until it is complete. Source: bip-1997.
 */
ssize_t pulc_op_end(pulc_op *op, struct pulc_address *ret_from);

/*
 * Makes an operation complete. What pulc_op_end then returns says how far it had come: -ECANCELED
 * if nothing was sent, or nothing received; a datagram of which a part has left already is copied
 * and counts as sent; a stream's send returns the bytes that left.
 *
 * op: not ended. Return: 0: it is complete now, and pulc_op_end will not wait; 1: the receiver of a
 * long message (pulc/tag.h), or the owner of a guest's port, was asked, and it is complete with the
 * answer. Errors: -ENOMEM: no memory for that copy, it goes on; -EAGAIN: the receiver, or the
 * owner, could not be asked now, it goes on; -EINVAL: op is NULL; -EDEADLK. Threads and fork: any
 * thread. Blocking: never. Source: DESIGN 5.
 */
int pulc_op_cancel(pulc_op *op);

/* ---- protocols of one's own ------------------------------------------------------------------ */

/*
 * Ports are one protocol of several that share the link between two processes. A program may add
 * protocols, with handlers that see every frame as it arrives. A frame is short, and carries a word
 * and a kind beside its bytes; it arrives once, in order for each pair of processes. Both sides
 * register the same number; what arrives for a number that is not registered is dropped.
 *
 * Handlers run one at a time in whatever thread is inside a call of this header, also one on a
 * port. A handler may call pulc_frame_copy, pulc_protocol_send, _register and _unregister, also of
 * itself; all others answer -EDEADLK. It must not wait, nor leave by longjmp or an exception. A
 * child that it forks execs or ends (_exit) there, and may use this interface before; one that
 * returns from the handler, into a call of its parent's, is ended by a trap.
 */
#define PULC_PROTOCOL_FIRST 16u /* numbers below are the library's */
#define PULC_PROTOCOL_LAST 31u
#define PULC_FRAME_MAX 16384u /* bytes of the longest frame */

/* peer: the process at the other end, 0 for this one; a number that psid has given it, never to be
 * another's. word, kind: the protocol's. */
struct pulc_frame {
	uint64_t word;
	uint32_t len; /* bytes besides */
	uint32_t peer;
	uint16_t protocol;
	uint16_t kind;
};

struct pulc_protocol {
	/*
	 * A frame from f->peer, whose bytes pulc_frame_copy gets until this returns. Any process
	 * that psid lets join with this one can send any: believe nothing in it. Return 0;
	 * -EBADMSG: it makes no sense, end the link to that peer, for ports too (not to oneself).
	 */
	int (*arrived)(void *arg, const struct pulc_frame *f);
	/* Nothing more comes from that peer and nothing reaches it. error: -ECONNRESET: it has
	 * ended; -EBADMSG: see arrived. May be NULL. */
	void (*gone)(void *arg, uint32_t peer, int error);
	void *arg;
};

/*
 * Adds a protocol. Do it before a port of this process can be found: what comes earlier is dropped.
 *
 * number: PULC_PROTOCOL_FIRST to PULC_PROTOCOL_LAST. p: copied. Return: 0. Errors: -EINVAL: no such
 * number, or no handler; -EEXIST: it is taken; -EDEADLK. Ownership: p->arg stays the caller's, and
 * must live until the protocol is taken away. Threads and fork: any thread; from a handler too. A
 * forked child keeps it, and has peers of its own. Blocking: never. Source: pulc-1998, 4.5
 * (protocols side by side).
 */
int pulc_protocol_register(unsigned number, const struct pulc_protocol *p);

/*
 * Takes a protocol away. None of its handlers runs after that, but the one that called this.
 *
 * number: as registered.
 * Return: 0.
 * Errors: -EINVAL; -ENOENT: nothing is registered there; -EDEADLK.
 * Threads and fork: any thread; from a handler too.
 * Blocking: never.
 * Source: pulc-1998, 4.5.
 */
int pulc_protocol_unregister(unsigned number);

/*
 * Sends a frame.
 *
 * f: all fields are the caller's to fill in. buf: f->len bytes, the caller's again afterwards; NULL
 * if there are none. flags: PULC_DONTWAIT or 0. Return: 0. Errors: -EAGAIN: would wait; from a
 * handler: too many frames to that peer wait already, or it answers itself too deep (8); -EMSGSIZE:
 * more than PULC_FRAME_MAX; -ECONNRESET: that peer is gone, or never was; -EBADMSG: it wrote what
 * makes no sense; -EINVAL: unknown flags, not a protocol of the program's; -EINTR: a signal handler
 * ran before it was sent; -ENOMEM; -EDEADLK. Threads and fork: any thread; a forked child finds its
 * peers anew. From a handler too; a frame to this process is handled before it returns. Blocking:
 * while the ring to that peer is full, unless PULC_DONTWAIT; never from a handler: what finds no
 * room is copied and follows. Source: pulc-1998, 4.5.
 */
int pulc_protocol_send(const struct pulc_frame *f, const void *buf, int flags);

/* In a handler: copies the first len bytes of the frame, if it has so many. Returns how many. Never
 * fails, never blocks. */
size_t pulc_frame_copy(const struct pulc_frame *f, void *buf, size_t len);

/*
 * The process that has a port, joined with this one: whom frames are sent to.
 *
 * port: any port of that process. ret_peer: for pulc_frame.
 * Return: 0.
 * Errors: as pulc_send, but for those of what is sent.
 * Threads and fork: any thread.
 * Blocking: until psid has answered.
 * Source: DESIGN 5 (psid introduces processes).
 */
int pulc_peer_find(const struct pulc_address *port, uint32_t *ret_peer);

/*
 * Waits until a handler has run, in this thread or another one.
 *
 * seen: how many had run when the caller last looked; 0 at first; updated. So nothing is missed
 * between a look at what handlers have left and this call. msec_timeout: -1: for ever; 0: only
 * looks. Return: 1; 0: none within the time. Errors: -EINTR; -EDEADLK; those of pulc_attach, if no
 * process is joined with this one. Threads and fork: any thread. Blocking: as said. Source: DESIGN
 * 3.3.
 */
int pulc_progress(uint64_t *seen, int msec_timeout);

/*
 * Has messages move on while the program computes: a thread of the library's that sleeps until
 * something comes or there is room again, and then does what any call of this header would do.
 * There is none unless this asks for it.
 *
 * on: true: begin; false: end it. Return: 0; also if it was so already. Errors: those of
 * pulc_attach; -EAGAIN: no thread to be had; -EBUSY: another call of this kind is under way;
 * -EDEADLK: called from a protocol's handler. Threads and fork: any thread. The thread blocks all
 * signals that it can, and runs handlers of protocols. A forked child has none and may ask for its
 * own. Blocking: until psid has answered; until the thread has ended. Source: pulc-1998, 4.7 (none
 * is needed to receive); the overlap of messages with computation.
 */
int pulc_progress_thread(bool on);

/* ---- the program's own loop ------------------------------------------------------------------ */

/*
 * A descriptor for the program's own poll, epoll or event loop. One loop of the process uses it, in
 * this way:
 *
 *   uint64_t seen = 0;
 *   for (;;) {
 *           ... receive from each port with PULC_DONTWAIT until -EAGAIN; handlers of
 *               protocols run meanwhile, and guests are served; of a port that this process
 *               is a guest at, begin a receive (pulc_ireceive) and look whether it is complete ...
 *           e = pulc_arm(&seen);
 *           if (e > 0) continue;            something has come since: look again
 *           poll() on pulc_fd() and others  returns when something may have come
 *           pulc_disarm();
 *   }
 *
 * Return: the descriptor, always the same one. Errors: as pulc_attach; -EMFILE, -ENFILE, -ENOMEM:
 * no descriptor; -EDEADLK. Ownership: the library's: only ever wait until it is readable. A forked
 * child asks for its own, and may close its parent's. Threads and fork: any thread. Blocking: until
 * psid has answered, the first time. Source: pulc-1998, 4.7.
 */
int pulc_fd(void);

/*
 * Before sleeping on pulc_fd: from now on it becomes readable when something comes, for any port or
 * protocol. It may be readable in vain.
 *
 * seen: the last call's answer, 0 at first; updated. Return: 0: sleep; 1: something has happened
 * since the last call, by this thread or another: look at the ports again, and do not sleep.
 * Errors: -EBADF: pulc_fd was not called; -EDEADLK; those of pulc_attach and pulc_fd. Threads and
 * fork: the thread of the loop. Blocking: never. Source: docs/waiting.md.
 */
int pulc_arm(uint64_t *seen);

/* After sleeping: peers need not ring while the program is awake. Left out, everything works and
 * costs more. Never fails. */
void pulc_disarm(void);

#ifdef __cplusplus
}
#endif

#endif
