/*
 * What the machine can do: the calibration that the other benchmarks are measured against.
 *
 * Cache line: two pinned processes share one page and take turns writing a counter on it, each
 * spinning with `pause` until the other has written. Half a round is the least that any
 * message between the two cores can take, whatever carries it.
 *
 * memcpy: one pinned process copies a warm buffer to another again and again. A byte stream
 * through shared memory copies each byte twice, so this is the roof of its bandwidth.
 *
 * Both are taken in short pieces and the median piece counts: virtual machines share their cores.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "stats.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_ROUNDS_A_PIECE 1000u
#define N_PIECES_MAX 100000u
#define SIZE_PAGE 4096u

struct settings {
	unsigned server_cpu;
	unsigned client_cpu;
	unsigned msec;
};

/* The two words are on one line on purpose: it is that line's travel that is timed. */
struct shared {
	_Atomic uint64_t turn;
	_Atomic uint64_t stop;
};

static void answer_turns(struct shared *s)
{
	for (uint64_t mine = 1;; mine += 2) {
		while (atomic_load_explicit(&s->turn, memory_order_acquire) != mine) {
			if (atomic_load_explicit(&s->stop, memory_order_relaxed))
				return;
			cpu_relax();
		}
		atomic_store_explicit(&s->turn, mine + 1, memory_order_release);
	}
}

static void take_turns(struct shared *s, unsigned msec, struct bench_samples *samples)
{
	uint64_t turn = 0, began = nsec_now(), end = began + msec * 1000000ull, now = began;

	while (now < end) {
		uint64_t before = now;

		for (unsigned i = 0; i < N_ROUNDS_A_PIECE; i++) {
			atomic_store_explicit(&s->turn, turn + 1, memory_order_release);
			turn += 2;
			while (atomic_load_explicit(&s->turn, memory_order_acquire) != turn)
				cpu_relax();
		}
		now = nsec_now();
		bench_samples_add(samples, (double)(now - before) / (2.0 * N_ROUNDS_A_PIECE));
	}
	atomic_store_explicit(&s->stop, 1, memory_order_relaxed);
}

/* The ns that a cache line takes from one core to the other; there is no such figure on one. */
static int measure_line(const struct settings *set, double *ret_nsec)
{
	struct bench_samples samples;
	struct shared *s;
	pid_t pid;
	int r;

	s = mmap(NULL, SIZE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return -errno;
	r = bench_samples_init(&samples, N_PIECES_MAX);
	if (r < 0)
		return r;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (bench_pin(set->server_cpu) == 0)
			answer_turns(s);
		_exit(0);
	}
	r = bench_pin(set->client_cpu);
	if (r == 0)
		take_turns(s, set->msec, &samples);
	else
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	*ret_nsec = bench_samples_percentile(&samples, 50);
	bench_samples_deinit(&samples);
	return r;
}

/* GB/s of copying `size` warm bytes. */
static int measure_copy(size_t size, unsigned msec, double *ret_rate)
{
	struct bench_samples samples;
	unsigned n_copies = (unsigned)(8u * 1024 * 1024 / size); /* a piece: 8 MiB, some 200 us */
	char *from = aligned_alloc(SIZE_PAGE, size), *to = aligned_alloc(SIZE_PAGE, size);
	uint64_t end;
	int r;

	r = from && to ? bench_samples_init(&samples, N_PIECES_MAX) : -ENOMEM;
	if (r == 0) {
		memset(from, 1, size);
		memset(to, 2, size);
		end = nsec_now() + msec * 1000000ull;
		for (uint64_t before = nsec_now(), now; before < end; before = now) {
			for (unsigned i = 0; i < n_copies; i++) {
				memcpy(to, from, size);
				__asm__ volatile("" ::: "memory"); /* each copy is made */
			}
			now = nsec_now();
			bench_samples_add(&samples,
					  (double)size * n_copies / (double)(now - before));
		}
		*ret_rate = bench_samples_percentile(&samples, 50);
		bench_samples_deinit(&samples);
	}
	free(from);
	free(to);
	return r;
}

static int measure(const struct settings *set)
{
	double line_nsec = 0, rate_64k, rate_1m;
	int r;

	if (set->server_cpu != set->client_cpu) {
		r = measure_line(set, &line_nsec);
		if (r < 0)
			return r;
	}
	r = bench_pin(set->client_cpu);
	if (r < 0)
		return r;
	r = measure_copy(64 * 1024, set->msec, &rate_64k);
	if (r < 0)
		return r;
	r = measure_copy(1024 * 1024, set->msec, &rate_1m);
	if (r < 0)
		return r;
	printf("line_ns=%.1f memcpy_64k_gbs=%.2f memcpy_1m_gbs=%.2f\n", line_nsec, rate_64k,
	       rate_1m);
	return 0;
}

int main(int argc, char **argv)
{
	struct settings set = { .msec = 100 };
	const struct bench_option options[] = {
		{ "server-cpu", "processor of the answering process", .number = &set.server_cpu },
		{ "client-cpu", "processor of the timing process", .number = &set.client_cpu },
		{ "msec", "time for each of the three figures", .number = &set.msec },
	};
	int r;

	bench_pair_default_cpus(&set.server_cpu, &set.client_cpu);
	r = bench_options_parse(
		argc, argv, "One-way time of a cache line between two cores, and memcpy's rate.",
		options, sizeof(options) / sizeof(options[0]));
	if (r != 0)
		return bench_exit_status(argv[0], r);
	return bench_exit_status(argv[0], measure(&set));
}
