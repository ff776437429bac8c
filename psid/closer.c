/*
 * A client's descriptor is a weapon: the last close of a lingering socket, or of a file whose
 * server the client runs (FUSE), blocks for as long as the client likes. So psid's loop closes
 * none. It hands them to helper threads, and is told when one is gone.
 *
 * A helper that hangs is written off: another one is started in its place, up to N_THREADS_MAX.
 * So that one user can't hang them all, at most N_RUNNING_USER closes of a user are under way at
 * once; the rest wait in that user's own queue. A user with too many waiting is not listened to
 * (client.c).
 *
 * The threads touch the two queues under the lock and nothing else of psid's.
 */
#include "closer.h"

#include <stdlib.h>
#include <unistd.h>

#include "cleanup.h"
#include "macros.h"
#include "psid.h"
#include "thread.h"
#include "user.h"

#define N_THREADS_MAX 64u
#define N_THREADS_IDLE 2u
#define N_RUNNING_USER 4u

struct psid_closing {
	TAILQ_ENTRY(psid_closing) link;
	struct psid *psid;
	struct psid_user *user;
	int fd;
	void (*done)(void *arg);
	void *arg;
};

static void *helper(void *arg)
{
	struct psid_closer *closer = arg;
	struct psid_closing *closing;

	(void)pthread_mutex_lock(&closer->lock);
	for (;;) {
		while (!(closing = TAILQ_FIRST(&closer->ready))) {
			if (closer->stopping || closer->n_idle == N_THREADS_IDLE) {
				closer->n_threads--;
				(void)pthread_cond_signal(&closer->fewer);
				(void)pthread_mutex_unlock(&closer->lock);
				return NULL;
			}
			closer->n_idle++;
			(void)pthread_cond_wait(&closer->more, &closer->lock);
			closer->n_idle--;
		}
		TAILQ_REMOVE(&closer->ready, closing, link);
		closer->n_ready--;
		(void)pthread_mutex_unlock(&closer->lock);
		(void)raw_close(closing->fd);
		(void)pthread_mutex_lock(&closer->lock);
		TAILQ_INSERT_TAIL(&closer->done, closing, link);
		(void)uv_async_send(&closer->finished);
	}
}

/* Under the lock: one more helper. */
static int start_helper(struct psid_closer *closer)
{
	int r = psid_thread_start(helper, closer);

	if (r == 0)
		closer->n_threads++;
	return r;
}

/* Hands the user's next closings to the helpers. */
static void submit(struct psid_closer *closer, struct psid_user *user)
{
	struct psid_closing *closing;

	(void)pthread_mutex_lock(&closer->lock);
	while (user->n_running < N_RUNNING_USER && (closing = TAILQ_FIRST(&user->closings))) {
		TAILQ_REMOVE(&user->closings, closing, link);
		user->n_running++;
		TAILQ_INSERT_TAIL(&closer->ready, closing, link);
		closer->n_ready++;
		if (closer->n_idle < closer->n_ready && closer->n_threads < N_THREADS_MAX)
			(void)start_helper(closer);
		(void)pthread_cond_signal(&closer->more);
	}
	(void)pthread_mutex_unlock(&closer->lock);
}

static void report(struct psid_closer *closer, struct psid_closing *closing)
{
	struct psid_user *user = closing->user;

	closer->n_left--;
	user->n_running--;
	user->n_closings--;
	submit(closer, user);
	if (closing->done)
		closing->done(closing->arg);
	psid_user_closed(user);
	psid_user_unref(user);
	free(closing);
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
	int r;

	TAILQ_INIT(&closer->ready);
	TAILQ_INIT(&closer->done);
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
	return true;
}

bool psid_close_foreign(struct psid *psid, struct psid_user *user, int fd, void (*done)(void *arg),
			void *arg)
{
	struct psid_closing *closing = malloc(sizeof(*closing));

	if (!closing)
		return false;
	*closing = (struct psid_closing){
		.psid = psid, .user = psid_user_ref(user), .fd = fd, .done = done, .arg = arg
	};
	user->n_closings++;
	psid->closer.n_left++;
	TAILQ_INSERT_TAIL(&user->closings, closing, link);
	submit(&psid->closer, user);
	return true;
}
