/*
 * MPI ping-pong of 8 B between two ranks on two processors: half a round trip, the median of batches.
 *
 * Compiled by bench/run with the compiler of whichever MPI is there; the processors are its arguments.
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* Both processors are busy: psid has its turn after some ten milliseconds, and upgrades each connection by several of them. */
#define N_WARMUP 200000
#define N_BATCHES 200
#define N_BATCH 100

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

int main(int argc, char **argv)
{
	static double nsec[N_BATCHES];
	cpu_set_t set;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc == 3) {
		CPU_ZERO(&set);
		CPU_SET(atoi(argv[1 + rank]), &set);
		(void)sched_setaffinity(0, sizeof(set), &set);
	}
	round_trips(rank, N_WARMUP);
	for (int i = 0; i < N_BATCHES; i++) {
		double began = MPI_Wtime();

		round_trips(rank, N_BATCH);
		nsec[i] = (MPI_Wtime() - began) * 1e9 / (2.0 * N_BATCH);
	}
	qsort(nsec, N_BATCHES, sizeof(nsec[0]), compare);
	if (rank == 0)
		printf("one_way_ns=%.1f\n", nsec[N_BATCHES / 2]);
	MPI_Finalize();
	return 0;
}
