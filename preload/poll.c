/*
 * poll and ppoll over kernel descriptors and streams at once; select is made from it (select.c).
 *
 * A list without an attached stream, and without an epoll set that has one, is libc's own call.
 * Otherwise: look at the streams' memory, then spin (wait.c), then sleep in one ppoll over
 * everything: kernel descriptors as the program asked, the streams' kernel sockets for what only
 * the kernel knows (the peer's death, a remainder), and the bell of this thread's wait set, which
 * the streams' peers ring; psid's end is heard of there as well. The order that loses nothing is
 * stream.h's: watch, arm, look again, sleep.
 *
 * A kernel socket may be ready for ever without the stream being so (end of file for one who only
 * wants to write, room to send that the ring lacks). What the kernel said and the stream denied is
 * not asked again in this call.
 *
 * An epoll descriptor in the list is made truthful first and is then the kernel's, whose word on it
 * is believed once it was made truthful again (epoll.h). One that has no bell is made so often.
 */
#include <string.h>
#include <sys/mman.h>

#include "epoll.h"
#include "file.h"
#include "inherit.h"
#include "poll_events.h"
#include "polling.h"
#include "rawsys.h"
#include "symbols.h"
#include "wait.h"

/* Lists up to this size are kept on the stack. */
#define N_SMALL 128
/* What a sleep looks at besides. */
#define N_OWN 2

struct entry {
	pulc_stream *stream; /* attached; a reference */
	nfds_t i;	     /* in the program's list */
};

struct wait {
	struct pollfd *fds;    /* the program's */
	struct pollfd *kernel; /* what the kernel is asked: the same, the bell, and psid's end */
	struct entry *entries;
	nfds_t n, n_entries;
	nfds_t n_held; /* streams on the kernel, at the end of entries: see add_stream */
	/* the kernel serves more of the streams and sets than it does as a rule: it is asked each
	 * time */
	bool exact;
	/* somebody of this node may send through the kernel: who finds something in rings asks for
	 * what came before */
	bool near;
	bool due;    /* the kernel is to be asked: who looked at memory first has counted so */
	bool sets;   /* there are epoll sets in the list */
	bool urgent; /* urgent data is asked for, of which the kernel alone knows */
	/* ready for writing, but reading was asked for too: memory may not know all */
	bool partial;
	bool crowded; /* the kernel takes no longer list (RLIMIT_NOFILE) */
	bool selects; /* for select, which knows no such limit */
	/* ... of so many at most, then; 0: all at once */
	nfds_t size_piece;
	struct pre_thread *thread;
	uint64_t deadline;
	const sigset_t *mask;
	pulc_waitset *set;
	struct pre_signals signals;
	int n_ready;
	int error; /* why the kernel has refused the list */
};

bool pre_poll_concerned(const struct pollfd *fds, nfds_t n)
{
	bool concerned = false;
	struct pre_use use;

	if ((uintptr_t)fds < PRE_POLL_NO_ADDRESS) /* the kernel's to refuse */
		return false;
	for (nfds_t i = 0; i < n; i++) {
		if (pre_file_is_inherited(pre_file_at(fds[i].fd)))
			(void)pre_inherit(fds[i].fd);
		if (!pre_poll_is_ours(fds[i].fd) || !pre_use_file(&use, fds[i].fd))
			continue;
		if (use.stream && (!__libc_single_threaded || pulc_stream_attached(use.stream)))
			concerned = true;
		else if (use.file->set && pre_set_expose(use.file->set))
			concerned = true;
		pre_use_end(&use);
	}
	return concerned;
}

/* A stream on the kernel could be upgraded by another thread while this one sleeps on its kernel
 * socket, and its peer could then go over to a ring: until this wait is over it may not. */
static bool hold(pulc_stream *s)
{
	return !__libc_single_threaded && pulc_stream_kernel_enter(s, POLLIN) == 0;
}

static void add_stream(struct wait *w, nfds_t i, pulc_stream *s)
{
	if (!pulc_stream_attached(s))
		w->near |= !pulc_stream_is_far(s);
	if (!pulc_stream_attached(s) && hold(s)) {
		w->entries[w->n - ++w->n_held].stream = pulc_stream_ref(s);
	} else if (pulc_stream_attached(s)) {
		w->entries[w->n_entries++] = (struct entry){ pulc_stream_ref(s), i };
		w->kernel[i].events = (short)pre_poll_wanted(w->fds[i].events);
		/* A peer's end, or a death. Datagrams know none, and a socket that is shut for
		 * reading says so for ever. */
		if (pulc_stream_is_datagram(s))
			w->exact = true;
		else
			w->kernel[i].events |= POLLRDHUP;
		w->urgent |= (w->fds[i].events & POLLPRI) != 0;
	}
}

static void add(struct wait *w, nfds_t i)
{
	struct pre_use use;

	w->near |= pre_poll_is_listener(w->fds[i].fd);
	if (!pre_poll_is_ours(w->fds[i].fd) || !pre_use_file(&use, w->fds[i].fd))
		return;
	if (use.stream)
		add_stream(w, i, use.stream);
	else
		w->near = true;
	w->sets |= use.file->set != NULL;
	w->exact |= w->sets;
	pre_use_end(&use);
}

static void begin(struct wait *w)
{
	uint64_t list = w->n;

	for (nfds_t i = 0; i < w->n; i++) {
		list = pre_poll_list(list, &w->fds[i]);
		w->fds[i].revents = 0;
		w->kernel[i] = w->fds[i];
		add(w, i);
	}
	pre_poll_begins(w->thread, list);
}

static void end(struct wait *w)
{
	pre_signals_restore(&w->signals);
	for (nfds_t i = 0; i < w->n_entries; i++)
		pulc_stream_unref(w->entries[i].stream);
	for (nfds_t i = w->n - w->n_held; i < w->n; i++) {
		pulc_stream_kernel_leave(w->entries[i].stream, POLLIN);
		pulc_stream_unref(w->entries[i].stream);
	}
}

static bool look_at_memory(void *arg)
{
	struct wait *w = arg;
	struct pollfd *pfd;
	unsigned want, ready;

	w->n_ready = 0;
	w->partial = false;
	for (nfds_t e = 0; e < w->n_entries; e++) {
		pfd = &w->fds[w->entries[e].i];
		want = pre_poll_wanted(pfd->events);
		ready = pulc_stream_ready(w->entries[e].stream, pfd->fd, want);
		w->exact |= (ready & PULC_ON_KERNEL(want & (POLLIN | POLLOUT))) != 0;
		w->near |= (ready & PULC_ON_KERNEL(want & POLLIN)) != 0;
		pfd->revents = pre_poll_answer(ready, pfd->events);
		w->n_ready += pfd->revents != 0;
		w->partial |= pre_poll_is_partial(pfd->revents, want);
	}
	return w->n_ready > 0;
}

/* The kernel tells of an end, or of urgent data: what comes with that it alone knows. */
#define SAYS_MORE (PRE_POLL_ALWAYS | POLLRDHUP | POLLPRI)

/* By memory alone, where that is all. */
static unsigned ready_now(const struct entry *entry, int fd, short said, unsigned want)
{
	unsigned ready = pulc_stream_ready(entry->stream, fd, want);

	if (!said || (!(said & SAYS_MORE) && !(want & ~ready)))
		return ready;
	return pulc_stream_poll(entry->stream, fd, want);
}

/* The stream's own word on what its kernel socket said. */
static void judge(struct wait *w, const struct entry *entry)
{
	struct pollfd *pfd = &w->fds[entry->i], *kernel = &w->kernel[entry->i];
	unsigned ready;

	if (kernel->revents & POLLNVAL) {
		pfd->revents = POLLNVAL;
		return;
	}
	ready = ready_now(entry, pfd->fd, kernel->revents, pre_poll_wanted(pfd->events));
	pfd->revents = pre_poll_answer(ready, pfd->events);
	/* Of datagrams the kernel's word was true for a moment; somebody else has taken them. */
	if (pfd->revents || pulc_stream_is_datagram(entry->stream))
		return;
	kernel->events &= (short)~kernel->revents;
	if (kernel->revents & PRE_POLL_ALWAYS)
		kernel->fd = -1;
}

/* The kernel has said that something is ready: an epoll set may have to say so again. Or it said
 * nothing of a set of whose members it may not know. */
static void believe(struct pollfd *said)
{
	struct pre_use use;

	if (!pre_use_file(&use, said->fd))
		return;
	if (use.file->set)
		pre_set_believe(use.file->set, said);
	pre_use_end(&use);
}

/* Merges what the kernel said with what the streams say. */
static bool merge(struct wait *w)
{
	bool exposed = atomic_load(&pre_n_exposed) > 0, mute = atomic_load(&pre_n_mute) > 0;

	w->n_ready = 0;
	for (nfds_t i = 0; i < w->n; i++) {
		w->fds[i].revents = w->kernel[i].revents;
		if (exposed && (w->fds[i].revents || mute))
			believe(&w->fds[i]);
	}
	for (nfds_t e = 0; e < w->n_entries; e++)
		judge(w, &w->entries[e]);
	for (nfds_t i = 0; i < w->n; i++)
		w->n_ready += w->fds[i].revents != 0;
	return w->n_ready > 0;
}

/* The kernel has refused the list. False: not for its length, or rightly. */
static bool goes_in_pieces(struct wait *w)
{
	if (w->selects && !w->size_piece)
		w->size_piece = pre_poll_piece_of(w->n);
	return w->size_piece;
}

static long ask(struct wait *w)
{
	struct timespec now = { 0 };
	long n = w->size_piece ? -EINVAL : raw_syscall(SYS_ppoll, w->kernel, w->n, &now);

	return n == -EINVAL && goes_in_pieces(w)
		       ? pre_poll_by_pieces(w->kernel, w->n, w->size_piece)
		       : n;
}

static bool look_at_kernel(void *arg)
{
	struct pre_looked *looked = &((struct wait *)arg)->thread->looked;
	struct pre_look look = pre_look_begins(looked);
	struct wait *w = arg;
	long n = ask(w);

	pre_look_ends(looked, look, n != 0);
	w->error = n < 0 ? (int)n : 0;
	return n >= 0 && merge(w);
}

/* Of a program that polls busily the kernel is not asked each time. */
static bool is_spared(const struct wait *w)
{
	return !w->exact && pre_look_spared(&w->thread->looked, w->n_ready > 0);
}

static uint64_t watch(struct wait *w)
{
	uint64_t nsec = PRE_FOREVER, nsec_this;
	unsigned n_bits = pulc_waitset_n_bits(w->set);
	pulc_stream *s;

	for (nfds_t e = 0; e < w->n_entries; e++) {
		s = w->entries[e].stream;
		nsec_this = PRE_NSEC_UNSURE;
		if (pulc_stream_watch(s, w->set, (unsigned)(e % n_bits),
				      pre_poll_wanted(w->fds[w->entries[e].i].events)) == 0)
			nsec_this = pulc_stream_patience(s, w->set);
		if (nsec_this < nsec)
			nsec = nsec_this;
	}
	return nsec;
}

static void unwatch(struct wait *w)
{
	unsigned n_bits = pulc_waitset_n_bits(w->set), bit;

	for (nfds_t e = 0; e < w->n_entries; e++)
		pulc_stream_unwatch(w->entries[e].stream, w->set, (unsigned)(e % n_bits));
	while (pulc_waitset_take(w->set, &bit))
		;
}

static uint64_t patience(const struct wait *w)
{
	uint64_t nsec = pulc_notice_patience();

	return w->sets ? pre_sets_patience(NULL, nsec) : nsec;
}

static int sleep_over(struct wait *w, struct pollfd *fds, nfds_t n, uint64_t nsec_most)
{
	const sigset_t *mask = w->mask ? w->mask : w->signals.blocked ? &w->signals.old : NULL;
	struct timespec left;

	return (int)pre_sys(
		pre_real.ppoll(fds, n, pre_time_left(w->deadline, nsec_most, &left), mask));
}

/* Over what a sleep has of its own, behind the list, and of the list what can be asked often. */
static int sleep_in_pieces(struct wait *w, nfds_t n, uint64_t nsec_most)
{
	int ret = sleep_over(w, w->kernel + w->n, n - w->n,
			     nsec_most < PRE_NSEC_UNSURE ? nsec_most : PRE_NSEC_UNSURE);

	return ret < 0 ? ret : (int)pre_poll_by_pieces(w->kernel, w->n, w->size_piece);
}

/* One ppoll; 0 or -errno. */
static int sleep_in_kernel(struct wait *w, nfds_t n, uint64_t nsec_most)
{
	int ret = w->size_piece ? -EINVAL : sleep_over(w, w->kernel, n, nsec_most);

	if (ret == -EINVAL && goes_in_pieces(w))
		ret = sleep_in_pieces(w, n, nsec_most);
	return ret < 0 ? ret : 0;
}

/* Where a sleep's own stand: behind the list or, in a crowded one, where the program has left
 * places free. How long the list is with them; 0: there is no room. */
static nfds_t find_places(const struct wait *w, struct pollfd *ret_own[N_OWN])
{
	nfds_t n = 0;

	for (nfds_t i = 0; !w->crowded && i < N_OWN; i++)
		ret_own[i] = &w->kernel[w->n + i];
	if (!w->crowded)
		return w->n + N_OWN;
	for (nfds_t i = 0; i < w->n && n < N_OWN; i++)
		if (w->fds[i].fd < 0)
			ret_own[n++] = &w->kernel[i];
	return n == N_OWN ? w->n : 0;
}

/* Sleeps once. Returns 0, with w->n_ready set, or -errno. */
static int sleep_once(struct wait *w)
{
	struct pollfd *own[N_OWN], *bell, *psid;
	uint64_t nsec_most, nsec_notice, since;
	nfds_t n = find_places(w, own);
	int ret = 0;

	w->set = n && w->n_entries ? pulc_waitset_mine() : NULL;
	if (!w->set) {
		ret = sleep_in_kernel(w, w->n, w->n_entries ? PRE_NSEC_UNSURE : patience(w));
		if (ret == 0)
			(void)merge(w);
		return ret;
	}
	nsec_most = watch(w);
	nsec_notice = patience(w);
	since = pre_now();
	bell = own[0];
	psid = own[1];
	*bell = (struct pollfd){ .fd = pulc_waitset_fd(w->set), .events = POLLIN };
	psid->revents = 0;
	psid->fd = pulc_notice_fd(&psid->events);
	pulc_waitset_arm(w->set);
	/* A bit that is set already says that a peer has told us, of too little, and will not tell
	 * us again. */
	if (!look_at_memory(w) && !pulc_waitset_pending(w->set))
		ret = sleep_in_kernel(w, n, nsec_most < nsec_notice ? nsec_most : nsec_notice);
	pulc_waitset_disarm(w->set);
	if (bell->revents)
		pulc_waitset_quiet(w->set);
	unwatch(w);
	pulc_notice(psid->revents);
	*bell = *psid = (struct pollfd){ .fd = -1 };
	if (ret == -EINVAL && !w->crowded) {
		w->crowded = true;
		return 0;
	}
	if (ret == 0 && w->n_ready == 0 && merge(w))
		pre_spin_slept(&w->thread->spin, since);
	return ret;
}

/* Somebody may have sent through the kernel before he sent through a ring. */
static bool is_order_due(const struct wait *w)
{
	return w->near && w->n > 1;
}

/* Is the kernel to be asked for the rest? Of other streams it alone may know something, but rarely
 * does. */
static bool is_kernel_due(const struct wait *w)
{
	if (w->due || w->partial || is_order_due(w))
		return true;
	if (w->n_entries < w->n)
		return !is_spared(w);
	return (w->n > 1 || w->urgent) && (w->exact || pre_look_due(&w->thread->looked));
}

/* Memory has said that something is ready; the kernel may have to be asked for the whole truth. 0:
 * another thread has taken it meanwhile. Or -errno. */
static int answer_at_once(struct wait *w)
{
	if (is_kernel_due(w))
		(void)look_at_kernel(w);
	return w->error ? w->error : w->n_ready;
}

/* Nothing is waited for. */
static int look_once(struct wait *w)
{
	if (!w->due && is_spared(w))
		return 0;
	return look_at_kernel(w) ? w->n_ready : w->error;
}

/* A sleep has ended with an answer: rings may have something that came after what the kernel was
 * asked. 0 or more are ready. */
static int answer_after_sleep(struct wait *w)
{
	nfds_t e = 0;

	while (e < w->n_entries && !w->fds[w->entries[e].i].revents)
		e++;
	if (e < w->n_entries && is_order_due(w))
		(void)look_at_kernel(w);
	return w->n_ready;
}

static bool peer_here(const struct wait *w)
{
	return w->n_entries == 1 && pulc_stream_peer_here(w->entries[0].stream);
}

static int look_at_held(void *arg)
{
	struct wait *w = arg;
	struct timespec now = { 0 };
	int n = (int)raw_syscall(SYS_ppoll, w->kernel, w->n, &now, NULL, 8);

	if (n <= 0)
		return n;
	return merge(w) ? w->n_ready : 0;
}

/* All of the list is the kernel's while this lasts. */
static int look_ahead(struct wait *w)
{
	struct pre_ahead ahead = {
		.look = look_at_held, .arg = w, .deadline = w->deadline, .mask = w->mask
	};

	if (w->n_entries || !w->near || w->n > PRE_POLL_N_AHEAD || !pulc_loop_begins())
		return 0;
	return pre_look_ahead(&ahead, &w->signals);
}

static int wait_for_ready(struct wait *w)
{
	const struct pre_spinner spinner = {
		.memory = look_at_memory,
		.kernel = look_at_kernel,
		.arg = w,
		.spin = &w->thread->spin,
		.peer_here = peer_here(w),
		.deadline = w->deadline,
		.looked = &w->thread->looked,
	};
	int ret = look_ahead(w);

	if (ret != 0)
		return ret;
	if (w->n_entries && pre_spin(&spinner, &w->signals)) {
		ret = w->partial || is_order_due(w) ? answer_at_once(w) : w->n_ready;
		if (ret != 0)
			return ret;
	}
	if (w->signals.interrupted)
		return -EINTR;
	do {
		ret = sleep_once(w);
		if (ret < 0 || (w->n_ready > 0 && answer_after_sleep(w) > 0))
			return ret < 0 ? ret : w->n_ready;
	} while (w->deadline == PRE_FOREVER || pre_now() < w->deadline);
	return 0;
}

static int run(struct wait *w)
{
	int ret;

	w->thread = pre_self();
	begin(w);
	ret = look_at_memory(w) ? answer_at_once(w) : 0;
	if (ret == 0)
		ret = w->deadline == 0 ? look_once(w) : wait_for_ready(w);
	end(w);
	/* Memory has been asked, or the kernel for more than the streams own to: neither has let
	 * the program's signals in. */
	return ret == 0 && w->mask ? pre_signals_let_in(w->mask) : ret;
}

static int run_large(struct wait *w)
{
	size_t size = w->n * sizeof(struct entry) + (w->n + N_OWN) * sizeof(struct pollfd);
	long made = raw_syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1);
	int ret;

	if (made < 0 && made > -4096)
		return -ENOMEM;
	w->entries = (struct entry *)made;
	w->kernel = (struct pollfd *)(w->entries + w->n);
	ret = run(w);
	(void)raw_syscall(SYS_munmap, made, size);
	return ret;
}

/* due: see pre_poll_glance. */
static int go_long_way(struct wait w)
{
	struct entry entries[N_SMALL];
	struct pollfd kernel[N_SMALL + N_OWN];

	pre_cancellation_point();
	if (w.n > N_SMALL)
		return run_large(&w);
	w.entries = entries;
	w.kernel = kernel;
	return run(&w);
}

static int glance_or_wait(struct pollfd *fds, nfds_t n, uint64_t deadline, const sigset_t *mask,
			  bool selects)
{
	bool due;
	/* Nothing is no answer either where signals are to be let in. */
	int ret = pre_poll_glance(fds, n, deadline != 0 || mask, &due);

	if (ret != PRE_POLL_UNSURE)
		return ret;
	return go_long_way((struct wait){ .fds = fds,
					  .n = n,
					  .deadline = deadline,
					  .mask = mask,
					  .selects = selects,
					  .due = due });
}

int pre_poll_select(struct pollfd *fds, nfds_t n, uint64_t deadline, const sigset_t *mask)
{
	return glance_or_wait(fds, n, deadline, mask, true);
}

int pre_poll(struct pollfd *fds, nfds_t n, int msec)
{
	bool due;
	int ret = pre_poll_glance(fds, n, msec != 0, &due);

	if (ret != PRE_POLL_UNSURE)
		return ret;
	if (!pre_poll_concerned(fds, n))
		return pre_poll_of_kernel(fds, n, msec);
	return go_long_way((struct wait){
		.fds = fds, .n = n, .deadline = pre_deadline_msec(msec), .due = due });
}

int pre_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	if (!pre_timeout_valid(timeout))
		return (int)pre_sys(pre_real.ppoll(fds, n, timeout, mask));
	if (!pre_poll_concerned(fds, n))
		return pre_ppoll_of_kernel(fds, n, timeout, mask);
	return glance_or_wait(fds, n, pre_deadline(timeout), mask, false);
}
