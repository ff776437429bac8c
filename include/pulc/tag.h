/*
 * pulc/tag.h: messages with tags, between processes.
 *
 * A message goes to a process and carries a tag of 64 bits. A receive says which tags it wants, and
 * from whom; what has come and nobody wanted yet is kept, in the order of its arrival, so each tag
 * is a queue of its own. What libraries for parallel programs are built on. It lives beside ports:
 * the same links, the same psid, the same operations (pulc_op_test, pulc_op_wait, pulc_op_cancel).
 *
 * Processes are named by numbers: pulc_peer_find gives that of the process that has a port, a
 * message brings its sender's, and 0 is this one. psid gives a number to one process only, ever.
 *
 * Messages of one process to one other that a receive could both take are taken in the order in
 * which they were sent. A message of up to PULC_TAG_SHORT bytes is sent at once and kept by the
 * receiver until it is wanted; a process may have 1 MiB of them unread at one other. A longer one
 * is offered, and its bytes move when it is wanted, straight from the sender's buffer to the
 * receiver's: so a send of a long message is complete only after it was received, and costs no
 * memory in between.
 *
 * Functions return 0 or a count, or a negative errno. All may be called from any thread, none from
 * a signal handler or a protocol's handler (-EDEADLK). A forked child attaches anew; what was begun
 * before ends in it with -ECHILD.
 */
#ifndef PULC_TAG_H
#define PULC_TAG_H

#include <pulc/pulc.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PULC_TAG_SHORT 16384u /* bytes of the longest message that does not wait for its receiver */
#define PULC_ANY_PEER UINT32_MAX  /* in pulc_tag: from whomever */
#define PULC_TAG_EXACT UINT64_MAX /* in pulc_tag, as the mask: this tag only; 0: any tag */

/* What a receive wants: a message whose tag agrees with this one in all bits that are set in the
 * mask. */
struct pulc_tag {
	uint64_t tag;
	uint64_t mask;
	uint32_t peer; /* its sender, or PULC_ANY_PEER */
};

/* What was received, or could be. */
struct pulc_tagged {
	uint64_t tag;
	uint64_t size; /* bytes of the message, which may be more than fitted */
	uint32_t peer; /* its sender */
};

/*
 * Sends a message.
 *
 * peer: the receiver; 0: this process. tag: any value. buf: len bytes, the caller's again
 * afterwards; NULL if len is 0. Return: len. Errors: -ECONNRESET: that process is gone, or never
 * was joined with this one; -EBADMSG: it wrote what makes no sense, the link to it was ended;
 * -EINTR: a signal handler ran, and nothing of the message reaches the receiver; -EINVAL: len is
 * more than SSIZE_MAX; -ENOMEM; -EDEADLK; those of pulc_attach. Threads and fork: any thread.
 * Blocking: a short message while the receiver has too much unread from this process, a longer one
 * until it is received; to oneself too. Source: bip-1997, 2 (tags name receive queues; short
 * messages are kept, long ones have a rendezvous).
 */
ssize_t pulc_tag_send(uint32_t peer, uint64_t tag, const void *buf, size_t len);

/*
 * Receives the oldest message that is wanted.
 *
 * want: tag, mask and sender. buf: room for len bytes; what the message has beyond is cut off.
 * ret_message: what it was; NULL: not wanted. Return: the bytes received, which may be 0. Errors:
 * -ECONNRESET, -EBADMSG: as pulc_tag_send, if one sender is wanted and all that it had sent is
 * received; -EINTR; -EINVAL: len is more than SSIZE_MAX; -ENOMEM; -EDEADLK; those of pulc_attach.
 * The end of some process is no error if any sender is wanted. Threads and fork: any thread; each
 * message goes to one. Blocking: until such a message has come. Source: bip-1997, 2.
 */
ssize_t pulc_tag_receive(const struct pulc_tag *want, void *buf, size_t len,
			 struct pulc_tagged *ret_message);

/*
 * Begins a send. Sends to one process are done in the order in which they were begun.
 *
 * peer, tag, buf, len: as for pulc_tag_send; the bytes must stay as they are until the operation is
 * complete. ret_op: the operation, perhaps complete already. Return: 0. Errors: as pulc_tag_send,
 * but not -EINTR: then nothing was begun. What goes wrong later is the operation's result.
 * Ownership: the operation is the caller's, to be ended by pulc_tag_end or pulc_op_end. Threads and
 * fork: any thread; in a forked child it is complete with -ECHILD, and the parent's goes on.
 * Blocking: never, but for psid's answer in a process that has not attached yet. Source: bip-1997,
 * 2 (test and wait for asynchronous calls).
 */
int pulc_tag_isend(uint32_t peer, uint64_t tag, const void *buf, size_t len, pulc_op **ret_op);

/*
 * Begins a receive. Receives are served in the order in which they were begun, together with those
 * that wait.
 *
 * want, buf, len: as for pulc_tag_receive. The buffer is the library's until the operation is
 * ended. ret_op: the operation, perhaps complete already. Return: 0. Errors: as pulc_tag_receive,
 * but not -EINTR: then nothing was begun. Ownership: the operation is the caller's, to be ended by
 * pulc_tag_end or pulc_op_end. Threads and fork: as pulc_tag_isend. Blocking: as pulc_tag_isend.
 * Source: bip-1997, 2; pulc-1998, 4.6.1 (posted receives).
 */
int pulc_tag_ireceive(const struct pulc_tag *want, void *buf, size_t len, pulc_op **ret_op);

/*
 * Waits until an operation is complete, tells what came of it, and frees it: pulc_op_end for tagged
 * messages.
 *
 * op: not ended, of this header. ret_message: what a receive got; NULL: not wanted. Return: what
 * pulc_tag_send or pulc_tag_receive would have returned: the bytes. Errors: those of the call that
 * began it; -ECANCELED: it was cancelled; -ECHILD: it is the parent's. And -EINTR, -EDEADLK,
 * -EINVAL (op is NULL, or none of this header), after which alone it is not ended. Ownership: the
 * buffers are the caller's again. Threads and fork: any thread, one for each operation. Blocking:
 * until it is complete. A cancelled send of a long message is complete when its receiver has
 * agreed. Source: bip-1997, 2.
 */
ssize_t pulc_tag_end(pulc_op *op, struct pulc_tagged *ret_message);

/*
 * Waits for a message without taking it: one that no receive has asked for.
 *
 * want: as for pulc_tag_receive. msec_timeout: -1: for ever; 0: only looks. ret_message: what it
 * is; NULL: not wanted. Return: 1: it is there, and the next receive that wants the same gets it,
 * if no other one does before; 0: none within the time. Errors: as pulc_tag_receive. Threads and
 * fork: any thread. Blocking: as said. Source: bip-1997, 2 (queues on each destination).
 */
int pulc_tag_probe(const struct pulc_tag *want, int msec_timeout, struct pulc_tagged *ret_message);

/* How long messages come from a process, and how fast the last ones of 64 KiB and more did, in MB/s
 * (0: not known). */
struct pulc_tag_path {
	uint64_t n_pulled; /* fetched out of its memory, in one copy */
	uint64_t n_pushed; /* sent by it, through the ring */
	uint32_t mbs_pulled;
	uint32_t mbs_pushed;
	bool may_pull; /* both is possible, and what was faster is chosen */
};

/*
 * Tells how long messages come from a process. Whether its memory may be read is for psid (the same
 * user) and the kernel to say (ptrace(2), "access mode checking"); PULC_PULL=0 in the environment
 * forbids it, PULC_PULL=1 prefers it always.
 *
 * peer: a number of a process that this one is joined with. ret_path: the answer. Return: 0.
 * Errors: -ECONNRESET: that process is gone, or never was joined with this one; -EDEADLK; those of
 * pulc_attach. Threads and fork: any thread. Blocking: never, but for psid's answer in a process
 * that has not attached yet. Source: pulc-1998, 4.5.3 (rawdata).
 */
int pulc_tag_path(uint32_t peer, struct pulc_tag_path *ret_path);

#ifdef __cplusplus
}
#endif

#endif
