/*
 * pulcctl's command line: one command, options before or after it.
 *
 * A filter that the command does not have is an error rather than ignored: a script that believes
 * it has filtered would otherwise count the wrong things.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "user.h"

#define SEC_WATCH_DEFAULT "1"
#define SEC_WATCH_MIN 0.05
#define SEC_WATCH_MAX 86400.0

static const char help[] =
	"Usage: pulcctl [OPTION...] COMMAND\n"
	"\n"
	"Shows what the psid of this user (or of the system) does.\n"
	"\n"
	"Commands:\n"
	"  status              psid itself: its counters and limits\n"
	"  sockets             every connection it knows: path, reason, bytes, rings\n"
	"  clients             every process attached to it\n"
	"  ports               every port of this node: kind, name, owner, bytes, credit\n"
	"  jobs                every job of the cluster\n"
	"  tasks [JOB]         every task of the cluster, or those of one job\n"
	"  queue               every job that waits to begin, and why\n"
	"  kill JOB...         end jobs and everything they have started, on every node\n"
	"  nodes [NODE]        every node of the cluster: state, load, memory, tasks\n"
	"  areas               every area of memory that connections share\n"
	"  top                 load, traffic and jobs of the cluster, on the whole terminal\n"
	"  drain [NODE]        let no new tasks begin there; undrain: let them again\n"
	"  partition [list [NAME]]                 the partitions: their nodes and users\n"
	"  partition create NAME NODES             make one of these nodes: n1,n[2-4] or n1-n4\n"
	"  partition set NAME [NODES]              change what the options say, or its nodes\n"
	"  partition delete NAME                   take it away; its nodes and jobs stay\n"
	"  keygen [FILE]       make a key for a new cluster, or change that of one that runs\n"
	"  reload              have psid read its settings again\n"
	"  loglevel [LEVEL]    what psid logs: error, warning, info or debug\n"
	"  stop                end psid; connections on rings and jobs keep running\n"
	"  version             versions of pulcctl and of psid\n"
	"\n"
	"Options:\n"
	"  --json              JSON instead of a table\n"
	"  --watch[=SECONDS]   show it again every second, or every so many\n"
	"  --no-headers        no line of column titles\n"
	"  --pid PID           sockets, clients, ports, areas, tasks: only of this process\n"
	"  --peers             ports: a line for each peer: path, bytes, credit, who waits\n"
	"  --port PORT         sockets, ports: only with this port at either end\n"
	"  --path PATH         sockets: only on this path: rings, kernel, switching or mixed\n"
	"  --here              jobs, tasks, queue: only what is on this node\n"
	"  --signal NAME       kill: send this signal to the tasks instead\n"
	"  --user USER         sockets, clients, ports, areas, jobs, tasks, queue: only of this "
	"user\n"
	"                      partition create, set: only those so named, its owner and root may\n"
	"                      use it; --all-users: everybody may\n"
	"  --owner USER        partition create, set: whose it is\n"
	"  --exclusive         partition create, set: its nodes run no other jobs, and one at a\n"
	"                      time; --shared: they do\n"
	"  --default           partition create, set: for jobs that name none; --no-default\n"
	"  --limit NAME=N      partition create, set: what each user may have in it at once: "
	"cores,\n"
	"                      nodes, jobs, queued; time=N[smhd] of a job; N may be 'none'\n"
	"  --add               keygen: add a new key to the file, accepted but not used yet\n"
	"  --use KEY           keygen: make this key of the file the one that is used\n"
	"  --drop-old          keygen: drop all keys of the file but the one that is used\n"
	"  --list              keygen: the keys of the file, by the names that 'nodes' shows\n"
	"  -h, --help          this text\n"
	"  --version           the version of pulcctl\n"
	"\n"
	"Exit status: 0 done, 1 psid refused, 2 wrong usage, 3 no psid.\n"
	"See pulcctl(1) for the columns, pulc-reasons(7) for the reasons.\n";

static const char *const commands[] = {
	[CTL_STATUS] = "status",     [CTL_SOCKETS] = "sockets", [CTL_CLIENTS] = "clients",
	[CTL_JOBS] = "jobs",	     [CTL_TASKS] = "tasks",	[CTL_KILL] = "kill",
	[CTL_NODES] = "nodes",	     [CTL_DRAIN] = "drain",	[CTL_UNDRAIN] = "undrain",
	[CTL_KEYGEN] = "keygen",     [CTL_STOP] = "stop",	[CTL_VERSION] = "version",
	[CTL_AREAS] = "areas",	     [CTL_TOP] = "top",		[CTL_RELOAD] = "reload",
	[CTL_LOGLEVEL] = "loglevel", [CTL_PORTS] = "ports",	[CTL_PARTITION] = "partition",
	[CTL_QUEUE] = "queue",
};

static const char *const verbs[] = { [CTL_PARTITION_LIST] = "list",
				     [CTL_PARTITION_CREATE] = "create",
				     [CTL_PARTITION_SET] = "set",
				     [CTL_PARTITION_DELETE] = "delete" };

static const char *const paths[] = { "rings", "kernel", "switching", "mixed" };

enum {
	OPT_JSON = 256,
	OPT_WATCH,
	OPT_NO_HEADERS,
	OPT_PID,
	OPT_PORT,
	OPT_PEERS,
	OPT_PATH,
	OPT_HERE,
	OPT_SIGNAL,
	OPT_USER,
	OPT_OWNER,
	OPT_EXCLUSIVE,
	OPT_SHARED,
	OPT_DEFAULT,
	OPT_NO_DEFAULT,
	OPT_ALL_USERS,
	OPT_LIMIT,
	OPT_ADD,
	OPT_USE,
	OPT_DROP_OLD,
	OPT_LIST,
	OPT_VERSION
};

static const struct option longs[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "watch", optional_argument, NULL, OPT_WATCH },
	{ "no-headers", no_argument, NULL, OPT_NO_HEADERS },
	{ "pid", required_argument, NULL, OPT_PID },
	{ "peers", no_argument, NULL, OPT_PEERS },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "path", required_argument, NULL, OPT_PATH },
	{ "here", no_argument, NULL, OPT_HERE },
	{ "signal", required_argument, NULL, OPT_SIGNAL },
	{ "user", required_argument, NULL, OPT_USER },
	{ "owner", required_argument, NULL, OPT_OWNER },
	{ "exclusive", no_argument, NULL, OPT_EXCLUSIVE },
	{ "shared", no_argument, NULL, OPT_SHARED },
	{ "default", no_argument, NULL, OPT_DEFAULT },
	{ "no-default", no_argument, NULL, OPT_NO_DEFAULT },
	{ "all-users", no_argument, NULL, OPT_ALL_USERS },
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ "add", no_argument, NULL, OPT_ADD },
	{ "use", required_argument, NULL, OPT_USE },
	{ "drop-old", no_argument, NULL, OPT_DROP_OLD },
	{ "list", no_argument, NULL, OPT_LIST },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ 0 },
};

/* The position of name in the list, or -EINVAL after saying what there is. */
static int choose(const char *what, const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], name) == 0)
			return (int)i;
	fprintf(stderr, "pulcctl: no %s '%s'; there are:", what, name);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, " %s", list[i]);
	fputc('\n', stderr);
	return -EINVAL;
}

/* wanted: what else it may be than a number, for who reads what is wrong. */
static int parse_number(const char *option, const char *wanted, const char *text, unsigned max,
			unsigned *ret)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || n == 0 || n > max) {
		fprintf(stderr, "pulcctl: --%s wants %sa number from 1 to %u, not '%s'\n", option,
			wanted, max, text);
		return -EINVAL;
	}
	*ret = (unsigned)n;
	return 0;
}

static int parse_watch(const char *text, uint64_t *ret_usec)
{
	char *end;
	double seconds = strtod(text, &end);

	if (*end || end == text || !(seconds >= SEC_WATCH_MIN && seconds <= SEC_WATCH_MAX)) {
		fprintf(stderr, "pulcctl: --watch wants seconds from %.2f to %.0f, not '%s'\n",
			SEC_WATCH_MIN, SEC_WATCH_MAX, text);
		return -EINVAL;
	}
	*ret_usec = (uint64_t)(seconds * 1e6);
	return 0;
}

/* "TERM", "SIGTERM" or "15". */
static int parse_signal(const char *text, unsigned *ret)
{
	const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;
	const char *known;

	for (int i = 1; i < NSIG; i++) {
		known = sigabbrev_np(i);
		if (known && strcmp(known, name) == 0) {
			*ret = (unsigned)i;
			return 0;
		}
	}
	return parse_number("signal", "a name such as TERM, or ", text, NSIG - 1, ret);
}

/* One step of a change of keys at a time. */
static int take_step(enum ctl_keygen step, struct ctl_options *o)
{
	if (o->keygen != CTL_KEY_MAKE) {
		fputs("pulcctl: one of --add, --use, --drop-old and --list only\n", stderr);
		return -EINVAL;
	}
	o->keygen = step;
	return 0;
}

static int take_user(struct ctl_options *o)
{
	if (o->n_users == CTL_N_USERS_MAX) {
		fprintf(stderr, "pulcctl: --user: %u users at most\n", CTL_N_USERS_MAX);
		return -EINVAL;
	}
	o->users[o->n_users++] = optarg;
	return 0;
}

static int take_limit(struct ctl_options *o)
{
	if (o->n_limits == CTL_N_LIMITS_MAX) {
		fprintf(stderr, "pulcctl: --limit: %u at most\n", CTL_N_LIMITS_MAX);
		return -EINVAL;
	}
	o->limits[o->n_limits++] = optarg;
	return 0;
}

/* What partitions are to be like. Returns 0, -EINVAL. */
static int take_kind(int c, struct ctl_options *o)
{
	switch (c) {
	case OPT_USER:
		return take_user(o);
	case OPT_ALL_USERS:
		o->all_users = true;
		return 0;
	case OPT_OWNER:
		o->owner = optarg;
		return 0;
	case OPT_EXCLUSIVE:
	case OPT_SHARED:
		o->exclusive = c == OPT_EXCLUSIVE ? CTL_YES : CTL_NO;
		return 0;
	case OPT_DEFAULT:
	case OPT_NO_DEFAULT:
		o->is_default = c == OPT_DEFAULT ? CTL_YES : CTL_NO;
		return 0;
	case OPT_LIMIT:
		return take_limit(o);
	default:
		return -EINVAL;
	}
}

/* Takes one option; 1: it has been served and there is nothing else to do. */
static int take_option(int c, struct ctl_options *o)
{
	switch (c) {
	case OPT_JSON:
		o->json = true;
		return 0;
	case OPT_WATCH:
		return parse_watch(optarg ? optarg : SEC_WATCH_DEFAULT, &o->usec_watch);
	case OPT_NO_HEADERS:
		o->no_headers = true;
		return 0;
	case OPT_PID:
		return parse_number("pid", "", optarg, INT32_MAX, &o->pid);
	case OPT_PORT:
		return parse_number("port", "", optarg, UINT32_MAX, &o->port);
	case OPT_PEERS:
		o->peers = true;
		return 0;
	case OPT_PATH:
		o->path = optarg;
		return MIN(choose("path", optarg, paths, ARRAY_SIZE(paths)), 0);
	case OPT_HERE:
		o->here = true;
		return 0;
	case OPT_SIGNAL:
		return parse_signal(optarg, &o->signal);
	case OPT_ADD:
		return take_step(CTL_KEY_ADD, o);
	case OPT_USE:
		o->key = optarg;
		return take_step(CTL_KEY_USE, o);
	case OPT_DROP_OLD:
		return take_step(CTL_KEY_DROP_OLD, o);
	case OPT_LIST:
		return take_step(CTL_KEY_LIST, o);
	case 'h':
		fputs(help, stdout);
		return 1;
	case OPT_VERSION:
		puts("pulcctl " PULC_VERSION);
		return 1;
	default:
		return take_kind(c, o);
	}
}

/* Lists of what users have. */
static bool has_users(const struct ctl_options *o)
{
	switch (o->command) {
	case CTL_SOCKETS:
	case CTL_CLIENTS:
	case CTL_PORTS:
	case CTL_AREAS:
	case CTL_JOBS:
	case CTL_TASKS:
	case CTL_QUEUE:
		return true;
	default:
		return false;
	}
}

/* Who is meant by --user of a list. Returns 0; -EINVAL: somebody is nobody. */
static int find_users(struct ctl_options *o)
{
	int r = 0;

	for (unsigned i = 0; has_users(o) && r == 0 && i < o->n_users; i++)
		r = ctl_user_number(o->users[i], &o->uids[i]);
	o->n_uids = has_users(o) ? o->n_users : 0;
	return r;
}

/* The first option that says what a partition is to be like; NULL: none. */
static const char *kind_option(const struct ctl_options *o)
{
	if ((o->n_users && !has_users(o)) || o->all_users)
		return o->n_users ? "user" : "all-users";
	if (o->exclusive != CTL_UNSAID)
		return o->exclusive == CTL_YES ? "exclusive" : "shared";
	if (o->is_default != CTL_UNSAID)
		return o->is_default == CTL_YES ? "default" : "no-default";
	return o->owner ? "owner" : o->n_limits ? "limit" : NULL;
}

/* Commands that do something once. */
static bool is_picture(const struct ctl_options *o)
{
	switch (o->command) {
	case CTL_PARTITION:
		return o->partition == CTL_PARTITION_LIST;
	case CTL_STOP:
	case CTL_VERSION:
	case CTL_KILL:
	case CTL_DRAIN:
	case CTL_UNDRAIN:
	case CTL_KEYGEN:
	case CTL_RELOAD:
	case CTL_LOGLEVEL:
		return false;
	default:
		return true;
	}
}

/* Ports of TCP and UDP end there, those of programs written to libpulc do not. */
static int check_port(const struct ctl_options *o)
{
	if (o->command == CTL_PORTS || o->port <= UINT16_MAX)
		return 0;
	fprintf(stderr, "pulcctl: --port wants a number from 1 to %u, not '%u'\n", UINT16_MAX,
		o->port);
	return -EINVAL;
}

static int check_fit(const struct ctl_options *o)
{
	static const char *const steps[] = { [CTL_KEY_ADD] = "add",
					     [CTL_KEY_USE] = "use",
					     [CTL_KEY_DROP_OLD] = "drop-old",
					     [CTL_KEY_LIST] = "list" };
	const char *option = NULL;

	if (o->pid && o->command != CTL_SOCKETS && o->command != CTL_CLIENTS &&
	    o->command != CTL_PORTS && o->command != CTL_TASKS && o->command != CTL_AREAS)
		option = "pid";
	else if (o->port && o->command != CTL_SOCKETS && o->command != CTL_PORTS)
		option = "port";
	else if (o->peers && o->command != CTL_PORTS)
		option = "peers";
	else if (o->path && o->command != CTL_SOCKETS)
		option = "path";
	else if (o->usec_watch && !is_picture(o))
		option = "watch";
	else if (o->here && o->command != CTL_JOBS && o->command != CTL_TASKS &&
		 o->command != CTL_QUEUE)
		option = "here";
	else if (o->signal && o->command != CTL_KILL)
		option = "signal";
	else if (kind_option(o) && o->partition != CTL_PARTITION_CREATE &&
		 o->partition != CTL_PARTITION_SET)
		option = kind_option(o);
	else if (o->keygen != CTL_KEY_MAKE && o->command != CTL_KEYGEN)
		option = steps[o->keygen];
	if (!option)
		return check_port(o);
	fprintf(stderr, "pulcctl: --%s means nothing to '%s'\n", option, commands[o->command]);
	return -EINVAL;
}

/* What may stand behind the command: NULL: nothing. */
static const char **object_of(struct ctl_options *o)
{
	switch (o->command) {
	case CTL_TASKS:
	case CTL_KILL:
		return &o->job;
	case CTL_NODES:
	case CTL_DRAIN:
	case CTL_UNDRAIN:
		return &o->node;
	case CTL_LOGLEVEL:
		return &o->level;
	case CTL_KEYGEN:
		return &o->file;
	default:
		return NULL;
	}
}

static int take_object(int n, char **words, struct ctl_options *o)
{
	const char **object = object_of(o);

	if (n == 0 && o->command == CTL_KILL) {
		fputs("pulcctl: kill which job? (pulcctl jobs lists them)\n", stderr);
		return -EINVAL;
	}
	if (o->command == CTL_KILL) {
		o->jobs = words;
		o->n_jobs = (unsigned)n;
		n = 1;
	}
	if (n > (object ? 1 : 0)) {
		fprintf(stderr, "pulcctl: what is '%s' for? (pulcctl --help)\n",
			words[object ? 1 : 0]);
		return -EINVAL;
	}
	if (n > 0)
		*object = words[0];
	return 0;
}

/* "create NAME NODES", "set NAME [NODES]", "delete NAME", "list [NAME]" or nothing. */
static int take_partition(int n, char **words, struct ctl_options *o)
{
	static const struct {
		const char *usage;
		int n_min, n_max;
	} words_of[] = { [CTL_PARTITION_LIST] = { " [NAME]", 0, 2 },
			 [CTL_PARTITION_CREATE] = { " NAME NODES", 3, 3 },
			 [CTL_PARTITION_SET] = { " NAME [NODES]", 2, 3 },
			 [CTL_PARTITION_DELETE] = { " NAME", 2, 2 } };
	int r = n > 0 ? choose("way with partitions", words[0], verbs, ARRAY_SIZE(verbs)) : 0;

	if (r < 0)
		return r;
	o->partition = (enum ctl_partition)r;
	if (n < words_of[r].n_min || n > words_of[r].n_max) {
		fprintf(stderr, "pulcctl: partition %s%s\n", verbs[r], words_of[r].usage);
		return -EINVAL;
	}
	o->name = n > 1 ? words[1] : NULL;
	o->nodes = n > 2 ? words[2] : NULL;
	if (r == CTL_PARTITION_SET && !o->nodes && !kind_option(o)) {
		fputs("pulcctl: partition set: what? (pulcctl --help)\n", stderr);
		return -EINVAL;
	}
	return 0;
}

int ctl_options_parse(int argc, char **argv, struct ctl_options *ret_options)
{
	struct ctl_options o = { 0 };
	int c, r;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		r = take_option(c, &o);
		if (r != 0)
			return r;
	}
	if (optind == argc) {
		fputs("pulcctl: which command? (pulcctl --help lists them)\n", stderr);
		return -EINVAL;
	}
	r = choose("command", argv[optind], commands, ARRAY_SIZE(commands));
	if (r < 0)
		return r;
	o.command = (enum ctl_command)r;
	r = (o.command == CTL_PARTITION ? take_partition : take_object)(argc - optind - 1,
									argv + optind + 1, &o);
	if (r == 0)
		r = check_fit(&o);
	if (r == 0)
		r = find_users(&o);
	if (r == 0)
		*ret_options = o;
	return r;
}
