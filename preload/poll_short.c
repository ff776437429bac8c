/*
 * Polls that memory alone can answer, for programs that poll busily.
 *
 * An MPI library's progress polls its few connections between any two messages, and as long as it
 * waits for one it does nothing else: what a poll takes is part of each message's way. So the usual
 * case has a way of its own: a short list, of which all that the shim knows are attached TCP
 * connections, asked once, in their memory, while they are in use; no copy of the list, no
 * references, and the clock is read once. Whatever is not the usual case, what has to wait, and
 * what the kernel is to be asked about (wait.c), goes the long way (poll.c) as if this one had not
 * been tried, but for the calls that are counted until the kernel is asked: those it has counted.
 */
#include "file.h"
#include "poll_events.h"
#include "polling.h"
#include "wait.h"

/* Longer lists go the long way. */
#define N_MOST 64

struct glance {
	uint64_t list;
	uint64_t asked; /* bit i: the program's entry i, an attached connection */
	nfds_t n_asked;
	int n_ready;
	bool urgent;  /* urgent data is asked for, of which the kernel alone knows */
	bool listens; /* somebody of this node may have connected */
};

/* False: memory does not know the whole truth about it. */
static bool ask(pulc_stream *s, struct pollfd *pfd)
{
	unsigned want = pre_poll_wanted(pfd->events);
	unsigned ready = pulc_stream_ready(s, pfd->fd, want);

	pfd->revents = pre_poll_answer(ready, pfd->events);
	return !(ready & PULC_ON_KERNEL(want & (POLLIN | POLLOUT))) &&
	       !pre_poll_is_partial(pfd->revents, want);
}

/* False: for the long way. */
static bool look(struct glance *g, struct pollfd *pfd, nfds_t i)
{
	struct pre_use use;
	bool usual;

	if (!pre_use_file(&use, pfd->fd))
		return true;
	usual = use.stream && pulc_stream_attached(use.stream) &&
		!pulc_stream_is_datagram(use.stream) && ask(use.stream, pfd);
	pre_use_end(&use);
	g->asked |= 1ull << i;
	g->n_asked++;
	g->n_ready += pfd->revents != 0;
	g->urgent |= (pfd->events & POLLPRI) != 0;
	return usual;
}

static bool look_at_all(struct glance *g, struct pollfd *fds, nfds_t n)
{
	struct pre_file *f;

	for (nfds_t i = 0; i < n; i++) {
		g->list = pre_poll_list(g->list, &fds[i]);
		f = pre_file_at(fds[i].fd);
		g->listens |= f == &pre_file_tcp || f == &pre_file_tcp_shared;
		if (pre_file_is_inherited(f) || f == &pre_file_changing ||
		    (f && !pre_file_is_standin(f) && !look(g, &fds[i], i)))
			return false;
	}
	return g->n_asked > 0;
}

/* Of descriptors that are the kernel's it alone knows, and of connections it may know something,
 * but rarely does. Who waits hears of a connect before he hears of what was sent after it; who
 * polls busily may be spared that, as the rest. */
static bool is_kernel_due(const struct glance *g, nfds_t n, bool waits, struct pre_looked *looked)
{
	if (waits && g->listens)
		return true;
	if (g->n_ready == 0 || g->n_asked < n)
		return !pre_look_spared(looked, g->n_ready > 0);
	return (n > 1 || g->urgent) && pre_look_due(looked);
}

int pre_poll_glance(struct pollfd *fds, nfds_t n, bool waits, bool *ret_due)
{
	struct glance g = { .list = n };
	struct pre_thread *thread = pre_self();

	*ret_due = false;
	if ((uintptr_t)fds < PRE_POLL_NO_ADDRESS || n > N_MOST || !look_at_all(&g, fds, n) ||
	    (waits && !g.n_ready))
		return PRE_POLL_UNSURE;
	pre_poll_begins(thread, g.list);
	*ret_due = is_kernel_due(&g, n, waits, &thread->looked);
	if (*ret_due)
		return PRE_POLL_UNSURE;
	pre_cancellation_point();
	for (nfds_t i = 0; i < n; i++)
		if (!(g.asked >> i & 1))
			fds[i].revents = 0;
	return g.n_ready;
}
