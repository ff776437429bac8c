/*
 * `pulcctl top`: one picture of the cluster: a line of this node's traffic through rings, then the nodes with their
 * load, then the jobs. Traffic is the difference between two pictures, so the first one has none.
 *
 * On a terminal it is drawn again and again, on the terminal's other screen, which is left however it ends.
 * Elsewhere it is printed once, or as often as --watch says.
 */
#include "top.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "json.h"
#include "macros.h"
#include "query.h"
#include "say.h"
#include "text.h"
#include "view.h"
#include "watch.h"

#define OTHER_SCREEN "\033[?1049h\033[?25l"
#define USUAL_SCREEN "\033[?25h\033[?1049l"
#define N_LINES_HEAD 4u

enum { STATUS, SOCKETS, NODES, JOBS, N_QUESTIONS };

static const Pulc__Wire__FromClient__BodyCase questions[] = {
	[STATUS] = PULC__WIRE__FROM_CLIENT__BODY_STATUS,
	[SOCKETS] = PULC__WIRE__FROM_CLIENT__BODY_SOCKETS,
	[NODES] = PULC__WIRE__FROM_CLIENT__BODY_NODES,
	[JOBS] = PULC__WIRE__FROM_CLIENT__BODY_JOBS,
};

struct top {
	const struct ctl_options *options;
	uint64_t size_before, nsec_before;
};

struct answers {
	struct ctl_replies of[N_QUESTIONS];
};

static void deinit_answers(struct answers *answers)
{
	for (size_t i = 0; i < N_QUESTIONS; i++)
		ctl_replies_deinit(&answers->of[i]);
}

static uint64_t size_sent(const struct ctl_replies *replies)
{
	uint64_t size = 0;

	for (size_t i = 0; i < replies->n; i++)
		for (size_t k = 0; k < replies->items[i]->sockets->n_sockets; k++)
			size += replies->items[i]->sockets->sockets[k]->size_sent;
	return size;
}

/* Bytes a second since the last picture. Connections that have ended take theirs away. */
static uint64_t rate(struct top *top, uint64_t size)
{
	uint64_t nsec = nsec_now(), since = nsec - top->nsec_before;
	bool known = top->nsec_before && since > 0 && size >= top->size_before;
	double bytes = known ? (double)(size - top->size_before) * 1e9 / (double)since : 0;

	top->size_before = size;
	top->nsec_before = nsec;
	return (uint64_t)bytes;
}

static void print_array(FILE *out, const char *name, const struct ctl_replies *replies,
			const struct ctl_list *list, const struct ctl_options *options)
{
	const struct ctl_room room = { 0 };

	fprintf(out, ",\"%s\":", name);
	(void)ctl_list_print(out, list, replies, options, &room);
}

static int print_json(FILE *out, const struct answers *a, uint64_t bytes,
		      const struct ctl_options *options)
{
	fputs("{\"status\":", out);
	ctl_json_message(out, &a->of[STATUS].items[0]->status->base);
	fprintf(out, ",\"bytes_per_second\":%llu", (unsigned long long)bytes);
	print_array(out, "nodes", &a->of[NODES], &ctl_list_nodes, options);
	print_array(out, "jobs", &a->of[JOBS], &ctl_list_jobs, options);
	fputs("}\n", out);
	return 0;
}

static int print_tables(FILE *out, const struct answers *a, uint64_t bytes,
			const struct ctl_options *options)
{
	const Pulc__Wire__StatusReply *s = a->of[STATUS].items[0]->status;
	const char *cluster = a->of[NODES].items[0]->nodes->cluster;
	struct ctl_room room = ctl_room_of(STDOUT_FILENO);
	char name[128], memory[16], speed[16];
	unsigned n_lines = room.n_lines;
	int r;

	fprintf(out, "%s%s%u processes, %u connections on rings, %s of memory, %s/s\n\n",
		ctl_text_plain(cluster, name, sizeof(name)), cluster[0] ? ": " : "", s->n_clients,
		s->n_connections, ctl_text_bytes(s->size_bytes, memory, sizeof(memory)),
		ctl_text_bytes(bytes, speed, sizeof(speed)));
	room.no_header = options->no_headers;
	if (n_lines > 0) /* half for each table; below that a screen is too small anyway */
		room.n_lines = MAX((n_lines - MIN(n_lines, N_LINES_HEAD)) / 2, 2u);
	r = ctl_list_print(out, &ctl_list_nodes, &a->of[NODES], options, &room);
	fputc('\n', out);
	return r < 0 ? r : ctl_list_print(out, &ctl_list_jobs, &a->of[JOBS], options, &room);
}

static int print_picture(FILE *out, void *arg)
{
	struct top *top = arg;
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	CLEANUP(deinit_answers) struct answers answers = { 0 };
	uint64_t bytes;
	int r = ctl_psid_open(&psid);

	for (size_t i = 0; r == 0 && i < N_QUESTIONS; i++)
		r = ctl_ask(&psid, questions[i], &answers.of[i]);
	if (r != 0)
		return ctl_say_error(&psid, r);
	bytes = rate(top, size_sent(&answers.of[SOCKETS]));
	r = (top->options->json ? print_json : print_tables)(out, &answers, bytes, top->options);
	return r < 0 ? ctl_say_error(&psid, r) : EXIT_SUCCESS;
}

static void leave(void)
{
	(void)!write(STDOUT_FILENO, USUAL_SCREEN, sizeof(USUAL_SCREEN) - 1);
}

static void on_signal(int number)
{
	leave();
	(void)signal(number, SIG_DFL);
	(void)raise(number);
}

int ctl_top(const struct ctl_options *options)
{
	struct top top = { .options = options };
	bool screen = isatty(STDOUT_FILENO) && !options->json;
	uint64_t usec = options->usec_watch ? options->usec_watch : USEC_PER_SEC;
	int status;

	if (!screen && !options->usec_watch)
		return print_picture(stdout, &top);
	if (screen) {
		(void)signal(SIGINT, on_signal);
		(void)signal(SIGTERM, on_signal);
		(void)fputs(OTHER_SCREEN, stdout);
	}
	status = ctl_watch(usec, print_picture, &top);
	if (screen)
		leave();
	return status;
}
