/*
 * Messages of many sizes between all ranks at once, checked word by word. Rank 0 prints "good RANKS
 * MB/s".
 *
 * A round is: every rank sends every other one a batch of messages, all posted before any is waited
 * for, some of them longer than what a transport keeps on its way; then collectives, whose results
 * are known. What a word must be follows from who sends to whom, the round, the message and the
 * place. Compiled by run-load with the compiler of whichever MPI is there.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define N_ROUNDS 40
#define N_MESSAGES 6 /* of a pair in a round, in each direction */
#define N_WORDS_MAX 300000
#define N_RANKS_MAX 16

static const int n_words[N_MESSAGES] = { 1, 100, 0, 2500, 40000, N_WORDS_MAX };

static int rank, n_ranks;
static uint64_t n_wrong;
static double size_moved;

static uint32_t word(int from, int to, int number, int at)
{
	uint32_t w = (uint32_t)at * 2654435761u + (uint32_t)number * 40503u;

	return (w ^ w >> 15) + (uint32_t)(from * 257 + to);
}

static void *allocate(size_t size)
{
	void *memory = malloc(size);

	if (!memory)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return memory;
}

/* ---- all to all, message by message ---------------------------------------------------------- */

struct batch {
	uint32_t *out[N_MESSAGES];
	uint32_t *in[N_MESSAGES];
};

static void allocate_batch(struct batch *batch)
{
	for (int i = 0; i < N_MESSAGES; i++) {
		batch->out[i] = allocate(((size_t)n_words[i] + 1) * sizeof(uint32_t));
		batch->in[i] = allocate(((size_t)n_words[i] + 1) * sizeof(uint32_t));
	}
}

static void fill_batch(struct batch *batch, int peer, int round)
{
	for (int i = 0; i < N_MESSAGES; i++)
		for (int at = 0; at < n_words[i]; at++) {
			/* All peers' are allocated:
			 * NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
			batch->out[i][at] = word(rank, peer, round * N_MESSAGES + i, at);
			batch->in[i][at] = 0;
		}
}

static void check_batch(const struct batch *batch, int peer, int round)
{
	for (int i = 0; i < N_MESSAGES; i++)
		for (int at = 0; at < n_words[i]; at++)
			n_wrong += batch->in[i][at] != word(peer, rank, round * N_MESSAGES + i, at);
}

static void exchange(struct batch *batches, int round)
{
	MPI_Request requests[2 * N_RANKS_MAX * N_MESSAGES];
	MPI_Status states[2 * N_RANKS_MAX * N_MESSAGES];
	int n = 0;

	for (int peer = 0; peer < n_ranks; peer++)
		fill_batch(&batches[peer], peer, round);
	for (int i = 0; i < N_MESSAGES; i++)
		for (int peer = 0; peer < n_ranks; peer++) {
			if (peer == rank)
				continue;
			MPI_Irecv(batches[peer].in[i], n_words[i], MPI_UINT32_T, peer, i,
				  MPI_COMM_WORLD, &requests[n++]);
			MPI_Isend(batches[peer].out[i], n_words[i], MPI_UINT32_T, peer, i,
				  MPI_COMM_WORLD, &requests[n++]);
			size_moved += n_words[i] * (double)sizeof(uint32_t);
		}
	MPI_Waitall(n, requests, states);
	for (int peer = 0; peer < n_ranks; peer++)
		if (peer != rank)
			check_batch(&batches[peer], peer, round);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void broadcast(uint32_t *words, int round)
{
	int root = round % n_ranks, n = n_words[round % N_MESSAGES];

	for (int at = 0; at < n; at++)
		words[at] = rank == root ? word(root, 0, round, at) : 0;
	MPI_Bcast(words, n, MPI_UINT32_T, root, MPI_COMM_WORLD);
	for (int at = 0; at < n; at++)
		n_wrong += words[at] != word(root, 0, round, at);
}

static void add_up(uint32_t *words, uint32_t *sums, int round)
{
	int n = n_words[(round + 3) % N_MESSAGES];

	for (int at = 0; at < n; at++)
		words[at] = word(rank, 1, round, at);
	MPI_Allreduce(words, sums, n, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
	for (int at = 0; at < n; at++) {
		uint32_t sum = 0;

		for (int r = 0; r < n_ranks; r++)
			sum += word(r, 1, round, at);
		n_wrong += sums[at] != sum;
	}
}

static void transpose(uint32_t *words, uint32_t *got, int round)
{
	const int n = 1000;

	for (int at = 0; at < n * n_ranks; at++)
		words[at] = word(rank, at / n, round, at % n);
	MPI_Alltoall(words, n, MPI_UINT32_T, got, n, MPI_UINT32_T, MPI_COMM_WORLD);
	for (int at = 0; at < n * n_ranks; at++)
		n_wrong += got[at] != word(at / n, rank, round, at % n);
}

int main(int argc, char **argv)
{
	struct batch batches[N_RANKS_MAX];
	uint64_t n_wrong_all = 0;
	double began, size_all = 0;
	uint32_t *words, *more;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	if (n_ranks > N_RANKS_MAX)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int peer = 0; peer < n_ranks; peer++)
		allocate_batch(&batches[peer]);
	words = allocate(N_WORDS_MAX * sizeof(uint32_t));
	more = allocate(N_WORDS_MAX * sizeof(uint32_t));
	began = MPI_Wtime();
	for (int round = 0; round < N_ROUNDS; round++) {
		exchange(batches, round);
		broadcast(words, round);
		add_up(words, more, round);
		transpose(words, more, round);
	}
	MPI_Reduce(&n_wrong, &n_wrong_all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&size_moved, &size_all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0 && n_wrong_all == 0)
		printf("good %d %.1f\n", n_ranks, size_all / (MPI_Wtime() - began) / 1e6);
	if (rank == 0 && n_wrong_all != 0)
		printf("%llu words are wrong\n", (unsigned long long)n_wrong_all);
	(void)fflush(stdout);
#ifdef MPICH_VERSION
	MPI_Barrier(MPI_COMM_WORLD);
	_exit(0);
#endif
	MPI_Finalize();
	return 0;
}
