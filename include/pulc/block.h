/*
 * pulc/block.h: messages that nobody copies.
 *
 * A program builds a message in a block of memory from pulc_alloc and gives it away
 * (pulc_tag_give): from then on it is the receiver's, who reads it where it lies (pulc_tag_take)
 * and says when it is done (pulc_free). The block is the sender's library's then, and the next
 * pulc_alloc has it. Beside the tagged messages of pulc/tag.h, with the same tags, the same order
 * and the same receives: what was given can be received into a buffer, and what was sent can be
 * taken.
 *
 * Nothing is copied between processes of one user on one node, from 2 KiB on. Everywhere else, and
 * for shorter ones, the same calls copy. A process has one area for all its blocks: 1 GiB, or
 * PULC_ALLOC_MAX bytes, within what psid allows its user. Everybody it has given a block to can
 * read all of it.
 *
 * A taken block is read-only. Its sender gave it up, but nothing keeps a process that breaks the
 * rules from writing there: whoever checks bytes of a sender that it does not trust copies them
 * first. When the link to the sender ends because one of the two broke the rules, the sender's
 * library may use the block again while it is still being read; after the sender's death it stays
 * as it is.
 *
 * A forked child can read and free what its parent had taken; blocks of its parent's own it can
 * read, and does not have.
 */
#ifndef PULC_BLOCK_H
#define PULC_BLOCK_H

#include <pulc/tag.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Gets memory to build a message in.
 *
 * size: bytes, at least 1. flags: PULC_DONTWAIT or 0. ret_block: the memory, whatever was in it
 * before; it begins at a page. Return: 0. Errors: -EAGAIN: there is no room before a receiver frees
 * a block of ours (PULC_DONTWAIT); -ENOBUFS: there is none although no receiver has any, or so much
 * will never be; -ENOMEM, -EMFILE: psid or the kernel has no memory, or no area, for this user;
 * -EINVAL: size 0 or unknown flags; -EINTR; -EDEADLK; those of pulc_attach. Ownership: the
 * caller's, until pulc_tag_give or pulc_free. Threads and fork: any thread; a forked child has none
 * of its parent's. Blocking: until receivers have freed enough, unless PULC_DONTWAIT; for psid's
 * answer the first time. Source: DESIGN 5 (rawdata: no copy of what was built in memory from
 * pulc_alloc).
 */
int pulc_alloc(size_t size, int flags, void **ret_block);

/*
 * Ends the use of a block: of one from pulc_alloc that is not given away, or of one from
 * pulc_tag_take.
 *
 * block: its address; NULL: nothing is done.
 * Return: 0.
 * Errors: -EINVAL: there is no such block, or it was given away; -EDEADLK.
 * Threads and fork: any thread.
 * Blocking: never.
 * Source: DESIGN 5.
 */
int pulc_free(const void *block);

/*
 * Sends a message that is in a block, and the block with it.
 *
 * peer, tag: as for pulc_tag_send. block: from pulc_alloc; len: bytes of the message, from its
 * beginning. Return: len. The message will be received, in order with others, unless this process
 * or the receiver ends before the receiver's library has seen it. Errors: -EINVAL: no such block,
 * it was given away already, or len is more than it has; others as pulc_tag_send, but not -EINTR.
 * The block is the caller's then. Ownership: the block is gone: the caller neither reads nor writes
 * nor frees it. Threads and fork: any thread. In a forked child the parent's go on. Blocking:
 * never, but for psid's answer the first time that the receiver gets one. Source: DESIGN 5.
 */
ssize_t pulc_tag_give(uint32_t peer, uint64_t tag, void *block, size_t len);

/*
 * Receives the oldest message that is wanted, where it lies; in memory of its own if it does not
 * lie anywhere.
 *
 * want: as for pulc_tag_receive. size_max: the most bytes that are wanted: no more memory than that
 * is taken for it. ret_block: where it is; to be given back by pulc_free, also if the message is
 * empty. ret_message: what it was; NULL: not wanted. Return: the bytes that can be read there.
 * Errors: as pulc_tag_receive; -ENOMEM: no memory for it, and it is still there. Ownership: the
 * block is the caller's, to read, until pulc_free. Threads and fork: any thread; each message goes
 * to one. Blocking: until such a message has come, and is here. Source: DESIGN 5.
 */
ssize_t pulc_tag_take(const struct pulc_tag *want, size_t size_max, const void **ret_block,
		      struct pulc_tagged *ret_message);

/* The bytes of blocks in use, and the most that can be. */
struct pulc_alloc_state {
	uint64_t size_used;  /* by this program, and by receivers: whole pages */
	uint64_t size_given; /* of them: given away and not freed yet */
	uint64_t size_max;
	uint64_t n_shown;  /* messages given without a copy, ever */
	uint64_t n_copied; /* messages given that had to be copied */
};

/*
 * Tells how much of this process's area is in use.
 *
 * ret_state: the answer.
 * Return: 0.
 * Errors: -EDEADLK.
 * Threads and fork: any thread.
 * Blocking: never.
 * Source: DESIGN 0 (everything is visible).
 */
int pulc_alloc_state(struct pulc_alloc_state *ret_state);

#ifdef __cplusplus
}
#endif

#endif
