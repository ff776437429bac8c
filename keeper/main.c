/*
 * keeper: the small process between a psid and the tasks of one job on one node.
 *
 * psid starts it with descriptors at fixed numbers (keeper_fds.h), as root when psid is the
 * system's: it becomes the user before it reads a byte of the user's. It may be started before
 * there is a job: as one that keepers of jobs are copies of (zygote.c), or as such a copy that
 * waits for its job (gifts.c). It is the parent of the job's tasks here and the reaper of
 * everything they leave behind, so that nobody loses an exit status when psid restarts; it holds
 * their output until somebody takes it, and serves their PMI. It ends when all is said and drained,
 * or kills everything when the owner is gone.
 *
 * It is one thread in one loop. What may crash or block (libpmix) is a process of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "gifts.h"
#include "head.h"
#include "identity.h"
#include "keeper.h"
#include "kill.h"
#include "link.h"
#include "owner.h"
#include "reap.h"
#include "zygote.h"

#define SIZE_START_MAX (4 << 20)

void keeper_fail(const char *what, int error)
{
	(void)fprintf(stderr, "keeper: %s: %s\n", what, strerror(-error));
	exit(EXIT_FAILURE);
}

static struct stat look_at_start(void)
{
	struct stat st;

	if (fstat(KEEPER_FD_START, &st) < 0)
		keeper_fail("is started by psid only", -errno);
	return st;
}

static Pulc__Job__Start *read_start(void)
{
	CLEANUP_FD int fd = KEEPER_FD_START;
	Pulc__Job__Start *start = NULL;
	struct stat st = look_at_start();
	void *bytes;

	if (st.st_size <= 0 || st.st_size > SIZE_START_MAX)
		keeper_fail("what psid said", -EBADMSG);
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes != MAP_FAILED) {
		start = pulc__job__start__unpack(NULL, (size_t)st.st_size, bytes);
		(void)munmap(bytes, (size_t)st.st_size);
	}
	if (!start || !start->identity)
		keeper_fail("what psid said", -EBADMSG);
	return start;
}

static int inherited(int fd)
{
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -EBADF;
	return fd;
}

static void count_ranks(struct keeper *k)
{
	for (size_t i = 0; i < k->start->n_places; i++)
		k->n_ranks += (uint32_t)k->start->places[i]->n_ranks;
	if (k->start->here < k->start->n_places)
		k->place = k->start->places[k->start->here];
	k->n_tasks = k->place ? (uint32_t)k->place->n_ranks : 0;
	k->is_head = k->start->head;
	k->childless = k->n_tasks == 0;
}

static void begin(struct keeper *k)
{
	int listen_fd = inherited(KEEPER_FD_LISTEN), r;

	count_ranks(k);
	k->cgroup_fd = inherited(KEEPER_FD_CGROUP);
	keeper_kill_open(k); /* while we may */
	r = keeper_become(k->start->identity);
	if (r < 0)
		keeper_fail("can't become the user", r);
	r = keeper_reap_start(k);
	if (r == 0)
		r = keeper_head_start(k, listen_fd);
	if (r == 0)
		r = keeper_owner_start(k, inherited(KEEPER_FD_OWNER));
	if (r == 0)
		r = keeper_link_start(k);
	if (r < 0)
		keeper_fail("can't start", r);
}

/* What can be done before there is a job. Numbers that psid gives a meaning to are not used by
 * us. */
static void prepare(struct keeper *k)
{
	bool held[KEEPER_FD_END] = { false };
	int r;

	for (int fd = KEEPER_FD_START; fd < KEEPER_FD_END; fd++)
		held[fd] = fcntl(fd, F_GETFD) < 0 && dup3(STDIN_FILENO, fd, O_CLOEXEC) == fd;
	r = uv_loop_init(&k->loop);
	if (r == 0)
		r = channels_start(&k->channels, &k->loop);
	for (int fd = KEEPER_FD_START; fd < KEEPER_FD_END; fd++)
		if (held[fd])
			(void)close(fd);
	if (r < 0)
		keeper_fail("can't start", r);
}

/* Returns whether there will be a job. */
static bool await_job(void)
{
	int r = keeper_gifts_take();

	(void)prctl(PR_SET_NAME, KEEPER_NAME, 0, 0, 0);
	if (r < 0 && r != -EPIPE)
		keeper_fail("what psid gave", r);
	return r == 0;
}

/* Nothing to do, and nothing left to say. */
static bool is_over(const struct keeper *k)
{
	return k->finished && (k->owner.ended || k->owner.mute || k->owner.pipe.size_out == 0);
}

int main(int argc, char **argv)
{
	static struct keeper keeper;
	bool is_copy = S_ISSOCK(look_at_start().st_mode);

	if (is_copy && !keeper_zygote_serve(argc > 1 ? argv[1] : NULL))
		return EXIT_SUCCESS;
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	(void)setsid();
	prepare(&keeper);
	if (is_copy && !await_job())
		return EXIT_SUCCESS;
	keeper.start = read_start();
	begin(&keeper);
	while (!is_over(&keeper) && uv_run(&keeper.loop, UV_RUN_ONCE))
		;
	return EXIT_SUCCESS;
}
