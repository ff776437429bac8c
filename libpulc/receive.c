/*
 * Receiving descriptors in somebody else's process.
 *
 * recvmsg puts a descriptor at the lowest free number: the very number that another thread's open()
 * counts on. Most of psid's descriptors are only mapped and closed, so in a process with several
 * threads that is done by a short-lived child that shares the address space but not the descriptor
 * table. It closes all but the channel first: its copy of the table must not keep the program's
 * files open. The parent thread waits (CLONE_VFORK), the program's wait() does not see the child
 * (no exit signal). A bell must live in the program's own table, and so must a connection to
 * another node, a semaphore, and the descriptor of an own slab, by which it is brought to the next
 * psid: they pass through a low number for a moment.
 *
 * In a process with one thread nobody can look while we receive, if signals are held off. But where
 * the table of descriptors is full memory is mapped by such a child too: a descriptor that finds no
 * number is lost, and psid sends none twice. A bell is done without, for psid rings.
 *
 * A process may have no room for what is to be mapped (a limit of its address space, or of its
 * mappings; no number, and no child to map it), or find that a slab's header makes no sense. The
 * message is delivered without it: psid and the other side go by its having come, and somebody may
 * wait for it.
 */
#include "receive.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>

#include <pulc/fds.h>

#include "board.h"
#include "macros.h"
#include "races.h"
#include "rawsys.h"
#include "slabs.h"

#define SIZE_STACK 32768

/* All used under the client lock. */
static LARGE unsigned char buffer[WIRE_SIZE_MAX];
static LARGE struct wire_arena arena;
static LARGE unsigned char stack[SIZE_STACK] __attribute__((aligned(64)));

struct job {
	int channel;
	struct received *r;
	int result;
};

static void use_own_slab(struct received *r, int *fd)
{
	if (shm_slab_map(*fd, r->msg->upgrade->own->size, true, &r->own) == 0 && r->keeps) {
		r->own_fd = *fd;
		*fd = -1;
	}
}

/* Maps what the message says its descriptors are; closes all of them but what is kept. */
static void use_fds(struct received *r, int *fds, size_t n)
{
	const Pulc__Wire__ToClient *m = r->msg;
	size_t i = 0;
	int e = 0;

	if (m->body_case == PULC__WIRE__TO_CLIENT__BODY_WELCOME && n == 1)
		(void)shm_boards_map(fds[i++], &r->boards);
	if (m->body_case == PULC__WIRE__TO_CLIENT__BODY_INTRODUCE) {
		if (m->introduce->board_fd && i < n)
			e = shm_boards_map(fds[i++], &r->boards);
		if (e == 0 && i < n) {
			r->bell = fds[i];
			fds[i++] = -1;
		}
	}
	if (m->body_case == PULC__WIRE__TO_CLIENT__BODY_MESSAGE_AREA && n == 1)
		(void)shm_area_map(fds[i++], m->message_area->size, m->message_area->own, &r->area);
	if ((m->body_case == PULC__WIRE__TO_CLIENT__BODY_JOINED ||
	     m->body_case == PULC__WIRE__TO_CLIENT__BODY_PORT_REPLY) &&
	    n == 1) {
		r->socket = fds[i];
		fds[i++] = -1;
	}
	if (m->body_case == PULC__WIRE__TO_CLIENT__BODY_UPGRADE && m->upgrade->own &&
	    m->upgrade->peer) {
		if (m->upgrade->own_slab_fd && i < n)
			use_own_slab(r, &fds[i++]);
		if (m->upgrade->peer_slab_fd && i < n)
			(void)shm_slab_map(fds[i++], m->upgrade->peer->size, false, &r->peer);
	}
	for (i = 0; i < n; i++)
		if (fds[i] >= 0)
			(void)raw_close(fds[i]);
}

static int receive_here(int channel, struct received *r)
{
	int fds[WIRE_FDS_MAX], e;
	size_t len, n = 0;
	bool lost;

	e = wire_recv(channel, buffer, &len, fds, &n);
	lost = e == -EMFILE;
	if (e < 0 && !lost)
		return e;
	/* Low numbers are given back before anything else is done. */
	for (size_t i = 0; r->is_seen && i < n; i++)
		fds[i] = pulc_fd_lift(fds[i]);
	wire_arena_init(&arena);
	r->msg = pulc__wire__to_client__unpack(&arena.allocator, len, buffer);
	if (!r->msg || (lost && r->msg->body_case != PULC__WIRE__TO_CLIENT__BODY_UPGRADE)) {
		for (size_t i = 0; i < n; i++)
			(void)raw_close(fds[i]);
		return -EBADMSG;
	}
	use_fds(r, fds, n);
	return 0;
}

static int child(void *arg)
{
	struct job *job = arg;

	job->r->is_seen = false;
	if (job->channel > 0)
		(void)raw_syscall(SYS_close_range, 0, job->channel - 1, 0, 0, 0, 0);
	(void)raw_syscall(SYS_close_range, job->channel + 1, ~0u, 0, 0, 0, 0);
	job->result = receive_here(job->channel, job->r);
	(void)raw_syscall(SYS_exit, 0, 0, 0, 0, 0, 0);
	return 0;
}

/* With a private descriptor table; if no process is to be had, as a bell is. */
static int receive_aside(int channel, struct received *r)
{
	struct job job = { .channel = channel, .r = r, .result = -EAGAIN };
	int pid = clone(child, stack + SIZE_STACK, CLONE_VM | CLONE_VFORK, &job);

	if (pid < 0)
		return receive_here(channel, r);
	while (raw_syscall(SYS_wait4, pid, NULL, __WCLONE, NULL, 0, 0) == -EINTR)
		;
	return job.result;
}

enum brings {
	NOTHING,  /* or a bell */
	MEMORY,	  /* whose descriptors are not kept */
	OWN_SLAB, /* whose descriptor is kept */
};

/* What the next message brings; negative errno: there is none. */
static int next_brings(int channel)
{
	struct iovec iov = { .iov_base = buffer, .iov_len = sizeof(buffer) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	const Pulc__Wire__ToClient *m;
	ssize_t n = raw_recvmsg(channel, &msg, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return (int)n;
	wire_arena_init(&arena);
	m = pulc__wire__to_client__unpack(&arena.allocator, (size_t)n, buffer);
	if (m && (m->body_case == PULC__WIRE__TO_CLIENT__BODY_WELCOME ||
		  m->body_case == PULC__WIRE__TO_CLIENT__BODY_MESSAGE_AREA))
		return MEMORY;
	if (!m || m->body_case != PULC__WIRE__TO_CLIENT__BODY_UPGRADE)
		return NOTHING;
	if (m->upgrade->own_slab_fd && slabs_can_keep())
		return OWN_SLAB;
	return m->upgrade->own_slab_fd || m->upgrade->peer_slab_fd ? MEMORY : NOTHING;
}

/* Are there no numbers for the two descriptors of a message? They would be lost, and with them what
 * it says. */
static bool table_is_full(int channel)
{
	int first = -1, second = -1;
	bool full = pulc_fd_copy(channel, &first) < 0 || pulc_fd_copy(channel, &second) < 0;

	pulc_fd_release(&first);
	pulc_fd_release(&second);
	return full;
}

static int receive(int channel, struct received *r)
{
	int brings = next_brings(channel);

	if (brings == -EAGAIN)
		return brings;
	if (brings > NOTHING && !RACES_SOUGHT &&
	    ((brings == MEMORY && !__libc_single_threaded) || table_is_full(channel))) {
		r->keeps = false;
		return receive_aside(channel, r);
	}
	return receive_here(channel, r);
}

int receive_message(int fd, struct received *r)
{
	uint64_t all = ~0ull, before;
	int e, saved = errno;

	memset(r, 0, sizeof(*r));
	r->bell = r->own_fd = r->socket = -1;
	r->keeps = slabs_can_keep();
	r->is_seen = !__libc_single_threaded;
	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all), 0, 0);
	e = receive(fd, r);
	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(all), 0, 0);
	errno = saved;
	return e;
}

void receive_done(struct received *r)
{
	shm_boards_unmap(r->boards);
	shm_slab_unmap(&r->own);
	shm_slab_unmap(&r->peer);
	shm_area_unmap(&r->area);
	if (r->bell >= 0)
		(void)raw_close(r->bell);
	if (r->own_fd >= 0)
		(void)raw_close(r->own_fd);
	if (r->socket >= 0)
		(void)raw_close(r->socket);
}
