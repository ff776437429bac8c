/*
 * The shim's record of each thread, made at its first call, given back when it ends.
 *
 * Its main content are hazard pointers (Michael, "Hazard Pointers: Safe Memory Reclamation for
 * Lock-Free Objects", IEEE TPDS 2004, section 3): a thread names the files that it is using, and a
 * closed file is recycled only when nobody names it. A call that a signal handler has left by
 * longjmp leaves its slot taken; when the slots run out the thread begins again at the first. Such
 * a call does not keep a file open that is closed (linger.c): what a handler has interrupted ends
 * or begins anew, if it is not left, so it does not count there.
 */
#include "file.h"
#include "symbols.h"
#include "thread.h"

static LARGE void *_Atomic thread_chunks[PRE_POOL_CHUNKS];
static OFTEN struct pre_thread near_threads[2];
OFTEN struct pre_pool pre_threads = PRE_POOL_NEAR(struct pre_thread, thread_chunks, near_threads);
__thread struct pre_thread *pre_thread_self;
OFTEN _Atomic bool pre_any_cancelled;

/* Shared by threads for which there was no memory: they only lose protection against a racing
 * close. */
static struct pre_thread spare;
static pthread_key_t key;

static void reset(struct pre_thread *t)
{
	for (int i = 0; i < PRE_N_USING; i++)
		atomic_store(&t->using[i], NULL);
	t->n_using = 0;
	atomic_store(&t->sleeps, false);
	atomic_store(&t->n_interrupted, 0);
	t->changing = 0;
	t->n_locked = 0;
	t->n_sets_locked = 0;
	t->n_forks_bare = 0;
	t->later = NULL;
	t->spin = (struct pulc_spin){ 0 };
	t->looked.nsec = 0;
	t->looked.n_answers = 0;
	t->looked.n_calm = 0;
}

struct pre_thread *pre_thread_new(void)
{
	struct pre_thread *t = pre_pool_get(&pre_threads);

	if (!t)
		return &spare;
	reset(t);
	pre_thread_self = t;
	(void)pthread_setspecific(key, t);
	return t;
}

/* A thread that was cancelled has left its calls without an end. */
static void end(void *arg)
{
	struct pre_file *used[PRE_N_USING];
	struct pre_thread *t = arg;

	for (int i = 0; i < PRE_N_USING; i++)
		used[i] = atomic_load(&t->using[i]);
	reset(t);
	for (int i = 0; i < PRE_N_USING; i++) {
		if (used[i] && atomic_load(&used[i]->lingers))
			pre_linger_end(used[i]);
	}
	pre_thread_self = NULL;
	pre_pool_put(&pre_threads, t);
}

int pre_pthread_cancel(pthread_t thread)
{
	atomic_store(&pre_any_cancelled, true);
	return pre_real.pthread_cancel(thread);
}

int pre_thread_start(void)
{
	return -pthread_key_create(&key, end);
}

static bool uses_from(const struct pre_thread *t, unsigned first, const struct pre_file *f)
{
	for (unsigned i = first; i < PRE_N_USING; i++)
		if (atomic_load(&t->using[i]) == f)
			return true;
	return false;
}

USUAL bool pre_thread_uses(const struct pre_file *f)
{
	struct pre_thread *t;

	for (uint32_t i = 0; (t = pre_pool_at(&pre_threads, i)) != NULL; i++)
		if (uses_from(t, 0, f))
			return true;
	return false;
}

static bool is_inside(const struct pre_thread *t, const struct pre_file *f)
{
	return uses_from(t, atomic_load(&t->n_interrupted), f);
}

static bool is_awake_inside(const struct pre_thread *t, const struct pre_file *f)
{
	return !atomic_load(&t->sleeps) && uses_from(t, 0, f);
}

static inline bool others_do(bool (*what)(const struct pre_thread *, const struct pre_file *),
			     const struct pre_file *f)
{
	const struct pre_thread *self = pre_self();
	struct pre_thread *t;

	for (uint32_t i = 0; (t = pre_pool_at(&pre_threads, i)) != NULL; i++)
		if (t != self && what(t, f))
			return true;
	return false;
}

USUAL bool pre_thread_others_inside(const struct pre_file *f)
{
	return others_do(is_inside, f);
}

bool pre_thread_others_awake(const struct pre_file *f)
{
	return others_do(is_awake_inside, f);
}

int pre_thread_sleep(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		     const sigset_t *mask)
{
	struct pre_thread *self = pre_self();
	int ret;

	atomic_store(&self->sleeps, true);
	ret = pre_real.ppoll(fds, n, timeout, mask);
	atomic_store(&self->sleeps, false);
	return ret;
}

unsigned pre_thread_handles(void)
{
	struct pre_thread *t = pre_thread_self;

	return t ? atomic_exchange(&t->n_interrupted, t->n_using) : 0;
}

void pre_thread_handled(unsigned before)
{
	if (pre_thread_self)
		atomic_store(&pre_thread_self->n_interrupted, before);
}

USUAL void pre_thread_forked(void)
{
	struct pre_thread *t;

	for (uint32_t i = 0; (t = pre_pool_at(&pre_threads, i)) != NULL; i++) {
		if (t != pre_thread_self)
			reset(t);
	}
}
