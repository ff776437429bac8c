/* The program of a job: where it is, and becoming it. */
#ifndef PULC_KEEPER_PROGRAM_H
#define PULC_KEEPER_PROGRAM_H

#include <stddef.h>

struct program {
	char **arguments; /* ended by NULL */
	size_t n_files;
	struct program_file {
		char *path;
		char **script; /* the arguments of a shell that is to read it */
	} * files;	       /* in the order in which they are tried */
};

/*
 * Looks for arguments[0] as a shell would, in PATH and from the present directory. That it is
 * nowhere shows when it is to be run. What arguments point to must stay. Returns 0, -ENOMEM.
 */
int program_find(struct program *program, char **arguments, size_t n_arguments);

/*
 * Becomes the program. Makes raw system calls only, for a child that shares our memory. Returns a
 * positive errno: why it could not.
 */
int program_run(const struct program *program, char **environment);

#endif
