/*
 * `pulcctl top`: one picture of the cluster: a line that adds up its nodes, one about the psid that
 * is asked, then the nodes with their load and traffic, then the jobs. What nodes are doing they
 * say themselves, in the news of their load; a node of which there is no fresh news is left out of
 * the sums.
 *
 * On a terminal it is drawn again and again, on the terminal's other screen (screen.c), which is
 * left however it ends: by the key q, a signal, or psid's end. What there is to say then is said on
 * the usual screen. Lines that are longer than the screen's are cut by the terminal. Elsewhere it
 * is printed once, or as often as --watch says.
 */
#include "top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "json.h"
#include "macros.h"
#include "query.h"
#include "say.h"
#include "screen.h"
#include "text.h"
#include "view.h"
#include "watch.h"

#define N_LINES_HEAD 5u /* around the tables, with the cursor's */
#define N_LINES_TABLES_MIN 4u

enum { STATUS, NODES, JOBS, N_QUESTIONS };

static const Pulc__Wire__FromClient__BodyCase questions[] = {
	[STATUS] = PULC__WIRE__FROM_CLIENT__BODY_STATUS,
	[NODES] = PULC__WIRE__FROM_CLIENT__BODY_NODES,
	[JOBS] = PULC__WIRE__FROM_CLIENT__BODY_JOBS,
};

struct answers {
	struct ctl_replies of[N_QUESTIONS];
};

static void deinit_answers(struct answers *answers)
{
	for (size_t i = 0; i < N_QUESTIONS; i++)
		ctl_replies_deinit(&answers->of[i]);
}

/* The nodes that are there, added up; those without fresh news of their load are counted only. */
struct sum {
	unsigned n_nodes, n_up;
	uint64_t n_cores, n_tasks, bytes;
	uint64_t centi_load; /* of all cores: centi_load of a node is that of one */
};

static void add_up(const Pulc__Wire__NodesReply *reply, struct sum *sum)
{
	for (size_t i = 0; i < reply->n_nodes; i++) {
		const Pulc__Wire__NodeEntry *e = reply->nodes[i];

		sum->n_nodes++;
		if (!ctl_node_is_up(e))
			continue;
		sum->n_up++;
		if (e->stale)
			continue;
		sum->n_cores += e->cores;
		sum->n_tasks += e->n_tasks;
		sum->bytes += e->bytes_per_second;
		sum->centi_load += (uint64_t)e->centi_load * e->cores;
	}
}

static struct sum sum_of(const struct ctl_replies *replies)
{
	struct sum sum = { 0 };

	for (size_t i = 0; i < replies->n; i++)
		add_up(replies->items[i]->nodes, &sum);
	return sum;
}

static void print_array(FILE *out, const char *name, const struct ctl_replies *replies,
			const struct ctl_list *list, const struct ctl_options *options)
{
	const struct ctl_room room = { 0 };

	fprintf(out, ",\"%s\":", name);
	(void)ctl_list_print(out, list, replies, options, &room);
}

static int print_json(FILE *out, const struct answers *a, const struct ctl_options *options)
{
	const struct sum sum = sum_of(&a->of[NODES]);

	fputs("{\"status\":", out);
	ctl_json_message(out, &a->of[STATUS].items[0]->status->base);
	fprintf(out, ",\"n_up\":%u,\"cores\":%" PRIu64 ",\"n_tasks\":%" PRIu64, sum.n_up,
		sum.n_cores, sum.n_tasks);
	fprintf(out, ",\"centi_load\":%" PRIu64 ",\"bytes_per_second\":%" PRIu64,
		sum.centi_load / MAX(sum.n_cores, 1u), sum.bytes);
	print_array(out, "nodes", &a->of[NODES], &ctl_list_nodes, options);
	print_array(out, "jobs", &a->of[JOBS], &ctl_list_jobs, options);
	fputs("}\n", out);
	return 0;
}

/* Both tables get what they need if there is room for that, else half at least, in lines with their
 * headers. */
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

/* "lab: 3 of 4 nodes, 12 tasks on 16 cores, load 0.75, 1.2G/s", and a line about this node. */
static void print_head(FILE *out, const struct answers *a)
{
	const Pulc__Wire__StatusReply *s = a->of[STATUS].items[0]->status;
	const char *cluster = a->of[NODES].items[0]->nodes->cluster;
	const struct sum sum = sum_of(&a->of[NODES]);
	uint64_t centi = sum.centi_load / MAX(sum.n_cores, 1u);
	char name[128], memory[16], speed[16];

	fprintf(out,
		"%s%s%u of %u nodes, %" PRIu64 " tasks on %" PRIu64 " cores, load %u.%02u, %s/s\n",
		ctl_text_plain(cluster, name, sizeof(name)), cluster[0] ? ": " : "", sum.n_up,
		sum.n_nodes, sum.n_tasks, sum.n_cores, (unsigned)(centi / 100),
		(unsigned)(centi % 100), ctl_text_bytes(sum.bytes, speed, sizeof(speed)));
	fprintf(out, "this node: %u processes, %u connections on rings, %s of memory\n\n",
		s->n_clients, s->n_connections,
		ctl_text_bytes(s->size_bytes, memory, sizeof(memory)));
}

static int print_tables(FILE *out, const struct answers *a, const struct ctl_options *options)
{
	struct ctl_room room = ctl_room_of(STDOUT_FILENO), room_nodes, room_jobs;
	int r;

	print_head(out, a);
	room.no_header = options->no_headers;
	share_lines(a, &room, &room_nodes, &room_jobs);
	r = ctl_list_print(out, &ctl_list_nodes, &a->of[NODES], options, &room_nodes);
	fputc('\n', out);
	return r < 0 ? r : ctl_list_print(out, &ctl_list_jobs, &a->of[JOBS], options, &room_jobs);
}

/* ---- pictures -------------------------------------------------------------------------------- */

static int fail(const struct ctl_psid *psid, int r)
{
	ctl_screen_leave();
	return ctl_say_error(psid, r);
}

static int print_picture(FILE *out, void *arg)
{
	const struct ctl_options *options = arg;
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	CLEANUP(deinit_answers) struct answers answers = { 0 };
	int r = ctl_psid_open(&psid);

	for (size_t i = 0; r == 0 && i < N_QUESTIONS; i++)
		r = ctl_ask(&psid, questions[i], &answers.of[i]);
	if (r != 0)
		return fail(&psid, r);
	r = (options->json ? print_json : print_tables)(out, &answers, options);
	return r < 0 ? fail(&psid, r) : EXIT_SUCCESS;
}

int ctl_top(const struct ctl_options *options)
{
	bool is_screen = isatty(STDOUT_FILENO) && !options->json;
	uint64_t usec = options->usec_watch ? options->usec_watch : USEC_PER_SEC;
	struct ctl_screen screen = { .keys = -1 };
	int status;

	if (!is_screen && !options->usec_watch)
		return print_picture(stdout, (void *)options);
	if (is_screen)
		ctl_screen_enter(&screen);
	status = ctl_watch(usec, print_picture, (void *)options, screen.keys,
			   is_screen ? &screen.blocked : NULL);
	ctl_screen_leave();
	return status;
}
