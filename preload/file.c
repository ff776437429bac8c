/*
 * The table from descriptors to files.
 *
 * The table has an entry for TCP sockets and epoll descriptors only; everything else is NULL and
 * goes to libc. There is no lock: an entry is set before the program learns the number and taken
 * out, by an atomic exchange, before the kernel closes it. So close, dup and accept may be called
 * in signal handlers, as POSIX allows. Whoever takes the last entry of a file tells libpulc, takes
 * the file out of its epoll sets and retires it; it is recycled when no call is using it any more
 * (thread.c).
 *
 * A socket that is not connected yet has nothing of its own to remember, so all of them share a
 * stand-in. It is replaced by a record when the socket is connected, duplicated or put into an
 * epoll set.
 *
 * A child in its parent's memory (vfork) has its own descriptors but our table: who takes an entry
 * out, or adds a duplicate, asks pre_process_owns_table first; what is new is put where no entry
 * stands by anybody, for to ask costs a system call.
 */
#include <sys/mman.h>

#include <pulc/fds.h>
#include <pulc/process.h>

#include "cookies.h"
#include "epoll.h"
#include "file.h"
#include "inherit.h"
#include "macros.h"
#include "process.h"
#include "rawsys.h"

#define N_TRACKABLE (PRE_FD_CHUNK * PRE_FD_CHUNKS)

LARGE_FIRST struct pre_fd_chunk *_Atomic pre_fd_chunks[PRE_FD_CHUNKS];
static OFTEN_LAST struct pre_fd_chunk near_chunk;
struct pre_file pre_file_tcp, pre_file_tcp_shared = { .shared = true };
struct pre_file pre_file_other, pre_file_inherited, pre_file_looked_at, pre_file_changing,
	pre_file_gone;

_Atomic bool pre_some_append;

static LARGE void *_Atomic file_chunks[PRE_POOL_CHUNKS];
#define N_NEAR 8
static OFTEN_FIRST struct pre_file near_files[N_NEAR];
static OFTEN struct pre_pool files = PRE_POOL_NEAR(struct pre_file, file_chunks, near_files);
static OFTEN struct pre_file *_Atomic retired;

/* Entries from this one on were never set: a fork goes over the table and must not look at all of
 * it. */
static _Atomic unsigned n_entries;
static _Atomic uint32_t n_joins;

/* To be called before the entry is set, so that nobody overlooks it. */
USUAL static void count_entry(unsigned fd)
{
	unsigned n = atomic_load(&n_entries);

	while (n <= fd && !atomic_compare_exchange_weak(&n_entries, &n, fd + 1))
		;
}

/* A chunk of the table, or NULL: no memory. */
static struct pre_fd_chunk *make_chunk(unsigned i)
{
	struct pre_fd_chunk *_Atomic *slot = &pre_fd_chunks[i], *expected = NULL;
	long made = (long)&near_chunk;

	if (i > 0)
		made = raw_syscall(SYS_mmap, NULL, sizeof(struct pre_fd_chunk),
				   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (made < 0 && made > -4096)
		return NULL;
	if (atomic_compare_exchange_strong(slot, &expected, (struct pre_fd_chunk *)made))
		return (struct pre_fd_chunk *)made;
	if (i > 0)
		(void)raw_syscall(SYS_munmap, made, sizeof(struct pre_fd_chunk));
	return expected;
}

/* The table's entry for fd; NULL: beyond the table, or no memory. */
USUAL static struct pre_file *_Atomic *entry_of(int fd)
{
	struct pre_fd_chunk *chunk;

	if ((unsigned)fd >= N_TRACKABLE)
		return NULL;
	chunk = atomic_load(&pre_fd_chunks[(unsigned)fd / PRE_FD_CHUNK]);
	if (!chunk)
		chunk = make_chunk((unsigned)fd / PRE_FD_CHUNK);
	return chunk ? &chunk->files[(unsigned)fd % PRE_FD_CHUNK] : NULL;
}

USUAL struct pre_file *pre_file_new(void)
{
	struct pre_file *f = pre_pool_get(&files);

	if (!f)
		return NULL;
	atomic_store(&f->n_fds, 0);
	atomic_store(&f->stream, NULL);
	f->set = NULL;
	atomic_store(&f->shared, false);
	atomic_store(&f->cookie, 0);
	f->kept = false;
	atomic_store(&f->spawned, 0);
	atomic_store(&f->waiting, false);
	atomic_store(&f->closing, false);
	atomic_store(&f->ended, false);
	atomic_store(&f->lingers, false);
	f->home = -1;
	f->remaining = -1;
	atomic_store(&f->n_full, 0);
	f->members = NULL;
	f->next = f->next_later = NULL;
	pre_lock_reset(&f->lock);
	return f;
}

USUAL void pre_file_free(struct pre_file *f)
{
	pulc_stream_unref(atomic_exchange(&f->stream, NULL));
	pre_set_free(f->set);
	f->set = NULL;
	pre_pool_put(&files, f);
}

/* What a signal handler closes whose thread holds the lock of a set waits for the next one who
 * looks. A file that waits is used before it ceases to wait. */
USUAL static bool is_busy(const struct pre_file *f)
{
	return atomic_load(&f->waiting) || pre_thread_uses(f) || (f->set && pre_self()->n_locked);
}

/* Takes the whole list, recycles what is free, puts the rest back. */
USUAL void pre_files_reclaim(void)
{
	struct pre_file *f = atomic_exchange(&retired, NULL), *next;

	for (; f; f = next) {
		next = f->next;
		if (is_busy(f)) {
			f->next = atomic_load(&retired);
			while (!atomic_compare_exchange_weak(&retired, &f->next, f))
				;
		} else {
			pre_file_free(f);
		}
	}
}

USUAL void pre_file_retire(struct pre_file *f)
{
	f->next = atomic_load(&retired);
	while (!atomic_compare_exchange_weak(&retired, &f->next, f))
		;
	pre_files_reclaim();
}

/* Threads that close descriptors of one file at once are not kept apart. */
static int remaining_of(const struct pre_file *f)
{
	return __atomic_load_n(&f->remaining, __ATOMIC_RELAXED);
}

/* fd goes, `other` stays. A call of another thread that is inside by fd goes on, as in the
 * kernel. */
static void lose(struct pre_file *f, int fd, int other)
{
	pulc_stream *s = atomic_load(&f->stream);

	if (s)
		pulc_stream_loses(s, fd, other);
	if (s && other >= 0 && (remaining_of(f) == fd || pre_thread_others_inside(f))) {
		__atomic_store_n(&f->remaining, other, __ATOMIC_RELAXED);
		pulc_stream_moved(s, &f->remaining);
	}
	pre_members_moved(f, fd, other);
}

/* fd was one of f's descriptors, and still is if `open` (else it was closed behind our back, and
 * the number is another file's by now). The stream may be upgraded while it closes, and whoever
 * hears of that sees a file without descriptors: only this use keeps it from being recycled under
 * our hands. */
USUAL void pre_file_drop(struct pre_file *f, int fd, bool open)
{
	struct pre_use use;
	pulc_stream *s;

	if (pre_file_is_standin(f))
		return;
	pre_use_known(&use, f);
	if (atomic_fetch_sub(&f->n_fds, 1) > 1) {
		lose(f, fd, pre_file_other_fd(f, fd));
		pre_use_end(&use);
		return;
	}
	if (open && pre_linger(f, fd)) {
		pre_use_end(&use);
		return;
	}
	s = atomic_load(&f->stream);
	if (s)
		pulc_stream_closing(s, open ? fd : -1);
	pre_epoll_closed(f);
	if (s && remaining_of(f) >= 0)
		pulc_stream_moved(s, NULL);
	pre_use_end(&use);
	pre_files_reclaim();
}

USUAL static void place(struct pre_file *_Atomic *entry, int fd, struct pre_file *f)
{
	struct pre_file *old;

	count_entry((unsigned)fd);
	old = atomic_exchange(entry, f);

	if (old) /* closed behind our back */
		pre_file_drop(old, fd, false);
}

/* What stands there was closed behind our back; or is open, for its number was given to a child
 * that has closed its own copy. */
static bool is_not_ours(struct pre_file *_Atomic *entry)
{
	const struct pre_file *f = atomic_load(entry);

	return f && f != &pre_file_gone && !pre_process_owns_table();
}

USUAL bool pre_file_install(int fd, struct pre_file *f)
{
	struct pre_file *_Atomic *entry = entry_of(fd);

	if (!entry || is_not_ours(entry))
		return false;
	if (!pre_file_is_standin(f))
		(void)atomic_fetch_add(&f->n_fds, 1);
	place(entry, fd, f);
	return true;
}

USUAL void pre_file_forget(int fd)
{
	struct pre_file *f = pre_file_settled(fd);

	if (!f || f == &pre_file_gone)
		return;
	f = atomic_exchange(entry_of(fd), NULL);
	if (f)
		pre_file_drop(f, fd, true);
}

USUAL void pre_file_each(unsigned first, unsigned last, pre_visit *visit, void *arg)
{
	unsigned end = atomic_load(&n_entries);
	struct pre_file *f;

	for (unsigned fd = first; fd <= last && fd < end; fd++) {
		if (!atomic_load(&pre_fd_chunks[fd / PRE_FD_CHUNK])) {
			fd |= PRE_FD_CHUNK - 1;
			continue;
		}
		f = pre_file_at((int)fd);
		if (f)
			visit((int)fd, f, arg);
	}
}

static void forget(int fd, struct pre_file *f, void *arg)
{
	(void)f;
	(void)arg;
	pre_file_forget(fd);
}

void pre_file_forget_range(unsigned first, unsigned last)
{
	pre_file_each(first, last, forget, NULL);
}

struct pre_file *pre_file_own(int fd)
{
	struct pre_file *_Atomic *entry = entry_of(fd);
	struct pre_file *f = pre_file_settled(fd), *own;

	if (pre_file_is_inherited(f))
		f = pre_inherit(fd);
	if (pre_file_is_unsettled(f))
		return NULL;
	if (!f || !pre_file_is_standin(f))
		return f;
	own = pre_file_new();
	if (!own)
		return NULL;
	if (atomic_load(&f->shared))
		pre_cookie_shares(own);
	atomic_store(&own->n_fds, 1);
	if (atomic_compare_exchange_strong(entry, &f, own))
		return own;
	pre_file_free(own);
	return f;
}

struct pre_use pre_use_any(int fd)
{
	struct pre_use use;
	bool is_gone;

	if (!pre_use_file(&use, fd))
		return (struct pre_use){ .stream = NULL };
	if (use.stream || (pre_file_is_inherited(use.file) && pre_use_inherited(&use, fd)))
		return use;
	is_gone = use.file == &pre_file_gone;
	if (!pre_file_is_inherited(use.file))
		pre_use_end(&use);
	return (struct pre_use){ .file = is_gone ? &pre_file_gone : NULL };
}

bool pre_use_own(struct pre_use *use, int fd)
{
	while (pre_file_own(fd) && pre_use_file(use, fd)) {
		if (!pre_file_is_standin(use->file))
			return true;
		pre_use_end(use);
	}
	return false;
}

bool pre_file_is_trackable(int fd)
{
	return entry_of(fd);
}

bool pre_file_untrack(int fd, struct pre_file *f)
{
	return atomic_compare_exchange_strong(entry_of(fd), &f, NULL);
}

USUAL bool pre_file_replace(int fd, struct pre_file *standin, struct pre_file *f)
{
	struct pre_file *_Atomic *entry = entry_of(fd);

	if (!entry)
		return false;
	(void)atomic_fetch_add(&f->n_fds, 1);
	count_entry((unsigned)fd);
	if (atomic_compare_exchange_strong(entry, &standin, f))
		return true;
	(void)atomic_fetch_sub(&f->n_fds, 1);
	return false;
}

/* Somebody may move this stream's bytes that we don't see. */
static void keep_on_kernel(struct pre_file *f, int fd, enum pulc_reason reason)
{
	pulc_stream *s = atomic_load(&f->stream);

	if (!s)
		return;
	pulc_stream_keep_on_kernel(s, fd, reason);
	pulc_stream_bypassed(s, fd);
}

/* f gains a descriptor. False: it has lost its last one, and is being closed. */
static bool gain(struct pre_file *f)
{
	uint32_t n = atomic_load(&f->n_fds);

	while (n > 0 && !atomic_compare_exchange_weak(&f->n_fds, &n, n + 1))
		;
	return n > 0;
}

/* `to` is a duplicate of `from`, which another thread is closing, so that it is nobody's duplicate
 * any more: as if it had come from elsewhere. */
static void share_closed(int to)
{
	if (pulc_socket_is_upgraded(to))
		(void)pre_file_install(to, &pre_file_inherited);
}

USUAL bool pre_use_shared(struct pre_use *use, int fd, const struct pre_file *f)
{
	if (f == &pre_file_tcp) {
		if (pre_file_replace(fd, &pre_file_tcp, &pre_file_tcp_shared))
			return false;
		f = pre_file_at(fd); /* another thread has just connected it, or closed it */
	}
	if (!f || pre_file_is_standin(f) || !pre_use_file(use, fd))
		return false;
	if (!pre_file_is_standin(use->file)) {
		pre_cookie_shares(use->file);
		return true;
	}
	/* The number has become another socket's, which is not connected yet. */
	pre_use_end(use);
	(void)pre_file_replace(fd, &pre_file_tcp, &pre_file_tcp_shared);
	return false;
}

bool pre_file_join(struct pre_file *f, int to)
{
	struct pre_file *_Atomic *entry = entry_of(to);

	if (!entry || is_not_ours(entry) || !gain(f))
		return false;
	place(entry, to, f);
	(void)atomic_fetch_add(&n_joins, 1);
	if (to <= 2)
		keep_on_kernel(f, to, PULC_REASON_STDIO);
	return true;
}

bool pre_files_any(void)
{
	return atomic_load_explicit(&n_entries, memory_order_relaxed) > 0;
}

uint32_t pre_file_n_joins(void)
{
	return atomic_load(&n_joins);
}

void pre_file_share(int from, int to)
{
	struct pre_use use;
	struct pre_file *f;

	if (pre_file_at(from) == &pre_file_other) {
		(void)pre_file_install(to, &pre_file_other);
		return;
	}
	(void)pre_file_own(from);
	if (!pre_use_file(&use, from))
		return;
	f = use.file;
	if (!entry_of(to) || pre_file_is_standin(f))
		keep_on_kernel(f, from, PULC_REASON_UNSUPPORTED);
	else if (!pre_file_join(f, to))
		share_closed(to);
	pre_use_end(&use);
}

USUAL void pre_files_forked(void)
{
	struct pre_file *f;

	for (uint32_t i = 0; (f = pre_pool_at(&files, i)) != NULL; i++)
		pre_lock_reset(&f->lock);
}

static void count(int fd, struct pre_file *f, void *arg)
{
	(void)fd;
	(void)arg;
	if (!pre_file_is_standin(f))
		(void)atomic_fetch_add(&f->n_fds, 1);
}

void pre_files_recount(void)
{
	struct pre_file *f;

	for (uint32_t i = 0; (f = pre_pool_at(&files, i)) != NULL; i++)
		atomic_store(&f->n_fds, 0);
	pre_file_each(0, UINT32_MAX, count, NULL);
}

/* A parent's other threads are not here, nor are their calls. */
USUAL void pre_linger_forked(void)
{
	struct pre_file *f;

	for (uint32_t i = 0; (f = pre_pool_at(&files, i)) != NULL; i++) {
		/* A thread of the parent's may have been about to say so. */
		if (f->home > 0 && pulc_fd_is_own(f->home))
			atomic_store(&f->lingers, true);
		if (atomic_load(&f->lingers))
			pre_linger_end(f);
	}
}

struct search {
	const struct pre_file *file;
	int not ;
	int found;
};

static void match(int fd, struct pre_file *f, void *arg)
{
	struct search *search = arg;

	if (f == search->file && fd != search->not )
		search->found = fd;
}

int pre_file_other_fd(const struct pre_file *f, int fd)
{
	struct search search = { .file = f, .not = fd, .found = -1 };

	pre_file_each(0, N_TRACKABLE - 1, match, &search);
	return search.found;
}
