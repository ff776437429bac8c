/*
 * Commands that do something once. psid's answer has a line of what was wrong, or none; it goes to
 * stderr, and the exit status says the same. With --json the answer is printed as it came, for
 * scripts that want one thing to parse in either case.
 */
#include "act.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "json.h"
#include "paths.h"
#include "say.h"
#include "text.h"

/* The process of psid, to wait for: its end is worth nothing if it still holds memory
 * afterwards. */
static int find_process(struct ctl_psid *psid, int *ret_fd)
{
	CLEANUP(ctl_replies_deinit) struct ctl_replies replies = { 0 };
	int r;

	r = ctl_ask(psid, PULC__WIRE__FROM_CLIENT__BODY_STATUS, &replies);
	if (r == 0)
		r = ctl_pidfd(psid, replies.items[0]->status->pid, ret_fd);
	return r == -ESRCH ? 0 : r;
}

/*
 * Other questions go to whatever psid there is. But who names a place (PULC_SOCKET,
 * PULC_RUNTIME_DIR: the first two) wants none ended that is elsewhere.
 */
static bool is_elsewhere(const struct ctl_psid *psid)
{
	bool named = false;
	char path[128];

	for (unsigned i = 0; i < 2; i++) {
		int r = wire_candidate(i, path, sizeof(path));

		if (r == 0 && strcmp(path, psid->path) == 0)
			return false;
		named |= r == 0 || r == -ENAMETOOLONG;
	}
	if (named)
		fprintf(stderr,
			"pulcctl: no psid runs where PULC_SOCKET or PULC_RUNTIME_DIR says; the one "
			"at %s goes on (unset them to stop that)\n",
			psid->path);
	return named;
}

static int stop(const struct ctl_options *options)
{
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	CLEANUP(ctl_replies_deinit) struct ctl_replies replies = { 0 };
	CLEANUP_FD int process = -EBADF;
	int r;

	r = ctl_psid_open(&psid);
	if (r == 0 && is_elsewhere(&psid))
		return EXIT_NO_PSID;
	if (r == 0)
		r = find_process(&psid, &process);
	if (r == 0)
		r = ctl_ask(&psid, PULC__WIRE__FROM_CLIENT__BODY_STOP, &replies);
	if (r == 0)
		r = ctl_await_end(&psid, process);
	if (r < 0)
		return ctl_say_error(&psid, r);
	if (options->json)
		puts("{\"error\":\"\"}");
	return EXIT_SUCCESS;
}

/* The job or the node that the command is about; NULL: none was named. */
static const char *object_of(const struct ctl_options *o)
{
	return o->command == CTL_KILL ? o->job : o->node;
}

/* What the command asks, about whom, and the number that goes with it. */
static int ask(struct ctl_psid *psid, const struct ctl_options *o, struct ctl_replies *ret)
{
	switch (o->command) {
	case CTL_KILL:
		return ctl_ask_about(psid, PULC__WIRE__FROM_CLIENT__BODY_KILL, o->job, o->signal,
				     ret);
	case CTL_DRAIN:
	case CTL_UNDRAIN:
		return ctl_ask_about(psid, PULC__WIRE__FROM_CLIENT__BODY_DRAIN, o->node,
				     o->command == CTL_DRAIN, ret);
	case CTL_RELOAD:
		return ctl_ask(psid, PULC__WIRE__FROM_CLIENT__BODY_RELOAD, ret);
	default:
		return ctl_ask_about(psid, PULC__WIRE__FROM_CLIENT__BODY_LOG_LEVEL, o->level, 0,
				     ret);
	}
}

static const ProtobufCMessage *body_of(const Pulc__Wire__ToClient *reply, const char **ret_error)
{
	switch (reply->body_case) {
	case PULC__WIRE__TO_CLIENT__BODY_KILL:
		*ret_error = reply->kill->error;
		return &reply->kill->base;
	case PULC__WIRE__TO_CLIENT__BODY_DRAIN:
		*ret_error = reply->drain->error;
		return &reply->drain->base;
	case PULC__WIRE__TO_CLIENT__BODY_RELOAD:
		*ret_error = reply->reload->error;
		return &reply->reload->base;
	default:
		*ret_error = reply->log_level->error;
		return &reply->log_level->base;
	}
}

/* What people want to know of an answer that is no error. */
static void print_result(const Pulc__Wire__ToClient *reply)
{
	char text[256];

	if (reply->body_case == PULC__WIRE__TO_CLIENT__BODY_LOG_LEVEL)
		puts(ctl_text_plain(reply->log_level->level, text, sizeof(text)));
	else if (reply->body_case == PULC__WIRE__TO_CLIENT__BODY_RELOAD &&
		 reply->reload->waiting[0])
		printf("new, but waiting for a restart: %s\n",
		       ctl_text_plain(reply->reload->waiting, text, sizeof(text)));
}

static int show(const struct ctl_options *options, const Pulc__Wire__ToClient *reply)
{
	const char *error;
	const ProtobufCMessage *body = body_of(reply, &error);
	const char *object = object_of(options);
	char text[512];

	if (options->json) {
		ctl_json_message(stdout, body);
		if (options->n_jobs <= 1)
			putchar('\n');
	} else if (!error[0]) {
		print_result(reply);
	}
	if (!error[0])
		return EXIT_SUCCESS;
	fprintf(stderr, "pulcctl: %s%s%s\n", object ? object : "", object ? ": " : "",
		ctl_text_plain(error, text, sizeof(text)));
	return EXIT_REFUSED;
}

/* ret_answered: psid has said something, which was shown. */
static int act(const struct ctl_options *options, bool *ret_answered)
{
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	CLEANUP(ctl_replies_deinit) struct ctl_replies replies = { 0 };
	int r;

	r = ctl_psid_open(&psid);
	if (r == 0)
		r = ask(&psid, options, &replies);
	*ret_answered = r == 0;
	return r != 0 ? ctl_say_error(&psid, r) : show(options, replies.items[0]);
}

/* Each of them, unless psid does not answer at all; as JSON an array with the answer of each. */
static int kill_all(const struct ctl_options *options)
{
	struct ctl_options one = *options;
	int status = EXIT_SUCCESS, s = EXIT_SUCCESS;
	bool answered = true;

	for (unsigned i = 0; i < options->n_jobs && answered; i++) {
		one.job = options->jobs[i];
		if (options->json)
			fputs(i == 0 ? "[\n" : ",\n", stdout);
		s = act(&one, &answered);
		if (options->json && !answered)
			fputs("{\"error\":\"no answer\"}", stdout);
		status = s != EXIT_SUCCESS ? s : status;
	}
	if (options->json)
		puts("\n]");
	return status;
}

int ctl_act(const struct ctl_options *options)
{
	bool answered;

	if (options->command == CTL_STOP)
		return stop(options);
	return options->n_jobs > 1 ? kill_all(options) : act(options, &answered);
}
