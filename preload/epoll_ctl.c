/*
 * epoll_ctl, and what happens to memberships later: the upgrade of a member, and the end of its
 * file.
 *
 * Errors are the kernel's own wherever it is asked. A stream that is not upgraded goes to the
 * kernel's set, and moves to the rings' side when it is; one that is upgraded already is never in
 * the kernel's set, and adding, changing and deleting it costs no system call: a deleted member is
 * parked, and its socket stays registered in `inner` until the file is closed, since many programs
 * add and delete with each request. A membership belongs to (file, number), as in the kernel: it
 * outlives the number while the file has another one, and ends with the file.
 */
#include <fcntl.h>
#include <string.h>

#include "cookies.h"
#include "epoll_ctl.h"
#include "epoll_set.h"
#include "macros.h"
#include "rawsys.h"
#include "sockets.h"
#include "symbols.h"

static LARGE void *_Atomic member_chunks[PRE_POOL_CHUNKS];
static struct pre_pool members = PRE_POOL(struct pre_member, member_chunks);

/* ---- membership, under the file's and the set's lock ----------------------------------------- */

static struct pre_member *find(struct pre_file *f, const struct pre_set *set, int key)
{
	struct pre_member *m = f->members;

	while (m && (m->set != set || m->key != key))
		m = m->next_of_file;
	return m;
}

static struct pre_member *join(struct pre_file *f, struct pre_set *set, int key)
{
	struct pre_member *m = pre_pool_get(&members);

	if (!m)
		return NULL;
	memset((char *)m + sizeof(m->pooled), 0, sizeof(*m) - sizeof(m->pooled));
	m->set = set;
	m->file = f;
	m->key = m->fd = key;
	m->next_of_file = f->members;
	f->members = m;
	m->next_of_set = set->members;
	if (set->members)
		set->members->prev_of_set = m;
	set->members = m;
	if (f->set)
		pre_nested_join(m);
	return m;
}

static void leave(struct pre_member *m)
{
	struct pre_member **p = &m->file->members;

	pre_near_forget(m);
	if (m->ring)
		pre_member_from_ring(m);
	if (m->file->set)
		pre_nested_leave(m);
	while (*p != m)
		p = &(*p)->next_of_file;
	*p = m->next_of_file;
	if (m->prev_of_set)
		m->prev_of_set->next_of_set = m->next_of_set;
	else
		m->set->members = m->next_of_set;
	if (m->next_of_set)
		m->next_of_set->prev_of_set = m->prev_of_set;
	m->set = NULL;
	m->file = NULL;
	pre_pool_put(&members, m);
}

/* m is parked, and its file has another connection by now, or none (connect(2) with AF_UNSPEC). */
static bool is_of_the_past(const struct pre_member *m)
{
	return m->parked && m->stream != atomic_load(&m->file->stream);
}

static bool is_attached(const struct pre_file *f)
{
	pulc_stream *s = atomic_load(&f->stream);

	return s && pulc_stream_attached(s);
}

/* ---- epoll_ctl ------------------------------------------------------------------------------- */

/* Flags that go with EPOLLEXCLUSIVE; the kernel refuses the others. */
#define EXCLUSIVE_OK                                                                               \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE)

/* What the kernel refuses before it looks into the set. */
static int judge(const struct epoll_event *event)
{
	if (!event)
		return -EFAULT;
	return (event->events & EPOLLEXCLUSIVE) && (event->events & ~EXCLUSIVE_OK) ? -EINVAL : 0;
}

/* A stream that is attached already: the kernel's set never hears of it. m: it was a member before,
 * or NULL. */
static int add_ring(struct pre_set *set, struct pre_file *f, int fd,
		    const struct epoll_event *event, struct pre_member *m)
{
	int e = judge(event);

	if (e < 0)
		return e;
	if (!m)
		m = join(f, set, fd);
	if (!m)
		return -ENOMEM;
	m->events = event->events;
	m->data = event->data;
	if (!pre_member_open_ring(m)) {
		leave(m);
		return -ENOMEM;
	}
	pre_set_wake(set);
	return 0;
}

static int add(struct pre_set *set, struct pre_file *f, int epfd, int fd, struct epoll_event *event)
{
	struct pre_member *m = find(f, set, fd);
	int ret;

	if (m && is_of_the_past(m)) {
		leave(m);
		m = NULL;
	}
	if (m && m->ring && !m->parked)
		return judge(event) < 0 ? judge(event) : -EEXIST;
	if (is_attached(f) && (!m || m->ring))
		return add_ring(set, f, fd, event, m);
	ret = (int)pre_sys(pre_real.epoll_ctl(epfd, EPOLL_CTL_ADD, fd, event));
	if (ret < 0)
		return ret;
	if (!m) /* otherwise the kernel had forgotten it */
		m = join(f, set, fd);
	if (!m && f->set) { /* the kernel is believed, then */
		atomic_store(&f->set->polled, true);
		return 0;
	}
	if (!m) {
		pre_cookie_shares(f);
		pre_keep_on_kernel(fd, PULC_REASON_UNSUPPORTED);
		return 0;
	}
	m->events = event->events;
	m->data = event->data;
	pre_near_note(m);
	if (event->events & EPOLLEXCLUSIVE)
		set->has_exclusive = true;
	if (is_attached(f))
		pre_member_to_ring(m);
	else
		set->has_kernel = true;
	return 0;
}

static int modify(struct pre_member *m, const struct epoll_event *event)
{
	if (!event)
		return -EFAULT;
	if ((event->events | m->events) & EPOLLEXCLUSIVE)
		return -EINVAL;
	m->events = event->events;
	m->data = event->data;
	pre_member_rearm(m);
	pre_set_wake(m->set);
	return 0;
}

static int change(struct pre_set *set, struct pre_file *f, int epfd, int op, int fd,
		  struct epoll_event *event)
{
	struct pre_member *m = find(f, set, fd);
	int ret;

	if (m && m->parked && (op == EPOLL_CTL_MOD || op == EPOLL_CTL_DEL))
		return -ENOENT;
	if (m && m->ring && op == EPOLL_CTL_MOD)
		return modify(m, event);
	if (m && m->ring && op == EPOLL_CTL_DEL) {
		pre_member_park(m);
		return 0;
	}
	ret = (int)pre_sys(pre_real.epoll_ctl(epfd, op, fd, event));
	if (ret < 0 || !m)
		return ret;
	if (op == EPOLL_CTL_DEL) {
		leave(m);
		return ret;
	}
	m->events = event->events;
	m->data = event->data;
	pre_near_note(m);
	return ret;
}

static int control(struct pre_set *set, struct pre_file *f, int epfd, int op, int fd,
		   struct epoll_event *event)
{
	int ret = -EBADF;

	pre_lock(&f->lock);
	pre_lock(&set->lock);
	pre_set_own(set);
	if (!set->closed && atomic_load(&f->n_fds) > 0)
		ret = op == EPOLL_CTL_ADD ? add(set, f, epfd, fd, event)
					  : change(set, f, epfd, op, fd, event);
	pre_set_hand_over(set);
	pre_set_unlock(set);
	pre_file_unlock(f);
	return ret;
}

/* fd is tracked, epfd is not one of our sets: the kernel alone serves it, if it takes it. */
static int foreign_set(struct pre_file *f, int epfd, int op, int fd, struct epoll_event *event)
{
	int ret = (int)pre_sys(pre_real.epoll_ctl(epfd, op, fd, event));

	if (op != EPOLL_CTL_ADD || ret < 0)
		return ret;
	if (f->set)
		(void)pre_set_expose(f->set);
	pre_keep_on_kernel(fd, PULC_REASON_UNSUPPORTED);
	return ret;
}

/* fd is the kernel's alone. */
static int foreign_file(int epfd, int op, int fd, struct epoll_event *event)
{
	struct pre_use use;

	if (op == EPOLL_CTL_ADD && pre_use_file(&use, epfd)) {
		if (use.file->set)
			use.file->set->has_kernel = true;
		pre_use_end(&use);
	}
	return (int)pre_sys(pre_real.epoll_ctl(epfd, op, fd, event));
}

static int control_file(struct pre_file *f, int epfd, int op, int fd, struct epoll_event *event)
{
	struct pre_use use;
	int ret;

	if (f == &pre_file_other || pre_self()->n_locked)
		return foreign_file(epfd, op, fd, event);
	if (!pre_use_file(&use, epfd))
		return foreign_set(f, epfd, op, fd, event);
	if (use.file->set)
		ret = control(use.file->set, f, epfd, op, fd, event);
	else
		ret = foreign_set(f, epfd, op, fd, event);
	pre_use_end(&use);
	if (f->set && ret == 0)
		pre_set_expose_member(f);
	return ret;
}

int pre_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct pre_use use;
	int ret;

	if (__builtin_expect(!pre_file_at(fd), 1) || !pre_use_own(&use, fd))
		return foreign_file(epfd, op, fd, event);
	ret = control_file(use.file, epfd, op, fd, event);
	pre_use_end(&use);
	return ret;
}

/* ---- the life of a file ---------------------------------------------------------------------- */

static void set_closed(struct pre_set *set)
{
	struct pre_member *m;
	struct pre_file *f;

	pre_lock(&set->lock);
	set->closed = true;
	while ((m = set->members) != NULL) {
		f = m->file;
		pre_set_unlock(set);
		pre_lock(
			/* files stay files: if it is another one by now, nothing matches */
			&f->lock);
		pre_lock(&set->lock);
		if (set->members == m && m->file == f)
			leave(m);
		pre_unlock(&set->lock);
		pre_file_unlock(f);
		pre_lock(&set->lock);
	}
	pre_set_unlock(set);
}

/*
 * Takes a member out of the kernel's set, which knows it by the number that it was added under.
 * That may be closed by now; unless another file has it, the number is borrowed for a moment.
 */
static void delete_in_kernel(const struct pre_member *m)
{
	int fd = m->fd;

	if (fd != m->key)
		fd = (int)raw_syscall(SYS_fcntl, m->fd, F_DUPFD_CLOEXEC, m->key);
	if (fd == m->key)
		(void)raw_syscall(SYS_epoll_ctl, m->set->epfd, EPOLL_CTL_DEL, m->key, NULL);
	if (fd >= 0 && fd != m->fd)
		(void)raw_syscall(SYS_close, fd);
}

/* The kernel forgets a member with its last descriptor; but psid may hold one for a moment, and
 * nobody else does as long as the socket is not shared. */
USUAL static void members_gone(struct pre_file *f)
{
	struct pre_member *m;
	struct pre_set *set;

	pre_lock(&f->lock);
	while ((m = f->members) != NULL) {
		set = m->set;
		pre_lock(&set->lock);
		if (!m->ring && !f->shared && !f->set)
			delete_in_kernel(m);
		leave(m);
		pre_set_unlock(set);
	}
	pre_file_unlock(f);
}

static void members_to_rings(struct pre_file *f)
{
	struct pre_set *set;

	pre_lock(&f->lock);
	for (struct pre_member *m = f->members; m; m = m->next_of_file) {
		set = m->set;
		pre_lock(&set->lock);
		pre_set_own(set);
		pre_member_to_ring(m);
		pre_set_hand_over(set);
		pre_set_unlock(set);
	}
	pre_file_unlock(f);
}

USUAL void pre_file_catch_up(struct pre_file *f)
{
	if (atomic_load(&f->n_fds) > 0) {
		if (is_attached(f))
			members_to_rings(f);
		return;
	}
	/* Before that it may linger, and its stream has not been closed. */
	if (!atomic_load(&f->closing) || atomic_exchange(&f->ended, true))
		return;
	if (f->set)
		set_closed(f->set);
	members_gone(f);
	pre_file_retire(f);
}

USUAL void pre_epoll_closed(struct pre_file *f)
{
	atomic_store(&f->closing, true);
	if (!pre_file_later(f))
		pre_file_catch_up(f);
}

static void attached(pulc_stream *s, void *arg)
{
	struct pre_file *f = pulc_stream_user(s);
	struct pre_use use;

	(void)arg;
	if (!f)
		return;
	pre_use_known(&use, f);
	/* Without descriptors it is being closed, and may be recycled already: the closer does the
	 * rest. */
	if (atomic_load(&f->n_fds) > 0 && atomic_load(&f->stream) == s && !pre_file_later(f))
		pre_file_catch_up(f);
	pre_use_end(&use);
}

void pre_epoll_start(void)
{
	pulc_stream_on_attached(attached, NULL);
}

/* fd goes, `other` stays: what is registered under its number needs another to be asked by. */
void pre_members_moved(struct pre_file *f, int fd, int other)
{
	pulc_stream *s = atomic_load(&f->stream);
	struct pre_member *m;

	if (f->set && f->set->epfd == fd)
		f->set->epfd = other;
	if (!f->members || pre_self()->n_locked)
		return;
	pre_lock(&f->lock);
	for (m = f->members; m; m = m->next_of_file) {
		if (m->key == fd && !m->ring &&
		    s) /* it could not leave the kernel's set any more */
			pulc_stream_keep_on_kernel(s, fd, PULC_REASON_UNSUPPORTED);
		if (m->fd == fd)
			m->fd = other;
	}
	pre_file_unlock(f);
}

void pre_members_full(struct pre_file *f)
{
	struct pre_set *set;

	(void)atomic_fetch_add(&f->n_full, 1);
	if (!f->members || pre_self()->n_locked)
		return;
	pre_lock(&f->lock);
	for (struct pre_member *m = f->members; m; m = m->next_of_file) {
		set = m->set;
		pre_lock(&set->lock);
		if (m->ring && (m->events & EPOLLET) && (m->events & EPOLLOUT)) {
			pre_set_own(set);
			m->watched = false; /* not for room, perhaps */
			pre_ready_list(m);
			pre_set_wake(set);
			pre_set_hand_over(set);
		}
		pre_set_unlock(set);
	}
	pre_file_unlock(f);
}
