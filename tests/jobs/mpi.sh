#!/bin/bash
# Debian's MPICH and Open MPI start under pulcrun as they are.
suite=jobs.mpi
# shellcheck source=tests/jobs/names.bash
. "$(dirname "$0")/names.bash"
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

cat >hello.c <<'E2'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int rank, size, sum;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of %d sum %d\n", rank, size, sum);
	fflush(stdout);
	if (!strcmp(what, "abort") && rank == 1)
		MPI_Abort(MPI_COMM_WORLD, 7);
	if (!strcmp(what, "abort0") && rank == 1)
		MPI_Abort(MPI_COMM_WORLD, 0);
	if (!strcmp(what, "spawn")) {
		MPI_Comm others;
		MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
	}
	if (!strcmp(what, "leave") && rank == 1)
		_Exit(0);
	MPI_Finalize();
	return !strcmp(what, "fail") && rank == 0 ? 5 : 0;
}
E2

try() { # NAME COMPILER
	local name=$1
	"$2" hello.c -o "hello.$name" || { echo "not ok $suite.$name.compiles"; return; }
	is "$name.ranks" 'rank 0 of 2 sum 1
rank 1 of 2 sum 1' "$(run -n 2 "./hello.$name" | sort)"
	is "$name.many_ranks" 8 "$(run -n 8 --oversubscribe "./hello.$name" | grep -c 'of 8 sum 28')"
	is "$name.one_rank" 'rank 0 of 1 sum 0' "$(run "./hello.$name")"
	is "$name.in_a_script" 'rank 0 of 2 sum 1
rank 1 of 2 sum 1' "$(run -n 2 sh -c "./hello.$name; exit 0" | sort)"
	is "$name.status" 5 "$(status_of -n 2 "./hello.$name" fail)"
	is "$name.abort" 7 "$(status_of -n 2 "./hello.$name" abort)"
	is "$name.abort_with_0" 0 "$(status_of -n 2 "./hello.$name" abort0)"
	# Debian's MPICH (UCX) does not get as far as to ask.
	[ "$name" = mpich ] ||
		is "$name.spawn_is_refused_in_words" 1 "$(run -n 2 "./hello.$name" spawn 2>&1 | grep -cE '^pulcrun: rank [01]: MPI_Comm_spawn is not served: start all ranks at once$')"
	names_program "$name"
	is "$name.names" "$names_said" "$(run -n 2 "./names.$name" 2>/dev/null | sort)"
	is "$name.leaving_is_a_failure" 1 "$(status_of -n 2 "./hello.$name" leave)"
	is "$name.under_the_shim" 'rank 0 of 2 sum 1
rank 1 of 2 sum 1' "$(run -n 2 "$bin/pulc" "./hello.$name" | sort)"
	is "$name.singletons_are_noticed" 1 "$(run -n 2 env -i PATH="$PATH" HOME="$HOME" "./hello.$name" 2>&1 | grep -c 'these were 2 programs of one rank')"
}

if command -v mpicc.mpich >/dev/null; then
	try mpich mpicc.mpich
else
	echo "skip $suite.mpich: mpicc.mpich is not there"
fi
if command -v mpicc.openmpi >/dev/null; then
	try openmpi mpicc.openmpi
	is openmpi.joins_by_name "$names_joined" "$(run -n 3 --oversubscribe ./names.openmpi joins 2>&1 | sort)"
else
	echo "skip $suite.openmpi: mpicc.openmpi is not there"
fi

is pmix.names "$published_said" "$(run -n 3 --oversubscribe --mpi pmix "$PULC_BUILD/tests/jobs/published" 2>&1 | sort)"
