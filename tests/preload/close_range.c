/* close_range: what the kernel refuses closes nothing, and a thread may take descriptors of its own
 * before it closes. */
#include "case.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sys/wait.h>

#define FLAG_UNKNOWN (1u << 5)

CASE(close_range_refused, ANY)
{
	A {
		const unsigned fd = (unsigned)FD;

		R(close_range(fd, fd, FLAG_UNKNOWN));
		R(close_range(fd, fd, FLAG_UNKNOWN | CLOSE_RANGE_UNSHARE));
		R(close_range(fd, fd - 1, 0));
		R(close_range(UINT_MAX, 0, CLOSE_RANGE_UNSHARE));
		SEND("still there");
	}
	answer_and_end(p);
}

struct range {
	unsigned first, last, flags;
	int result;
};

static void *close_mine(void *arg)
{
	struct range *range = arg;

	range->result = close_range(range->first, range->last, (int)range->flags);
	return NULL;
}

/* The other threads keep theirs. */
static void by_one_thread(struct play *p, const struct range *wanted)
{
	struct range range = *wanted;
	pthread_t thread;

	pthread_create(&thread, NULL, close_mine, &range);
	pthread_join(thread, NULL);
	say(p, "answer %d", range.result);
}

CASE(close_range_of_one_thread, ANY)
{
	A {
		const unsigned fd = (unsigned)FD;

		SEND("before");
		by_one_thread(p, &(struct range){ fd, fd, CLOSE_RANGE_UNSHARE, -1 });
		SEND("after");
	}
	answer_and_end(p);
}

CASE(close_range_of_one_thread_takes_all, ANY)
{
	A {
		SEND("before");
		by_one_thread(p, &(struct range){ 3, UINT_MAX, CLOSE_RANGE_UNSHARE, -1 });
		SEND("after");
	}
	answer_and_end(p);
}

static void *mark_and_use(void *arg)
{
	const int fd = *(int *)arg;

	if (close_range((unsigned)fd, (unsigned)fd, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) < 0)
		return (void *)1;
	return close(fd) < 0 ? (void *)2 : NULL;
}

/* It only marks, but the table is the thread's own from then on. */
CASE(close_range_of_one_thread_only_marks, ANY)
{
	A {
		pthread_t thread;
		void *failed;

		SEND("before");
		pthread_create(&thread, NULL, mark_and_use, &FD);
		pthread_join(thread, &failed);
		T(failed == NULL);
		T(!(fcntl(FD, F_GETFD) & FD_CLOEXEC));
		SEND("after");
	}
	answer_and_end(p);
}

static void *nothing(void *arg)
{
	return arg;
}

/* Nobody shares the table: what had threads once, and a child of what has some. */
CASE(close_range_unshares_nothing, ANY)
{
	A {
		pthread_t thread;
		pid_t pid;

		pthread_create(&thread, NULL, nothing, NULL);
		pthread_join(thread, NULL);
		pid = fork_logged(p);
		if (pid == 0) {
			R(close_range(3, UINT_MAX, CLOSE_RANGE_UNSHARE));
			_exit(0);
		}
		reap(p, "child", pid);
		SEND("parent");
	}
	B { RECV_FLAGS(6, MSG_WAITALL); }
	A {
		if (play_is(p, PROCESS))
			R(close_range((unsigned)FD, (unsigned)FD, CLOSE_RANGE_UNSHARE));
		else
			close(FD);
	}
	B { RECV(1); }
}
