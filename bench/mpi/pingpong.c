/*
 * What two ranks of MPI can do on two processors: half a round trip of 8 B, the median of batches;
 * the rate and the bandwidth of windows of sends and receives under way, each window answered; and
 * what a message costs when every rank sends 8 B to every other one.
 *
 * 	pingpong [CPU CPU [pingpong | rate SIZE WINDOW | bandwidth SIZE WINDOW | crowd ROUNDS]]
 *
 * Rank r is on the first processor if r is even, else on the second. Compiled by bench/run with the
 * compiler of whichever MPI is there.
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Both processors are busy: psid has its turn after some ten milliseconds, and upgrades each
 * connection by several of them. */
#define N_WARMUP 200000
#define N_BATCHES 200
#define N_BATCH 100
#define N_WINDOW_MAX 64
#define SEC_WINDOWS 0.3
#define N_RANKS_MAX 64
/* Beside other message layers: a rank whose launcher is gone, or whose peer is stuck, ends too. */
#define SEC_ALL 60

static void round_trips(int rank, int n)
{
	char message[8] = "";

	for (int i = 0; i < n; i++) {
		if (rank == 0)
			MPI_Send(message, sizeof(message), MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(message, sizeof(message), MPI_BYTE, !rank, 0, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(message, sizeof(message), MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void pingpong(int rank)
{
	static double nsec[N_BATCHES];

	round_trips(rank, N_WARMUP);
	for (int i = 0; i < N_BATCHES; i++) {
		double began = MPI_Wtime();

		round_trips(rank, N_BATCH);
		nsec[i] = (MPI_Wtime() - began) * 1e9 / (2.0 * N_BATCH);
	}
	qsort(nsec, N_BATCHES, sizeof(nsec[0]), compare);
	if (rank == 0)
		printf("one_way_ns=%.1f\n", nsec[N_BATCHES / 2]);
}

static _Noreturn void give_up(void)
{
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

/* One window and its answer, which says whether there is another one. */
static int window(int rank, char *bytes, int size, int depth, int more)
{
	MPI_Request requests[N_WINDOW_MAX];
	MPI_Status statuses[N_WINDOW_MAX];

	for (int i = 0; i < depth; i++) {
		char *at = bytes + (size_t)i * (size_t)size;

		if (rank == 0)
			MPI_Isend(at, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
		else
			MPI_Irecv(at, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
	}
	/* So many have begun: NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker) */
	MPI_Waitall(depth, requests, statuses);
	if (rank == 1)
		MPI_Send(&more, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
	else
		MPI_Recv(&more, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return more;
}

/* Rank 1 has the clock. Returns messages a second. */
static double windows(int rank, char *bytes, int size, int depth, double seconds)
{
	double began = MPI_Wtime(), n = 0;

	do
		n += depth;
	while (window(rank, bytes, size, depth, MPI_Wtime() - began < seconds));
	return n / (MPI_Wtime() - began);
}

static void stream(int rank, int is_rate, int size, int depth)
{
	char *bytes = malloc((size_t)size * N_WINDOW_MAX);
	double rate;

	if (!bytes || size <= 0 || depth <= 0 || depth > N_WINDOW_MAX)
		give_up();
	memset(bytes, 1, (size_t)size * N_WINDOW_MAX);
	(void)windows(rank, bytes, size, depth, SEC_WINDOWS);
	rate = windows(rank, bytes, size, depth, SEC_WINDOWS);
	if (rank == 1)
		printf(is_rate ? "mps=%.3f\n" : "gbs=%.3f\n",
		       is_rate ? rate / 1e6 : rate * size / 1e9);
	free(bytes);
}

static void crowd_round(int rank, int n)
{
	static char out[8], in[N_RANKS_MAX][8];
	MPI_Request requests[2 * N_RANKS_MAX];
	MPI_Status statuses[2 * N_RANKS_MAX];
	int n_requests = 0;

	for (int i = 0; i < n; i++) {
		if (i == rank)
			continue;
		MPI_Irecv(in[i], 8, MPI_BYTE, i, 0, MPI_COMM_WORLD, &requests[n_requests++]);
		MPI_Isend(out, 8, MPI_BYTE, i, 0, MPI_COMM_WORLD, &requests[n_requests++]);
	}
	/* Two of each other rank: NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker) */
	MPI_Waitall(n_requests, requests, statuses);
}

static void crowd(int rank, int n_rounds)
{
	double began;
	int n;

	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (n < 2 || n > N_RANKS_MAX || n_rounds <= 0)
		give_up();
	crowd_round(rank, n);
	began = MPI_Wtime();
	for (int i = 0; i < n_rounds; i++)
		crowd_round(rank, n);
	if (rank == 0)
		printf("message_ns=%.1f\n",
		       (MPI_Wtime() - began) * 1e9 / ((double)n_rounds * n * (n - 1)));
}

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[3] : "pingpong";
	cpu_set_t set;
	int rank;

	if (argc > 3)
		(void)alarm(SEC_ALL);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc >= 3) {
		CPU_ZERO(&set);
		CPU_SET(atoi(argv[1 + rank % 2]), &set);
		(void)sched_setaffinity(0, sizeof(set), &set);
	}
	if (argc == 6)
		stream(rank, strcmp(what, "rate") == 0, atoi(argv[4]), atoi(argv[5]));
	else if (argc == 5)
		crowd(rank, atoi(argv[4]));
	else
		pingpong(rank);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
