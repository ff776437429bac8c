/*
 * A call that is the kernel's own looks for what it waits for a little before it sleeps there.
 *
 * The first exchanges of a connection go through the kernel, and all of one whose peer is outside
 * PULC; so does the connection itself. To be put to sleep and to be woken on an idle processor
 * costs more than many an answer takes, and spares him who answers to wake anybody. So an accept
 * that blocks, and a blocking receive that follows a send or is the first one, ask the kernel
 * whether there is something, again and again, as long and in the same cases as a wait for a ring
 * spins (docs/waiting.md); then the program's own call is made, which finds what it waits for or
 * sleeps as it would have done.
 *
 * The peer's processor is the one from which the last segment came (SO_INCOMING_CPU). Before the
 * first answer to one who has connected that is his own, which made the handshake, and says
 * nothing; who accepts learns it behind the accept, and then counts no short sleep for a spin that
 * would have paid. A peer on another node is not waited for so, once it is known to be there.
 *
 * A handler that runs meanwhile has interrupted the call as if it had slept. The descriptor may be
 * closed by another thread meanwhile: a call that sleeps goes on with its file, so a receive is
 * made here then, by the descriptor that has been kept for such calls. An accept finds its listener
 * closed, as one that had come later.
 *
 * Source: measured (docs/waiting.md, "Before a sleep in the kernel").
 */
#include "kernel_wait.h"

#include <errno.h>
#include <fcntl.h>

#include "clock.h"
#include "macros.h"
#include "pulse.h"
#include "rawsys.h"

/* Between two looks: others work with the socket, too. */
#define N_RELAX 16u
/* A call that takes no longer has not slept. */
#define NSEC_AT_ONCE (3 * NSEC_PER_USEC)

/* One for each kind of call in each thread. */
struct place {
	struct pulc_spin spin;
	/* when a call was made that may sleep and might have looked before; 0: none */
	uint64_t nsec_asleep;
};
static __thread struct place receiving __attribute__((tls_model("initial-exec")));
static __thread struct place accepting __attribute__((tls_model("initial-exec")));
/* What was seen of the last listener. A hint: another one may have its number by now. */
static __thread struct {
	unsigned number; /* its descriptor, plus one; 0: none */
	bool is_nonblocking;
} listener __attribute__((tls_model("initial-exec")));

USUAL bool peer_is_here(int fd)
{
	int cpu = -1;
	socklen_t len = sizeof(cpu);

	return raw_getsockopt(fd, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &len) == 0 &&
	       (uint32_t)cpu == this_cpu();
}

static bool knows_cpu(const struct pulc_stream *s)
{
	return s->role == PULC_ACCEPTED ||
	       atomic_load_explicit(&s->kernel_wait.has_heard, memory_order_relaxed);
}

static bool has_something(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec now = { 0, 0 };

	return raw_ppoll(&p, 1, &now) > 0;
}

static bool blocks(int fd)
{
	int flags = raw_fcntl(fd, F_GETFL, 0);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

/* Asked of the kernel but once of one that does not block, and told by who makes it so. */
static bool seems_nonblocking(const struct pulc_stream *s)
{
	return atomic_load_explicit(&s->kernel_wait.is_nonblocking, memory_order_relaxed);
}

static bool asked_blocks(struct pulc_stream *s, int fd)
{
	bool is_nonblocking = !blocks(fd);

	atomic_store_explicit(&s->kernel_wait.is_nonblocking, is_nonblocking, memory_order_relaxed);
	atomic_store_explicit(&s->kernel_wait.is_known, true, memory_order_relaxed);
	return !is_nonblocking;
}

static bool listener_is_last(int fd)
{
	return listener.number == (unsigned)fd + 1;
}

static bool listener_asked_blocks(int fd)
{
	listener.is_nonblocking = !blocks(fd);
	listener.number = (unsigned)fd + 1;
	return !listener.is_nonblocking;
}

/* The kernel's poll is silent about less than SO_RCVLOWAT, which a receive may return all the
 * same. */
static bool is_for_any_byte(int fd)
{
	int low = 1;
	socklen_t len = sizeof(low);

	return raw_getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len) == 0 && low <= 1;
}

/* An event loop receives what is there already: it would look in vain each time if it were not
 * known before the first look. Another holder may have changed it since, so who is about to spin
 * asks again. */
static bool is_worth_it(struct pulc_stream *s, int fd)
{
	bool is_known = atomic_load_explicit(&s->kernel_wait.is_known, memory_order_relaxed);

	if ((!is_known && !asked_blocks(s, fd)) || has_something(fd) ||
	    (is_known && !asked_blocks(s, fd)))
		return false;
	if (!is_for_any_byte(fd))
		return false;
	if (!knows_cpu(s) || !peer_is_here(fd))
		return true;
	pulc_spin_end(&receiving.spin, false);
	return false;
}

/* The same of a listener. */
static bool accept_is_worth_it(int fd)
{
	bool is_known = listener_is_last(fd);

	if (!is_known && !listener_asked_blocks(fd))
		return false;
	return !has_something(fd) && (!is_known || listener_asked_blocks(fd));
}

/* What a handler that has run since means for a call that sleeps: 0, none has; -EINTR;
 * PULC_BEGIN_AGAIN. */
USUAL static int interrupted(int fd, struct signal_counts before)
{
	struct timeval timeout = { 0 };
	socklen_t len = sizeof(timeout);
	int e = signals_since(before);

	if (LIKELY(e != -ERESTART))
		return e;
	if (client_is_confined())
		return PULC_BEGIN_AGAIN;
	/* With a time-out it is not begun again (signal(7)). */
	(void)raw_getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, &len);
	return timeout.tv_sec || timeout.tv_usec ? -EINTR : PULC_BEGIN_AGAIN;
}

/* s: of a receive, else NULL. 1: there is something; 0: it was not worth while; else as
 * interrupted. */
static int spin(struct pulc_stream *s, int fd, uint64_t budget)
{
	struct signal_counts before = signals_counted();
	uint64_t begun = nsec_now();
	int e;

	do {
		for (unsigned i = 0; i < N_RELAX; i++)
			cpu_relax();
		fd = s ? stream_fd(s, fd) : fd;
		e = interrupted(fd, before);
		if (e < 0)
			return e;
		if (has_something(fd)) {
			e = interrupted(fd, before);
			return e < 0 ? e : 1;
		}
	} while (nsec_now() - begun < budget && !client_is_confined());
	return interrupted(fd, before);
}

/* As spin, and remembers what it was good for. */
USUAL static int spin_in(struct place *place, struct pulc_stream *s, int fd, uint64_t budget)
{
	int e = spin(s, fd, budget);

	if (e < 0)
		return e;
	pulc_spin_end(&place->spin, e > 0);
	place->nsec_asleep = e > 0 ? 0 : nsec_now();
	return e;
}

/* How long to spin; 0: not at all, but how long the sleep takes is of interest. */
static uint64_t begin(struct place *place)
{
	uint64_t budget = pulc_spin_start(&place->spin, false);

	if (!budget)
		place->nsec_asleep = spin_limit() ? nsec_now() : 0;
	return budget;
}

/* The sleep, if there was one, is over; connection: one that it was for, or a negative number. */
static void end(struct place *place, int connection)
{
	uint64_t asleep = place->nsec_asleep;

	if (LIKELY(!asleep))
		return;
	place->nsec_asleep = 0;
	asleep = nsec_now() - asleep;
	if (connection < 0 || client_is_confined() || asleep < NSEC_AT_ONCE ||
	    asleep >= NSEC_SPIN_MAX || peer_is_here(connection))
		return;
	pulc_spin_end(&place->spin, true);
}

ssize_t kernel_wait(struct pulc_stream *s, int fd, const struct kernel_call *call)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)call->iov, .msg_iovlen = call->n };
	uint64_t budget;
	int e;

	/* Behind a filter of system calls none is made that the program would not make. */
	if (turn_has_received(&s->turn) || seems_nonblocking(s) || client_is_confined() ||
	    atomic_load_explicit(&s->far, memory_order_relaxed) ||
	    (call->flags & (MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE)))
		return PULC_USE_KERNEL;
	budget = begin(&receiving);
	if (!budget || !is_worth_it(s, stream_fd(s, fd)))
		return PULC_USE_KERNEL;
	e = spin_in(&receiving, s, fd, budget);
	if (e < 0)
		return e;
	return stream_fd(s, fd) == fd ? PULC_USE_KERNEL
				      : raw_recvmsg(stream_fd(s, fd), &msg, call->flags);
}

void kernel_wait_ended(struct pulc_stream *s, int fd, ssize_t n)
{
	end(&receiving, fd);
	loop_received(s, fd, n);
	if (n <= 0)
		return;
	turn_received(&s->turn);
	if (!atomic_load_explicit(&s->kernel_wait.has_heard, memory_order_relaxed))
		atomic_store_explicit(&s->kernel_wait.has_heard, true, memory_order_relaxed);
}

PULC_EXPORT int pulc_accept_begins(int fd)
{
	uint64_t budget;
	int e;

	if (client_is_confined() || (listener.is_nonblocking && listener_is_last(fd)))
		return 0;
	budget = begin(&accepting);
	if (!budget || !accept_is_worth_it(fd))
		return 0;
	e = spin_in(&accepting, NULL, fd, budget);
	return e == -EINTR ? e : 0;
}

PULC_EXPORT void pulc_accept_ended(int fd)
{
	end(&accepting, fd);
}
