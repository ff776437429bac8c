/*
 * Sockets that a program finds when it begins.
 *
 * exec leaves it the sockets of the program before, of whatever process started it, and nothing
 * that we knew of them. An upgraded connection says so by itself (pulc/process.h), so the open
 * descriptors are looked through once. What was found is only noted; it is taken up when it is
 * first used, for most programs that are started by a server with open sockets never look at them.
 * All descriptors of one socket become one file.
 *
 * Those on 0 to 2 are for this very program, and libc's own streams move their bytes past us: they
 * are given back to the kernel at once.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <pulc/fds.h>
#include <pulc/process.h>

#include "cookies.h"
#include "inherit.h"
#include "macros.h"
#include "rawsys.h"
#include "symbols.h"

#define SIZE_LISTING 4096
/* Looked at where they can't be listed. */
#define N_UNLISTED_LEAST 256
#define N_UNLISTED_MOST (1u << 16)
#define N_STDIO 3

static OFTEN struct pre_lock lock;

/* ---- which descriptors are open -------------------------------------------------------------- */

struct listed {
	uint64_t inode;
	int64_t offset;
	unsigned short size;
	unsigned char type;
	char name[];
};

static int number(const char *name)
{
	int n = 0;

	if (*name < '0' || *name > '9')
		return -1;
	for (; *name >= '0' && *name <= '9'; name++)
		n = n * 10 + *name - '0';
	return n;
}

static void visit_listing(int listing, const char *buf, long len, void (*visit)(int, void *),
			  void *arg)
{
	const struct listed *entry;
	int fd;

	for (long at = 0; at < len; at += entry->size) {
		entry = (const struct listed *)(buf + at);
		fd = number(entry->name);
		if (fd >= 0 && fd != listing && !pulc_fd_is_own(fd))
			visit(fd, arg);
	}
}

struct visit {
	void (*visit)(int fd, void *arg);
	void *arg;
};

static void visit_if_open(int fd, const struct visit *v)
{
	if (raw_syscall(SYS_fcntl, fd, F_GETFD) >= 0 && !pulc_fd_is_own(fd))
		v->visit(fd, v->arg);
}

static void visit_known(int fd, struct pre_file *f, void *arg)
{
	(void)f;
	visit_if_open(fd, arg);
}

/* Neither /proc nor a descriptor to list it with: then all numbers that there may be. A limit that
 * was lowered has left some open above it. */
static void visit_numbers(struct visit *v)
{
	struct rlimit limit = { 0 };
	unsigned n;

	(void)raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
	n = (unsigned)MIN(MAX(limit.rlim_cur, (rlim_t)N_UNLISTED_LEAST), (rlim_t)N_UNLISTED_MOST);
	for (unsigned fd = 0; fd < n; fd++)
		visit_if_open((int)fd, v);
	pre_file_each(n, UINT32_MAX, visit_known, v);
}

void pre_each_open(void (*visit)(int fd, void *arg), void *arg)
{
	char buf[SIZE_LISTING] __attribute__((aligned(8)));
	int listing = (int)raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
				       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long len;

	if (listing < 0) {
		visit_numbers(&(struct visit){ .visit = visit, .arg = arg });
		return;
	}
	while ((len = raw_syscall(SYS_getdents64, listing, buf, sizeof(buf))) > 0)
		visit_listing(listing, buf, len, visit, arg);
	(void)raw_syscall(SYS_close, listing);
}

/* ---- taking up ------------------------------------------------------------------------------- */

uint64_t pre_cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	(void)raw_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	return cookie;
}

struct found {
	struct pre_file *file; /* NULL: they are the kernel's from now on */
	uint64_t cookie;
	bool is_counted;
};

static void settle(int fd, struct pre_file *f, void *arg)
{
	struct found *found = arg;

	if (!pre_file_is_inherited(f) || pre_cookie_of(fd) != found->cookie)
		return;
	found->is_counted |= f == &pre_file_inherited;
	(void)pre_file_replace(fd, f, found->file ? found->file : &pre_file_other);
}

static struct pre_file *file_for(int fd)
{
	struct pre_file *f = pre_file_new();
	pulc_stream *s;

	if (!f)
		return NULL;
	if (pulc_stream_inherit(fd, &s) < 0) {
		pre_file_free(f);
		return NULL;
	}
	if (raw_fcntl(fd, F_GETFL, 0) & O_APPEND)
		atomic_store(&pre_some_append, true);
	pulc_stream_set_user(s, f);
	pre_cookie_shares(f);
	atomic_store(&f->stream, s);
	return f;
}

/* Signals that have a handler, as the kernel knows them. */
static uint64_t handled_signals(void)
{
	struct raw_sigaction action;
	uint64_t handled = 0;

	for (int signal = 1; signal <= 64; signal++)
		if (raw_is_handled(signal, &action))
			handled |= 1ull << (signal - 1);
	return handled;
}

/* No handler comes in between that would need the very connection. What ends or stops the process
 * may come: an answer of psid's is waited for, however late that is. */
struct pre_file *pre_inherit(int fd)
{
	struct found found = { .cookie = pre_cookie_of(fd) };
	uint64_t handled = handled_signals(), before;
	struct pre_file *f;

	(void)raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &handled, &before, sizeof(handled));
	pre_lock(&lock);
	f = pre_file_at(fd);
	if (pre_file_is_inherited(f)) {
		f = found.file = file_for(fd);
		pre_file_each(0, UINT32_MAX, settle, &found);
		if (f && !found.is_counted)
			pulc_stream_passes(atomic_load(&f->stream));
	}
	pre_unlock(&lock);
	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	return f;
}

USUAL void pre_inherit_forked(void)
{
	pre_lock_reset(&lock);
}

bool pre_use_inherited(struct pre_use *use, int fd)
{
	pre_use_end(use);
	if (!pre_inherit(fd) || !pre_use_file(use, fd))
		return false;
	if (use->stream)
		return true;
	pre_use_end(use);
	return false;
}

/* ---- at the start ---------------------------------------------------------------------------- */

static void note(int fd, void *arg)
{
	(void)arg;
	if (pulc_socket_is_upgraded(fd))
		(void)pre_file_install(fd, &pre_file_inherited);
}

void pre_inherit_start(void)
{
	struct pre_use use;

	if (!pre_enabled)
		return;
	pre_each_open(note, NULL);
	for (int fd = 0; fd < N_STDIO; fd++) {
		if (!pre_use_stream(&use, fd))
			continue;
		pulc_stream_keep_on_kernel(use.stream, fd, PULC_REASON_STDIO);
		pre_use_end(&use);
	}
}
