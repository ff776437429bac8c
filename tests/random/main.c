/*
 * Random sequences of socket calls: draws one while it plays it, or plays one that is written down.
 *
 * 	sequence --draw SEED streams|datagrams|mixed|wide	plays on, prints the trace
 * 	sequence --play FILE				plays a trace, or lines without outcomes
 *
 * 	--preload LIBRARY --players MASK	which players have it in front of libc's functions
 * 	--rings			warm-ups go on until the bytes pass through rings
 * 	--psid PID		what it has to do is waited for
 *
 * A trace is a sequence with its outcomes, one line each: "p0 send a 17 - -> 17". Behind the line
 * that has ended another player's sleep stands "p1 wakes -> 17 ...". Where the outcome of a line is
 * not the one that the file names, the wanted one is printed behind "# expected" and the play ends
 * with status 1.
 */
#include "draw.h"
#include "player.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define N_TRACE_MAX 512
#define ARROW " ->"

struct trace {
	char *lines[N_TRACE_MAX];
	unsigned n, at;
};

struct options {
	const char *library, *file, *seed;
	unsigned preloaded;
	bool until_rings;
	pid_t psid;
};

static bool read_trace(struct trace *trace, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[LINE_MAX];

	if (!file)
		return false;
	while (trace->n < N_TRACE_MAX && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] && line[0] != '#')
			trace->lines[trace->n++] = strdup(line);
	}
	return fclose(file) == 0;
}

/* What the file says behind the arrow; NULL: nothing. */
static const char *outcome_of(const char *line)
{
	const char *arrow = strstr(line, ARROW);

	return arrow ? arrow + strlen(ARROW) : NULL;
}

static enum expected expectation(const char *outcome)
{
	if (!outcome)
		return EXPECT_ANYTHING;
	return strcmp(outcome, " asleep") == 0 ? EXPECT_SLEEP : EXPECT_RETURN;
}

/* Prints the line; false if the outcome is not the wanted one. */
static bool tell(const char *line, const char *outcome, const char *wanted)
{
	bool is_same = !wanted || strcmp(outcome, wanted) == 0;

	printf(outcome[0] ? "%s" ARROW "%s\n" : "%s\n", line, outcome);
	if (!is_same)
		printf("# expected" ARROW "%s\n", wanted);
	return is_same;
}

/* Whose sleep the line before has ended, in the order of players; the file's next lines say whose
 * it should have. */
static bool play_wakes(struct stage *stage, struct trace *trace, bool is_bound)
{
	for (unsigned i = 0; i < N_PLAYERS; i++) {
		char line[32], outcome[ANSWER_MAX];
		const char *wanted = NULL;
		size_t n = (size_t)snprintf(line, sizeof(line), "p%u wakes", i);

		if (trace->at < trace->n && strncmp(trace->lines[trace->at], line, n) == 0)
			wanted = outcome_of(trace->lines[trace->at++]);
		if (stage_woken(stage, i,
				wanted	   ? EXPECT_RETURN
				: is_bound ? EXPECT_SLEEP
					   : EXPECT_ANYTHING,
				outcome)) {
			if (!tell(line, outcome, wanted ? wanted : is_bound ? " nothing" : NULL))
				return false;
		} else if (wanted && !tell(line, " not", wanted)) {
			return false;
		}
	}
	return true;
}

static bool play_line(struct stage *stage, struct trace *trace, char *line, const char *wanted,
		      bool is_bound)
{
	char outcome[ANSWER_MAX];

	if (!stage_play(stage, line, expectation(wanted), outcome)) {
		printf("# not understood: %s\n", line);
		return false;
	}
	return tell(line, outcome, wanted) && play_wakes(stage, trace, is_bound);
}

static bool play_trace(struct stage *stage, struct trace *trace)
{
	bool is_bound = false;

	for (unsigned i = 0; i < trace->n; i++)
		is_bound |= outcome_of(trace->lines[i]) != NULL;
	while (trace->at < trace->n) {
		char *line = trace->lines[trace->at++];
		const char *wanted = outcome_of(line);

		if (wanted)
			*strstr(line, ARROW) = '\0';
		if (!play_line(stage, trace, line, wanted, is_bound))
			return false;
	}
	return true;
}

static bool play_drawn(struct stage *stage, const char *seed, const char *what)
{
	struct trace none = { 0 };
	struct drawer drawer;
	char line[CALL_MAX];

	drawer_init(&drawer, strtoull(seed, NULL, 10),
		    strcmp(what, "wide") == 0	     ? DRAW_WIDE
		    : strcmp(what, "mixed") == 0     ? DRAW_MIXED
		    : strcmp(what, "datagrams") == 0 ? DRAW_DATAGRAMS
						     : DRAW_STREAMS);
	while (draw_line(&drawer, stage, line))
		if (!play_line(stage, &none, line, NULL, false))
			return false;
	return true;
}

static void read_options(struct options *o, int argc, char **argv)
{
	static const struct option known[] = {
		{ "draw", required_argument, NULL, 'd' },
		{ "play", required_argument, NULL, 'f' },
		{ "preload", required_argument, NULL, 'l' },
		{ "players", required_argument, NULL, 'm' },
		{ "rings", no_argument, NULL, 'r' },
		{ "psid", required_argument, NULL, 'p' },
		{ "player", required_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 },
	};

	for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
		switch (c) {
		case 'd':
			o->seed = optarg;
			break;
		case 'f':
			o->file = optarg;
			break;
		case 'l':
			o->library = optarg;
			break;
		case 'm':
			o->preloaded = (unsigned)atoi(optarg);
			break;
		case 'r':
			o->until_rings = true;
			break;
		case 'p':
			o->psid = atoi(optarg);
			break;
		case 'n':
			player_begin((unsigned)atoi(optarg));
		default:
			exit(2);
		}
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	struct trace trace = { 0 };
	struct stage stage = { 0 };
	bool is_same;

	read_options(&o, argc, argv);
	if ((!o.seed && !o.file) || (o.file && !read_trace(&trace, o.file)))
		return 2;
	stage.until_rings = o.until_rings;
	stage.psid = o.psid;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (stage_open(&stage, o.library, o.preloaded) < 0)
		return 2;
	if (o.file)
		is_same = play_trace(&stage, &trace);
	else
		is_same = play_drawn(&stage, o.seed, optind < argc ? argv[optind] : "streams");
	stage_close(&stage);
	for (unsigned i = 0; i < trace.n; i++)
		free(trace.lines[i]);
	return is_same ? 0 : 1;
}
