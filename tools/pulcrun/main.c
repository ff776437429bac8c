/*
 * pulcrun: owner of one job.
 *
 * It asks psid for the job and then talks with the head keeper only: what to run goes there with
 * the input and the signals, from there come output, ends of tasks and, as last word, Done. pulcrun
 * lives as long as its job, and the job no longer than pulcrun: when its end of the channel closes,
 * however it went, the keeper kills everything.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "allocation.h"
#include "clock.h"
#include "lodging.h"
#include "macros.h"
#include "run.h"
#include "said.h"

#define N_DESCRIPTORS 12 /* that a job needs beside the standard streams, and some to spare */

int run_poll_init(struct run *run, uv_poll_t *poll, int fd)
{
	int flags = fcntl(fd, F_GETFL), r;

	r = uv_poll_init(&run->loop, poll, fd);
	if (flags >= 0)
		(void)fcntl(fd, F_SETFL, flags); /* libuv makes it non-blocking, for everybody */
	return r;
}

/* ---- what the keeper says -------------------------------------------------------------------- */

static void set_rank(struct run *run, uint32_t rank, const char *node)
{
	struct rank *r = &run->ranks[rank];

	r->node = node;
	if (run->options->output)
		return;
	r->streams[0].sink = &run->out;
	r->streams[1].sink = &run->err;
}

static void on_timeout(uv_timer_t *timer)
{
	struct run *run = CONTAINER_OF(timer, struct run, timeout);

	run->timed_out = true;
	run_note(run, "time is up: %s",
		 run->done ? "nobody takes the output of the job"
		 : run->id ? "the job is ended"
			   : "there is no job yet");
	if (run->done)
		run->abandoned = SIGALRM;
	else
		run_kill(run);
}

static int start_timeout(struct run *run, uint64_t msec)
{
	uv_update_time(&run->loop);
	return uv_timer_start(&run->timeout, on_timeout, msec, 0);
}

/* Of --timeout. At least one: a timer of none is no timer. */
static uint64_t msec_left(const struct run *run)
{
	uint64_t nsec = nsec_now();

	return nsec < run->nsec_end ? (run->nsec_end - nsec) / (1000 * NSEC_PER_USEC) + 1 : 1;
}

static void give_up(struct run *run, const char *why)
{
	run->done = true;
	run->status = EXIT_OWN;
	run_note(run, "%s", why);
}

/* Keeps the message: names point into it. */
static void take_places(struct run *run, Pulc__Job__Message *msg)
{
	const Pulc__Job__Placed *placed = msg->placed;

	if (run->waiting && run->options->msec_timeout > 0)
		(void)start_timeout(run, run->options->msec_timeout);
	run->waiting = false;
	run->placed_message = msg;
	run->id = placed->id;
	run->n_ranks = run->options->n_tasks;
	run->ranks = calloc(run->n_ranks, sizeof(*run->ranks));
	if (run->options->output) {
		run->files = calloc(2 * (size_t)run->n_ranks, sizeof(*run->files));
		run_files_start(run);
	}
	if (!run->ranks || (run->options->output && !run->files)) {
		run->n_ranks = 0;
		give_up(run, "no memory for so many tasks");
		return;
	}
	for (uint32_t i = 0; i < run->n_ranks; i++)
		set_rank(run, i, "");
	run->out.is_shared = run->err.is_shared = run->n_ranks > 1;
	for (size_t i = 0; i < placed->n_places; i++)
		for (size_t j = 0; j < placed->places[i]->n_ranks; j++)
			if (placed->places[i]->ranks[j] < run->n_ranks)
				set_rank(run, placed->places[i]->ranks[j], placed->places[i]->node);
	for (size_t i = 0; run->options->verbose && i < placed->n_places; i++)
		run_note(run, "job %s: %zu task%s on %s", run->id, placed->places[i]->n_ranks,
			 placed->places[i]->n_ranks == 1 ? "" : "s", placed->places[i]->node);
	run_terminal_again(run);
	run_input_start(run);
}

static void take_abort(struct run *run, const Pulc__Job__Abort *abort)
{
	if (run->status == 0 && !run->has_aborted)
		run->status = run_status_of(abort->code);
	run->has_aborted = true;
	if (!run->options->quiet)
		run_note(run, "rank %u: %s (code %d)", abort->rank,
			 abort->text[0] ? abort->text : "asked for the end of the job",
			 (int32_t)abort->code);
}

static void take_message(struct run *run, const Pulc__Job__Message *msg)
{
	switch (msg->body_case) {
	case PULC__JOB__MESSAGE__BODY_EXITED:
		(run->options->reserve ? run_reserve_exited : run_exited)(run, msg->exited);
		break;
	case PULC__JOB__MESSAGE__BODY_STARTED:
		if (run->options->reserve)
			run_reserve_started(run, msg->started->n);
		break;
	case PULC__JOB__MESSAGE__BODY_NOTE:
		run_note(run, "%s", msg->note->text);
		break;
	case PULC__JOB__MESSAGE__BODY_ABORT:
		take_abort(run, msg->abort);
		break;
	case PULC__JOB__MESSAGE__BODY_DONE:
		run->done = true;
		break;
	default:
		break;
	}
}

static void on_frame(struct channel *channel, const struct frame *frame)
{
	struct run *run = CONTAINER_OF(channel, struct run, keeper);
	Pulc__Job__Message *msg;

	if (frame->kind == FRAME_DATA) {
		run_output(run, frame);
	} else if (frame->kind == FRAME_CREDIT) {
		run_input_credit(run, frame_credit(frame));
	} else if ((msg = channel_unpack(channel, frame))) {
		if (msg->body_case == PULC__JOB__MESSAGE__BODY_PLACED && !run->ranks) {
			take_places(run, msg);
			return;
		}
		take_message(run, msg);
		pulc__job__message__free_unpacked(msg, NULL);
	}
}

static void on_end(struct channel *channel, int reason)
{
	struct run *run = CONTAINER_OF(channel, struct run, keeper);

	if (run->done || (!run->id && run->psid_fd >= 0))
		return; /* without a job psid says why, or is gone, too */
	run->done = true;
	run->status = EXIT_OWN;
	if (run->id && reason == -EPIPE)
		run_note(run, "the keeper of job %s is gone, and with it the job", run->id);
	else if (run->id)
		run_note(run,
			 "what the keeper of job %s says cannot be taken, the job is ended: %s",
			 run->id, strerror(-reason));
}

/* ---- from start to end ----------------------------------------------------------------------- */

/* Before there is a terminal to put back, or a job to end. Psids of our own hear our end. */
static void on_alarm(int number)
{
	static const char text[] = "pulcrun: time is up: there is no job yet\n";

	(void)number;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(EXIT_TIMEOUT);
}

/* What is done outside of the loop, to find psids or to start them: the kernel says then that time
 * is up. */
static void set_alarm(const struct run *run)
{
	uint64_t msec = run->nsec_end ? msec_left(run) : 0;
	struct itimerval time = { .it_value = { .tv_sec = (time_t)(msec / 1000),
						.tv_usec = (suseconds_t)(msec % 1000 * 1000) } };

	(void)signal(SIGALRM, on_alarm);
	(void)setitimer(ITIMER_REAL, &time, NULL);
}

static void clear_alarm(void)
{
	(void)setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	(void)signal(SIGALRM, SIG_DFL);
}

static int submit(struct run *run)
{
	int r;

	set_alarm(run);
	r = run_submit(run);
	clear_alarm();
	if (r == 0)
		r = run_send_spec(run);
	if (r == 0 && run->nsec_end)
		r = start_timeout(run, msec_left(run));
	return r;
}

static int start(struct run *run)
{
	int r;

	r = uv_loop_init(&run->loop);
	if (r == 0)
		r = run_output_start(run);
	if (r == 0) /* after the output's: what that gives credit for leaves in the same turn */
		r = channels_start(&run->channels, &run->loop);
	if (r == 0)
		r = uv_timer_init(&run->loop, &run->timeout);
	if (r == 0)
		r = uv_timer_init(&run->loop, &run->patience);
	if (r == 0)
		uv_unref((uv_handle_t *)&run->patience); /* which keeps nobody waiting */
	if (r < 0) {
		fprintf(stderr, "pulcrun: cannot start: %s\n", strerror(-r));
		return r;
	}
	run_signals_block(run);
	r = submit(run);
	if (r < 0)
		return r;
	r = run_signals_start(run);
	if (r == 0)
		r = run_terminal_start(run);
	if (r < 0)
		fprintf(stderr, "pulcrun: cannot start: %s\n", strerror(-r));
	return r;
}

/* psid was killed before it had answered, and nobody has begun the job: the next one is asked, or
 * started. A job that has had its place in the queue has lost that with psid. */
static bool may_ask_again(const struct run *run)
{
	return run->status == EXIT_OWN && !run->id && !run->answered && !run->has_waited &&
	       !run->timed_out && run_may_ask(run);
}

/* The loop has let go of what there was. */
static int ask_again(struct run *run)
{
	int r;

	run->done = false;
	run->status = 0;
	r = submit(run);
	if (r == 0)
		run_signals_again(run);
	return r;
}

static void say_why_not(struct run *run)
{
	run_note(run, "%s",
		 run->refusal[0] ? run->refusal
		 : run->answered ? "the keeper of the job has gone before it was started"
				 : "psid has gone before the job was started");
}

static int finish(struct run *run)
{
	if (run->status == EXIT_OWN && !run->id)
		say_why_not(run);
	run_reserve_finish(run);
	run_output_finish(run);
	do
		sink_flush(&run->err);
	while (!run_output_is_done(run) && !run->abandoned && uv_run(&run->loop, UV_RUN_ONCE));
	if (run->abandoned) {
		run->status = 128 + run->abandoned;
		run_files_abandon(run);
		sink_flush(&run->err);
	}
	run_terminal_restore(run);
	if (run->gave_up)
		run->status = 128 + SIGINT;
	if (run->timed_out)
		run->status = EXIT_TIMEOUT;
	if (run->options->json && run_report(run) < 0 && run->status == 0)
		run->status = EXIT_OWN;
	if (run->output_failed && run->status == 0)
		run->status = EXIT_OWN;
	return run->status;
}

/* Descriptors that we open must not take the numbers of standard streams that are closed. What
 * should have gone to such an output is lost, and that is told; such errors nobody wants. */
static void fill_standard_streams(void)
{
	static const int modes[] = { O_RDONLY, O_RDONLY, O_WRONLY };

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", modes[fd]);
}

/* libuv ends a process that has none for its loop. */
static bool has_descriptors(void)
{
	int fds[N_DESCRIPTORS], n = 0, r = 0;

	while (n < N_DESCRIPTORS && (fds[n] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	if (n < N_DESCRIPTORS)
		r = errno;
	for (int i = 0; i < n; i++)
		(void)close(fds[i]);
	if (n < N_DESCRIPTORS)
		fprintf(stderr, "pulcrun: %s (ulimit -n): %d descriptors are needed, %d are free\n",
			strerror(r), N_DESCRIPTORS, n);
	return n == N_DESCRIPTORS;
}

/* In an allocation of a scheduler: psids there. */
static int lodge(struct run_options *options, struct lodging *lodging)
{
	const struct scheduler *scheduler;
	struct allocation allocation = { 0 };
	int r = allocation_find(options, &scheduler);

	if (r == 0 && scheduler)
		r = allocation_read(scheduler, &allocation);
	if (r == 0 && scheduler)
		r = allocation_apply(&allocation, options);
	if (r == 0)
		r = run_options_check(options);
	if (r == 0 && scheduler)
		r = lodging_open(lodging, scheduler, &allocation);
	allocation_deinit(&allocation);
	return r;
}

static int run_job(struct run *run)
{
	int r;

	run->keeper.on_frame = on_frame;
	run->keeper.on_end = on_end;
	r = start(run);
	while (r == 0) {
		while (!run->done && uv_run(&run->loop, UV_RUN_ONCE))
			;
		if (!may_ask_again(run))
			return finish(run);
		r = ask_again(run);
	}
	return EXIT_OWN;
}

int main(int argc, char **argv)
{
	static struct run_options options;
	static struct run run = { .options = &options, .psid_fd = -EBADF };
	static struct lodging lodging;
	int r;

	fill_standard_streams();
	r = run_options_parse(argc, argv, &options);
	if (r != 0)
		return r < 0 ? EXIT_OWN : said_all("pulcrun", EXIT_SUCCESS, EXIT_OWN);
	if (said_environment("pulcrun") < 0 || !has_descriptors())
		return EXIT_OWN;
	if (options.msec_timeout > 0)
		run.nsec_end = nsec_now() + options.msec_timeout * 1000 * NSEC_PER_USEC;
	set_alarm(&run);
	if (lodge(&options, &lodging) < 0)
		return EXIT_OWN;
	r = run_job(&run);
	lodging_close(&lodging);
	if (run.interrupted && r == 128 + SIGINT) {
		(void)signal(SIGINT, SIG_DFL);
		(void)raise(SIGINT);
	}
	return r;
}
