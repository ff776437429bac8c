/*
 * How long does an urgent process wait for a lock whose holder cannot run? All on one processor: a
 * holder of low priority, who has some work to do with the lock in its hands; a spinner of ordinary
 * priority, who keeps the holder from it; and a waiter, who comes while the lock is held. The time
 * from the waiter's call until it has the lock, for a waiter of ordinary and one of real-time
 * priority, and for three locks that processes can share: this system's, and libc's robust mutex
 * without and with priority inheritance.
 */
#include "clock.h"
#include "lock.h"
#include "options.h"
#include "pair.h"
#include "stats.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_ROUNDS_MAX 1000u

enum kind { PULC, MUTEX, MUTEX_PI, N_KINDS };
static const char *const names[] = { "pulc", "mutex", "mutex-pi" };

struct settings {
	unsigned cpu, rounds, usec_work, nice;
};

static struct shared {
	struct shm_lock lock;
	pthread_mutex_t mutex[N_KINDS];
	_Atomic uint32_t held, done;
} * shared;

static void nap(void)
{
	const struct timespec turn = { .tv_nsec = 100000 };

	(void)nanosleep(&turn, NULL);
}

static int mutex_init(pthread_mutex_t *mutex, int protocol)
{
	pthread_mutexattr_t attr;
	int r = pthread_mutexattr_init(&attr);

	if (r == 0)
		r = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (r == 0)
		r = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (r == 0)
		r = pthread_mutexattr_setprotocol(&attr, protocol);
	if (r == 0)
		r = pthread_mutex_init(mutex, &attr);
	return -r;
}

static void take(enum kind kind)
{
	if (kind == PULC)
		(void)shm_lock(&shared->lock.word);
	else
		(void)pthread_mutex_lock(&shared->mutex[kind]);
}

static void leave(enum kind kind)
{
	if (kind == PULC)
		shm_unlock(&shared->lock.word);
	else
		(void)pthread_mutex_unlock(&shared->mutex[kind]);
}

/* A child on the processor that ends with its parent; 0 in it. */
static pid_t start(const struct settings *set)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	shm_self_forget();
	if (bench_pin(set->cpu) < 0)
		_exit(1);
	return 0;
}

static void end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void hold_again_and_again(const struct settings *set, enum kind kind)
{
	uint64_t until;

	for (;;) {
		shared->done = 0;
		take(kind);
		until = bench_cpu_nsec() + set->usec_work * NSEC_PER_USEC;
		shared->held = 1;
		while (bench_cpu_nsec() < until)
			;
		shared->held = 0;
		leave(kind);
		while (!shared->done)
			nap();
	}
}

static void wait_in_rounds(const struct settings *set, enum kind kind,
			   struct bench_samples *samples)
{
	uint64_t began;

	for (unsigned i = 0; i < set->rounds; i++) {
		while (!shared->held)
			nap();
		began = nsec_now();
		take(kind);
		bench_samples_add(samples, (double)(nsec_now() - began) / 1000);
		leave(kind);
		shared->done = 1;
	}
}

static int be_urgent(bool urgent)
{
	const struct sched_param param = { .sched_priority = urgent };

	return sched_setscheduler(0, urgent ? SCHED_FIFO : SCHED_OTHER, &param) < 0 ? -errno : 0;
}

static int measure_wait(const struct settings *set, enum kind kind, bool urgent, double *ret_usec)
{
	struct bench_samples samples;
	pid_t spinner, holder;
	int r = bench_samples_init(&samples, set->rounds);

	if (r < 0)
		return r;
	spinner = start(set);
	if (spinner == 0)
		for (;;)
			atomic_signal_fence(memory_order_seq_cst);
	holder = start(set);
	if (holder == 0) {
		if (nice((int)set->nice) == -1)
			_exit(1);
		hold_again_and_again(set, kind);
	}
	r = be_urgent(urgent);
	if (r == 0)
		wait_in_rounds(set, kind, &samples);
	(void)be_urgent(false);
	end(holder);
	end(spinner);
	*ret_usec = bench_samples_percentile(&samples, 50);
	bench_samples_deinit(&samples);
	return r;
}

static int measure(const struct settings *set)
{
	double ordinary, urgent;
	int r = bench_pin(set->cpu);

	for (enum kind kind = PULC; r == 0 && kind < N_KINDS; kind++) {
		memset((void *)shared, 0, sizeof(*shared));
		r = mutex_init(&shared->mutex[MUTEX], PTHREAD_PRIO_NONE);
		if (r == 0)
			r = mutex_init(&shared->mutex[MUTEX_PI], PTHREAD_PRIO_INHERIT);
		if (r == 0)
			r = measure_wait(set, kind, false, &ordinary);
		if (r == 0)
			r = measure_wait(set, kind, true, &urgent);
		if (r < 0)
			return r;
		printf("lock=%s ordinary_usec=%.1f realtime_usec=%.1f\n", names[kind], ordinary,
		       urgent);
		(void)fflush(stdout);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct settings set = { .cpu = 0, .rounds = 21, .usec_work = 2000, .nice = 10 };
	const struct bench_option options[] = {
		{ "cpu", "the processor", .number = &set.cpu },
		{ "rounds", "how often each lock is waited for", .number = &set.rounds },
		{ "work-usec", "what the holder has to do", .number = &set.usec_work },
		{ "nice", "the holder's, from 0 to 19", .number = &set.nice },
	};
	int r = bench_options_parse(
		argc, argv,
		"Time until a waiter has a lock whose holder shares its processor with a spinner.",
		options, sizeof(options) / sizeof(options[0]));

	if (r != 0)
		return r < 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || set.rounds == 0 || set.rounds > N_ROUNDS_MAX || set.nice > 19)
		return bench_exit_status("lock", shared == MAP_FAILED ? -errno : -EINVAL);
	return bench_exit_status("lock", measure(&set));
}
