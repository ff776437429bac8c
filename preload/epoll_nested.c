/*
 * Epoll sets that are members of other sets.
 *
 * They are waited for by the kernel, which may be wrong about them (epoll.h, pre_set_believe). Its
 * events tell a member by the program's data alone, so each such member is remembered with its
 * data, and what is said of it is believed as poll believes it: once its set was made truthful
 * again. Another member may have the same data; the kernel's own listing tells, which is read only
 * when something has proved false. What cannot be told for sure is reported.
 *
 * An event that was not reported leaves nothing behind: by level it comes again when it is true, by
 * edge the next one comes with the next bell, and a one-shot member is armed once more.
 */
#include <stdio.h>

#include "epoll_set.h"
#include "rawsys.h"

void pre_nested_join(struct pre_member *m)
{
	m->next_nested = m->set->nested;
	m->set->nested = m;
	atomic_store(&m->set->has_nested, true);
}

void pre_nested_leave(struct pre_member *m)
{
	struct pre_member **p = &m->set->nested;

	while (*p && *p != m)
		p = &(*p)->next_nested;
	if (*p)
		*p = m->next_nested;
}

/* NULL: there is none. Under the lock. */
static struct pre_member *find(const struct pre_set *set, uint64_t data)
{
	struct pre_member *m = set->nested;

	while (m && m->data.u64 != data)
		m = m->next_nested;
	return m;
}

/* The member's set is asked by a number of its own: no two sets are locked at once. */
static bool is_ready(const struct pre_file *f, int fd)
{
	struct pollfd said = { .fd = fd, .events = POLLIN, .revents = POLLIN };
	struct pre_use use;

	if (!pre_use_file(&use, fd))
		return true;
	if (use.file == f && f->set)
		pre_set_believe(f->set, &said);
	pre_use_end(&use);
	return said.revents != 0;
}

/* Has nothing but what was added under this number this data? */
static bool is_only_one(const struct pre_set *set, uint64_t data, int key)
{
	struct pre_listed last;
	char wanted[32];

	(void)snprintf(wanted, sizeof(wanted), "data: %16llx ", (unsigned long long)data);
	return pre_set_listed(set, wanted, -1, &last) == 1 && last.fd == key;
}

static void rearm(const struct pre_set *set, const struct pre_member *m)
{
	struct epoll_event event = { .events = m->events, .data = m->data };

	if (m->events & EPOLLONESHOT)
		(void)raw_syscall(SYS_epoll_ctl, set->epfd, EPOLL_CTL_MOD, m->key, &event);
}

static bool is_false(struct pre_set *set, uint64_t data)
{
	struct pre_member *m;
	struct pre_file *f = NULL;
	int fd = -1, key = -1;

	pre_lock(&set->lock);
	m = find(set, data);
	/* Under a number that is closed by now it could not be armed again. */
	if (m && (m->fd == m->key || !(m->events & EPOLLONESHOT))) {
		f = m->file;
		fd = m->fd;
		key = m->key;
	}
	pre_set_unlock(set);
	if (!f || is_ready(f, fd) || !is_only_one(set, data, key))
		return false;
	pre_lock(&set->lock);
	m = find(set, data);
	if (m)
		rearm(set, m);
	pre_set_unlock(set);
	return true;
}

int pre_nested_filter(struct pre_set *set, struct epoll_event *events, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		if (!is_false(set, events[i].data.u64))
			events[kept++] = events[i];
	}
	return kept;
}
