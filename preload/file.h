/* Which descriptors the shim tracks, and what stands behind them. */
#ifndef PULC_PRELOAD_FILE_H
#define PULC_PRELOAD_FILE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <pulc/stream.h>

#include "lock.h"
#include "pool.h"
#include "thread.h"

struct pre_member;
struct pre_set;

/*
 * One open file description of a kind that the shim tracks. Shared by all its descriptors in this
 * process. A TCP socket begins without a stream; a stream, once set, stays until the file is
 * recycled.
 */
struct pre_file {
	struct pre_pooled pooled;
	_Atomic uint32_t n_fds; /* descriptors of this process; 0: closed */
	pulc_stream *_Atomic stream;
	struct pre_set *set;	 /* of an epoll descriptor */
	_Atomic uint32_t n_full; /* sends that were cut short: only then is room news */
	/* libpulc has heard of the last close: what remains is to be done by whoever comes to it */
	_Atomic bool closing;
	_Atomic bool ended;   /* closed, and out of its epoll sets */
	_Atomic bool shared;  /* another process may hold it, after a fork or as it was passed */
	_Atomic bool lingers; /* closed, but for calls that are inside (linger.c) */
	int home;	      /* the descriptor that these go on with */
	/* What calls of other threads go on with whose own descriptor, one of several, was closed;
	 * -1: none was. */
	int remaining;
	/* the socket's, once somebody has asked (cookies.c); 0: nobody has */
	_Atomic uint64_t cookie;
	bool kept;	      /* has options that only the kernel can serve */
	bool stays;	      /* of exec: some descriptor of it stays open */
	_Atomic int spawned;  /* PRE_SPAWNED ...: named in a posix_spawn action */
	_Atomic bool waiting; /* in a thread's `later` */
	struct pre_lock lock;
	struct pre_member *members;  /* its memberships in epoll sets; under lock */
	struct pre_file *next;	     /* in the list of closed ones */
	struct pre_file *next_later; /* in a thread's `later` */
};

enum { PRE_SPAWNED = 1, PRE_SPAWNED_STDIO };

/* Two levels; the second one's pieces are made when needed. Descriptors beyond are not tracked. */
#define PRE_FD_CHUNK 1024u
#define PRE_FD_CHUNKS 16384u
struct pre_fd_chunk {
	struct pre_file *_Atomic files[PRE_FD_CHUNK];
};
extern struct pre_fd_chunk *_Atomic pre_fd_chunks[PRE_FD_CHUNKS];

/* Stand-ins that need no record: an unconnected TCP socket or a listener; the same where another
 * process holds it too; a socket of which it is known that it is none; an upgraded connection that
 * this program found when it began (inherit.c), or that a message brought, which may have been
 * only looked at (passing.c); a number that is just becoming somebody else's, and one that was
 * closed (change.c). */
extern struct pre_file pre_file_tcp, pre_file_tcp_shared, pre_file_other, pre_file_inherited,
	pre_file_looked_at, pre_file_changing, pre_file_gone;

/* Has this program given O_APPEND to a socket, or found one that has it? */
extern _Atomic bool pre_some_append;

/* Said of a number, not of a file. */
static inline bool pre_file_is_unsettled(const struct pre_file *f)
{
	return f == &pre_file_changing || f == &pre_file_gone;
}

/* To be taken up when it is first used. */
static inline bool pre_file_is_inherited(const struct pre_file *f)
{
	return f == &pre_file_inherited || f == &pre_file_looked_at;
}

static inline bool pre_file_is_standin(const struct pre_file *f)
{
	return f == &pre_file_tcp || f == &pre_file_tcp_shared || f == &pre_file_other ||
	       pre_file_is_inherited(f) || pre_file_is_unsettled(f);
}

/* The file of a descriptor, NULL: not tracked. Nobody keeps it from being closed meanwhile. */
static inline struct pre_file *pre_file_at(int fd)
{
	struct pre_fd_chunk *chunk;

	if (__builtin_expect((unsigned)fd >= PRE_FD_CHUNK * PRE_FD_CHUNKS, 0))
		return NULL;
	chunk = atomic_load_explicit(&pre_fd_chunks[(unsigned)fd / PRE_FD_CHUNK],
				     memory_order_acquire);
	if (!chunk)
		return NULL;
	return atomic_load_explicit(&chunk->files[(unsigned)fd % PRE_FD_CHUNK],
				    memory_order_acquire);
}

/* As pre_file_at, once fd is not changing any more. &pre_file_gone: it is closed, and the kernel is
 * not to be asked. */
struct pre_file *pre_file_changed(int fd);
static inline struct pre_file *pre_file_settled(int fd)
{
	struct pre_file *f = pre_file_at(fd);

	return __builtin_expect(pre_file_is_unsettled(f), 0) ? pre_file_changed(fd) : f;
}
/* Can it stand in the table? */
bool pre_file_is_trackable(int fd);

/* A new file with no descriptor yet; NULL: no memory. */
struct pre_file *pre_file_new(void);
/* Gives up a file that never got a descriptor. */
void pre_file_free(struct pre_file *f);
/* Makes fd, just given by the kernel, one more descriptor of f. False: no memory, fd is not
 * tracked; or a child in our memory was given it, and the number is somebody else's here. */
bool pre_file_install(int fd, struct pre_file *f);
/* fd is about to be closed. */
void pre_file_forget(int fd);
/* fd, whose entry is gone, was one of f's descriptors; open: it still is. */
void pre_file_drop(struct pre_file *f, int fd, bool open);
/* The same as pre_file_forget for all of first..last. */
void pre_file_forget_range(unsigned first, unsigned last);
/* Replaces a stand-in at fd by a record of its own. NULL: no memory, or fd holds none any more. */
struct pre_file *pre_file_own(int fd);
/* fd is the kernel's alone from now on; f is not closed. False: fd was not f's any more. */
bool pre_file_untrack(int fd, struct pre_file *f);
/* Puts f in the place of a stand-in, or of NULL. False: it was not there any more. */
bool pre_file_replace(int fd, struct pre_file *standin, struct pre_file *f);
/* `to` is a duplicate of `from`. */
void pre_file_share(int from, int to);
/* `to`, just given by the kernel, is one more descriptor of f, which the caller uses. False: f has
 * lost its last one, and is being closed; or as pre_file_install. */
bool pre_file_join(struct pre_file *f, int to);
/* How often that was done: whoever goes over the table meanwhile may miss a file that gains a
 * number before it loses another. */
uint32_t pre_file_n_joins(void);
/* Was any descriptor ever ours, or like one of ours? */
bool pre_files_any(void);
/* In a forked child: whoever held a file's lock is not here. */
void pre_files_forked(void);
/* There too: whoever was about to take an entry out, or to put one in, is not here either. */
void pre_files_recount(void);
/* Another descriptor of f than fd, or -1. Looks through the whole table. */
int pre_file_other_fd(const struct pre_file *f, int fd);
/* Calls visit for each tracked descriptor in first..last. */
typedef void pre_visit(int fd, struct pre_file *f, void *arg);
void pre_file_each(unsigned first, unsigned last, pre_visit *visit, void *arg);
/* A closed file is to be recycled as soon as nobody uses it. */
void pre_file_retire(struct pre_file *f);
/* Recycles the closed files that nobody uses any more. */
void pre_files_reclaim(void);

/*
 * A call's use of a stream: while it lasts the file is not recycled, whoever closes it.
 */
struct pre_use {
	struct pre_thread *thread;
	unsigned slot;
	struct pre_file *file;
	pulc_stream *stream;
};

static inline void pre_use_slot(struct pre_use *use)
{
	use->thread = pre_self();
	use->slot = use->thread->n_using;
	if (__builtin_expect(use->slot >= PRE_N_USING, 0)) {
		use->slot = 0;
		atomic_store(&use->thread->n_interrupted, 0);
	}
	use->thread->n_using = use->slot + 1;
}

/* f is being closed: calls of other threads that are inside go on with a descriptor of their own.
 * False: there are none. */
bool pre_linger(struct pre_file *f, int fd);
/* A use of a file that lingers has ended: perhaps the last one. */
void pre_linger_end(struct pre_file *f);
/* In a forked child, where those calls are not. */
void pre_linger_forked(void);

/* Begins to use a file that cannot have been recycled yet, or that the caller looks at again before
 * it trusts it. */
static inline void pre_use_known(struct pre_use *use, struct pre_file *f)
{
	struct pre_file *left;

	pre_use_slot(use);
	left = atomic_load_explicit(&use->thread->using[use->slot], memory_order_relaxed);
	pre_thread_publish(&use->thread->using[use->slot], f);
	use->file = f;
	use->stream = NULL;
	/* Of a call that a signal handler left by longjmp, and that nobody will end. */
	if (__builtin_expect(left && atomic_load(&left->lingers), 0))
		pre_linger_end(left);
}

static inline void pre_use_end(struct pre_use *use)
{
	struct pre_file *f = use->file;

	atomic_store_explicit(&use->thread->using[use->slot], NULL, memory_order_release);
	use->thread->n_using = use->slot;
	if (__builtin_expect(atomic_load_explicit(&f->lingers, memory_order_relaxed), 0))
		pre_linger_end(f);
}

/* Begins to use fd's file. False: not tracked, nothing to end. stream is NULL if it has none. */
static inline bool pre_use_file(struct pre_use *use, int fd)
{
	struct pre_file *f;

	while ((f = pre_file_settled(fd)) != NULL) {
		pre_use_known(use, f);
		if (__builtin_expect(pre_file_at(fd) == f || f == &pre_file_gone, 1)) {
			use->stream = atomic_load_explicit(&f->stream, memory_order_acquire);
			return true;
		}
		/* Closed in between, by somebody who may have seen this use and left the rest to
		 * its end, or waits for that. */
		pre_use_end(use);
	}
	return false;
}

/* Begins to use fd's file, after a stand-in was replaced by a record of its own. False: no memory,
 * or not tracked. */
bool pre_use_own(struct pre_use *use, int fd);

/* Another process may hold the file at fd, seen as f, which another thread may have closed or
 * connected meanwhile. Begins to use it; false: it has no record to be used, a stand-in says it, or
 * nothing has to. */
bool pre_use_shared(struct pre_use *use, int fd, const struct pre_file *f);

/* Begins to use the stream of one that is still to be taken up (inherit.c); ends the use if that
 * fails. */
bool pre_use_inherited(struct pre_use *use, int fd);

/* As pre_use_stream, whatever the case; stream is NULL if it has none, and file is &pre_file_gone
 * if fd is closed. */
struct pre_use pre_use_any(int fd);

/* Begins to use fd's stream. False: it has none, nothing to end; use->file is &pre_file_gone if fd
 * is closed. The usual case stands in each caller: it is a good part of a call. */
static inline __attribute__((always_inline)) bool pre_use_stream(struct pre_use *use, int fd)
{
	struct pre_thread *t = pre_thread_self;
	struct pre_file *f = pre_file_at(fd);
	unsigned slot = t ? t->n_using : PRE_N_USING;

	if (!f) {
		use->file = NULL;
		return false;
	}
	if (__builtin_expect(slot >= PRE_N_USING, 0) ||
	    __builtin_expect(atomic_load_explicit(&t->using[slot], memory_order_relaxed) != NULL,
			     0)) {
		*use = pre_use_any(fd);
		return use->stream;
	}
	t->n_using = slot + 1;
	pre_thread_publish(&t->using[slot], f);
	*use = (struct pre_use){ .thread = t, .slot = slot, .file = f };
	if (__builtin_expect(pre_file_at(fd) == f, 1))
		use->stream = atomic_load_explicit(&f->stream, memory_order_acquire);
	if (__builtin_expect(use->stream != NULL, 1))
		return true;
	pre_use_end(use);
	*use = pre_use_any(fd);
	return use->stream;
}

/* close, but no place for a cancelled thread to end at. */
int pre_close_for_good(int fd);

/* libc's result as a handler's. */
static inline long pre_sys(long ret)
{
	pre_stir();
	return ret >= 0 ? ret : -errno;
}

#endif
