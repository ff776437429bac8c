/*
 * A call on a descriptor that somebody else has given to psid may last for as long as he likes:
 * such calls are made by threads of their own, which touch nothing of psid's but what their file
 * gives them, under a lock. They are small, for there may be many.
 */
#include "thread.h"

#include <pthread.h>
#include <signal.h>

#define SIZE_STACK 65536u

int psid_thread_start(void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	(void)sigfillset(&all);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, SIZE_STACK);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&thread, &attr, run, arg);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	return r;
}
