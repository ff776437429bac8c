/*
 * pulc/process.h: upgraded connections across exec, spawn and exit, for socket shims.
 *
 * exec leaves a program its sockets and none of its memory. The new image finds out which of them
 * are upgraded and takes them up again through psid; a program that could not do so is given the
 * connection's bytes through the kernel (pulc_stream_keep_on_kernel) before it begins. Each side
 * counts the processes that hold it: whoever passes a socket on, or leaves without closing it, says
 * so here.
 *
 * Functions return 0 or a negative errno and never touch errno. All may be called from any thread.
 */
#ifndef PULC_PROCESS_H
#define PULC_PROCESS_H

#include <stdbool.h>

#include <pulc/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* True if fd is a TCP socket whose connection some process has upgraded and none has given back.
 * Two system calls. */
bool pulc_socket_is_upgraded(int fd);

/*
 * The stream of such a socket, in a process that has none: psid is asked for the memory. Blocking:
 * until psid has answered, at most some seconds. Errors: -ENOENT, -EPERM: no psid, or not for us;
 * -ETIMEDOUT; -ESTALE: psid does not know the connection. Then its bytes are lost to this process,
 * and the connection has been reset; unless it had ended, and the rings had nothing more: then the
 * kernel has all there is to be told, and it is the kernel's. Ownership: the caller's, one
 * reference.
 */
int pulc_stream_inherit(int fd, pulc_stream **ret_stream);

/* This process's stream of the socket fd, whatever number it used to have; NULL: none. Ownership: a
 * reference. */
pulc_stream *pulc_stream_of(int fd);

/* Could a program that this process becomes, or starts, take its connections up again? Looks at the
 * channel to psid. */
bool pulc_can_be_inherited(void);

/* Has this process any stream at all? */
bool pulc_any_stream(void);
/* One more process is about to hold s, which is attached: one that is being started with its
 * socket. The flows of a datagram stream end. */
void pulc_stream_passes(pulc_stream *s);
/* Somebody who will never be known to be gone; the number of no process, for those end at 2^22. */
#define PULC_ANYBODY 0x7fffffff
/* Process pid holds the socket of s, which is not attached or of datagrams, as well, and knows of
 * no stream. All of them. */
void pulc_stream_shared_with(pulc_stream *s, int pid);
void pulc_streams_shared_with(int pid);
/* Between these two a program is being started of which it is not known yet what it holds. */
void pulc_spawn_begins(void);
void pulc_spawn_done(void);
/* Somebody who writes past PULC, perhaps, is about to get the socket fd of s, which has been kept
 * on the kernel: waits until what was sent comes before that, some seconds as long as nothing
 * moves, and resets the connection if it can't. */
void pulc_stream_bypassed(pulc_stream *s, int fd);
/*
 * A program outside PULC gets the socket fd of s, which has been kept on the kernel; replaces: in
 * place of this process. If bytes are left that only the ring has, that program must not miss them
 * without a word: the connection is reset, now or when the last process under PULC that holds it
 * closes.
 */
void pulc_stream_goes_outside(pulc_stream *s, int fd, bool replaces);
/* exec is about to hand s to the next program, which may never look at it. What the peer is owed is
 * paid before: that waits for room, some seconds as long as there is none. */
void pulc_stream_changes_hands(pulc_stream *s);
/* exec is about to close this process's descriptors of s. What the peer is owed is paid before, as
 * above. */
void pulc_stream_leaves(pulc_stream *s);
/* It was not so, for exec has failed. */
void pulc_stream_stays(pulc_stream *s);
/* exec is called next, all that leave have left; it has failed, and they stay. */
void pulc_exec_begins(void);
void pulc_exec_failed(void);

/*
 * Around the making of a child with memory of its own by something else than libc's fork(), which
 * tells of it: _Fork, clone, the system calls. It begins before, and is done in the parent, which
 * says what was answered, be it a negative errno; in the child it is said that it was made. A child
 * that was not told of so, or was not told, says so when it finds out.
 */
void pulc_fork_begins(void);
void pulc_fork_done(int pid);
void pulc_forked(void);
/* Libc's fork(), which tells of itself, but not who its child is, is called next by this thread; it
 * has answered this, other than 0, at once. */
void pulc_fork_will_be_told(void);
void pulc_fork_told(int pid);

/* This process is about to be confined by a filter on its system calls: none is made any more on
 * PULC's own account, at fork and exit neither. Its streams should be the kernel's by now. */
void pulc_process_confined(void);

/* This process, which had one thread, is about to make another. */
void pulc_process_threads(void);

/* Is this process attached to psid, not only one that it was forked from? */
bool pulc_process_attached(void);

/* This process ends. Also done at exit(3). What its peers are still owed is sent. */
void pulc_process_ends(void);

#ifdef __cplusplus
}
#endif

#endif
