/*
 * The program of a job.
 *
 * It is looked for once, by the keeper, and not by each of its tasks: PATH has many folders, and a
 * task is to be there soon. What is found are files that may be it; the kernel decides when one is
 * run, by the rules of execvp(3): one that may not be executed does not end the search, one without
 * a format that the kernel knows is read by a shell.
 */
#include "program.h"

#include <errno.h>
#include <paths.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rawclone.h"
#include "rawsys.h"

/* ---- looking for it -------------------------------------------------------------------------- */

static bool may_be_there(const char *path)
{
	return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Takes path over. Returns 0, -ENOMEM. */
static int add(struct program *program, size_t n_arguments, char *path)
{
	struct program_file *files = program->files;
	struct program_file file = { .path = path };

	files = realloc(files, (program->n_files + 1) * sizeof(*files));
	if (files)
		program->files = files;
	file.script = calloc(n_arguments + 2, sizeof(char *));
	if (!files || !file.script) {
		free(file.script);
		free(path);
		return -ENOMEM;
	}
	file.script[0] = (char *)_PATH_BSHELL;
	file.script[1] = path;
	memcpy(file.script + 2, program->arguments + 1, (n_arguments - 1) * sizeof(char *));
	files[program->n_files++] = file;
	return 0;
}

static int find_in_path(struct program *program, size_t n_arguments, const char *folders)
{
	int r = 0;

	for (const char *p = folders; r == 0 && p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		int len = (int)strcspn(p, ":");
		char *path;

		if (asprintf(&path, "%.*s%s%s", len, p, len > 0 ? "/" : "", program->arguments[0]) <
		    0)
			return -ENOMEM;
		if (may_be_there(path))
			r = add(program, n_arguments, path);
		else
			free(path);
	}
	return r;
}

int program_find(struct program *program, char **arguments, size_t n_arguments)
{
	const char *folders = getenv("PATH");
	char *path;

	*program = (struct program){ .arguments = calloc(n_arguments + 1, sizeof(char *)) };
	if (!program->arguments)
		return -ENOMEM;
	memcpy(program->arguments, arguments, n_arguments * sizeof(char *));
	if (arguments[0][0] == '\0')
		return 0;
	if (!strchr(arguments[0], '/'))
		return find_in_path(program, n_arguments, folders ? folders : "/bin:/usr/bin");
	path = strdup(arguments[0]);
	return path ? add(program, n_arguments, path) : -ENOMEM;
}

/* ---- in the child ---------------------------------------------------------------------------- */

RAW_CLONE_CHILD static int run_file(const struct program_file *file, char **arguments,
				    char **environment)
{
	long r = raw_syscall(SYS_execve, file->path, arguments, environment);

	if (r == -ENOEXEC)
		r = raw_syscall(SYS_execve, _PATH_BSHELL, file->script, environment);
	return (int)-r;
}

RAW_CLONE_CHILD int program_run(const struct program *program, char **environment)
{
	bool forbidden = false;
	int error = ENOENT;

	for (size_t i = 0; i < program->n_files; i++) {
		error = run_file(&program->files[i], program->arguments, environment);
		if (error == EACCES)
			forbidden = true;
		else if (error != ENOENT && error != ENOTDIR && error != ESTALE &&
			 error != ENODEV && error != ETIMEDOUT)
			return error;
	}
	return forbidden ? EACCES : error;
}
