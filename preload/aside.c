/*
 * Programs that the shim leaves alone from some moment on.
 *
 * Behind a seccomp filter a program may make the calls that its author thought of, and is often
 * killed for any other. The shim makes others: it polls where the program reads, asks for counters,
 * writes to psid. And a program with a ring of the kernel's own (io_uring) moves bytes, waits and
 * closes by entries in memory that nobody else sees. So when a filter is about to be installed or
 * such a ring to be made, everything goes back to the kernel while that may still be done:
 * connections leave their rings, members of epoll sets return to the kernel's set, the table is
 * emptied. From then on each function is libc's own, and nothing is done at fork, exec or exit
 * either. Only a connection whose bytes nobody can put back (docs/differences.md) stays in the
 * table.
 *
 * A filter may be for one thread alone. All are treated as one: a table for each of them would cost
 * everybody. A filter that was there when the program began is taken for one that lets a program of
 * several libraries live. A ring is noticed by liburing's functions or libc's syscall(), not if an
 * instruction of the program's own makes it. One of libuv's is denied instead.
 */
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <pulc/fds.h>
#include <pulc/process.h>

#include "data.h"
#include "epoll_set.h"
#include "inherit.h"
#include "rawsys.h"
#include "symbols.h"

bool pre_aside;

/* ---- epoll sets ------------------------------------------------------------------------------ */

/* As a member of the kernel's set it is what it is here; ready by edge once more, perhaps. */
static void member_to_kernel(struct pre_member *m)
{
	struct epoll_event event = { .events = m->events, .data = m->data };
	bool is_member = m->ring && !m->parked;

	if (m->disarmed)
		event.events = EPOLLONESHOT;
	if (m->ring)
		pre_member_from_ring(m);
	if (is_member)
		(void)raw_syscall(SYS_epoll_ctl, m->set->epfd, EPOLL_CTL_ADD, m->fd, &event);
}

static void set_to_kernel(struct pre_set *set)
{
	pre_lock(&set->lock);
	for (struct pre_member *m = set->members; m; m = m->next_of_set)
		member_to_kernel(m);
	pulc_fd_release(&set->inner);
	pre_set_unlock(set);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* An ancestor's set is the ancestor's: it goes on with its members as they are. */
static void visit_set(int fd, struct pre_file *f, void *arg)
{
	(void)arg;
	if (!f->set || pre_set_inherited(f->set))
		return;
	set_to_kernel(f->set);
	(void)pre_file_untrack(fd, f);
}

static void visit_stream(int fd, struct pre_file *f, void *arg)
{
	pulc_stream *s;

	(void)arg;
	if (pre_file_is_inherited(f))
		f = pre_inherit(fd);
	if (!f)
		return;
	s = pre_file_is_standin(f) ? NULL : atomic_load(&f->stream);
	if (s)
		pulc_stream_keep_on_kernel(s, fd, PULC_REASON_UNSUPPORTED);
	if (!f->set && (!s || pulc_stream_is_kernels(s)))
		(void)pre_file_untrack(fd, f);
}

void pre_step_aside(void)
{
	if (pre_aside)
		return;
	pre_enabled = false;
	pre_aside = true;
	pre_file_each(0, UINT32_MAX, visit_set, NULL);
	pre_file_each(0, UINT32_MAX, visit_stream, NULL);
	pulc_process_confined();
}

/* ---- how it is done -------------------------------------------------------------------------- */

/* Without a filter the call fails: programs ask that way whether there is seccomp at all. */
int pre_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	if (option == PR_SET_SECCOMP && (a == SECCOMP_MODE_STRICT || b != 0))
		pre_step_aside();
	return (int)pre_sys(pre_real.prctl(option, a, b, c, d));
}

void pre_seccomp(unsigned operation, const void *filter)
{
	if (operation == SECCOMP_SET_MODE_STRICT ||
	    (operation == SECCOMP_SET_MODE_FILTER && filter))
		pre_step_aside();
}

/*
 * libuv makes a ring for changes of its epoll sets alone, unasked, and does without where the
 * kernel has none: it has none here, rather than that no connection of such a program (Python with
 * uvloop 0.23) is served. caller: who makes it by syscall().
 */
bool pre_denies_ring(const void *caller)
{
	return pre_enabled && pre_is_beside(caller, "uv_loop_init");
}

/* liburing makes its system calls by instructions of its own, but these make each of its rings. */
int pre_io_uring_queue_init(unsigned n_entries, struct io_uring *ring, unsigned flags)
{
	pre_step_aside();
	pre_look_in("liburing.so.2", "io_uring_queue_init", &pre_real.io_uring_queue_init);
	return pre_real.io_uring_queue_init(n_entries, ring, flags);
}

int pre_io_uring_queue_init_params(unsigned n_entries, struct io_uring *ring,
				   struct io_uring_params *params)
{
	pre_step_aside();
	pre_look_in("liburing.so.2", "io_uring_queue_init_params",
		    &pre_real.io_uring_queue_init_params);
	return pre_real.io_uring_queue_init_params(n_entries, ring, params);
}

int pre_io_uring_setup(unsigned n_entries, struct io_uring_params *params)
{
	pre_step_aside();
	pre_look_in("liburing.so.2", "io_uring_setup", &pre_real.io_uring_setup);
	return pre_real.io_uring_setup(n_entries, params);
}
