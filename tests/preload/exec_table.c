/*
 * Programs that are started while the process has no descriptor to spare, or very many: what goes
 * along, and what they are, is found out all the same.
 */
#include "stage.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

#define PROGRAM "/proc/self/exe"
#define LEN 60000
#define N_LIMIT 1000
/* Where nobody who looks at the first few hundred finds it. */
#define FD_HIGH 700
#define N_MANY 4000

static void set_limit(rlim_t n)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void fill_table(struct play *p)
{
	set_limit(N_LIMIT);
	while (fcntl(FD, F_DUPFD_CLOEXEC, 0) >= 0)
		;
	T(errno == EMFILE);
}

static void empty_table(void)
{
	for (int fd = 3; fd < N_LIMIT; fd++)
		if (fcntl(fd, F_GETFD) == FD_CLOEXEC)
			close(fd);
}

static pid_t start_pattern(int fd, int gate, bool spawned)
{
	char number[16], len[16], wait[16];
	char *const argv[] = { "catalogue", "--pattern", number, len, wait, NULL };
	pid_t pid = -1;

	(void)snprintf(number, sizeof(number), "%d", fd);
	(void)snprintf(len, sizeof(len), "%d", LEN);
	(void)snprintf(wait, sizeof(wait), "%d", gate);
	if (spawned) {
		(void)posix_spawnp(&pid, PROGRAM, NULL, NULL, argv, environ);
		return pid;
	}
	pid = fork();
	if (pid == 0) {
		execv(PROGRAM, argv);
		_exit(99);
	}
	return pid;
}

static void outside_misses_nothing(struct play *p, bool spawned)
{
	char *preload = getenv("LD_PRELOAD");

	B { T(put_pattern(FD, LEN, 1000) == LEN); }
	A {
		int gate[2], high;

		settle(p, FD, LEN);
		T(pipe2(gate, O_CLOEXEC) == 0);
		fcntl(gate[0], F_SETFD, 0);
		set_limit(N_LIMIT);
		high = fcntl(FD, F_DUPFD, FD_HIGH);
		fcntl(FD, F_SETFD, FD_CLOEXEC);
		fill_table(p);
		unsetenv("LD_PRELOAD");
		*stage_word(p, 1) = start_pattern(high, gate[0], spawned);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		until_process_sleeps((pid_t)*stage_word(p, 1));
		close(high);
		empty_table();
		close(gate[0]);
	}
	B { shutdown(FD, SHUT_WR); }
	A { reap(p, "pattern", (pid_t)*stage_word(p, 1)); }
}

CASE(exec_outside_with_a_full_table, PROCESS)
{
	outside_misses_nothing(p, false);
}

CASE(exec_outside_with_a_full_table_spawned, PROCESS)
{
	outside_misses_nothing(p, true);
}

/* ---- a handler that comes early -------------------------------------------------------------- */

static volatile pid_t spawned;
static volatile sig_atomic_t was_known;

static void on_child(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	was_known = spawned == info->si_pid;
}

/* Many descriptors are looked through, and the program is short. */
CASE(exec_spawned_is_known_to_its_handler, PROCESS)
{
	A {
		struct sigaction action = { .sa_sigaction = on_child, .sa_flags = SA_SIGINFO };
		char *const argv[] = { "true", NULL }, *const env[] = { NULL };
		posix_spawn_file_actions_t none;

		set_limit(N_MANY + N_LIMIT);
		for (int i = 0; i < N_MANY; i++) (void)fcntl(FD, F_DUPFD, 0);
		sigaction(SIGCHLD, &action, NULL);
		posix_spawn_file_actions_init(&none);
		T(posix_spawn((pid_t *)&spawned, "/bin/true", &none, NULL, argv, env) == 0);
		while (waitpid(spawned, NULL, 0) < 0 && errno == EINTR)
			;
		T(was_known);
	}
}
