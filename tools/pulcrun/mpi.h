/* Which MPI a program was built for. */
#ifndef PULCRUN_MPI_H
#define PULCRUN_MPI_H

enum mpi_kind {
	MPI_KIND_NONE,	  /* none that it is linked with */
	MPI_KIND_PMI,	  /* MPICH and its relatives: PMI-1 */
	MPI_KIND_OPENMPI, /* Open MPI: PMIx */
	MPI_KIND_UNKNOWN, /* a script or an interpreter: whatever it starts */
};

/* Looks at the program, found in PATH, and at those of its arguments that are programs too
 * (wrappers). */
enum mpi_kind mpi_of_program(char *const *arguments);

#endif
