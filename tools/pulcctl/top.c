/*
 * `pulcctl top`: one picture of the cluster: a line of this node's traffic through rings, then the nodes with their
 * load, then the jobs. Traffic is the difference between two pictures, so the first one has none.
 *
 * On a terminal it is drawn again and again, on the terminal's other screen, which is left however it ends: by
 * the key q, a signal, or psid's end. What there is to say then is said on the usual screen. Lines that are longer
 * than the screen's are cut by the terminal.
 * Elsewhere it is printed once, or as often as --watch says.
 */
#include "top.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
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

#define OTHER_SCREEN "\033[?1049h\033[?25l\033[?7l"
#define USUAL_SCREEN "\033[?7h\033[?25h\033[?1049l"
#define N_LINES_HEAD 4u /* around the tables, with the cursor's */
#define N_LINES_TABLES_MIN 4u

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

/* What is to be put back when the other screen is left. */
static volatile sig_atomic_t on_screen, takes_keys;
static struct termios usual;

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

/* Both tables get what they need if there is room for that, else half at least, in lines with their headers. */
static void share_lines(const struct answers *a, const struct ctl_room *whole,
			struct ctl_room *ret_nodes, struct ctl_room *ret_jobs)
{
	unsigned n_header = whole->no_header ? 0 : 1, n_nodes = n_header, n_jobs = n_header, n;

	*ret_nodes = *ret_jobs = *whole;
	if (whole->n_lines == 0)
		return;
	for (size_t i = 0; i < a->of[NODES].n; i++)
		n_nodes += (unsigned)a->of[NODES].items[i]->nodes->n_nodes;
	for (size_t i = 0; i < a->of[JOBS].n; i++)
		n_jobs += (unsigned)a->of[JOBS].items[i]->jobs->n_jobs;
	n = MAX(whole->n_lines - MIN(whole->n_lines, N_LINES_HEAD), N_LINES_TABLES_MIN);
	ret_nodes->n_lines = MAX(n / 2, n - MIN(n, n_jobs));
	ret_jobs->n_lines = n - MIN(n_nodes, ret_nodes->n_lines);
}

static int print_tables(FILE *out, const struct answers *a, uint64_t bytes,
			const struct ctl_options *options)
{
	const Pulc__Wire__StatusReply *s = a->of[STATUS].items[0]->status;
	const char *cluster = a->of[NODES].items[0]->nodes->cluster;
	struct ctl_room room = ctl_room_of(STDOUT_FILENO), room_nodes, room_jobs;
	char name[128], memory[16], speed[16];
	int r;

	fprintf(out, "%s%s%u processes, %u connections on rings, %s of memory, %s/s\n\n",
		ctl_text_plain(cluster, name, sizeof(name)), cluster[0] ? ": " : "", s->n_clients,
		s->n_connections, ctl_text_bytes(s->size_bytes, memory, sizeof(memory)),
		ctl_text_bytes(bytes, speed, sizeof(speed)));
	room.no_header = options->no_headers;
	share_lines(a, &room, &room_nodes, &room_jobs);
	r = ctl_list_print(out, &ctl_list_nodes, &a->of[NODES], options, &room_nodes);
	fputc('\n', out);
	return r < 0 ? r : ctl_list_print(out, &ctl_list_jobs, &a->of[JOBS], options, &room_jobs);
}

/* ---- the screen --------------------------------------------------------------------------------- */

/* Keys come at once and are not shown. Behind somebody else's program on the terminal they are not ours. */
static void take_keys(void)
{
	struct termios keys;

	if (tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, &usual) < 0)
		return;
	keys = usual;
	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	keys.c_cc[VMIN] = 1;
	keys.c_cc[VTIME] = 0;
	takes_keys = 1; /* first: a signal may come in between */
	if (tcsetattr(STDIN_FILENO, TCSANOW, &keys) < 0)
		takes_keys = 0;
}

static void leave(void)
{
	if (on_screen)
		(void)!write(STDOUT_FILENO, USUAL_SCREEN, sizeof(USUAL_SCREEN) - 1);
	if (takes_keys)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &usual);
	on_screen = takes_keys = 0;
}

static void on_signal(int number)
{
	leave();
	(void)signal(number, SIG_DFL);
	(void)raise(number);
}

static void enter(void)
{
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	take_keys();
	on_screen = 1;
	(void)!write(STDOUT_FILENO, OTHER_SCREEN, sizeof(OTHER_SCREEN) - 1);
}

/* ---- pictures ----------------------------------------------------------------------------------- */

static int fail(const struct ctl_psid *psid, int r)
{
	leave();
	return ctl_say_error(psid, r);
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
		return fail(&psid, r);
	bytes = rate(top, size_sent(&answers.of[SOCKETS]));
	r = (top->options->json ? print_json : print_tables)(out, &answers, bytes, top->options);
	return r < 0 ? fail(&psid, r) : EXIT_SUCCESS;
}

int ctl_top(const struct ctl_options *options)
{
	struct top top = { .options = options };
	bool screen = isatty(STDOUT_FILENO) && !options->json;
	uint64_t usec = options->usec_watch ? options->usec_watch : USEC_PER_SEC;
	int status;

	if (!screen && !options->usec_watch)
		return print_picture(stdout, &top);
	if (screen)
		enter();
	status = ctl_watch(usec, print_picture, &top, takes_keys ? STDIN_FILENO : -1);
	leave();
	return status;
}
