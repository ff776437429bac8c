/*
 * The calibration that the benchmarks are measured against.
 *
 * Cache line: two pinned processes share one page and take turns writing a counter on it, each
 * spinning with `pause` until the other has written. Half a round is the least that any
 * message between the two cores can take, whatever carries it.
 *
 * memcpy: one pinned process copies a warm buffer to another again and again. A byte stream
 * through shared memory copies each byte twice, so this is the roof of its bandwidth.
 *
 * Both are taken in short pieces and the median piece counts: virtual machines share their cores.
 * The turns can be taken again and again by the same two processes; both go on counting where they
 * stopped.
 */
#include "calibrate.h"

#include "clock.h"
#include "stats.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define N_TURNS_A_PIECE 200u
#define N_PIECES_MAX 10000u
#define SIZE_PAGE 4096u
#define SIZE_PIECE ((size_t)4 << 20) /* copied in some 100 us */

/* The two words are on one line on purpose: it is that line's travel that is timed. */
struct bench_line_shared {
	_Atomic uint64_t turn;
	_Atomic uint64_t n_ended;
};

int bench_line_init(struct bench_line *line)
{
	void *at = mmap(NULL, SIZE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	*line = (struct bench_line){ .shared = at };
	return 0;
}

void bench_line_answer(struct bench_line *line)
{
	struct bench_line_shared *s = line->shared;

	for (;; line->turn += 2) {
		while (atomic_load_explicit(&s->turn, memory_order_acquire) != line->turn + 1) {
			if (atomic_load_explicit(&s->n_ended, memory_order_relaxed) !=
			    line->n_ended) {
				line->n_ended++;
				return;
			}
			cpu_relax();
		}
		atomic_store_explicit(&s->turn, line->turn + 2, memory_order_release);
	}
}

static void take_piece(struct bench_line *line)
{
	struct bench_line_shared *s = line->shared;

	for (unsigned i = 0; i < N_TURNS_A_PIECE; i++) {
		atomic_store_explicit(&s->turn, line->turn + 1, memory_order_release);
		line->turn += 2;
		while (atomic_load_explicit(&s->turn, memory_order_acquire) != line->turn)
			cpu_relax();
	}
}

/* The first piece is not counted: the other process may still be on its way. */
int bench_line_take_turns(struct bench_line *line, unsigned usec, double *ret_nsec)
{
	struct bench_samples samples;
	uint64_t now, before, end;
	int r = bench_samples_init(&samples, N_PIECES_MAX);

	if (r < 0)
		return r;
	take_piece(line);
	now = nsec_now();
	end = now + usec * NSEC_PER_USEC;
	do {
		before = now;
		take_piece(line);
		now = nsec_now();
		bench_samples_add(&samples, (double)(now - before) / (2.0 * N_TURNS_A_PIECE));
	} while (now < end);
	line->n_ended++;
	atomic_store_explicit(&line->shared->n_ended, line->n_ended, memory_order_relaxed);
	*ret_nsec = bench_samples_percentile(&samples, 50);
	bench_samples_deinit(&samples);
	return 0;
}

static void copy_piece(char *to, const char *from, size_t size)
{
	for (size_t done = 0; done < SIZE_PIECE; done += size) {
		memcpy(to, from, size);
		__asm__ volatile("" ::: "memory"); /* each copy is made */
	}
}

static void copy_for(char *to, const char *from, size_t size, unsigned usec,
		     struct bench_samples *samples)
{
	size_t size_piece = (SIZE_PIECE + size - 1) / size * size;
	uint64_t now, before, end;

	copy_piece(to, from, size); /* warms them */
	now = nsec_now();
	end = now + usec * NSEC_PER_USEC;
	do {
		before = now;
		copy_piece(to, from, size);
		now = nsec_now();
		bench_samples_add(samples, (double)size_piece / (double)(now - before));
	} while (now < end);
}

int bench_copy(size_t size, unsigned usec, double *ret_rate)
{
	struct bench_samples samples;
	char *from = aligned_alloc(SIZE_PAGE, size), *to = aligned_alloc(SIZE_PAGE, size);
	int r;

	r = from && to ? bench_samples_init(&samples, N_PIECES_MAX) : -ENOMEM;
	if (r == 0) {
		memset(from, 1, size);
		memset(to, 2, size);
		copy_for(to, from, size, usec, &samples);
		*ret_rate = bench_samples_percentile(&samples, 50);
		bench_samples_deinit(&samples);
	}
	free(from);
	free(to);
	return r;
}
