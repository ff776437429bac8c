/*
 * Semaphores over fork: the child has them and holds nothing of its parent's; they outlive the
 * parent; what a child held is free when it ends. Prints "child", "grandchild" and "parent" when
 * all is well with them.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/sem.h>

#define MSEC_LONG 40000

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

static int end(int status, const char *who)
{
	if (status == 0)
		puts(who);
	(void)fflush(stdout);
	return status;
}

static bool ends_well(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && status == 0;
}

static int be_child(pulc_sem *sem, pulc_sem *signal)
{
	if (pulc_sem_post(sem) != -EPERM || pulc_sem_post(signal) != 0)
		return failed(__LINE__);
	if (pulc_sem_wait(sem, MSEC_LONG) != 0)
		return failed(__LINE__);
	/* Ends with it. */
	return 0;
}

static int inherit(void)
{
	pulc_sem *sem, *signal;
	pid_t pid;

	if (pulc_sem_open(NULL, 1, PULC_SEM_HELD, &sem) != 1 ||
	    pulc_sem_open(NULL, 0, 0, &signal) != 1 || pulc_sem_wait(sem, 0) != 0)
		return failed(__LINE__);
	pid = fork();
	if (pid == 0)
		_exit(end(be_child(sem, signal), "child"));
	if (pulc_sem_wait(signal, MSEC_LONG) != 0 || pulc_sem_wait(signal, 0) != -ETIMEDOUT)
		return failed(__LINE__);
	if (pulc_sem_post(sem) != 0 || !ends_well(pid) || pulc_sem_wait(sem, MSEC_LONG) != 0)
		return failed(__LINE__);
	return pulc_sem_close(sem) == 0 && pulc_sem_close(signal) == 0 ? 0 : failed(__LINE__);
}

/* Their parent has closed it before they use it: psid hears of it from them. */
static int use_what_is_left(pulc_sem *sem, int begin)
{
	char byte;
	pid_t pid;

	if (read(begin, &byte, 1) != 1)
		return failed(__LINE__);
	pid = fork();
	if (pid == 0)
		_exit(end(pulc_sem_wait(sem, MSEC_LONG) ? failed(__LINE__) : 0, "grandchild"));
	if (!ends_well(pid) || pulc_sem_wait(sem, MSEC_LONG) != 0 || pulc_sem_post(sem) != 0)
		return failed(__LINE__);
	return pulc_sem_close(sem);
}

static int leave_it(void)
{
	pulc_sem *sem, *another;
	int begin[2];
	pid_t pid;

	if (pulc_sem_open(NULL, 1, PULC_SEM_HELD, &sem) != 1 || pipe(begin) < 0)
		return failed(__LINE__);
	pid = fork();
	if (pid == 0)
		_exit(use_what_is_left(sem, begin[0]));
	/* psid has heard of the end when it answers what comes behind it. */
	if (pulc_sem_close(sem) != 0 || pulc_sem_open(NULL, 1, 0, &another) != 1 ||
	    write(begin[1], "", 1) != 1 || !ends_well(pid))
		return failed(__LINE__);
	return pulc_sem_close(another);
}

int main(void)
{
	if (inherit() != 0 || leave_it() != 0)
		return 1;
	return end(0, "parent");
}
