/*
 * An MPI job that goes on until /srv/stop is there on the node of its first rank.
 *
 * Its ranks add numbers up, time and again, and rank 0 says each time which one it was: a number
 * that is missing from the output has been lost on the way. Exits with 7 if each sum was right,
 * else with 1.
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#define PAUSE_USEC 50000 /* between the sums: others are to run as well */

static int step(int rank, int size, int i, int *ret_wrong)
{
	int mine[2] = { rank + i, rank == 0 && access("/srv/stop", F_OK) == 0 };
	int sums[2];

	MPI_Allreduce(mine, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	*ret_wrong += sums[0] != size * i + size * (size - 1) / 2;
	return sums[1];
}

int main(int argc, char **argv)
{
	int rank, size, stop = 0, wrong = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; !stop; i++) {
		stop = step(rank, size, i, &wrong);
		if (rank == 0) {
			printf("%d\n", i);
			fflush(stdout);
		}
		usleep(PAUSE_USEC);
	}
	MPI_Finalize();
	return wrong ? 1 : 7;
}
