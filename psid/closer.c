/*
 * A client's descriptor is a weapon: the last close of a lingering socket, of a file whose server
 * the client runs (FUSE), or of anything that an epoll set of the client's looks at (its lock is
 * taken, and the client can hold that) blocks for as long as the client likes; that of memory which
 * the client has filled lasts as long as there is something to free. So psid's loop closes none. It
 * hands them to helper threads, and is told when one is gone. So it does with memory that is to be
 * emptied, for which a lock is taken that clients can hold, too (memory.c).
 *
 * A socket that lingers hangs until a signal comes to who closes it; it is closed then as well, and
 * the kernel goes on sending what it holds. So a helper has a timer send it one: clients that come
 * and go with such sockets unread, whose channels nobody can read first, leave no more behind than
 * helpers close in the meantime. Files of FUSE and the like heed none; they come by messages only.
 *
 * A helper that hangs is written off: another one is started in its place, up to N_THREADS_MAX.
 * So that one user can't hang them all, at most N_RUNNING_USER closes of a user are under way at
 * once, and one only while N_RUNNING_MANY of all are; the rest wait in that user's own queue. So it
 * takes more than 300 users to hang them all. A user with too many waiting is not listened to
 * (client.c).
 *
 * No descriptor stays open because there was no memory to remember that it is to be closed: what
 * is needed for that is there before the descriptor is, for each that is kept (promised) and for
 * all that one message can bring.
 *
 * The threads touch the two queues under the lock and nothing else of psid's.
 */
#include "closer.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "cleanup.h"
#include "macros.h"
#include "memory.h"
#include "psid.h"
#include "thread.h"
#include "user.h"

#define N_THREADS_MAX 512u
#define N_THREADS_IDLE 2u
#define N_RUNNING_USER 4u
#define N_RUNNING_MANY 256u
#define N_AT_ONCE (WIRE_FDS_MAX + 1u) /* of one message, and the channel that it came by */
#define NSEC_LINGER 5000000l
#define SIGNAL_LINGER SIGURG

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

struct psid_closing {
	TAILQ_ENTRY(psid_closing) link;
	struct psid_user *user;
	int fd;
	uint64_t at, size; /* it stays open, and this part of it is emptied; size 0: it is closed */
	void (*done)(void *arg);
	void *arg;
};

static void on_linger(int number)
{
	(void)number;
}

/* Without a timer closes take as long as they take. */
static bool make_timer(timer_t *ret_timer)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL_LINGER };
	sigset_t linger;

	(void)sigemptyset(&linger);
	(void)sigaddset(&linger, SIGNAL_LINGER);
	(void)pthread_sigmask(SIG_UNBLOCK, &linger, NULL);
	event.sigev_notify_thread_id = gettid();
	return timer_create(CLOCK_MONOTONIC, &event, ret_timer) == 0;
}

/* Once more and again: the first one may come before the close has begun to wait. */
static void close_in_time(int fd, const timer_t *timer)
{
	static const struct itimerspec often = { { 0, NSEC_LINGER }, { 0, NSEC_LINGER } };
	static const struct itimerspec never;

	if (timer)
		(void)timer_settime(*timer, 0, &often, NULL);
	(void)raw_close(fd);
	if (timer)
		(void)timer_settime(*timer, 0, &never, NULL);
}

static void carry_out(const struct psid_closing *closing, const timer_t *timer)
{
	if (closing->size > 0)
		psid_memory_release(closing->fd, closing->at, closing->size);
	else
		close_in_time(closing->fd, timer);
}

static void help(struct psid_closer *closer, const timer_t *timer)
{
	struct psid_closing *closing;

	(void)pthread_mutex_lock(&closer->lock);
	for (;;) {
		while (!(closing = TAILQ_FIRST(&closer->ready))) {
			if (closer->stopping || closer->n_idle == N_THREADS_IDLE) {
				closer->n_threads--;
				(void)pthread_cond_signal(&closer->fewer);
				(void)pthread_mutex_unlock(&closer->lock);
				return;
			}
			closer->n_idle++;
			(void)pthread_cond_wait(&closer->more, &closer->lock);
			closer->n_idle--;
		}
		TAILQ_REMOVE(&closer->ready, closing, link);
		closer->n_ready--;
		(void)pthread_mutex_unlock(&closer->lock);
		carry_out(closing, timer);
		(void)pthread_mutex_lock(&closer->lock);
		TAILQ_INSERT_TAIL(&closer->done, closing, link);
		(void)uv_async_send(&closer->finished);
	}
}

static void *helper(void *arg)
{
	timer_t timer;
	bool has_timer = make_timer(&timer);

	help(arg, has_timer ? &timer : NULL);
	if (has_timer)
		(void)timer_delete(timer);
	return NULL;
}

/* Under the lock: one more helper. */
static int start_helper(struct psid_closer *closer)
{
	int r = psid_thread_start(helper, closer);

	if (r == 0)
		closer->n_threads++;
	return r;
}

/* Under the lock: to the helpers. */
static void hand_out(struct psid_closer *closer, struct psid_closing *closing)
{
	TAILQ_INSERT_TAIL(&closer->ready, closing, link);
	closer->n_ready++;
	if (closer->n_idle < closer->n_ready && closer->n_threads < N_THREADS_MAX)
		(void)start_helper(closer);
	(void)pthread_cond_signal(&closer->more);
}

/* How many closes of one user may be under way. */
static unsigned n_running_max(const struct psid_closer *closer)
{
	return closer->n_running < N_RUNNING_MANY ? N_RUNNING_USER : 1;
}

/* Hands the user's next closings to the helpers. */
static void submit(struct psid_closer *closer, struct psid_user *user)
{
	struct psid_closing *closing;

	(void)pthread_mutex_lock(&closer->lock);
	while (user->n_running < n_running_max(closer) &&
	       (closing = TAILQ_FIRST(&user->closings))) {
		TAILQ_REMOVE(&user->closings, closing, link);
		user->n_running++;
		closer->n_running++;
		hand_out(closer, closing);
	}
	(void)pthread_mutex_unlock(&closer->lock);
}

/* ---- what is there before it is needed ------------------------------------------------------- */

static int have(struct psid_closer *closer, unsigned n)
{
	struct psid_closing *closing;

	while (closer->n_spare < n) {
		closing = malloc(sizeof(*closing));
		if (!closing)
			return -ENOMEM;
		TAILQ_INSERT_HEAD(&closer->spare, closing, link);
		closer->n_spare++;
	}
	return 0;
}

static struct psid_closing *take(struct psid_closer *closer)
{
	struct psid_closing *closing = TAILQ_FIRST(&closer->spare);

	assert(closing);
	TAILQ_REMOVE(&closer->spare, closing, link);
	closer->n_spare--;
	return closing;
}

static void drop(struct psid_closer *closer, struct psid_closing *closing)
{
	if (closer->n_spare >= closer->n_promised + N_AT_ONCE) {
		free(closing);
		return;
	}
	TAILQ_INSERT_HEAD(&closer->spare, closing, link);
	closer->n_spare++;
}

bool psid_closer_is_ready(struct psid_closer *closer)
{
	return have(closer, closer->n_promised + N_AT_ONCE) == 0;
}

int psid_closer_promise(struct psid_closer *closer)
{
	int r = have(closer, closer->n_promised + N_AT_ONCE + 1);

	if (r == 0)
		closer->n_promised++;
	return r;
}

void psid_closer_unpromise(struct psid_closer *closer)
{
	closer->n_promised--;
}

/* ---- and when it is done --------------------------------------------------------------------- */

static void report(struct psid_closer *closer, struct psid_closing *closing)
{
	struct psid_closing was = *closing;
	struct psid_user *user = was.user;

	drop(closer, closing);
	closer->n_left--;
	if (user) {
		user->n_running--;
		closer->n_running--;
		user->n_closings--;
		submit(closer, user);
	}
	if (was.done)
		was.done(was.arg);
	if (user)
		psid_user_closed(user);
	(void)psid_user_unref(user);
}

static void on_finished(uv_async_t *async)
{
	struct psid_closer *closer = CONTAINER_OF(async, struct psid_closer, finished);
	struct psid_closings done = TAILQ_HEAD_INITIALIZER(done);
	struct psid_closing *closing;

	(void)pthread_mutex_lock(&closer->lock);
	TAILQ_CONCAT(&done, &closer->done, link);
	(void)pthread_mutex_unlock(&closer->lock);
	while ((closing = TAILQ_FIRST(&done))) {
		TAILQ_REMOVE(&done, closing, link);
		report(closer, closing);
	}
}

int psid_closer_start(struct psid_closer *closer, uv_loop_t *loop)
{
	static const struct sigaction action = { .sa_handler = on_linger };
	int r;

	(void)sigaction(SIGNAL_LINGER, &action, NULL);
	TAILQ_INIT(&closer->ready);
	TAILQ_INIT(&closer->done);
	TAILQ_INIT(&closer->spare);
	(void)pthread_mutex_init(&closer->lock, NULL);
	(void)pthread_cond_init(&closer->more, NULL);
	(void)pthread_cond_init(&closer->fewer, NULL);
	r = uv_async_init(loop, &closer->finished, on_finished);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&closer->lock);
	r = start_helper(closer);
	(void)pthread_mutex_unlock(&closer->lock);
	return r;
}

unsigned psid_closer_pending(const struct psid_closer *closer)
{
	return closer->n_left;
}

bool psid_closer_stop(struct psid_closer *closer)
{
	if (closer->n_left > 0)
		return false;
	(void)pthread_mutex_lock(&closer->lock);
	closer->stopping = true;
	(void)pthread_cond_broadcast(&closer->more);
	while (closer->n_threads > 0)
		(void)pthread_cond_wait(&closer->fewer, &closer->lock);
	(void)pthread_mutex_unlock(&closer->lock);
	uv_close((uv_handle_t *)&closer->finished, NULL);
	while (closer->n_spare > 0)
		free(take(closer));
	return true;
}

static void hand_in(struct psid *psid, struct psid_closing what)
{
	struct psid_closer *closer = &psid->closer;
	struct psid_closing *closing = take(closer);

	*closing = what;
	closer->n_left++;
	if (what.user) {
		(void)psid_user_ref(what.user);
		what.user->n_closings++;
		TAILQ_INSERT_TAIL(&what.user->closings, closing, link);
		submit(closer, what.user);
		return;
	}
	(void)pthread_mutex_lock(&closer->lock);
	hand_out(closer, closing);
	(void)pthread_mutex_unlock(&closer->lock);
}

void psid_close_foreign(struct psid *psid, struct psid_user *user, int fd, void (*done)(void *arg),
			void *arg)
{
	hand_in(psid, (struct psid_closing){ .user = user, .fd = fd, .done = done, .arg = arg });
}

void psid_close_promised(struct psid *psid, struct psid_user *user, int fd, void (*done)(void *arg),
			 void *arg)
{
	psid_closer_unpromise(&psid->closer);
	psid_close_foreign(psid, user, fd, done, arg);
}

void psid_empty_promised(struct psid_user *user, const struct psid_emptying *what,
			 void (*done)(void *arg), void *arg)
{
	hand_in(user->psid, (struct psid_closing){ .user = user,
						   .fd = what->fd,
						   .at = what->at,
						   .size = what->size,
						   .done = done,
						   .arg = arg });
}
