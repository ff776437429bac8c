/*
 * Starting keeper-pmix, and talking with it.
 *
 * Tasks wait until it is ready, for they need what it says in their environment. If it can't be had
 * (libpmix is not installed) the owner is told and the job starts without. It is in the keeper's
 * own cgroup, not in that of the tasks, and dies with the keeper. Its environment is the keeper's:
 * of another user's than psid's that is PATH and HOME, out of the job's.
 */
#include "pmix.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "head.h"
#include "macros.h"
#include "owner.h"
#include "pmi.h"
#include "task.h"

#define FD 3 /* as pmix/serve.h has it */

struct pmix {
	struct keeper *keeper;
	struct channel channel;
	pid_t pid; /* 0: gone */
	Pulc__Job__Message *ready;
	char ***environments;
	bool *open; /* for each task: connected, and not finalised */
};

/* ---- from it --------------------------------------------------------------------------------- */

static void launch(struct keeper *k)
{
	if (!k->launched) /* also if the job is over by now: its tasks end unstarted */
		keeper_tasks_launch(k);
}

/* Keeps the message. */
static void take_ready(struct pmix *pmix, Pulc__Job__Message *msg)
{
	struct keeper *k = pmix->keeper;

	pmix->ready = msg;
	pmix->environments = calloc(k->n_tasks, sizeof(*pmix->environments));
	pmix->open = calloc(k->n_tasks, sizeof(*pmix->open));
	if (!pmix->environments || !pmix->open)
		keeper_fail("PMIx", -ENOMEM);
	for (size_t i = 0; i < msg->pmix_ready->n_tasks && i < k->n_tasks; i++) {
		const Pulc__Job__PmixVariables *task = msg->pmix_ready->tasks[i];

		pmix->environments[i] = calloc(task->n_variables + 1, sizeof(char *));
		if (!pmix->environments[i])
			keeper_fail("PMIx", -ENOMEM);
		memcpy(pmix->environments[i], task->variables, task->n_variables * sizeof(char *));
	}
	launch(k);
}

static void take_client(struct pmix *pmix, const Pulc__Job__PmixClient *client)
{
	const struct task *task = keeper_task(pmix->keeper, client->rank);

	pmix->keeper->any_mpi = true;
	if (task && pmix->open)
		pmix->open[task->local] = !client->finalised;
}

static void take_abort(struct pmix *pmix, const Pulc__Job__Abort *abort)
{
	struct task *task = keeper_task(pmix->keeper, abort->rank);

	if (task && !task->aborted)
		keeper_abort(task, abort->code, "");
}

static void on_frame(struct channel *channel, const struct frame *frame)
{
	struct pmix *pmix = CONTAINER_OF(channel, struct pmix, channel);
	Pulc__Job__Message *msg = frame->kind == FRAME_MESSAGE ? channel_unpack(channel, frame)
							       : NULL;

	if (!msg)
		return;
	switch (msg->body_case) {
	case PULC__JOB__MESSAGE__BODY_PMIX_READY:
		if (!pmix->ready) {
			take_ready(pmix, msg);
			return;
		}
		break;
	case PULC__JOB__MESSAGE__BODY_PMIX_CLIENT:
		take_client(pmix, msg->pmix_client);
		break;
	case PULC__JOB__MESSAGE__BODY_NOTE:
		keeper_unserved(pmix->keeper, msg->note->text);
		break;
	case PULC__JOB__MESSAGE__BODY_ABORT:
		take_abort(pmix, msg->abort);
		break;
	case PULC__JOB__MESSAGE__BODY_FENCE:
	case PULC__JOB__MESSAGE__BODY_MODEX:
	case PULC__JOB__MESSAGE__BODY_NAMES:
		keeper_head_report(pmix->keeper, msg);
		break;
	default:
		break;
	}
	pulc__job__message__free_unpacked(msg, NULL);
}

static void on_end(struct channel *channel, int reason)
{
	struct pmix *pmix = CONTAINER_OF(channel, struct pmix, channel);

	(void)reason;
	if (pmix->ready)
		return;
	keeper_say(pmix->keeper,
		   "no PMIx server (is libpmix installed?): Open MPI programs will not start");
	launch(pmix->keeper);
}

/* ---- its process ----------------------------------------------------------------------------- */

static void find_program(char *buf, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", buf, size - 16);

	buf[MAX(n, 0)] = '\0';
	strcat(buf, "-pmix"); /* beside us */
}

static pid_t start_process(int theirs)
{
	char program[512];
	pid_t pid;

	find_program(program, sizeof(program));
	pid = fork();
	if (pid != 0)
		return pid;
	if (dup2(theirs, FD) == FD || fcntl(FD, F_SETFD, 0) == 0) {
		(void)signal(SIGPIPE, SIG_DFL);
		/* Without it libpmix looks the user up, and trusts that there is such an entry. */
		(void)setenv("HOME", "/", 0);
		(void)execl(program, "keeper-pmix", (char *)NULL);
	}
	_exit(127);
}

static void begin(struct pmix *pmix)
{
	Pulc__Job__PmixBegin pmix_begin = PULC__JOB__PMIX_BEGIN__INIT;
	JOB_MESSAGE(msg, PMIX_BEGIN, pmix_begin) = &pmix_begin;

	pmix_begin.start = pmix->keeper->start;
	channel_put(&pmix->channel, &msg);
}

int pmix_start(struct keeper *k)
{
	struct pmix *pmix = calloc(1, sizeof(*pmix));
	CLEANUP_FD int theirs = -EBADF;
	int fds[2], r;

	if (!pmix)
		return -ENOMEM;
	k->pmix = pmix;
	pmix->keeper = k;
	pmix->channel.on_frame = on_frame;
	pmix->channel.on_end = on_end;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return -errno;
	theirs = fds[1];
	r = channel_open(&pmix->channel, &k->channels, fds[0]);
	if (r < 0)
		return r;
	pmix->pid = start_process(theirs);
	if (pmix->pid < 0) {
		channel_close(&pmix->channel);
		pmix->pid = 0;
		return -EAGAIN;
	}
	begin(pmix);
	return 0;
}

void pmix_stop(struct keeper *k)
{
	if (!k->pmix || k->pmix->pid == 0)
		return;
	channel_close(&k->pmix->channel);
	(void)kill(k->pmix->pid, SIGKILL); /* its library would wait for clients that are gone */
}

void pmix_child(struct keeper *k, pid_t pid)
{
	if (k->pmix && k->pmix->pid == pid)
		k->pmix->pid = 0;
}

pid_t pmix_process(const struct keeper *k)
{
	return k->pmix ? k->pmix->pid : 0;
}

char *const *pmix_environment(const struct task *task)
{
	const struct pmix *pmix = task->keeper->pmix;

	return pmix && pmix->environments ? pmix->environments[task->local] : NULL;
}

bool pmix_left_open(const struct task *task)
{
	const struct pmix *pmix = task->keeper->pmix;

	return pmix && pmix->open && pmix->open[task->local];
}

void pmix_fence_left(struct keeper *k, const Pulc__Job__Fence *fence)
{
	JOB_MESSAGE(msg, FENCE, fence) = (Pulc__Job__Fence *)fence;

	if (k->pmix)
		channel_put(&k->pmix->channel, &msg);
}

void pmix_modex(struct keeper *k, const Pulc__Job__Modex *modex)
{
	JOB_MESSAGE(msg, MODEX, modex) = (Pulc__Job__Modex *)modex;

	if (k->pmix)
		channel_put(&k->pmix->channel, &msg);
}

void pmix_names_answered(struct keeper *k, const Pulc__Job__Names *names)
{
	JOB_MESSAGE(msg, NAMES, names) = (Pulc__Job__Names *)names;

	if (k->pmix)
		channel_put(&k->pmix->channel, &msg);
}
