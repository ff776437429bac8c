/*
 * How soon does a process that waits for a message learn that its sender was killed? In each round
 * a new process opens a port, sends one message and stops doing anything; when the survivor has it
 * and waits, asleep, for the next one from there, the other is killed with SIGKILL, and the time
 * from before that until the survivor's call has returned with the error is taken. Processes are
 * forked by one that never attaches. In the end the survivor waits for a while for whatever may
 * come, and its use of a processor in that time is told.
 *
 * Needs a psid.
 */
#include "clock.h"
#include "options.h"
#include "stats.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pulc/pulc.h>

#define N_ROUNDS_MAX 10000u
#define MSEC_ASLEEP 5

struct settings {
	unsigned rounds, idle_msec;
};

static struct {
	_Atomic uint32_t asked;	     /* rounds in which the survivor waits, or is about to */
	_Atomic uint64_t nsec_begun; /* of the killing in the last one */
	char name[32];
} * shared;

static void nap(unsigned msec)
{
	const struct timespec turn = { .tv_nsec = msec * 1000000l };

	(void)nanosleep(&turn, NULL);
}

/* ---- those who die --------------------------------------------------------------------------- */

static int send_and_stop(void)
{
	struct pulc_address to;
	pulc_port *port;
	int r = pulc_port_open(PULC_D, 0, NULL, &port);

	if (r < 0)
		return r;
	while ((r = pulc_find(shared->name, &to)) == -ENOENT)
		nap(1);
	if (r == 0 && pulc_send(port, &to, "here", 4, 0) != 4)
		r = -EPIPE;
	if (r < 0)
		return r;
	for (;;)
		(void)pause();
}

static int let_die(unsigned rounds)
{
	int status = 0;
	pid_t pid;

	for (unsigned i = 0; i < rounds; i++) {
		pid = fork();
		if (pid < 0)
			return -errno;
		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(send_and_stop() < 0);
		}
		while (shared->asked <= i && waitpid(pid, &status, WNOHANG) == 0)
			nap(1);
		nap(MSEC_ASLEEP);
		shared->nsec_begun = nsec_now();
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, &status, 0);
	}
	return 0;
}

/* ---- the survivor ---------------------------------------------------------------------------- */

static int survive(pulc_port *port, const struct settings *set, struct bench_samples *samples)
{
	struct pulc_address from;
	char buf[8];
	struct iovec iov = { buf, sizeof(buf) };
	ssize_t n;

	for (unsigned i = 0; i < set->rounds; i++) {
		n = pulc_receive(port, buf, sizeof(buf), &from, 0);
		if (n != 4)
			return n < 0 ? (int)n : -EPROTO;
		shared->asked = i + 1;
		n = pulc_receivev(port, &iov, 1, &from, NULL, 0);
		if (n != -ECONNRESET)
			return n < 0 ? (int)n : -EPROTO;
		bench_samples_add(samples, (double)(nsec_now() - shared->nsec_begun) / 1000);
	}
	return 0;
}

/* Share of one processor while nothing happens, in percent. */
static double idle_percent(pulc_port *port, unsigned msec)
{
	struct pulc_wait wait = { .port = port };
	uint64_t began = nsec_now(), cpu = bench_cpu_nsec();

	(void)pulc_select(&wait, 1, NULL, 0, (int)msec);
	return 100.0 * (double)(bench_cpu_nsec() - cpu) / (double)(nsec_now() - began);
}

static int measure(const struct settings *set)
{
	struct bench_samples samples;
	pulc_port *port;
	int r = bench_samples_init(&samples, set->rounds);

	if (r == 0)
		r = pulc_port_open(PULC_D, 0, shared->name, &port);
	if (r < 0)
		return r;
	r = survive(port, set, &samples);
	if (r == 0)
		printf("error_usec=%.1f p90_usec=%.1f most_usec=%.1f idle_cpu_percent=%.3f\n",
		       bench_samples_percentile(&samples, 50),
		       bench_samples_percentile(&samples, 90),
		       bench_samples_percentile(&samples, 100), idle_percent(port, set->idle_msec));
	(void)fflush(stdout);
	(void)pulc_port_close(port);
	bench_samples_deinit(&samples);
	return r;
}

int main(int argc, char **argv)
{
	struct settings set = { .rounds = 50, .idle_msec = 500 };
	const struct bench_option options[] = {
		{ "rounds", "how many are killed", .number = &set.rounds },
		{ "idle-msec", "time without messages afterwards", .number = &set.idle_msec },
	};
	int r = bench_options_parse(argc, argv,
				    "Time until a process learns that its peer was killed.",
				    options, sizeof(options) / sizeof(options[0]));
	pid_t pid;

	if (r != 0)
		return r < 0;
	if (set.rounds == 0 || set.rounds > N_ROUNDS_MAX)
		return bench_exit_status("survivor", -EINVAL);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return bench_exit_status("survivor", -errno);
	(void)snprintf(shared->name, sizeof(shared->name), "survivor-%d", getpid());
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(let_die(set.rounds) < 0);
	}
	r = pid < 0 ? -errno : measure(&set);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	return bench_exit_status("survivor", r);
}
