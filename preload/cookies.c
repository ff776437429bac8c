/*
 * Which file of this process has the socket of a given cookie: a descriptor that comes by
 * SCM_RIGHTS may be one more of a socket that is here already.
 *
 * Only files that another process may hold can come back, and of these most never do. So a file is
 * listed when that is first asked: by a table from cookies to descriptors, in which a place is a
 * hint. Nothing there: nobody has the socket. The file at that descriptor has another cookie (two
 * of one place, or the descriptor was closed): all are looked through, and a place that is nobody's
 * any more is emptied.
 *
 * A fork shares all files at once and lists none: n_shared counts what has been shared without
 * being listed, n_listed is that count when all were looked through last.
 *
 * A place is emptied only if it is as it was before, and its upper half counts how often it was
 * written: who lists a file stores the cookie first, so that either it is seen with its cookie, or
 * the place changes afterwards. Another thread that passes the same socket on in between lists it
 * as well. A look during which a file was given one more number may have missed it: that one leaves
 * all as it was.
 */
#include "cookies.h"

#include "file.h"
#include "inherit.h"

#define N_PLACES 65536u
/* A descriptor, plus one, and in the upper half a count; 0: none. */
static LARGE _Atomic uint64_t places[N_PLACES];
static OFTEN _Atomic uint32_t n_shared;
static _Atomic uint32_t n_listed;

/* The kernel counts cookies up: those of one time are neighbours, and lie in few pages. */
static _Atomic uint64_t *place_of(uint64_t cookie)
{
	return &places[cookie % N_PLACES];
}

static void list(uint64_t cookie, int fd)
{
	_Atomic uint64_t *place = place_of(cookie);
	uint64_t before = atomic_load(place), after;

	do
		after = ((before >> 32) + 1) << 32 | ((uint32_t)fd + 1);
	while (!atomic_compare_exchange_weak(place, &before, after));
}

/* f, at fd, which the caller uses; 0: it has none. As long as the number stands for f, the kernel's
 * answer is about f. */
static uint64_t cookie_of(struct pre_file *f, int fd)
{
	uint64_t cookie = atomic_load(&f->cookie);

	if (cookie || f->set)
		return cookie;
	cookie = pre_cookie_of(fd);
	if (!cookie || pre_file_at(fd) != f)
		return 0;
	atomic_store(&f->cookie, cookie);
	list(cookie, fd);
	return cookie;
}

void pre_cookie_shares(struct pre_file *f)
{
	/* A fork finds most of them shared: to write to all would copy their pages. */
	if (!atomic_load(&f->shared) && !atomic_exchange(&f->shared, true) &&
	    !atomic_load(&f->cookie))
		(void)atomic_fetch_add(&n_shared, 1);
}

void pre_cookie_lists(struct pre_file *f, int fd)
{
	uint64_t cookie = cookie_of(f, fd);

	if (cookie && (uint32_t)atomic_load(place_of(cookie)) == 0)
		list(cookie, fd);
}

struct search {
	uint64_t cookie;
	int to;
	bool is_used; /* the place is somebody's */
	bool found;
};

static void compare(int fd, struct pre_file *f, void *arg)
{
	struct search *search = arg;
	struct pre_use use;
	uint64_t cookie;

	if (pre_file_is_standin(f) || (!atomic_load(&f->shared) && !atomic_load(&f->cookie)) ||
	    !pre_use_file(&use, fd))
		return;
	cookie = use.file == f ? cookie_of(f, fd) : 0;
	search->is_used |= cookie && place_of(cookie) == place_of(search->cookie);
	if (!search->found && cookie == search->cookie && atomic_load(&f->shared)) {
		list(cookie, fd);
		search->found = pre_file_join(f, search->to);
	}
	pre_use_end(&use);
}

static bool look_through(uint64_t cookie, int to)
{
	struct search search = { .cookie = cookie, .to = to };
	uint32_t n = atomic_load(&n_shared), n_joins = pre_file_n_joins();
	uint64_t hint = atomic_load(place_of(cookie));

	pre_file_each(0, UINT32_MAX, compare, &search);
	if (pre_file_n_joins() != n_joins + search.found)
		return search.found;
	atomic_store(&n_listed, n);
	if (!search.is_used)
		(void)atomic_compare_exchange_strong(place_of(cookie), &hint, hint >> 32 << 32);
	return search.found;
}

bool pre_cookie_join(uint64_t cookie, int to)
{
	int fd = (int)(uint32_t)atomic_load(place_of(cookie)) - 1;
	struct pre_use use;
	bool found;

	if (atomic_load(&n_shared) != atomic_load(&n_listed))
		return look_through(cookie, to);
	if (fd < 0)
		return false;
	if (!pre_use_file(&use, fd))
		return look_through(cookie, to);
	found = !pre_file_is_standin(use.file) && atomic_load(&use.file->shared) &&
		atomic_load(&use.file->cookie) == cookie && pre_file_join(use.file, to);
	pre_use_end(&use);
	return found || look_through(cookie, to);
}
