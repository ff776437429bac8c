/*
 * pulcctl: what psid knows, for people and for scripts.
 *
 * Each command asks psid one question over a conversation of its own and prints the answer; a
 * watch asks again each time, so it also survives a restart of psid between two pictures.
 * Errors go to stderr in one line that names the socket and says what to do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "json.h"
#include "keygen.h"
#include "options.h"
#include "paths.h"
#include "query.h"
#include "text.h"
#include "view.h"
#include "watch.h"

enum exit_status { EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_NO_PSID = 3 };

/* What each command asks, and how the answer is shown; those without a view have no picture. */
static const struct {
	Pulc__Wire__FromClient__BodyCase question;
	ctl_view *view;
} commands[] = {
	[CTL_STATUS] = { PULC__WIRE__FROM_CLIENT__BODY_STATUS, ctl_view_status },
	[CTL_SOCKETS] = { PULC__WIRE__FROM_CLIENT__BODY_SOCKETS, ctl_view_sockets },
	[CTL_CLIENTS] = { PULC__WIRE__FROM_CLIENT__BODY_CLIENTS, ctl_view_clients },
	[CTL_JOBS] = { PULC__WIRE__FROM_CLIENT__BODY_JOBS, ctl_view_jobs },
	[CTL_TASKS] = { PULC__WIRE__FROM_CLIENT__BODY_TASKS, ctl_view_tasks },
	[CTL_KILL] = { PULC__WIRE__FROM_CLIENT__BODY_KILL, NULL },
	[CTL_NODES] = { PULC__WIRE__FROM_CLIENT__BODY_NODES, ctl_view_nodes },
	[CTL_STOP] = { PULC__WIRE__FROM_CLIENT__BODY_STOP, NULL },
	[CTL_VERSION] = { PULC__WIRE__FROM_CLIENT__BODY__NOT_SET, NULL },
};

static void say_where_looked(void)
{
	char path[128];

	for (unsigned i = 0; i < WIRE_N_CANDIDATES; i++)
		if (wire_candidate(i, path, sizeof(path)) == 0)
			fprintf(stderr, "  looked for %s\n", path);
}

static int say_refused(const struct ctl_psid *psid)
{
	const Pulc__Wire__Refuse *refusal = ctl_refusal(psid);
	char reason[64] = "", text[512] = "no reason given";

	if (refusal) {
		(void)ctl_text_enum(&pulc__wire__reason__descriptor, (int)refusal->reason, reason,
				    sizeof(reason));
		(void)ctl_text_plain(refusal->text, text, sizeof(text));
	}
	fprintf(stderr, "pulcctl: psid at %s refused: %s (%s)\n", psid->path, text, reason);
	/* Ending: it is as good as gone. */
	return refusal && refusal->reason == PULC__WIRE__REASON__REASON_SHUTDOWN ? EXIT_NO_PSID
										 : EXIT_REFUSED;
}

/* Says what error r of a conversation means. Returns the exit status. */
static int say_error(const struct ctl_psid *psid, int r)
{
	switch (r) {
	case -ENOENT:
		fputs("pulcctl: no psid runs here. Start one with `psid --daemonize`, or run a "
		      "program "
		      "with `pulc PROGRAM`.\n",
		      stderr);
		say_where_looked();
		return EXIT_NO_PSID;
	case -EPERM:
		fputs("pulcctl: only psids of other users run here. Start your own with `psid "
		      "--daemonize`.\n",
		      stderr);
		return EXIT_NO_PSID;
	case -ETIMEDOUT:
		fprintf(stderr, "pulcctl: psid at %s does not answer\n", psid->path);
		return EXIT_NO_PSID;
	case -EPIPE:
		fprintf(stderr, "pulcctl: psid at %s ended the conversation\n", psid->path);
		return EXIT_NO_PSID;
	case -ECONNREFUSED:
		return say_refused(psid);
	case -EBADMSG:
		fprintf(stderr,
			"pulcctl: psid at %s sent a message that makes no sense; are psid and "
			"pulcctl of one version?\n",
			psid->path);
		return EXIT_REFUSED;
	default:
		fprintf(stderr, "pulcctl: %s\n", strerror(-r));
		return EXIT_REFUSED;
	}
}

/* Nodes whose part of the answer is missing. */
static void say_silent(const struct ctl_replies *replies)
{
	for (size_t i = 0; i < replies->n; i++) {
		const Pulc__Wire__ToClient *reply = replies->items[i];
		char **names = NULL, text[80];
		size_t n = 0;

		if (reply->body_case == PULC__WIRE__TO_CLIENT__BODY_JOBS) {
			names = reply->jobs->silent;
			n = reply->jobs->n_silent;
		} else if (reply->body_case == PULC__WIRE__TO_CLIENT__BODY_TASKS) {
			names = reply->tasks->silent;
			n = reply->tasks->n_silent;
		}
		for (size_t k = 0; k < n; k++)
			fprintf(stderr, "pulcctl: node %s does not answer\n",
				ctl_text_plain(names[k], text, sizeof(text)));
	}
}

/* One picture: ask, show. */
static int print_answer(FILE *out, void *arg)
{
	const struct ctl_options *options = arg;
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	CLEANUP(ctl_replies_deinit) struct ctl_replies replies = { 0 };
	struct ctl_room room = ctl_room_of(STDOUT_FILENO);
	int r;

	room.no_header = options->no_headers;
	if (!options->usec_watch)
		room.n_lines = 0;
	else if (room.n_lines > 0)
		room.n_lines--; /* for the cursor */
	r = ctl_psid_open(&psid);
	if (r == 0)
		r = ctl_ask_about(&psid, commands[options->command].question, options->job,
				  options->here, &replies);
	if (r == 0)
		r = commands[options->command].view(out, &replies, options, &room);
	if (r == 0)
		say_silent(&replies);
	return r < 0 ? say_error(&psid, r) : EXIT_SUCCESS;
}

/* The process of psid, to wait for: its end is worth nothing if it still holds memory afterwards. */
static int find_process(struct ctl_psid *psid, int *ret_fd)
{
	CLEANUP(ctl_replies_deinit) struct ctl_replies replies = { 0 };
	int r;

	r = ctl_ask(psid, PULC__WIRE__FROM_CLIENT__BODY_STATUS, &replies);
	if (r == 0)
		r = ctl_pidfd(psid, replies.items[0]->status->pid, ret_fd);
	return r == -ESRCH ? 0 : r;
}

static int stop(void)
{
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	CLEANUP(ctl_replies_deinit) struct ctl_replies replies = { 0 };
	CLEANUP_FD int process = -EBADF;
	int r;

	r = ctl_psid_open(&psid);
	if (r == 0)
		r = find_process(&psid, &process);
	if (r == 0)
		r = ctl_ask(&psid, PULC__WIRE__FROM_CLIENT__BODY_STOP, &replies);
	if (r == 0)
		r = ctl_await_end(&psid, process);
	return r < 0 ? say_error(&psid, r) : EXIT_SUCCESS;
}

static int kill_job(const struct ctl_options *options)
{
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	CLEANUP(ctl_replies_deinit) struct ctl_replies replies = { 0 };
	char text[256];
	int r;

	r = ctl_psid_open(&psid);
	if (r == 0)
		r = ctl_ask_about(&psid, PULC__WIRE__FROM_CLIENT__BODY_KILL, options->job,
				  options->signal, &replies);
	if (r < 0)
		return say_error(&psid, r);
	if (!replies.items[0]->kill->error[0])
		return EXIT_SUCCESS;
	fprintf(stderr, "pulcctl: %s\n",
		ctl_text_plain(replies.items[0]->kill->error, text, sizeof(text)));
	return EXIT_REFUSED;
}

static int drain(const struct ctl_options *options, bool drained)
{
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	CLEANUP(ctl_replies_deinit) struct ctl_replies replies = { 0 };
	char text[256];
	int r;

	r = ctl_psid_open(&psid);
	if (r == 0)
		r = ctl_ask_about(&psid, PULC__WIRE__FROM_CLIENT__BODY_DRAIN, options->node,
				  drained, &replies);
	if (r < 0)
		return say_error(&psid, r);
	if (!replies.items[0]->drain->error[0])
		return EXIT_SUCCESS;
	fprintf(stderr, "pulcctl: %s\n",
		ctl_text_plain(replies.items[0]->drain->error, text, sizeof(text)));
	return EXIT_REFUSED;
}

/* Works without a psid: its version is then left out. */
static int print_version(const struct ctl_options *options)
{
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	int r = ctl_psid_open(&psid);
	const char *version = r == 0 ? psid.hello->welcome->psid_version : NULL;
	char text[64];

	if (options->json) {
		fputs("{\"pulcctl\":\"" PULC_VERSION "\",\"psid\":", stdout);
		if (version)
			ctl_json_string(stdout, version);
		else
			fputs("null", stdout);
		puts("}");
		return EXIT_SUCCESS;
	}
	puts("pulcctl " PULC_VERSION);
	if (version)
		printf("psid    %s\n", ctl_text_plain(version, text, sizeof(text)));
	return EXIT_SUCCESS;
}

static int run(const struct ctl_options *options)
{
	switch (options->command) {
	case CTL_STOP:
		return stop();
	case CTL_KILL:
		return kill_job(options);
	case CTL_DRAIN:
		return drain(options, true);
	case CTL_UNDRAIN:
		return drain(options, false);
	case CTL_KEYGEN:
		return ctl_keygen(options->file) < 0 ? EXIT_REFUSED : EXIT_SUCCESS;
	case CTL_VERSION:
		return print_version(options);
	default:
		if (options->usec_watch)
			return ctl_watch(options->usec_watch, print_answer, (void *)options);
		return print_answer(stdout, (void *)options);
	}
}

int main(int argc, char **argv)
{
	struct ctl_options options;
	int r, status;

	r = ctl_options_parse(argc, argv, &options);
	if (r != 0)
		return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
	status = run(&options);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "pulcctl: cannot write the answer: %s\n", strerror(errno));
		return EXIT_REFUSED;
	}
	return status;
}
