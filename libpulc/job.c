/*
 * A job and its owner, who lives in this process.
 *
 * The owner has one end of a Unix stream; at the other is the job's head keeper, a process of
 * PULC's. Down go what to run and credit for output, up come output, ends and Done, in frames
 * (keeper/common/frame.h). psid is asked once, for the job; afterwards it may die and come back.
 * The end of this process closes the stream, and that ends the job: nothing has to be done for it.
 *
 * Left out: standard input (it is empty), terminals, and prefixes, files and whole lines of output,
 * which are pulcrun's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel.h"
#include "cleanup.h"
#include "clock.h"
#include "frame.h"
#include "macros.h"
#include "psid_talk.h"
#include "pulc/job.h"
#include "rawsys.h"
#include "spec.h"
#include "utf8.h"

#define SIZE_PROGRAM 65 /* of a name for people */

extern char **environ;

struct pulc_job {
	char name[PULC_SIZE_JOB_NAME], note[PULC_SIZE_WHY];
	int fd;
	struct frame_pipe pipe;
	struct pulc_end *ends; /* of each rank */
	uint32_t n_tasks, credit;
	uint32_t *owed; /* bytes of each stream that credit is due for */
	bool is_done;
	void (*output)(void *data, unsigned rank, int stream, const void *bytes, size_t len);
	void *data;
};

/* ---- what to run ----------------------------------------------------------------------------- */

/* The mask can only be read by changing it, which other threads would see; the kernel shows it,
 * too. */
static uint32_t own_umask(void)
{
	char text[512], *line;
	CLEANUP_FD int fd = (int)raw_syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/status",
					     O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? fd : raw_read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return 022;
	text[n] = '\0';
	line = strstr(text, "\nUmask:");
	return line ? (uint32_t)strtoul(line + 7, NULL, 8) : 022;
}

static int put_spec(struct pulc_job *job, char *const *arguments, const struct pulc_spawn *how)
{
	Pulc__Job__Message msg = PULC__JOB__MESSAGE__INIT;
	CLEANUP_FREE char *directory = how->directory ? strdup(how->directory) : getcwd(NULL, 0);
	struct spec spec;

	spec_init(&spec, arguments, how->environment ? how->environment : environ, job->n_tasks);
	spec.spec.directory = directory ? directory : (char *)"";
	spec.spec.umask = own_umask();
	spec.spec.input = PULC__JOB__INPUT__INPUT_NONE;
	spec.spec.cpus_per_task = how->cpus_per_task;
	spec.spec.keep_going = how->keep_going;
	spec.spec.mpi = PULC__JOB__MPI__MPI_PMI1;
	spec.spec.parent_port = how->port ? pulc_port_address(how->port).port : 0;
	job->credit = spec.spec.credit;
	msg.body_case = PULC__JOB__MESSAGE__BODY_SPEC;
	msg.spec = &spec.spec;
	return frame_put_message(&job->pipe, &msg);
}

/* ---- asking psid ----------------------------------------------------------------------------- */

static int send_submit(int psid, int theirs, const char *program, const struct pulc_spawn *how,
		       uint32_t n_tasks)
{
	CLEANUP_FREE Pulc__Wire__Host *hosts = calloc(how->n_places + 1, sizeof(*hosts));
	CLEANUP_FREE Pulc__Wire__Host **pointers = calloc(how->n_places + 1, sizeof(*pointers));
	Pulc__Wire__Submit submit = PULC__WIRE__SUBMIT__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	const char *slash = strrchr(program, '/'), *reservation = getenv("PULC_RESERVATION");
	char name[SIZE_PROGRAM];

	if (!hosts || !pointers)
		return -ENOMEM;
	for (size_t i = 0; i < how->n_places; i++) {
		pulc__wire__host__init(&hosts[i]);
		hosts[i].name = (char *)how->places[i].node;
		hosts[i].slots = how->places[i].slots;
		pointers[i] = &hosts[i];
	}
	(void)wire_utf8_plain(slash ? slash + 1 : program, name, sizeof(name));
	submit.program = name;
	submit.n_tasks = n_tasks;
	submit.strategy = (Pulc__Wire__Strategy)how->strategy;
	submit.hosts = pointers;
	submit.n_hosts = how->n_places;
	submit.per_node = how->per_node;
	submit.cpus_per_task = how->cpus_per_task;
	submit.oversubscribe = how->oversubscribe;
	submit.reservation = (char *)(reservation ? reservation : "");
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_SUBMIT;
	msg.submit = &submit;
	return wire_send_from_client(psid, &msg, &theirs, 1);
}

static int take_reply(struct pulc_job *job, const Pulc__Wire__ToClient *reply, char *why)
{
	if (reply->body_case != PULC__WIRE__TO_CLIENT__BODY_SUBMIT)
		return -EBADMSG;
	if (reply->submit->error[0]) {
		if (why)
			(void)snprintf(why, PULC_SIZE_WHY, "%s", reply->submit->error);
		return -ECONNREFUSED;
	}
	(void)snprintf(job->name, sizeof(job->name), "%s", reply->submit->job);
	return 0;
}

static int submit(struct pulc_job *job, char *const *arguments, const struct pulc_spawn *how)
{
	CLEANUP_FD int psid = -EBADF, theirs = -EBADF;
	Pulc__Wire__ToClient *reply;
	int ends[2], r;

	r = psid_talk_open(PULC__WIRE__ROLE__ROLE_OWNER, &psid);
	if (r == 0)
		r = (int)raw_syscall(SYS_socketpair, AF_UNIX,
				     SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
	if (r < 0)
		return r;
	job->fd = ends[0];
	theirs = ends[1];
	frame_pipe_init(&job->pipe, job->fd);
	r = send_submit(psid, theirs, arguments[0], how, job->n_tasks);
	if (r < 0)
		return r;
	r = psid_talk_receive(psid, how->why, &reply);
	if (r < 0)
		return r;
	r = take_reply(job, reply, how->why);
	pulc__wire__to_client__free_unpacked(reply, NULL);
	return r == 0 ? put_spec(job, arguments, how) : r;
}

static int flush(struct pulc_job *job)
{
	int r = frame_flush(&job->pipe);

	return r == -EAGAIN ? 0 : r;
}

PULC_EXPORT int pulc_spawn(char *const *arguments, const struct pulc_spawn *how, pulc_job **ret_job)
{
	static const struct pulc_spawn nothing;
	struct pulc_job *job;
	int r;

	if (!arguments || !arguments[0])
		return -EINVAL;
	how = how ? how : &nothing;
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->fd = -EBADF;
	job->n_tasks = MAX(how->n_tasks, 1u);
	job->output = how->output;
	job->data = how->data;
	job->ends = calloc(job->n_tasks, sizeof(*job->ends));
	job->owed = calloc(2ull * job->n_tasks, sizeof(*job->owed));
	r = job->ends && job->owed ? submit(job, arguments, how) : -ENOMEM;
	if (r == 0)
		r = flush(job);
	if (r < 0) {
		pulc_job_free(job);
		return r;
	}
	*ret_job = job;
	return 0;
}

PULC_EXPORT void pulc_job_free(pulc_job *job)
{
	if (!job)
		return;
	if (job->fd >= 0)
		frame_pipe_deinit(&job->pipe);
	(void)close_own(job->fd);
	free(job->ends);
	free(job->owed);
	free(job);
}

/* ---- what comes ------------------------------------------------------------------------------ */

static void take_exit(struct pulc_job *job, const Pulc__Job__Exited *exited)
{
	struct pulc_end *end;

	if (exited->rank >= job->n_tasks)
		return;
	end = &job->ends[exited->rank];
	end->has_ended = true;
	end->is_lost = exited->lost;
	end->code = (int)exited->code;
	if (exited->signal)
		end->code = 128 + (int)exited->signal;
	else if (exited->error)
		end->code = exited->error == ENOENT ? 127 : 126;
	else if (exited->lost)
		end->code = 125;
	if (exited->error)
		(void)snprintf(job->note, sizeof(job->note),
			       "rank %u could not be started: errno %u", exited->rank,
			       exited->error);
}

static int take_message(struct pulc_job *job, const struct frame *frame)
{
	Pulc__Job__Message *msg = frame_unpack(frame);

	if (!msg)
		return -EBADMSG;
	if (msg->body_case == PULC__JOB__MESSAGE__BODY_EXITED)
		take_exit(job, msg->exited);
	else if (msg->body_case == PULC__JOB__MESSAGE__BODY_NOTE)
		(void)snprintf(job->note, sizeof(job->note), "%s", msg->note->text);
	else if (msg->body_case == PULC__JOB__MESSAGE__BODY_DONE)
		job->is_done = true;
	pulc__job__message__free_unpacked(msg, NULL);
	return 0;
}

static int take_output(struct pulc_job *job, const struct frame *frame)
{
	uint32_t *owed;
	int r = 0;

	if (frame->rank >= job->n_tasks || frame->stream == FRAME_STDIN || frame->len == 0)
		return 0;
	if (job->output)
		job->output(job->data, frame->rank, (int)frame->stream, frame->data, frame->len);
	owed = &job->owed[2 * frame->rank + (frame->stream == FRAME_STDERR)];
	*owed += (uint32_t)frame->len;
	if (*owed >= job->credit / 2) {
		r = frame_put_credit(&job->pipe, frame->stream, frame->rank, *owed);
		*owed = 0;
	}
	return r;
}

/* All whole frames that are there. */
static int take_frames(struct pulc_job *job)
{
	struct frame frame;
	int r;

	while ((r = frame_next(&job->pipe, &frame)) > 0) {
		if (frame.kind == FRAME_MESSAGE)
			r = take_message(job, &frame);
		else if (frame.kind == FRAME_DATA)
			r = take_output(job, &frame);
		if (r < 0)
			break;
	}
	return r;
}

PULC_EXPORT int pulc_job_turn(pulc_job *job)
{
	int r = 0;

	while (r == 0 && !job->is_done) {
		r = frame_read(&job->pipe);
		if (r == 0)
			r = take_frames(job);
	}
	if (job->is_done)
		return 1;
	return r == -EAGAIN ? flush(job) : r;
}

static int wait_for_more(const struct pulc_job *job, uint64_t nsec_end)
{
	struct pollfd p = { .fd = job->fd, .events = POLLIN };
	uint64_t nsec = nsec_now(), left = nsec_end > nsec ? nsec_end - nsec : 0;
	struct timespec time = { .tv_sec = (time_t)(left / NSEC_PER_SEC),
				 .tv_nsec = (long)(left % NSEC_PER_SEC) };

	if (job->pipe.size_out > 0)
		p.events |= POLLOUT;
	return (int)raw_syscall(SYS_ppoll, &p, 1, nsec_end == UINT64_MAX ? NULL : &time, NULL, 0);
}

PULC_EXPORT int pulc_wait(pulc_job *job, int msec)
{
	uint64_t nsec_end = msec < 0 ? UINT64_MAX : nsec_now() + (uint64_t)msec * 1000000;
	int r;

	while ((r = pulc_job_turn(job)) == 0) {
		r = wait_for_more(job, nsec_end);
		if (r <= 0)
			return r;
	}
	return r;
}

PULC_EXPORT const char *pulc_job_name(const pulc_job *job)
{
	return job->name;
}

PULC_EXPORT const char *pulc_job_note(const pulc_job *job)
{
	return job->note;
}

PULC_EXPORT int pulc_job_fd(const pulc_job *job)
{
	return job->fd;
}

PULC_EXPORT int pulc_job_end_of(const pulc_job *job, unsigned rank, struct pulc_end *ret_end)
{
	if (rank >= job->n_tasks)
		return -EINVAL;
	*ret_end = job->ends[rank];
	return 0;
}
