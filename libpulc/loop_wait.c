/*
 * An event loop looks before it sleeps in the kernel.
 *
 * What kernel_wait.c does for calls that block, for loops that wait for many: who has just served a
 * connection that is on the kernel often has the next request before he sleeps, and is woken, if he
 * does sleep, later than the request takes to come. So the next wait of that thread asks the kernel
 * first, again and again, for as long as a wait for a ring would spin. How it is asked is the
 * caller's matter.
 *
 * Not before each sleep: only of a thread that has served somebody since it waited last (a TCP
 * connection on the kernel, which is not known to lead to another node, or an accept), not where
 * the peer sent its last segment from this very processor (SO_INCOMING_CPU), nor where the process
 * may use one processor only, or behind a filter of system calls. Where the kernel has something at
 * once nothing was lost and nothing is learned: a busy loop pays for none of this.
 *
 * Does it pay? The answer to one who waits at the other end comes after a sleep of his, which takes
 * as long as ours would: either nearly all of the spin or too long for it. A shorter spin would
 * never see it. So each spin is a whole one, and what failures change is how many waits pass until
 * the next one: with each failure in a row twice as many, up to 1,022, and half as many failures
 * count after each one that paid. Where all fail, 11 spins are made in the beginning and then one
 * in 1,023 waits.
 *
 * Where the peer is, is asked with the first bytes of each turn, and only if the next wait may
 * spin. Later the answer would be wrong: what we send is acknowledged, while connections are young,
 * on our own processor.
 *
 * Handlers: one that has run meanwhile has ended the wait, if nothing was found. Left out: UDP, of
 * which the kernel does not say where it came from.
 *
 * Source: measured (docs/waiting.md, "Before a sleep in the kernel").
 */
#include "kernel_wait.h"

#include <errno.h>

#include "clock.h"
#include "macros.h"
#include "rawsys.h"

/* Between two looks: others work with the sockets, too. */
#define N_RELAX 16u
#define N_FAILURES_MAX 10u
#define N_CPUS_MAX 8192u

static __thread struct {
	bool has_served; /* since the last wait */
	bool is_busy;	 /* the last wait had something at once */
	bool has_asked;	 /* where the peer is, since the last wait */
	bool peer_is_here;
	unsigned n_failures;
	unsigned n_to_pass; /* waits until the next spin */
} loop __attribute__((tls_model("initial-exec")));

USUAL static void serve(int fd)
{
	loop.has_served = true;
	if (loop.has_asked || loop.is_busy || loop.n_to_pass > 0 || fd < 0)
		return;
	loop.has_asked = true;
	loop.peer_is_here = peer_is_here(fd);
}

static bool is_near(const struct pulc_stream *s)
{
	return !atomic_load_explicit(&s->far, memory_order_relaxed) && !client_is_confined();
}

/* An end, too: the next connection may be about to come. */
void loop_received(const struct pulc_stream *s, int fd, ssize_t n)
{
	if (n >= 0 && is_near(s))
		serve(fd);
}

void loop_sent(const struct pulc_stream *s, ssize_t n)
{
	if (n > 0 && is_near(s))
		serve(-1);
}

PULC_EXPORT void pulc_loop_accepted(int fd)
{
	if (!client_is_confined())
		serve(fd);
}

static void failed(void)
{
	if (loop.n_failures < N_FAILURES_MAX)
		loop.n_failures++;
	loop.n_to_pass = (1u << loop.n_failures) - 2;
}

/* May be changed at any time, by anybody. */
static bool has_one_cpu(void)
{
	uint64_t cpus[N_CPUS_MAX / 64];
	long size = raw_syscall(SYS_sched_getaffinity, 0, sizeof(cpus), cpus);
	int n = 0;

	for (long i = 0; i < size / (long)sizeof(cpus[0]); i++)
		n += __builtin_popcountll(cpus[i]);
	return n == 1;
}

PULC_EXPORT bool pulc_loop_begins(void)
{
	bool is_due = loop.has_served && !client_is_confined();

	loop.has_served = loop.has_asked = false;
	if (!is_due || spin_limit() == 0)
		return false;
	if (loop.n_to_pass > 0) {
		loop.n_to_pass--;
		return false;
	}
	if (loop.peer_is_here)
		failed();
	return !loop.peer_is_here;
}

/* Until something is there, or that cannot be found out, a handler has run, or time is over. */
static int look_on(int (*look)(void *arg), void *arg, struct signal_counts before,
		   uint64_t nsec_deadline)
{
	uint64_t end = MIN(nsec_now() + spin_limit(), nsec_deadline);
	int n = 0;

	while (n == 0 && signals_since(before) == 0) {
		if (nsec_now() >= end || client_is_confined()) {
			failed();
			break;
		}
		for (unsigned i = 0; i < N_RELAX; i++)
			cpu_relax();
		n = look(arg);
	}
	if (n > 0)
		loop.n_failures /= 2;
	return n;
}

PULC_EXPORT int pulc_loop_looks(int (*look)(void *arg), void *arg, uint64_t nsec_deadline)
{
	struct signal_counts before = signals_counted();
	int n = look(arg);

	loop.is_busy = n > 0;
	if (n == 0 && has_one_cpu())
		failed();
	else if (n == 0)
		n = look_on(look, arg, before, nsec_deadline);
	if (n > 0)
		return n;
	return signals_since(before) == 0 ? 0 : -EINTR;
}
