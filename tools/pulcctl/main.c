/*
 * pulcctl: what psid knows, for people and for scripts.
 *
 * Each command asks psid one question over a conversation of its own and prints the answer; a
 * watch asks again each time, so it also survives a restart of psid between two pictures.
 * Errors go to stderr in one line that names the socket and says what to do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "act.h"
#include "cleanup.h"
#include "json.h"
#include "keygen.h"
#include "options.h"
#include "partition.h"
#include "query.h"
#include "said.h"
#include "say.h"
#include "text.h"
#include "top.h"
#include "view.h"
#include "watch.h"

/* What each picture asks, and how the answer is shown if it is a list. */
static const struct {
	Pulc__Wire__FromClient__BodyCase question;
	const struct ctl_list *list;
} commands[] = {
	[CTL_STATUS] = { PULC__WIRE__FROM_CLIENT__BODY_STATUS, NULL },
	[CTL_SOCKETS] = { PULC__WIRE__FROM_CLIENT__BODY_SOCKETS, &ctl_list_sockets },
	[CTL_CLIENTS] = { PULC__WIRE__FROM_CLIENT__BODY_CLIENTS, &ctl_list_clients },
	[CTL_PORTS] = { PULC__WIRE__FROM_CLIENT__BODY_PORTS, &ctl_list_ports },
	[CTL_JOBS] = { PULC__WIRE__FROM_CLIENT__BODY_JOBS, &ctl_list_jobs },
	[CTL_QUEUE] = { PULC__WIRE__FROM_CLIENT__BODY_JOBS, &ctl_list_queue },
	[CTL_TASKS] = { PULC__WIRE__FROM_CLIENT__BODY_TASKS, &ctl_list_tasks },
	[CTL_NODES] = { PULC__WIRE__FROM_CLIENT__BODY_NODES, &ctl_list_nodes },
	[CTL_PARTITION] = { PULC__WIRE__FROM_CLIENT__BODY_PARTITIONS, &ctl_list_partitions },
	[CTL_AREAS] = { PULC__WIRE__FROM_CLIENT__BODY_AREAS, &ctl_list_areas },
};

/* tasks JOB, of all nodes, and no more than that: then there must be some, if it runs. */
static bool is_of_job(const struct ctl_options *o)
{
	return o->command == CTL_TASKS && !o->pid && !o->n_uids && !o->here;
}

/* Has the user named a node, a partition or a running job that is none? It is said, unless it may
 * come yet, or a script counts. */
static bool is_absent(const struct ctl_options *options, const struct ctl_list *list,
		      const struct ctl_replies *replies)
{
	const char *name = options->command == CTL_NODES ? options->node
			   : is_of_job(options)		 ? options->job
							 : options->name;
	const char *what = options->command == CTL_NODES   ? "node"
			   : options->command == CTL_TASKS ? "tasks of a job"
							   : "partition";

	if (!name || options->json || options->usec_watch || ctl_list_has(list, replies, options))
		return false;
	fprintf(stderr, "pulcctl: no %s named %s\n", what, name);
	return true;
}

/* One picture: ask, show. */
static int print_answer(FILE *out, void *arg)
{
	const struct ctl_options *options = arg;
	bool peers = options->peers;
	const struct ctl_list *list = peers ? &ctl_list_peers : commands[options->command].list;
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
		r = options->command == CTL_QUEUE
			    ? ctl_ask_queue(&psid, options->here, &replies)
			    : ctl_ask_about(&psid,
					    peers ? PULC__WIRE__FROM_CLIENT__BODY_PORT_PEERS
						  : commands[options->command].question,
					    options->job, options->here, &replies);
	if (r == 0 && list && is_absent(options, list, &replies))
		return EXIT_REFUSED;
	if (r == 0)
		r = list ? ctl_list_print(out, list, &replies, options, &room)
			 : ctl_status_print(out, &replies, options, &room);
	if (r == 0)
		ctl_say_silent(&replies);
	return r < 0 ? ctl_say_error(&psid, r) : EXIT_SUCCESS;
}

/* Works without a psid: its version is then left out. One of another version says itself which. */
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
	} else {
		puts("pulcctl " PULC_VERSION);
		if (version)
			printf("psid    %s\n", ctl_text_plain(version, text, sizeof(text)));
	}
	return ctl_refusal(&psid) ? ctl_say_error(&psid, r) : EXIT_SUCCESS;
}

/* Once, or again and again. */
static int show(const struct ctl_options *options)
{
	if (options->usec_watch)
		return ctl_watch(options->usec_watch, print_answer, (void *)options, -1, NULL);
	return print_answer(stdout, (void *)options);
}

static int run(const struct ctl_options *options)
{
	switch (options->command) {
	case CTL_STOP:
	case CTL_KILL:
	case CTL_DRAIN:
	case CTL_UNDRAIN:
	case CTL_RELOAD:
	case CTL_LOGLEVEL:
		return ctl_act(options);
	case CTL_TOP:
		return ctl_top(options);
	case CTL_KEYGEN:
		return ctl_keygen(options) < 0 ? EXIT_REFUSED : EXIT_SUCCESS;
	case CTL_VERSION:
		return print_version(options);
	case CTL_PARTITION:
		if (options->partition != CTL_PARTITION_LIST)
			return ctl_partition(options);
		return show(options);
	default:
		return show(options);
	}
}
int main(int argc, char **argv)
{
	struct ctl_options options;
	int r, status;

	ctl_text_start();
	r = ctl_options_parse(argc, argv, &options);
	if (r < 0)
		return EXIT_USAGE;
	if (r == 0 && said_environment("pulcctl") < 0)
		return EXIT_USAGE;
	status = r > 0 ? EXIT_SUCCESS : run(&options);
	return said_all("pulcctl", status, EXIT_REFUSED);
}
