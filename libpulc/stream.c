/*
 * Streams: the life of a connected TCP socket in this process. Its data calls: transfer.c.
 *
 * Until a stream is attached the caller makes each data call on the kernel as it stands, between a
 * begin and an end that are counted here: a direction switches only when nobody is inside.
 *
 * A stream's memory is never given back to the system, so that a thread that raced with the last
 * close reads a stream; the shim's reference keeps the mapping as long as a call is inside.
 */
#include <errno.h>
#include <sys/ioctl.h>

#include <pulc/process.h>

#include "cleanup.h"
#include "deliver.h"
#include "kernel_wait.h"
#include "label.h"
#include "macros.h"
#include "pool.h"
#include "private.h"
#include "rawsys.h"
#include "upgrade.h"

#define N_NEAR 2
static OFTEN char near[N_NEAR * POOL_SIZE(sizeof(struct pulc_stream))] __attribute__((aligned(64)));
static OFTEN struct pool streams = POOL_INIT_NEAR(sizeof(struct pulc_stream), near);
/* Connections, and sockets of datagrams: few, and only they have something to do at a fork. */
static OFTEN struct pulc_stream *firsts[2];
static struct pulc_stream *newly_attached;

static void (*on_attached)(pulc_stream *, void *);
static void *on_attached_arg;

/* ---- life ------------------------------------------------------------------------------------ */

USUAL struct pulc_stream *stream_alloc(int fd, const struct handler *handler)
{
	struct pulc_stream *s, **first = &firsts[handler->is_datagram];

	if (!client_lock())
		return NULL;
	s = pool_get(&streams);
	if (s) {
		*s = (struct pulc_stream){ .handler = handler };
		/* Before the fork of another thread can find it: the child enters itself here. */
		s->nursery = nursery_enter();
		stream_set_fd(s, fd);
		atomic_store(&s->n_refs, 1);
		s->next = *first;
		if (*first)
			(*first)->prev = s;
		*first = s;
	}
	client_unlock();
	return s;
}

USUAL PULC_EXPORT int pulc_stream_new(int fd, enum pulc_role role, pulc_stream **ret_stream)
{
	struct pulc_stream *s;

	if (!tcp_take_credit)
		tcp_take_credit = client_credit_take;
	s = stream_alloc(fd, &stream_handler);
	if (!s)
		return -ENOMEM;
	s->role = s->tcp.role = role;
	*ret_stream = s;
	return 0;
}

PULC_EXPORT pulc_stream *pulc_stream_ref(pulc_stream *s)
{
	(void)atomic_fetch_add_explicit(&s->n_refs, 1, memory_order_relaxed);
	return s;
}

static void unlink_stream(struct pulc_stream *s)
{
	if (s->prev)
		s->prev->next = s->next;
	else
		firsts[s->handler->is_datagram] = s->next;
	if (s->next)
		s->next->prev = s->prev;
}

/* Gives up a reference that is not the last one. */
static bool unref_early(struct pulc_stream *s)
{
	uint32_t n = atomic_load_explicit(&s->n_refs, memory_order_relaxed);

	while (n > 1)
		if (atomic_compare_exchange_weak_explicit(
			    &s->n_refs, &n, n - 1, memory_order_release, memory_order_relaxed))
			return true;
	return false;
}

USUAL static void stream_free(struct pulc_stream *s)
{
	if (!s->left)
		nursery_leave(s->nursery);
	s->handler->release(s);
	unlink_stream(s);
	pool_put(&streams, s);
}

/* The last reference goes under the lock: who finds a stream by its token or in the list, with the
 * lock held, may take another one. */
USUAL PULC_EXPORT pulc_stream *pulc_stream_unref(pulc_stream *s)
{
	if (!s || unref_early(s))
		return NULL;
	if (!client_lock())
		/* inside our own critical section: better to keep it than to tear it */
		return NULL;
	if (atomic_fetch_sub_explicit(&s->n_refs, 1, memory_order_acq_rel) == 1)
		stream_free(s);
	client_unlock();
	return NULL;
}

bool stream_owns(const struct pulc_stream *s, int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return raw_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 && cookie == s->cookie;
}

PULC_EXPORT void pulc_stream_moved(pulc_stream *s, const int *home)
{
	if (home)
		stream_set_fd(s, *home);
	atomic_store_explicit(&s->home, home, memory_order_release);
}

PULC_EXPORT void pulc_stream_loses(pulc_stream *s, int fd, int other)
{
	if (other >= 0)
		(void)atomic_compare_exchange_strong(&s->fd, &fd, other);
}

USUAL PULC_EXPORT bool pulc_any_stream(void)
{
	return firsts[0] || firsts[1];
}

USUAL void stream_list_each(void (*f)(struct pulc_stream *))
{
	for (struct pulc_stream *s = firsts[0]; s; s = s->next)
		f(s);
	stream_list_each_datagram(f);
}

void stream_list_each_datagram(void (*f)(struct pulc_stream *))
{
	for (struct pulc_stream *s = firsts[1]; s; s = s->next)
		f(s);
}

USUAL PULC_EXPORT bool pulc_stream_attached(const pulc_stream *s)
{
	return atomic_load_explicit(&s->state, memory_order_acquire) == STREAM_ATTACHED;
}

PULC_EXPORT bool pulc_stream_is_kernels(const pulc_stream *s)
{
	return s->handler->is_datagram || !pulc_stream_attached(s) || tcp_has_left(&s->tcp);
}

PULC_EXPORT bool pulc_stream_is_far(const pulc_stream *s)
{
	return atomic_load_explicit(&s->far, memory_order_relaxed);
}

PULC_EXPORT void pulc_stream_advance(pulc_stream *s, int fd)
{
	if (s->handler->is_datagram)
		return;
	if (!pulc_stream_attached(s))
		upgrade_step(s, fd);
	else if (!tcp_has_left(&s->tcp))
		tcp_begin(&s->tcp, fd);
}

PULC_EXPORT void pulc_stream_connect_begun(void)
{
	if (!pulc_any_stream() || !client_lock())
		return;
	slabs_count_connect();
	client_unlock();
}

PULC_EXPORT uint64_t pulc_stream_peer_connects(const pulc_stream *s)
{
	return s->peer_slab ? shm_slab_connects(&s->peer_slab->map) : 0;
}

/* Of closing here and leaving with the process one alone gives up the hold. */
static bool may_give_up(pulc_stream *s)
{
	bool may;

	if (!client_lock()) /* inside our own critical section, and nobody else is in one */
		return !s->left;
	may = !s->left && !s->ended;
	s->ended = true;
	client_unlock();
	return may;
}

USUAL static void stream_closing(pulc_stream *s, int fd)
{
	if (!pulc_stream_attached(s) && (atomic_load(&s->state) != STREAM_NEVER || s->told))
		upgrade_closing(s, fd);
	/* An upgrade may have come just now: then its peer waits for the word. */
	if (!pulc_stream_attached(s) || !may_give_up(s))
		return;
	slabs_let_go(s->own_slab, s->own_slot);
	leave_warn(s);
	upgrade_leaving(s);
	tcp_close(&s->tcp, fd);
	/* A sender asleep on us gets no event from the kernel if we had shut down before. */
	stream_tell(s, TCP_SENT | TCP_TAKEN);
}

static void stream_keep_on_kernel(pulc_stream *s, int fd, enum pulc_reason reason)
{
	int state = atomic_load(&s->state);

	while (state < STREAM_ATTACHED &&
	       !atomic_compare_exchange_weak(&s->state, &state, STREAM_NEVER))
		;
	if (state != STREAM_ATTACHED)
		return;
	stream_downgrade(s, fd, reason == PULC_REASON_UNSUPPORTED);
	upgrade_note(s, reason);
}

PULC_EXPORT void pulc_stream_on_attached(void (*callback)(pulc_stream *, void *), void *arg)
{
	on_attached_arg = arg;
	on_attached = callback;
}

void stream_note_attached(struct pulc_stream *s)
{
	if (!on_attached)
		return;
	s->attached_next = newly_attached;
	newly_attached = pulc_stream_ref(s);
}

USUAL struct pulc_stream *stream_take_attached(void)
{
	/* Not written to for nothing: after a fork that costs a page. */
	return newly_attached ? TAKE_PTR(newly_attached) : NULL;
}

USUAL void stream_say_attached(struct pulc_stream *list)
{
	while (UNLIKELY(list != NULL)) {
		struct pulc_stream *s = list;

		list = s->attached_next;
		on_attached(s, on_attached_arg);
		(void)pulc_stream_unref(s);
	}
}

USUAL PULC_EXPORT void pulc_stream_set_user(pulc_stream *s, void *user)
{
	s->user = user;
}

PULC_EXPORT void *pulc_stream_user(const pulc_stream *s)
{
	return s->user;
}

/* ---- on the kernel --------------------------------------------------------------------------- */

/* Counts the caller as inside the kernel. False: the stream was attached meanwhile, go by tcp. The
 * count is raised before the state is read again, the switcher sets the state before it reads the
 * count: one of the two sees the other. */
USUAL bool stream_native_begin(struct pulc_stream *s, int fd, _Atomic uint32_t *count)
{
	upgrade_step(s, fd);
	if (atomic_load_explicit(&s->state, memory_order_relaxed) == STREAM_NEVER)
		return true;
	(void)atomic_fetch_add(count, 1);
	if (atomic_load(&s->state) != STREAM_ATTACHED)
		return true;
	(void)atomic_fetch_sub(count, 1);
	return false;
}

/* Never below zero: a stream may have become STREAM_NEVER in between. */
static void count_down(_Atomic uint32_t *count)
{
	uint32_t n = atomic_load_explicit(count, memory_order_relaxed);

	while (n && !atomic_compare_exchange_weak(count, &n, n - 1))
		;
}

/* A side that has left hears of a reset from the kernel; what the rings say of it is then told. */
USUAL static void native_end(struct pulc_stream *s, _Atomic uint32_t *count, ssize_t n)
{
	if (atomic_load_explicit(&s->state, memory_order_relaxed) != STREAM_NEVER)
		count_down(count);
	if (UNLIKELY(n == -ECONNRESET) && pulc_stream_attached(s))
		tcp_note_told(&s->tcp);
}

/* This very call is the kernel's, whatever else is not. */
ssize_t stream_on_kernel(_Atomic uint32_t *count)
{
	(void)atomic_fetch_add(count, 1);
	return PULC_USE_KERNEL;
}

USUAL static void stream_send_end(pulc_stream *s, int fd, ssize_t n)
{
	(void)fd;
	loop_sent(s, n);
	native_end(s, &s->tcp.n_native_sends, n);
}

USUAL static void stream_recv_end(pulc_stream *s, int fd, ssize_t n)
{
	kernel_wait_ended(s, fd, n);
	native_end(s, &s->tcp.n_native_receives, n);
}

/* An upgrade may come just now. A reset that only we know of is for the ring's calls to tell. */
static int stream_send_begin(pulc_stream *s, int fd)
{
	if (!pulc_stream_attached(s) && stream_native_begin(s, fd, &s->tcp.n_native_sends))
		return 0;
	if (!tcp_has_left(&s->tcp) || tcp_owes(&s->tcp) ||
	    (tcp_is_reset(&s->tcp) && tcp_has_reset(&s->tcp)))
		return -EALREADY;
	(void)stream_on_kernel(&s->tcp.n_native_sends);
	return 0;
}

static void stream_kernel_leave(pulc_stream *s, unsigned events)
{
	if (events & POLLIN)
		count_down(&s->tcp.n_native_receives);
	if (events & POLLOUT)
		count_down(&s->tcp.n_native_sends);
}

static int stream_kernel_enter(pulc_stream *s, unsigned events)
{
	if (events & POLLIN)
		(void)atomic_fetch_add(&s->tcp.n_native_receives, 1);
	if (events & POLLOUT)
		(void)atomic_fetch_add(&s->tcp.n_native_sends, 1);
	if (atomic_load(&s->state) != STREAM_ATTACHED)
		return 0;
	stream_kernel_leave(s, events);
	return -EALREADY;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* On the kernel, if it still is there: an upgrade needs the lock, and does not come in between. */
static bool shutdown_native(struct pulc_stream *s, int fd, int how, int *ret_e)
{
	bool locked = client_lock(), native = !pulc_stream_attached(s);

	if (native)
		*ret_e = raw_shutdown(fd, how);
	if (locked)
		client_unlock();
	return native;
}

static int stream_shutdown(pulc_stream *s, int fd, int how)
{
	int e;

	if (!pulc_stream_attached(s) && shutdown_native(s, fd, how, &e))
		return e;
	deliver_begins(s);
	e = tcp_shutdown(&s->tcp, fd, how);
	stream_tell(s, TCP_SENT);
	/* The kernel wakes all that sleep on the socket, whichever direction was shut. */
	stream_tell_own(s);
	return e;
}

static int clamp_size(uint64_t size)
{
	return (int)MIN(size, (uint64_t)INT32_MAX);
}

static int stream_inq(pulc_stream *s, int fd, int *ret_size)
{
	uint64_t size;
	int e;

	if (!pulc_stream_attached(s))
		return raw_ioctl(fd, FIONREAD, ret_size);
	(void)tcp_return(&s->tcp, fd);
	e = tcp_inq(&s->tcp, fd, &size);
	if (e == 0)
		*ret_size = clamp_size(size);
	return e;
}

static bool stream_at_mark(pulc_stream *s, int fd)
{
	int mark = 0;

	if (!pulc_stream_attached(s))
		return raw_ioctl(fd, SIOCATMARK, &mark) == 0 && mark;
	return tcp_at_mark(&s->tcp, fd);
}

static void stream_add_info(pulc_stream *s, void *info, size_t len)
{
	if (pulc_stream_attached(s))
		tcp_add_info(&s->tcp, info, len);
}

static int stream_outq(pulc_stream *s, int fd, int *ret_size)
{
	uint64_t size;
	int e;

	if (!pulc_stream_attached(s))
		return raw_ioctl(fd, TIOCOUTQ, ret_size);
	e = tcp_outq(&s->tcp, fd, &size);
	if (e == 0)
		*ret_size = clamp_size(size);
	return e;
}

static void stream_nonblock_changed(pulc_stream *s, bool nonblock)
{
	atomic_store_explicit(&s->kernel_wait.is_nonblocking, nonblock, memory_order_relaxed);
	atomic_store_explicit(&s->kernel_wait.is_known, true, memory_order_relaxed);
	if (pulc_stream_attached(s))
		atomic_store(&s->tcp.ring.own->nonblock, nonblock);
}

static bool is_buffer(int option)
{
	return option == SO_SNDBUF || option == SO_SNDBUFFORCE || option == SO_RCVBUF ||
	       option == SO_RCVBUFFORCE || option == SO_BUF_LOCK;
}

static void stream_option_changed(pulc_stream *s, int fd, int level, int option)
{
	if (!pulc_stream_attached(s) || !tcp_heeds(level, option))
		return;
	tcp_attach(&s->tcp, fd);
	/* Who waits for room, here or at the peer, may have some now: the kernel wakes him. */
	if (level == SOL_SOCKET && is_buffer(option)) {
		stream_tell_own(s);
		stream_tell(s, TCP_TAKEN);
	}
}

static int stream_take_error(pulc_stream *s)
{
	if (!pulc_stream_attached(s))
		return 0;
	/* The kernel alone may know that the peer is gone. */
	(void)tcp_finds_reset(&s->tcp, s->fd);
	return stream_told(s, s->fd, tcp_take_error(&s->tcp, s->fd));
}

static bool stream_is_reset(pulc_stream *s)
{
	return pulc_stream_attached(s) && tcp_is_reset(&s->tcp);
}

static unsigned stream_ready(pulc_stream *s, int fd, unsigned events)
{
	unsigned on_kernel = PULC_ON_KERNEL(tcp_on_kernel(&s->tcp));

	if (UNLIKELY(tcp_is_ending(&s->tcp) || tcp_is_split(&s->tcp) || tcp_is_short(&s->tcp)))
		return tcp_poll(&s->tcp, fd, events) | on_kernel;
	return tcp_ready(&s->tcp, events) | on_kernel;
}

unsigned stream_poll(pulc_stream *s, int fd, unsigned events)
{
	(void)tcp_watch(&s->tcp);
	return tcp_poll(&s->tcp, fd, events);
}

static uint64_t stream_mark(pulc_stream *s)
{
	return shm_mark(&s->tcp.ring);
}

static uint32_t stream_when(pulc_stream *s)
{
	return shm_rx_noted(&s->tcp.ring);
}

/* ---- the handler ----------------------------------------------------------------------------- */

/* Attached streams are left alone: to write to each would copy all their pages. */
USUAL static void forked(struct pulc_stream *s)
{
	int state = atomic_load(&s->state);

	if (state == STREAM_ATTACHED)
		return;
	s->nursery = nursery_inherit(s->nursery);
	s->told = false;
	if (state == STREAM_HINTED || state == STREAM_GIVEN)
		atomic_store(&s->state, STREAM_FRESH);
	/* The threads that were inside the kernel are not here. */
	atomic_store(&s->tcp.n_native_sends, 0);
	atomic_store(&s->tcp.n_native_receives, 0);
}

static void adopt(struct pulc_stream *s, void (*tell)(uint64_t conn))
{
	if (pulc_stream_attached(s) && s->conn)
		tell(s->conn);
}

/* A connection has one peer for life, a socket that was disconnected another one. */
static void met(struct pulc_stream *s, int fd, unsigned event, const struct sockaddr *addr,
		socklen_t len)
{
	(void)s;
	(void)fd;
	(void)event;
	(void)addr;
	(void)len;
}

static bool connected(struct pulc_stream *s, int fd)
{
	if (LIKELY(!pulc_stream_attached(s)) || !tcp_connected_anew(&s->tcp))
		return false;
	label_clear(fd);
	return true;
}

const struct handler stream_handler = {
	.name = "tcp",
	.send = stream_send,
	.recv = stream_recv,
	.sendmsg = stream_sendmsg,
	.recvmsg = stream_recvmsg,
	.send_end = stream_send_end,
	.recv_end = stream_recv_end,
	.send_begin = stream_send_begin,
	.met = met,
	.connected = connected,
	.kernel_enter = stream_kernel_enter,
	.kernel_leave = stream_kernel_leave,
	.ready = stream_ready,
	.poll = stream_poll,
	.mark = stream_mark,
	.when = stream_when,
	.watch = stream_watch,
	.unwatch = stream_unwatch,
	.patience = stream_patience,
	.peer_here = stream_peer_here,
	.shutdown = stream_shutdown,
	.inq = stream_inq,
	.outq = stream_outq,
	.at_mark = stream_at_mark,
	.add_info = stream_add_info,
	.take_error = stream_take_error,
	.keep_error = stream_keep_error,
	.is_reset = stream_is_reset,
	.nonblock_changed = stream_nonblock_changed,
	.option_changed = stream_option_changed,
	.keep_on_kernel = stream_keep_on_kernel,
	.closing = stream_closing,
	.release = upgrade_release,
	.psid_lost = upgrade_begin_anew,
	.forked = forked,
	.adopt = adopt,
};
