# An MPI program whose ranks publish names, look them up and, with Open MPI, connect by them: sourced by tests of jobs.
# shellcheck shell=bash

names_program() { # KIND: makes names.KIND
	cat >names.c <<-'E2'
		#include <mpi.h>
		#include <stdio.h>
		#include <string.h>
		static void say(int rank, const char *what, int error)
		{
			printf("%d %s: %s\n", rank, what, error ? "failed" : "done");
		}
		static void join(int rank, const char *port)
		{
			MPI_Comm other;
			int value = 42;
			say(rank, "join", rank == 0 ? MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other)
						    : MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
			if (rank == 0) {
				MPI_Send(&value, 1, MPI_INT, 0, 0, other);
			} else {
				MPI_Recv(&value, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE);
				printf("1 got %d\n", value);
			}
			say(rank, "leave", MPI_Comm_disconnect(&other));
		}
		int main(int argc, char **argv)
		{
			char port[MPI_MAX_PORT_NAME] = "port", found[MPI_MAX_PORT_NAME] = "";
			int rank, joins = argc > 1;
			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
			MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
			if (rank == 1) {
				if (joins)
					MPI_Open_port(MPI_INFO_NULL, port);
				say(1, "publish", MPI_Publish_name("name", MPI_INFO_NULL, port));
			}
			MPI_Barrier(MPI_COMM_WORLD);
			if (rank == 0) {
				say(0, "look up", MPI_Lookup_name("name", MPI_INFO_NULL, found));
				if (!joins)
					printf("0 found %s\n", found);
				say(0, "unknown", MPI_Lookup_name("nobody", MPI_INFO_NULL, port));
			}
			if (joins && rank < 2)
				join(rank, rank == 0 ? found : port);
			MPI_Barrier(MPI_COMM_WORLD);
			if (rank == 1)
				say(1, "unpublish", MPI_Unpublish_name("name", MPI_INFO_NULL, port));
			MPI_Barrier(MPI_COMM_WORLD);
			if (rank == 0)
				say(0, "look again", MPI_Lookup_name("name", MPI_INFO_NULL, found));
			MPI_Finalize();
			return 0;
		}
	E2
	"mpicc.$1" names.c -o "names.$1"
}

# shellcheck disable=SC2034 # used by those who source this
names_said='0 found port
0 look again: failed
0 look up: done
0 unknown: failed
1 publish: done
1 unpublish: done'
# shellcheck disable=SC2034
names_joined='0 join: done
0 leave: done
0 look again: failed
0 look up: done
0 unknown: failed
1 got 42
1 join: done
1 leave: done
1 publish: done
1 unpublish: done'
# What tests/jobs/published says.
# shellcheck disable=SC2034
published_said="0 asks: SUCCESS
0 connect: SUCCESS
0 disconnect: SUCCESS
0 fence: SUCCESS
0 kept is here of 2
0 kept: SUCCESS
0 late is here
0 late is here of 1
0 late: SUCCESS
0 once is here of 1
0 once: NOT-FOUND
0 once: SUCCESS
0 other's name: DUPLICATE KEY
0 own name: SUCCESS
0 waited: SUCCESS
0 with its task: NOT-FOUND
1 asked is again of 0
1 asked is yes of 0
1 asked: SUCCESS
1 asked: SUCCESS
1 late: NOT-FOUND
1 nobody's: TIMEOUT
1 taken away: SUCCESS
2 connect: SUCCESS
2 disconnect: SUCCESS
2 fence: SUCCESS"
