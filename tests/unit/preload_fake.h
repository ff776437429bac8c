/*
 * A libpulc for tests of the shim: streams that the test itself makes attached, fills and drains.
 *
 * It keeps stream.h's contract to the letter and counts references, closings and calls, so that a
 * test of the shim is a test of its use of the contract. Streams are made by the shim's own socket
 * calls; fake_of(fd) finds them. Included by one test program, which is linked with the shim's
 * objects: they stand in libc's place there.
 */
#ifndef PULC_TESTS_PRELOAD_FAKE_H
#define PULC_TESTS_PRELOAD_FAKE_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <pulc/fds.h>
#include <pulc/signals.h>
#include <pulc/process.h>
#include <pulc/stream.h>

#include "file.h"

#define FAKE_N_BITS 128

struct pulc_waitset {
	int bell;
	pid_t pid;
	_Atomic bool armed;
	_Atomic bool bits[FAKE_N_BITS];
	_Atomic unsigned n_rings;
};

struct fake_watch {
	pulc_waitset *set; /* NULL: free */
	unsigned bit, events;
	bool armed;
};

struct pulc_stream {
	_Atomic int n_refs;
	enum pulc_role role;
	void *user;
	_Atomic bool attached;
	_Atomic unsigned ready; /* what memory says */
	_Atomic unsigned exact; /* what only the kernel adds */
	_Atomic uint64_t mark_in;
	uint32_t when;
	_Atomic size_t n_in; /* bytes to be received, all of them 'r' */
	size_t n_sent, room; /* bytes sent; how many more fit */
	unsigned reason;     /* kept on the kernel */
	unsigned on_kernel;  /* directions that went back there */
	bool far, here;
	unsigned n_advances;
	bool tells_at_once; /* the next watch fires as soon as it stands, before anybody is armed */
	int n_closings;
	int n_passed;
	_Atomic int fd_kept; /* when another one of several was closed */
	const int *_Atomic home;
	_Atomic int n_begun, n_held;
	struct fake_watch watches[8];
};

static struct {
	void (*attached)(pulc_stream *s, void *arg);
	void *arg;
	_Atomic int n_streams;
	uint64_t nsec_spin;
	/* Looks before a wait in the kernel. */
	bool looks_ahead;
	uint64_t looks_until;
	int n_looks, n_looked;
	_Atomic int n_loops;
	void (*between_looks)(void);
	uint64_t nsec_patience;
	bool no_waitset;
	int n_exact_looks;
	uint64_t n_connects;
	void (*advanced)(pulc_stream *s);
	bool is_upgraded; /* what a message brings was upgraded by somebody else */
	int n_inherited;
	void (*inheriting)(void);	/* in the midst of it */
	void (*moving)(void);		/* in the midst of closing what others use */
	void (*looked)(pulc_stream *s); /* after a look at s by memory, whose answer stands */
	pthread_mutex_t lock;
} fake = { .nsec_patience = UINT64_MAX, .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- for the test ---------------------------------------------------------------------------- */

static inline pulc_stream *fake_of(int fd)
{
	struct pre_file *f = pre_file_at(fd);

	return f ? atomic_load(&f->stream) : NULL;
}

static inline void fake_attach(pulc_stream *s)
{
	atomic_store(&s->attached, true);
	fake.attached(s, fake.arg);
}

/* The peer's side of a publication: marks boards, rings bells. */
static inline void fake_tell(pulc_stream *s, unsigned events)
{
	pthread_mutex_lock(&fake.lock);
	for (int i = 0; i < 8; i++) {
		struct fake_watch *w = &s->watches[i];

		if (!w->set || !w->armed || !(w->events & events))
			continue;
		w->armed = false;
		atomic_store(&w->set->bits[w->bit], true);
		if (atomic_load(&w->set->armed))
			pulc_waitset_ring(w->set);
	}
	pthread_mutex_unlock(&fake.lock);
}

/* From a sender who dies before he tells of it. */
static inline void fake_arrive_untold(pulc_stream *s, size_t n)
{
	pthread_mutex_lock(&fake.lock);
	s->n_in += n;
	(void)atomic_fetch_add(&s->mark_in, n);
	(void)atomic_fetch_or(&s->ready, POLLIN);
	pthread_mutex_unlock(&fake.lock);
}

static inline void fake_arrive(pulc_stream *s, size_t n)
{
	fake_arrive_untold(s, n);
	fake_tell(s, POLLIN);
}

static inline void fake_room(pulc_stream *s, size_t n)
{
	s->room += n;
	(void)atomic_fetch_or(&s->ready, POLLOUT);
	fake_tell(s, POLLOUT);
}

/* A connected pair of TCP sockets over the loopback, made by the shim's own calls. */
static inline void fake_pair(int fds[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	(void)!bind(listener, (struct sockaddr *)&addr, sizeof(addr));
	(void)!listen(listener, 1);
	(void)!getsockname(listener, (struct sockaddr *)&addr, &len);
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	(void)!connect(fds[0], (struct sockaddr *)&addr, len);
	fds[1] = accept(listener, NULL, NULL);
	close(listener);
}

/* ---- streams --------------------------------------------------------------------------------- */

void pulc_sys_set(const struct pulc_sys *sys)
{
	(void)sys;
}

int pulc_stream_new(int fd, enum pulc_role role, pulc_stream **ret_stream)
{
	pulc_stream *s = calloc(1, sizeof(*s));

	(void)fd;
	atomic_store(&s->n_refs, 1);
	atomic_fetch_add(&fake.n_streams, 1);
	s->role = role;
	*ret_stream = s;
	return 0;
}

/* UDP sockets are not the matter of these tests. */
int pulc_stream_new_datagram(int fd, int family, pulc_stream **ret_stream)
{
	(void)fd;
	(void)family;
	(void)ret_stream;
	return -ENOMEM;
}

bool pulc_stream_is_datagram(const pulc_stream *s)
{
	(void)s;
	return false;
}

void pulc_stream_met(pulc_stream *s, int fd, unsigned event, const struct sockaddr *addr,
		     socklen_t len)
{
	(void)s;
	(void)fd;
	(void)event;
	(void)addr;
	(void)len;
}

bool pulc_stream_connected(pulc_stream *s, int fd)
{
	(void)s;
	(void)fd;
	return false;
}

pulc_stream *pulc_stream_ref(pulc_stream *s)
{
	(void)atomic_fetch_add(&s->n_refs, 1);
	return s;
}

pulc_stream *pulc_stream_unref(pulc_stream *s)
{
	if (!s || atomic_fetch_sub(&s->n_refs, 1) != 1)
		return NULL;
	atomic_fetch_sub(&fake.n_streams, 1);
	free(s);
	return NULL;
}

void pulc_stream_closing(pulc_stream *s, int fd)
{
	s->n_closings += fcntl(fd, F_GETFD) >= 0 ? 1 : 1000;
}

bool pulc_stream_disconnected(pulc_stream *s, int fd)
{
	(void)s;
	(void)fd;
	return false;
}

void pulc_stream_keep_on_kernel(pulc_stream *s, int fd, enum pulc_reason reason)
{
	(void)fd;
	s->reason = reason;
}

static ssize_t fake_use_kernel(pulc_stream *s)
{
	(void)atomic_fetch_add(&s->n_begun, 1);
	return PULC_USE_KERNEL;
}

ssize_t pulc_stream_send(pulc_stream *s, int fd, const void *buf, size_t len, int flags)
{
	size_t n = len < s->room ? len : s->room;

	(void)fd;
	(void)buf;
	(void)flags;
	if (!atomic_load(&s->attached))
		return fake_use_kernel(s);
	if (atomic_load(&s->exact) & POLLERR)
		return -EPIPE;
	s->n_sent += n;
	s->room -= n;
	if (s->room == 0)
		(void)atomic_fetch_and(&s->ready, ~(unsigned)POLLOUT);
	return n || !len ? (ssize_t)n : -EAGAIN;
}

ssize_t pulc_stream_recv(pulc_stream *s, int fd, void *buf, size_t len, int flags)
{
	size_t n;

	(void)fd;
	if (!atomic_load(&s->attached))
		return fake_use_kernel(s);
	pthread_mutex_lock(&fake.lock);
	n = s->n_in < len ? s->n_in : len;
	if (!(flags & MSG_PEEK))
		s->n_in -= n;
	if (s->n_in == 0)
		(void)atomic_fetch_and(&s->ready, ~(unsigned)POLLIN);
	pthread_mutex_unlock(&fake.lock);
	memset(buf, 'r', n);
	return n ? (ssize_t)n : -EAGAIN;
}

ssize_t pulc_stream_sendmsg(pulc_stream *s, int fd, const struct msghdr *msg, int flags)
{
	ssize_t n, total = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		n = pulc_stream_send(s, fd, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len,
				     flags);
		if (n < 0)
			return total ? total : n;
		total += n;
	}
	return total;
}

ssize_t pulc_stream_recvmsg(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t n, total = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		n = pulc_stream_recv(s, fd, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len,
				     flags);
		if (n < 0)
			return total ? total : n;
		total += n;
	}
	return total;
}

void pulc_stream_send_end(pulc_stream *s, int fd, ssize_t n)
{
	(void)fd;
	(void)n;
	(void)atomic_fetch_sub(&s->n_begun, 1);
}

int pulc_stream_send_begin(pulc_stream *s, int fd)
{
	(void)fd;
	if (atomic_load(&s->attached))
		return -EALREADY;
	(void)fake_use_kernel(s);
	return 0;
}

void pulc_stream_recv_end(pulc_stream *s, int fd, ssize_t n)
{
	pulc_stream_send_end(s, fd, n);
}

int pulc_stream_kernel_enter(pulc_stream *s, unsigned events)
{
	(void)events;
	if (atomic_load(&s->attached))
		return -EALREADY;
	s->n_held++;
	return 0;
}

void pulc_stream_kernel_leave(pulc_stream *s, unsigned events)
{
	(void)events;
	s->n_held--;
}

int pulc_stream_shutdown(pulc_stream *s, int fd, int how)
{
	(void)s;
	(void)fd;
	(void)how;
	return PULC_USE_KERNEL;
}

int pulc_stream_inq(pulc_stream *s, int fd, int *ret_size)
{
	(void)fd;
	*ret_size = (int)atomic_load(&s->n_in);
	return 0;
}

int pulc_stream_outq(pulc_stream *s, int fd, int *ret_size)
{
	(void)s;
	(void)fd;
	*ret_size = 0;
	return 0;
}

void pulc_stream_nonblock_changed(pulc_stream *s, bool nonblock)
{
	(void)s;
	(void)nonblock;
}

void pulc_stream_option_changed(pulc_stream *s, int fd, int level, int option)
{
	(void)s;
	(void)fd;
	(void)level;
	(void)option;
}

bool pulc_stream_at_mark(pulc_stream *s, int fd)
{
	(void)s;
	(void)fd;
	return false;
}

void pulc_stream_add_info(pulc_stream *s, void *info, size_t len)
{
	(void)s;
	(void)info;
	(void)len;
}

bool pulc_stream_is_kernels(const pulc_stream *s)
{
	return !atomic_load(&s->attached);
}

void pulc_stream_advance(pulc_stream *s, int fd)
{
	s->n_advances += fd >= 0;
	if (fake.advanced)
		fake.advanced(s);
}

int pulc_accept_begins(int fd)
{
	(void)fd;
	return 0;
}

void pulc_accept_ended(int fd)
{
	(void)fd;
}

void pulc_loop_accepted(int fd)
{
	(void)fd;
}

bool pulc_loop_begins(void)
{
	bool looks = fake.looks_ahead;

	fake.n_loops++;
	return looks;
}

/* As often as the test says, or until something is there. */
int pulc_loop_looks(int (*look)(void *arg), void *arg, uint64_t nsec_deadline)
{
	uint32_t n_handled = pulc_signal_count();
	int n = 0;

	fake.looks_until = nsec_deadline;
	for (int i = 0; i < fake.n_looks && n == 0; i++) {
		n = look(arg);
		fake.n_looked++;
		if (n == 0 && fake.between_looks)
			fake.between_looks();
		if (n == 0 && pulc_signal_count() != n_handled)
			return -EINTR;
	}
	return n > 0 ? n : 0;
}

void pulc_stream_connect_begun(void)
{
	fake.n_connects++;
}

uint64_t pulc_stream_peer_connects(const pulc_stream *s)
{
	(void)s;
	return fake.n_connects;
}

bool pulc_stream_is_far(const pulc_stream *s)
{
	return s->far;
}

void pulc_process_confined(void)
{
}

void pulc_stream_loses(pulc_stream *s, int fd, int other)
{
	(void)fd;
	s->fd_kept = other;
}

int pulc_stream_fd(const pulc_stream *s, int fd)
{
	(void)s;
	return fd;
}

void pulc_stream_moved(pulc_stream *s, const int *home)
{
	atomic_store(&s->home, home);
	if (home && fake.moving)
		fake.moving();
}

int pulc_stream_take_error(pulc_stream *s)
{
	return atomic_fetch_and(&s->exact, ~(unsigned)POLLERR) & POLLERR ? ECONNRESET : 0;
}

void pulc_stream_keep_error(pulc_stream *s, int error)
{
	if (error == ECONNRESET)
		atomic_fetch_or(&s->exact, (unsigned)POLLERR);
}

bool pulc_stream_is_reset(pulc_stream *s)
{
	(void)s;
	return false;
}

bool pulc_stream_attached(const pulc_stream *s)
{
	return atomic_load(&s->attached);
}

unsigned pulc_stream_ready(pulc_stream *s, int fd, unsigned events)
{
	unsigned ready = (atomic_load(&s->ready) & events) | PULC_ON_KERNEL(s->on_kernel);

	(void)fd;
	if (fake.looked)
		fake.looked(s);
	return ready;
}

unsigned pulc_stream_poll(pulc_stream *s, int fd, unsigned events)
{
	(void)fd;
	fake.n_exact_looks++;
	return (atomic_load(&s->ready) | atomic_load(&s->exact)) & (events | POLLERR | POLLHUP);
}

uint64_t pulc_stream_mark(pulc_stream *s)
{
	return atomic_load(&s->mark_in);
}

void pulc_stream_on_attached(void (*callback)(pulc_stream *s, void *arg), void *arg)
{
	fake.attached = callback;
	fake.arg = arg;
}

void pulc_stream_set_user(pulc_stream *s, void *user)
{
	s->user = user;
}

void *pulc_stream_user(const pulc_stream *s)
{
	return s->user;
}

#include "preload_fake_wait.h"
#include "preload_fake_process.h"

/* ---- exec and exit: nobody executes anything ------------------------------------------------- */

pulc_stream *pulc_stream_of(int fd)
{
	(void)fd;
	return NULL;
}

uint64_t pulc_spin_start(struct pulc_spin *spin, bool peer_on_this_cpu)
{
	(void)spin;
	return peer_on_this_cpu ? 0 : fake.nsec_spin;
}

void pulc_spin_end(struct pulc_spin *spin, bool paid)
{
	(void)spin;
	(void)paid;
}

bool pulc_stream_peer_here(pulc_stream *s)
{
	return s->here;
}

#endif
