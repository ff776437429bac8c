/*
 * Semaphores and a psid that ends, and one that is late. What a process holds is known to the next
 * psid, under the same name: so it is free again when that process is killed. A part that psid
 * gives when nobody waits for it any more is given back.
 *
 * Argument: the psid to start. This process itself is no client of it, so that its children attach
 * as they like. Prints "returned" and "late".
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/sem.h>

#define MSEC_LONG 60000
#define N_PATIENCE 1200
#define USEC_STEP 50000

struct process {
	pid_t pid;
	int said, told; /* what it says; what it is told */
};

static const char *path;
static int said, told; /* in a child: the other ends */

_Noreturn static void die(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	_exit(1);
}

#define MUST(holds)                                                                                \
	do {                                                                                       \
		if (!(holds))                                                                      \
			die(__LINE__);                                                             \
	} while (0)

static void say(int fd)
{
	MUST(write(fd, "", 1) == 1);
}

static void hear(int fd)
{
	char byte;

	MUST(read(fd, &byte, 1) == 1);
}

/* ---- processes ------------------------------------------------------------------------------- */

static pid_t start_psid(void)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0) {
		int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

		(void)dup2(fd, STDERR_FILENO);
		(void)execl(path, path, NULL);
		_exit(127);
	}
	return pid;
}

static void end(pid_t pid, int signo)
{
	MUST(kill(pid, signo) == 0 && waitpid(pid, NULL, 0) == pid);
}

static struct process start(void (*run)(void))
{
	int up[2], down[2];
	pid_t pid;

	MUST(pipe(up) == 0 && pipe(down) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		said = up[1];
		told = down[0];
		(void)close(up[0]);
		(void)close(down[1]);
		run();
		_exit(0);
	}
	(void)close(up[1]);
	(void)close(down[0]);
	return (struct process){ pid, up[0], down[1] };
}

static void end_well(const struct process *p)
{
	int status;

	MUST(waitpid(p->pid, &status, 0) == p->pid && status == 0);
	(void)close(p->said);
	(void)close(p->told);
}

/* ---- a new psid ------------------------------------------------------------------------------ */

/* As soon as there is a psid. */
static int open_patiently(const char *name, unsigned count, int flags, pulc_sem **ret_sem)
{
	int e = -1;

	for (unsigned i = 0; i < N_PATIENCE && e < 0; i++) {
		e = pulc_sem_open(name, count, flags, ret_sem);
		if (e < 0)
			(void)usleep(USEC_STEP);
	}
	MUST(e >= 0);
	return e;
}

static void hold(void)
{
	pulc_sem *sem, *another;

	MUST(open_patiently("return", 1, PULC_SEM_HELD, &sem) == 1 && pulc_sem_wait(sem, 0) == 0);
	say(said);
	hear(told);
	(void)open_patiently(NULL, 1, 0, &another);
	say(said);
	(void)pause();
}

static void find(void)
{
	pulc_sem *sem;

	MUST(open_patiently("return", 1, PULC_SEM_HELD, &sem) == 0);
	MUST(pulc_sem_value(sem) == 0 && pulc_sem_wait(sem, 0) == -ETIMEDOUT);
	say(said);
	MUST(pulc_sem_wait(sem, MSEC_LONG) == 0);
	MUST(pulc_sem_post(sem) == 0 && pulc_sem_close(sem) == 0);
}

/* Asleep when psid ends. */
static void sleep_on(void)
{
	pulc_sem *sem, *another;

	MUST(open_patiently("return", 1, PULC_SEM_HELD, &sem) == 0);
	say(said);
	MUST(pulc_sem_wait(sem, MSEC_LONG) == 0);
	(void)open_patiently(NULL, 1, 0, &another);
	say(said);
	(void)pause();
}

static void come_back(void)
{
	pid_t psid = start_psid();
	struct process holder = start(hold), sleeper, finder;

	hear(holder.said);
	sleeper = start(sleep_on);
	hear(sleeper.said);
	end(psid, SIGKILL);
	psid = start_psid();
	say(holder.told);
	hear(holder.said);
	finder = start(find);
	hear(finder.said);
	end(holder.pid, SIGKILL);
	/* One of the two has it, and gives it to the other one by its end. */
	hear(sleeper.said);
	end(sleeper.pid, SIGKILL);
	end_well(&finder);
	end(psid, SIGTERM);
	puts("returned");
}

/* ---- a late one ------------------------------------------------------------------------------ */

static void be_late_for(void)
{
	pulc_sem *sem;
	int e = 0;

	(void)open_patiently(NULL, 1, 0, &sem);
	say(said);
	hear(told);
	MUST(pulc_sem_open("late", 1, PULC_SEM_HELD, &sem) == -ETIMEDOUT);
	say(said);
	hear(told);
	for (unsigned i = 0; i < N_PATIENCE && e != 1; i++) {
		e = pulc_sem_open("late", 1, PULC_SEM_HELD, &sem);
		MUST(e < 0 || pulc_sem_close(sem) == 0);
		if (e != 1)
			(void)usleep(USEC_STEP);
	}
	MUST(e == 1);
}

static void be_late(void)
{
	pid_t psid = start_psid();
	struct process client = start(be_late_for);

	hear(client.said);
	MUST(kill(psid, SIGSTOP) == 0);
	say(client.told);
	hear(client.said);
	MUST(kill(psid, SIGCONT) == 0);
	say(client.told);
	end_well(&client);
	end(psid, SIGTERM);
	puts("late");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	path = argv[1];
	come_back();
	(void)fflush(stdout);
	be_late();
	return 0;
}
