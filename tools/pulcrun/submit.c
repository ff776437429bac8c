/*
 * Asking psid for a job.
 *
 * Hello, Submit with one end of a socket pair, and then the keeper at its other end speaks for
 * itself. Nothing is waited for: what the keeper must be told goes into the pair at once. psid's
 * answer matters only if it is no, or if there is none: then the next psid is asked. One that lives
 * and says nothing is told of, and waited for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "channel.h"
#include "cleanup.h"
#include "macros.h"
#include "daemon.h"
#include "run.h"
#include "talk.h"
#include "utf8.h"

#define N_TRIES 250
#define N_ASKS 10u /* of one psid after the other: each was killed meanwhile, perhaps by us */
#define USEC_AGAIN 20000
#define MSEC_PATIENCE 10000

static int call(struct run *run)
{
	return wire_talk_call(N_TRIES, run->psid_path, sizeof(run->psid_path), &run->psid_fd);
}

static int connect_psid(struct run *run)
{
	int r = call(run);

	if (r == -ENOENT) {
		r = run_ensure_psid();
		if (r < 0)
			return r; /* which has said why */
		r = call(run);
	}
	if (r < 0)
		fprintf(stderr, "pulcrun: no psid: %s\n", strerror(-r));
	return r;
}

/* As the message has them: pointers, each to one of items. */
static void list_hosts(const struct hosts *hosts, Pulc__Wire__Host *items,
		       Pulc__Wire__Host **pointers)
{
	for (size_t i = 0; i < hosts->n; i++) {
		pulc__wire__host__init(&items[i]);
		items[i].name = hosts->items[i].name;
		items[i].slots = hosts->items[i].slots;
		pointers[i] = &items[i];
	}
}

static int submit(struct run *run, int keeper_fd)
{
	const struct run_options *o = run->options;
	CLEANUP_FREE Pulc__Wire__Host *items = calloc(o->hosts.n + 1, sizeof(*items));
	CLEANUP_FREE Pulc__Wire__Host **hosts = calloc(o->hosts.n + 1, sizeof(Pulc__Wire__Host *));
	Pulc__Wire__Submit submit = PULC__WIRE__SUBMIT__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	const char *slash = strrchr(o->program[0], '/');
	char name[65];

	if (!items || !hosts)
		return -ENOMEM;
	list_hosts(&o->hosts, items, hosts);
	(void)wire_utf8_plain(o->reserve ? "reservation"
			      : slash	 ? slash + 1
					 : o->program[0],
			      name, sizeof(name));
	submit.program = name;
	submit.partition = (char *)(o->partition ? o->partition : "");
	submit.wait = o->wait;
	submit.reserves = o->reserve;
	submit.reservation = (char *)(o->reservation ? o->reservation : "");
	submit.n_tasks = o->n_tasks;
	submit.strategy = o->strategy;
	submit.hosts = hosts;
	submit.n_hosts = o->hosts.n;
	submit.per_node = o->per_node;
	submit.cpus_per_task = o->cpus_per_task;
	submit.oversubscribe = o->oversubscribe;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_SUBMIT;
	msg.submit = &submit;
	return wire_send_from_client(run->psid_fd, &msg, &keeper_fd, 1);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void hang_up(struct run *run)
{
	uv_close((uv_handle_t *)&run->psid_poll, NULL);
	run->psid_fd = close_own(run->psid_fd);
	if (!run->keeper.ended || run->id || run->done)
		return;
	run->done = true; /* nobody is left who could begin it */
	run->status = EXIT_OWN;
}

/* The job has its place in the queue. People read of it once; whoever wants to know more, of every
 * change. */
static void take_waits(struct run *run, const Pulc__Wire__SubmitReply *submit)
{
	if (run->options->verbose || (!run->has_waited && !run->options->quiet))
		run_note(run, "job %s waits: %s", submit->job, submit->waits);
	run->has_waited = true;
	if (run->waiting && run->options->msec_timeout > 0)
		(void)uv_timer_stop(&run->timeout); /* it is the job's */
}

/* Returns whether it was the last word. */
static bool take(struct run *run, const Pulc__Wire__ToClient *msg)
{
	bool is_misfit = msg->body_case == PULC__WIRE__TO_CLIENT__BODY_REFUSE &&
			 msg->refuse->reason == PULC__WIRE__REASON__REASON_VERSION;
	const char *why = NULL;

	if (msg->body_case == PULC__WIRE__TO_CLIENT__BODY_REFUSE)
		why = msg->refuse->text;
	else if (msg->body_case == PULC__WIRE__TO_CLIENT__BODY_SUBMIT)
		why = msg->submit->error;
	if (msg->body_case == PULC__WIRE__TO_CLIENT__BODY_SUBMIT && msg->submit->waits[0]) {
		take_waits(run, msg->submit);
		return false;
	}
	if (why)
		(void)snprintf(run->refusal, sizeof(run->refusal),
			       is_misfit ? "%s (this is pulcrun " PULC_VERSION ")" : "%s", why);
	return why != NULL;
}

static void on_psid(uv_poll_t *poll, int status, int events)
{
	struct run *run = CONTAINER_OF(poll, struct run, psid_poll);
	Pulc__Wire__ToClient *msg;
	int r;

	(void)status;
	(void)events;
	while ((r = wire_talk_take(run->psid_fd, &msg)) == 0) {
		run->answered |= take(run, msg);
		pulc__wire__to_client__free_unpacked(msg, NULL);
	}
	if (r != -EAGAIN || run->answered)
		hang_up(run);
}

/* It may go on: who gave up now could have a job that nobody waits for. */
static void on_patience(uv_timer_t *timer)
{
	struct run *run = CONTAINER_OF(timer, struct run, patience);

	if (!run->id && !run->answered && !run->has_waited && !run->done)
		run_note(run, "psid at %s does not answer: is it stopped? Waiting for it",
			 run->psid_path);
}

static int ask(struct run *run, int *ret_keeper)
{
	CLEANUP_FD int ours = -EBADF, theirs = -EBADF;
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return -errno;
	ours = ends[0];
	theirs = ends[1];
	r = wire_talk_hello(run->psid_fd, PULC__WIRE__ROLE__ROLE_OWNER, "pulcrun");
	if (r == 0)
		r = submit(run, theirs);
	if (r == 0)
		*ret_keeper = TAKE_FD(ours);
	return r;
}

/* Asks one psid. Returns 1 if that is gone, and another one may be asked. */
static int ask_one(struct run *run, int *ret_keeper)
{
	int r = connect_psid(run);

	if (r < 0)
		return r;
	r = ask(run, ret_keeper);
	if (r == 0)
		return 0;
	run->psid_fd = close_own(run->psid_fd);
	if ((r == -EPIPE || r == -ECONNRESET) && run_may_ask(run))
		return 1;
	fprintf(stderr, "pulcrun: psid does not listen: %s\n", strerror(-r));
	return r;
}

bool run_may_ask(const struct run *run)
{
	return run->n_asked < N_ASKS;
}

int run_submit(struct run *run)
{
	int keeper = -EBADF, r;

	run->waiting = run->options->partition || run->options->reservation || run->options->wait;
	do {
		if (run->n_asked++ > 0)
			(void)usleep(USEC_AGAIN);
		r = ask_one(run, &keeper);
	} while (r > 0);
	if (r < 0)
		return r;
	r = channel_open(&run->keeper, &run->channels, keeper);
	if (r == 0)
		r = uv_poll_init(&run->loop, &run->psid_poll, run->psid_fd);
	if (r == 0)
		r = uv_poll_start(&run->psid_poll, UV_READABLE, on_psid);
	uv_update_time(&run->loop);
	if (r == 0)
		r = uv_timer_start(&run->patience, on_patience, MSEC_PATIENCE, 0);
	if (r < 0)
		fprintf(stderr, "pulcrun: cannot start: %s\n", strerror(-r));
	return r;
}
