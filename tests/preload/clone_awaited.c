/*
 * Children that a thread of their parent waits for until they execute a program or end
 * (CLONE_VFORK), in memory of their own: the parent's other threads go on meanwhile, and may do
 * what the child waits for.
 */
#include "case.h"

#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SIZE_STACK 65536
#define USEC_PATIENCE 10000000u

enum way { BY_CLONE, BY_SYS_CLONE, BY_SYS_CLONE3 };
enum { RUNS = 1, CHANGED, LASTS, ENDED };

static const char *const names[] = { "clone", "SYS_clone", "SYS_clone3" };

/* While another thread waits for a child, which waits for this. */
static void *change_meanwhile(void *arg)
{
	struct play *p = arg;
	struct epoll_event event = { .events = EPOLLIN };
	pid_t pid;
	int ep;

	while (!*stage_word(p, RUNS)) usleep(300);
	ep = epoll_create1(0);
	T(epoll_ctl(ep, EPOLL_CTL_ADD, FD, &event) == 0);
	close(ep);
	pid = fork();
	if (pid == 0)
		_exit(0);
	reap(p, "another one", pid);
	*stage_word(p, CHANGED) = 1;
	return NULL;
}

/* Leaves one behind, of whom nobody is to wait. */
static int wait_for_the_other_thread(void *arg)
{
	struct play *p = arg;
	uint64_t until = usec_clock() + USEC_PATIENCE;

	*stage_word(p, RUNS) = 1;
	while (!*stage_word(p, CHANGED) && usec_clock() < until) usleep(300);
	if (fork() == 0) {
		while (!*stage_word(p, ENDED) && usec_clock() < until) usleep(300);
		*stage_word(p, LASTS) = !*stage_word(p, ENDED);
		_exit(0);
	}
	usleep(3000);
	*stage_word(p, RUNS) = 2;
	_exit(*stage_word(p, CHANGED) ? 0 : 1);
}

static pid_t awaited_child(struct play *p, enum way way)
{
	static char stack[SIZE_STACK] __attribute__((aligned(16)));
	struct clone_args args = { .flags = CLONE_VFORK, .exit_signal = SIGCHLD };
	pid_t pid;

	if (way == BY_CLONE)
		return clone(wait_for_the_other_thread, stack + sizeof(stack),
			     CLONE_VFORK | SIGCHLD, p);
	if (way == BY_SYS_CLONE)
		pid = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
	else
		pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		(void)wait_for_the_other_thread(p);
	return pid;
}

static void awaited(struct play *p, enum way way)
{
	A {
		pthread_t thread;
		pid_t pid;

		SEND("before");
		pthread_create(&thread, NULL, change_meanwhile, p);
		pid = awaited_child(p, way);
		T(*stage_word(p, RUNS) == 2);
		*stage_word(p, ENDED) = 1;
		reap(p, names[way], pid);
		pthread_join(thread, NULL);
		T(*stage_word(p, LASTS) == 0);
		SEND("after");
	}
	answer_and_end(p);
}

/* In memory of its own it holds nobody up but the thread that has made it, and that one until it
 * ends. */
CASE(clone_awaited_by_one_thread, ANY)
{
	awaited(p, BY_CLONE);
}

CASE(clone_by_the_system_call_awaited_by_one_thread, ANY)
{
	awaited(p, BY_SYS_CLONE);
}

CASE(clone_by_the_new_system_call_awaited_by_one_thread, ANY)
{
	awaited(p, BY_SYS_CLONE3);
}
