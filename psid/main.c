/*
 * psid: options, and one psid from start to end.
 *
 * --daemonize returns when the socket accepts, or with what the daemon said and exit status 1. If
 * another psid is there already that is what was wanted. The daemon itself keeps nothing of its
 * parent's but the log, which goes to psid.log in the run directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cleanup.h"
#include "config.h"
#include "daemonize.h"
#include "keys.h"
#include "log.h"
#include "psid.h"
#include "said.h"
#include "variables.h"

#define N_DESCRIPTORS_MIN 48

struct options {
	const char *config;
	bool system;
	bool daemonize;
	bool check;
};

static const char help[] =
	"Usage: psid [OPTION]...\n"
	"The PULC daemon of this node: brings the two ends of local connections together.\n"
	"\n"
	"      --system         serve all users at /run/pulc (for root; default: serve this user)\n"
	"      --config FILE    read settings from FILE\n"
	"      --check-config   read the settings, say what is wrong with them, and exit\n"
	"      --foreground     stay in the foreground (default)\n"
	"      --daemonize      go to the background once clients can connect\n"
	"  -h, --help           show this and exit\n"
	"      --version        show the version and exit\n"
	"\n"
	"Each setting of psid.conf(5), FooBar, can also be given as PULC_FOO_BAR in the "
	"environment.\n";

enum { OPT_SYSTEM = 256, OPT_CONFIG, OPT_CHECK, OPT_FOREGROUND, OPT_DAEMONIZE, OPT_VERSION };

static const struct option long_options[] = {
	{ "system", no_argument, NULL, OPT_SYSTEM },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "check-config", no_argument, NULL, OPT_CHECK },
	{ "foreground", no_argument, NULL, OPT_FOREGROUND },
	{ "daemonize", no_argument, NULL, OPT_DAEMONIZE },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ 0 },
};

/* Returns 0; 1: everything is said and done; -EINVAL. */
static int parse_options(int argc, char **argv, struct options *options)
{
	int c;

	while ((c = getopt_long(argc, argv, "h", long_options, NULL)) >= 0)
		switch (c) {
		case OPT_SYSTEM:
			options->system = true;
			break;
		case OPT_CONFIG:
			options->config = optarg;
			break;
		case OPT_CHECK:
			options->check = true;
			break;
		case OPT_FOREGROUND:
			options->daemonize = false;
			break;
		case OPT_DAEMONIZE:
			options->daemonize = true;
			break;
		case 'h':
			(void)fputs(help, stdout);
			return 1;
		case OPT_VERSION:
			(void)puts("psid " PULC_VERSION);
			return 1;
		default:
			return -EINVAL;
		}
	if (optind == argc)
		return 0;
	(void)fprintf(stderr, "psid: unexpected argument: %s\n", argv[optind]);
	return -EINVAL;
}

/* A daemon in the background is in another folder when it reads the file again. */
static int name_absolutely(struct options *options)
{
	static char path[2 * PATH_MAX];
	char folder[PATH_MAX];

	if (!options->config || options->config[0] == '/')
		return 0;
	if (!getcwd(folder, sizeof(folder))) {
		psid_log(PSID_ERROR, "%s: %s", options->config, strerror(errno));
		return -errno;
	}
	(void)snprintf(path, sizeof(path), "%s/%s", folder, options->config);
	options->config = path;
	return 0;
}

static int load(const struct options *options, struct psid_config *config)
{
	struct psid_config_error error;
	int r = psid_config_load(options->system, options->config, config, &error);

	if (r < 0)
		psid_log(PSID_ERROR, "%s", error.text);
	return r;
}

/* What was read has to be said: a file that nobody looks into is always good. */
static void say_good(const struct options *options)
{
	char usual[PSID_SIZE_PATH];

	psid_config_usual(options->system, usual, sizeof(usual));
	if (options->config || access(usual, R_OK) == 0)
		(void)printf("psid: the settings are good, in %s and the environment\n",
			     options->config ? options->config : usual);
	else
		(void)printf("psid: the settings are good, in the environment; there is no %s%s\n",
			     usual, errno == EACCES ? " that we may read" : "");
}

static void say_unknown(void *context, const char *name, const char *meant)
{
	(void)context;
	if (!meant)
		psid_log(PSID_WARNING, "%s: no setting is called so", name);
}

/* The files that settings name are not read before a start, but for the one that is easily
 * wrong. */
static int check(const struct options *options, const struct psid_config *config)
{
	struct psid_keyring ring;
	char why[192];

	if (config->cluster.name[0] &&
	    psid_keyring_read(config->cluster.key_file, config->cluster.name, &ring, why,
			      sizeof(why)) < 0) {
		psid_log(PSID_ERROR, "ClusterKeyFile: %s", why);
		return EXIT_FAILURE;
	}
	explicit_bzero(&ring, sizeof(ring));
	wire_variables_check(say_unknown, NULL);
	if (config->n_misspelt > 0)
		return EXIT_FAILURE;
	say_good(options);
	return EXIT_SUCCESS;
}

/* Below this libuv ends the process, or nobody could be served. */
static bool has_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max >= N_DESCRIPTORS_MIN)
		return true;
	psid_log(PSID_ERROR, "the limit of descriptors is %ju (ulimit -Hn): psid needs %d at least",
		 (uintmax_t)limit.rlim_max, N_DESCRIPTORS_MIN);
	return false;
}

static int serve(struct psid_config *config)
{
	static struct psid psid;
	int r = psid_start(&psid, config);

	if (r < 0)
		return r;
	psid_daemon_ready();
	psid_run(&psid);
	return 0;
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	static struct psid_config config;
	int r;

	psid_log_init(PSID_INFO);
	r = parse_options(argc, argv, &options);
	if (r != 0)
		return r < 0 ? EXIT_FAILURE : said_all("psid", EXIT_SUCCESS, EXIT_FAILURE);
	if ((options.daemonize && name_absolutely(&options) < 0) || load(&options, &config) < 0)
		return EXIT_FAILURE;
	if (options.check)
		return said_all("psid", check(&options, &config), EXIT_FAILURE);
	if (options.system && geteuid() != 0) {
		psid_log(PSID_ERROR, "--system is for root");
		return EXIT_FAILURE;
	}
	if (!has_descriptors())
		return EXIT_FAILURE;
	if (options.daemonize && (r = psid_daemonize(&config)) != 0)
		return r > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	r = serve(&config);
	if (r == -EBUSY)
		psid_log(options.daemonize ? PSID_DEBUG : PSID_ERROR, "another psid serves %s",
			 config.socket);
	return psid_daemon_status(r);
}
