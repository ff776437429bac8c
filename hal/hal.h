/*
 * The contract of a HAL: a transport that moves frames between two processes and knows no message.
 *
 * Model. A link joins this process to one other. What travels on it are frames: 16 bytes that the
 * layers above fill in (struct hal_frame) and a payload of frame.len bytes. A HAL reads no more of
 * a frame than `len`. What a HAL can do stands in its link's capabilities; what it lacks and a
 * protocol needs, libpulc adds once, above the HALs: a HAL that is not HAL_ORDERED or not
 * HAL_RELIABLE is never asked to become so itself.
 *
 * Receiving is by pull: next() shows the oldest frame that has arrived, copy() takes its payload
 * from wherever the HAL has it, drop() gives that place back. A frame that is not dropped is shown
 * again: so whoever cannot take it now leaves it there, and the sender feels it.
 *
 * Unless a slot says otherwise: the caller holds the lock of the link's owner, so a HAL needs none
 * of its own; a slot never blocks, never waits for the peer, and neither sleeps nor wakes anybody
 * but in tell(). Return values are 0 or a negative errno. -EBADMSG: the peer has written what makes
 * no sense; the owner then closes the link. Buffers belong to the caller again when a slot returns,
 * whatever it returns, but for those of reserve().
 *
 * Every slot is filled. hal_no_* are the stubs for what a HAL cannot do.
 *
 * Source: the HAL of pulc-1998, 4.4 (it moves fragments and knows no protocol); capabilities after
 * madeleine-forwarding (static-buffer networks) and hamlyn-1996 (remote writes with notification).
 */
#ifndef PULC_HAL_HAL_H
#define PULC_HAL_HAL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "model.h"

#define HAL_VERSION 1u

/* A HAL that cannot carry this many bytes of payload in a frame is none. */
#define HAL_FRAME_LEAST 64u

/* What every frame carries besides its payload. */
struct hal_frame {
	uint64_t word;	   /* the protocol's, as the sender gave it */
	uint32_t len;	   /* bytes of payload, at most frame_max */
	uint16_t protocol; /* the protocol switch's */
	uint16_t kind;	   /* the protocol's */
};

/* hal_caps.flags */
#define HAL_ORDERED 0x01u  /* frames come in the order in which they were sent */
#define HAL_RELIABLE 0x02u /* each comes exactly once, unless the link breaks */
#define HAL_OWN_BUFFERS                                                                            \
	0x04u /* reserve() and commit(): build the payload where it will be sent from */
#define HAL_REMOTE_WRITE                                                                           \
	0x08u /* expose() and write(): puts bytes straight into the peer's memory */
#define HAL_REMOTE_NOTIFY 0x10u /* write() can end with a frame that arrives after the bytes */
#define HAL_REMOTE_KEYS                                                                            \
	0x20u /* exposed memory needs its key to be written; without it every mapping is open */
#define HAL_IMMEDIATE 0x40u /* send() delivers before it returns: the peer is this process */
#define HAL_BARRIER                                                                                \
	0x80u /* watch() holds after a barrier on all processors (base/barrier.h), the watcher's, for all its links */
#define HAL_PRESENT                                                                                \
	0x100u /* what the peer has sent is here: pending() sees it before any other news of the peer comes */

struct hal_caps {
	const char *name; /* "shm", "tcp": what pulcctl shows as the path */
	uint32_t flags;
	uint32_t frame_max; /* bytes of payload of the largest frame */
	/* a message up to this is best sent in one; longer ones are cut as `costs` says */
	uint32_t frame_good;
	/* payloads up to this travel with the frame itself, at no extra cost */
	uint32_t inline_max;
	/* entries of an iovec that send() takes; more are the caller's to join */
	uint32_t n_gather;
	uint32_t alignment; /* of addresses and lengths that reserve() and write() want; 1: none */
};

struct hal_ops;
struct shm_stream;

/* A word that tells of new frames. */
struct hal_quiet {
	const _Atomic uint64_t *word;
	uint64_t idle;
	bool is_ours_too; /* the next frame that this side sends is told in the same line */
};
#define HAL_BEING_WRITTEN UINT64_MAX

/* The common head of a HAL's own link structure. */
struct hal_link {
	const struct hal_ops *ops;
	/*
	 * For who looks at many links in turn, under the owner's lock: next() has nothing to show
	 * as long as the word is `idle`, or HAL_BEING_WRITTEN, for which there will be another
	 * value in a moment. An end without a last frame is pending()'s to tell. No word: pending()
	 * tells all.
	 */
	struct hal_quiet quiet;
	struct hal_caps caps;
	/* what the HAL knows at the beginning, and measures if it wants to */
	struct hal_costs costs;
	/*
	 * HAL_IMMEDIATE only: a frame is there (next() shows it). Set by the owner before the first
	 * send(); called from within send(), under the same lock. It may send on the same link.
	 */
	void (*arrived)(struct hal_link *link, void *arg);
	void *arg;
	/* From when on pending() is true without any news, monotonic ns; UINT64_MAX: never; NULL:
	 * there is no such time. Whoever sleeps looks again by then. */
	const _Atomic uint64_t *nsec_due;
	/* The payload of the frame that next() has shown, if it lies in this process's own memory
	 * already; NULL: copy() has it. */
	const void *shown;
	/*
	 * That frame was the last of several, as at the looks before, and none was sent since:
	 * whoever has nothing else to do lets some gather before next() looks again, for a look
	 * costs the sender time. The owner takes it back.
	 */
	bool gathers;
	/* True while next() has an answer that lies in the HAL's own memory, so that fd() does not
	 * tell of it. NULL: only pending() knows. */
	const _Atomic bool *inside;
	/* The HAL has sent something of its own, in whatever slot: tell() is due although the owner
	 * did nothing. The owner takes it back. */
	bool did_send;
	/* Frames of a word need no call: lane.h. NULL: they do. */
	struct shm_stream *lane;
};

/* Whom a watcher is told by: shm/layout.h's SHM_WATCH. */
typedef uint64_t hal_watch;
/* In a watch: of who makes progress for others, and waits for nothing itself. */
#define HAL_WATCH_LAZY 0x8000u
#define HAL_WATCH_DATA 1u  /* a frame has come, or the peer is gone */
#define HAL_WATCH_SPACE 2u /* a send() that answered -EAGAIN may succeed now */

/* What was done since the last tell(), for tell(). */
#define HAL_DID_SEND 1u /* frames were sent */
#define HAL_DID_TAKE 2u /* frames were dropped */
#define HAL_DID_SEND_IDLY                                                                          \
	4u /* frames were sent that need nobody's work: watches with HAL_WATCH_LAZY are not told */

/* What put() and take() did; tell() is for nobody, or for somebody. */
#define HAL_DONE 1
#define HAL_DONE_TELL 2

/* A frame to be taken as a whole, and where to. */
struct hal_wanted {
	uint64_t word, mask; /* its word is this one, where the mask has ones */
	uint32_t len_max;
	uint16_t protocol, kind;
	void *buf;   /* for the beginning of the payload, */
	size_t size; /* as far as that goes */
};

struct hal_ops {
	const char *name;
	uint32_t version; /* HAL_VERSION that it was written for */

	/* ---- sending ---- */

	/*
	 * Sends one frame, its payload of f->len bytes gathered from n pieces, n <= n_gather. All
	 * of it or nothing. -EAGAIN: no room now. -EMSGSIZE: larger than frame_max. -EPIPE: the
	 * peer is gone, or has closed the link. -EBADMSG.
	 */
	int (*send)(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		    unsigned n);
	/*
	 * Room for the payload of a frame of up to len bytes, aligned; the HAL's until commit()
	 * sends it (f->len may be smaller) or cancel() gives it back. One at a time; send() may not
	 * come in between. Errors as send(), and -EOPNOTSUPP without HAL_OWN_BUFFERS.
	 */
	int (*reserve)(struct hal_link *link, uint32_t len, void **ret_buf);
	int (*commit)(struct hal_link *link, const struct hal_frame *f);
	void (*cancel)(struct hal_link *link);

	/* ---- receiving ---- */

	/*
	 * Shows the oldest frame that has arrived. Returns 1; 0: none; -EPIPE: none, and there will
	 * be none; -EBADMSG. The answer is a copy that the peer cannot change, len is checked.
	 */
	int (*next)(struct hal_link *link, struct hal_frame *ret_f);
	/* Copies the payload of the frame that next() has shown, from its beginning, as far as the
	 * pieces go. Returns the bytes copied. */
	size_t (*copy)(struct hal_link *link, const struct iovec *iov, unsigned n);
	/* That frame is done with. */
	void (*drop)(struct hal_link *link);

	/* ---- at once: the same for short messages, in one step each ---- */

	/* send() of one piece, f.len bytes; of none there may be no buffer. HAL_DONE or
	 * HAL_DONE_TELL; errors as send(). */
	int (*put)(struct hal_link *link, struct hal_frame f, const void *buf);
	/*
	 * next(), and if it shows what is wanted, copy() and drop(): HAL_DONE or HAL_DONE_TELL. 0:
	 * nothing is done, whatever next() says; so it may be, once behind a put(), because it is
	 * too early to look.
	 */
	int (*take)(struct hal_link *link, const struct hal_wanted *w, struct hal_frame *ret_f);

	/* ---- moving on ---- */

	/* Does what needs processor time: submits what was sent, takes completions. Called often.
	 * 0, -EPIPE, -EBADMSG. */
	int (*progress)(struct hal_link *link);
	/*
	 * Could next() answer something, or progress() do something? Asked in a tight loop, without
	 * the lock, while others are inside; it must be cheap, touch no state, and may err towards
	 * true.
	 */
	bool (*pending)(const struct hal_link *link);

	/* Has room been made since a send() answered -EAGAIN? As pending(). */
	bool (*room)(const struct hal_link *link);
	/* Bytes that were sent and the peer has not taken yet, about; 0 also from a HAL that cannot
	 * say. Cheap: asked for each piece of a long message. */
	uint64_t (*backlog)(struct hal_link *link);
	/*
	 * Has what was sent before left this process, so that nothing of it is lost if the process
	 * ends? *mark: 0 at the first question, which asks for all that was sent so far; the link's
	 * from then on. 0; -EAGAIN: not yet, progress() works on it; -EPIPE, -EBADMSG: it never
	 * will. To be asked before close(), which cannot wait.
	 */
	int (*flush)(const struct hal_link *link, uint64_t *mark);

	/* ---- waiting: docs/waiting.md has the recipe ---- */

	/* Asks for `watch` to be told of `events` (HAL_WATCH_). -ENOSPC: too many wait already.
	 * Until unwatch(). */
	int (*watch)(struct hal_link *link, hal_watch watch, unsigned events);
	void (*unwatch)(struct hal_link *link, hal_watch watch);
	/* Will the peer tell that watch by itself, for certain? Otherwise a sleeper looks again
	 * after a while. */
	bool (*is_trusted)(const struct hal_link *link, hal_watch watch);
	/* Tells the peer's sleepers of what was done (HAL_DID_), after whatever fence that
	 * takes. */
	void (*tell)(struct hal_link *link, unsigned did);
	/* A descriptor that becomes readable, while somebody watches, when pending() may have come
	 * true, for HALs whose news come from the kernel; -1: none. */
	int (*fd)(const struct hal_link *link);
	/* Says on which processor the caller waits; true if the peer last waited on the same one:
	 * spinning would only delay it. */
	bool (*peer_here)(struct hal_link *link, uint32_t cpu);

	/* ---- remote memory ---- */

	/*
	 * Lets the peer write into [addr, addr + len), aligned, until conceal(). The key is to be
	 * sent to it in any frame. -EOPNOTSUPP without HAL_REMOTE_WRITE; -ENOMEM.
	 */
	int (*expose)(struct hal_link *link, void *addr, size_t len, uint64_t *ret_key);
	void (*conceal)(struct hal_link *link, uint64_t key);
	/*
	 * Writes to offset bytes behind the beginning of what the peer has exposed under key.
	 * notify not NULL: then that frame (len 0) arrives, after the bytes (HAL_REMOTE_NOTIFY).
	 * The buffers are the caller's again once *ret_done becomes true in a progress(). -EAGAIN,
	 * -EPIPE, -EINVAL: alignment; -EOPNOTSUPP. A key or range that is wrong breaks the writer's
	 * link only.
	 */
	int (*write)(struct hal_link *link, uint64_t key, uint64_t offset, const struct iovec *iov,
		     unsigned n, const struct hal_frame *notify, bool *ret_done);

	/* ---- the end ---- */

	/* Tells the peer, who still gets what was sent, and frees the link. */
	void (*close)(struct hal_link *link);
	/* The same in a forked child, whose parent goes on using the link: the peer is told
	 * nothing. */
	void (*forget)(struct hal_link *link);
};

/* Stubs for what a HAL cannot do. */
static inline int hal_no_reserve(struct hal_link *link, uint32_t len, void **ret_buf)
{
	(void)link, (void)len, (void)ret_buf;
	return -EOPNOTSUPP;
}

static inline int hal_no_commit(struct hal_link *link, const struct hal_frame *f)
{
	(void)link, (void)f;
	return -EOPNOTSUPP;
}

static inline void hal_no_cancel(struct hal_link *link)
{
	(void)link;
}

static inline int hal_no_progress(struct hal_link *link)
{
	(void)link;
	return 0;
}

static inline uint64_t hal_no_backlog(struct hal_link *link)
{
	(void)link;
	return 0;
}

static inline int hal_no_flush(const struct hal_link *link, uint64_t *mark)
{
	(void)link, (void)mark;
	return 0;
}

static inline int hal_no_fd(const struct hal_link *link)
{
	(void)link;
	return -1;
}

static inline int hal_no_expose(struct hal_link *link, void *addr, size_t len, uint64_t *ret_key)
{
	(void)link, (void)addr, (void)len, (void)ret_key;
	return -EOPNOTSUPP;
}

static inline void hal_no_conceal(struct hal_link *link, uint64_t key)
{
	(void)link, (void)key;
}

static inline int hal_no_write(struct hal_link *link, uint64_t key, uint64_t offset,
			       const struct iovec *iov, unsigned n, const struct hal_frame *notify,
			       bool *ret_done)
{
	(void)link, (void)key, (void)offset, (void)iov, (void)n, (void)notify, (void)ret_done;
	return -EOPNOTSUPP;
}

/* The beginning of the payload of the frame that next() has shown, as far as it fits. Returns the
 * bytes copied. */
static inline size_t hal_copy(struct hal_link *link, const struct hal_frame *f, void *buf,
			      size_t size)
{
	const struct iovec iov = { .iov_base = buf, .iov_len = size };

	if (f->len < size)
		size = f->len;
	if (size == 0)
		return 0;
	if (!link->shown)
		return link->ops->copy(link, &iov, 1);
	if (size == 8)
		memcpy(buf, link->shown, 8);
	else
		memcpy(buf, link->shown, size);
	return size;
}

static inline bool hal_is_wanted(const struct hal_wanted *w, const struct hal_frame *f)
{
	return ((f->word ^ w->word) & w->mask) == 0 && f->protocol == w->protocol &&
	       f->kind == w->kind && f->len <= w->len_max;
}

/* put() and take() of a HAL that has no shorter way: by its other slots. */
static inline int hal_any_put(struct hal_link *link, struct hal_frame f, const void *buf)
{
	const struct iovec iov = { .iov_base = (void *)buf, .iov_len = f.len };
	int e = link->ops->send(link, &f, &iov, 1);

	return e < 0 ? e : HAL_DONE_TELL;
}

static inline int hal_any_take(struct hal_link *link, const struct hal_wanted *w,
			       struct hal_frame *ret_f)
{
	if (link->ops->next(link, ret_f) <= 0 || !hal_is_wanted(w, ret_f))
		return 0;
	(void)hal_copy(link, ret_f, w->buf, w->size);
	link->ops->drop(link);
	return HAL_DONE_TELL;
}

/* Of all that was sent so far. */
static inline int hal_link_flush(const struct hal_link *link)
{
	uint64_t mark = 0;

	return link->ops->flush(link, &mark);
}

/* The best size of the pieces that a message of `size` bytes is cut into. Behind what the peer has
 * still to take nobody waits for the first one: then they are as large as can be. */
static inline uint32_t hal_link_piece(struct hal_link *link, uint64_t size)
{
	uint32_t most = link->caps.frame_max;

	return link->ops->backlog(link) >= 2 * (uint64_t)most ? most
							      : hal_piece(&link->costs, size, most);
}

/* Bytes in n pieces. */
static inline size_t hal_iov_size(const struct iovec *iov, unsigned n)
{
	size_t size = 0;

	for (unsigned i = 0; i < n; i++)
		size += iov[i].iov_len;
	return size;
}

#endif
