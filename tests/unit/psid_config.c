/* Settings: what is read, what is refused, and where the error is said to be. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "harness.h"
#include "macros.h"
#include "operator.h"
#include "setting.h"
#include "variables.h"

static struct psid_config config;
static struct psid_config_error error;

static int parse(const char *text)
{
	psid_config_init(&config, false);
	return psid_config_parse(&config, "psid.conf", text, strlen(text), &error);
}

static void values_are_read(void)
{
	CHECK_INT(parse("# a comment\n"
			"\n"
			"  MaxProcesses =  12 \n"
			"MaxBytesPerUser=64M\n"
			"MaxBytes=1G\r\n"
			"RingSizes=64 256, 4096\t1M 2M\n"
			"LogLevel=debug\n"
			"AllowUsers=root 1000-1999,65534\n"
			"RuntimeDir=/run/somewhere\n"
			"Metrics=9547\n"
			"IdleExitSec=0"),
		  ==, 0);
	CHECK_INT(config.max_processes, ==, 12);
	CHECK_INT(config.max_bytes_user, ==, 64 << 20);
	CHECK_INT(config.max_bytes, ==, 1 << 30);
	CHECK_INT(config.size_ring[0], ==, 64);
	CHECK_INT(config.size_ring[4], ==, 2 << 20);
	CHECK_INT(config.log_level, ==, 7 /* as in syslog */);
	CHECK_INT(config.n_users, ==, 3);
	CHECK_INT(config.users[0].first, ==, 0);
	CHECK_INT(config.users[1].last, ==, 1999);
	CHECK_STR(config.runtime_dir, "/run/somewhere");
	CHECK_INT(config.sec_idle_exit, ==, 0);
	CHECK_INT(config.metrics.port, ==, 9547);
	CHECK_INT(config.metrics.ip[12], ==, 127);
	CHECK_INT(parse("Metrics=[::1]"), ==, 0);
	CHECK_INT(config.metrics.port, ==, 9547);
	CHECK_INT(parse("Metrics=9547\nMetrics=off"), ==, 0);
	CHECK_INT(config.metrics.port, ==, 0);
}

static void errors_name_their_line(void)
{
	static const struct {
		const char *text, *where, *what;
	} cases[] = {
		{ "MaxProcesses", "psid.conf:1:", "Name=value" },
		{ "\n\nNoSuch=1", "psid.conf:3:", "unknown setting \"NoSuch\"" },
		{ "MaxProcesses=many", "psid.conf:1:", "whole number" },
		{ "MaxProcesses=-1", "psid.conf:1:", "whole number" },
		{ "MaxProcesses=99999999999999999999999", "psid.conf:1:", "whole number" },
		{ "MaxProcesses=1000001", "psid.conf:1:", "too large" },
		{ "HandOverMsec=1", "psid.conf:1:", "too small" },
		{ "MaxBytes=64Q", "psid.conf:1:", "size" },
		{ "MaxBytes=101%", "psid.conf:1:", "size" },
		{ "MaxBytes=99999999999T", "psid.conf:1:", "size" },
		{ "RingSizes=4096 8192 16384 32768", "psid.conf:1:", "five powers" },
		{ "RingSizes=4096 8192 16384 32768 65536 131072", "psid.conf:1:", "five powers" },
		{ "RingSizes=4096 4096 8192 16384 32768", "psid.conf:1:", "five powers" },
		{ "RingSizes=32 64 128 256 512", "psid.conf:1:", "five powers" },
		{ "RingSizes=100 200 400 800 1600", "psid.conf:1:", "five powers" },
		{ "SlotsPerSlab=0", "psid.conf:1:", "too small" },
		{ "SlotsPerSlab=1025", "psid.conf:1:", "too large" },
		{ "RuntimeDir=relative", "psid.conf:1:", "absolute" },
		{ "Metrics=port", "psid.conf:1:", "expected a port" },
		{ "Metrics=0", "psid.conf:1:", "expected a port" },
		{ "LogLevel=loud", "psid.conf:1:", "warning" },
		{ "AllowUsers=no-such-user-here", "psid.conf:1:", "expected users" },
		{ "OperatorGroup=no-such-group-here", "psid.conf:1:", "expected the name" },
		{ "OperatorGroup=4294967294", "psid.conf:1:", "expected the name" },
		{ "AllowUsers=20-10", "psid.conf:1:", "expected users" },
		{ "=", "psid.conf:1:", "unknown setting" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_INT(parse(cases[i].text), ==, -EINVAL);
		CHECK(strncmp(error.text, cases[i].where, strlen(cases[i].where)) == 0);
		if (!strstr(error.text, cases[i].what))
			CHECK_STR(error.text, cases[i].what);
	}
}

/* Each may be right by itself. */
static void what_does_not_fit_names_its_line(void)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{ "\nClusterName=lab\n", "psid.conf:2: ClusterName needs ClusterKeyFile" },
		{ "ClusterSeeds=n1\n", "psid.conf:1: ClusterName is missing" },
		{ "ClusterNodes=n1=10.0.0.1\nClusterKeyFile=/key\n",
		  "psid.conf:2: ClusterName is missing" },
		{ "\n\nClusterAuthority=/a\n", "psid.conf:3: ClusterCertificate, " },
		{ "ClusterAuthority=/a\nClusterCertificate=/b\n",
		  "psid.conf:2: ClusterCertificate, " },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		REQUIRE_INT(parse(cases[i].text), ==, 0);
		CHECK_INT(psid_config_finish(&config, &error), ==, -EINVAL);
		if (strncmp(error.text, cases[i].expected, strlen(cases[i].expected)) != 0)
			CHECK_STR(error.text, cases[i].expected);
	}
	REQUIRE_INT(parse("ClusterName=lab\n"), ==, 0);
	REQUIRE_INT(setenv("PULC_CLUSTER_NAME", "lab", 1), ==, 0);
	REQUIRE_INT(psid_config_environment(&config, &error), ==, 0);
	CHECK_INT(psid_config_finish(&config, &error), ==, -EINVAL);
	CHECK(strncmp(error.text, "PULC_CLUSTER_NAME: ", 19) == 0);
	(void)unsetenv("PULC_CLUSTER_NAME");
}

static void nothing_odd_is_swallowed(void)
{
	static char text[5000];

	memset(text, 'a', sizeof(text) - 1);
	CHECK_INT(parse(text), ==, -EINVAL);
	psid_config_init(&config, false);
	CHECK_INT(psid_config_parse(&config, "x", "Max\0Processes=1", 15, &error), ==, -EINVAL);
}

static void files_are_read(void)
{
	char path[] = "/tmp/pulc-config-test.XXXXXX";
	int fd = mkstemp(path);

	REQUIRE(fd >= 0);
	REQUIRE(write(fd, "HintAfter=7\nHintAfter=x\n", 24) == 24);
	psid_config_init(&config, false);
	CHECK_INT(psid_config_read(&config, path, &error), ==, -EINVAL);
	CHECK(strstr(error.text, ":2: HintAfter=x") != NULL);
	CHECK_INT(config.hint_after, ==, 7);
	(void)unlink(path);
	CHECK_INT(psid_config_read(&config, path, &error), ==, -ENOENT);
	CHECK_INT(psid_config_read(&config, "/tmp", &error), ==, -EISDIR);
	(void)close(fd);
}

static unsigned n_unknown;

static void count_unknown(void *context, const char *name, const char *meant)
{
	(void)context;
	(void)meant;
	if (strcmp(name, "PULC_BUILD") != 0 && strcmp(name, "PULC_TEST_DIR") != 0)
		n_unknown++;
}

static const char *nth_name(size_t i)
{
	static const char *const names[] = { "MaxBytes", "MaxBytesPerUser", "RingSizes", "Socket" };

	return i < ARRAY_SIZE(names) ? names[i] : NULL;
}

static void what_is_meant_is_found(void)
{
	static const struct {
		const char *name, *meant;
	} cases[] = {
		{ "RingSize", "RingSizes" },
		{ "ringsizes", "RingSizes" },
		{ "PULC_RING_SIZES", "RingSizes" },
		{ "MaxByte", "MaxBytes" },
		{ "MaxBytesUser", "MaxBytesPerUser" },
		{ "MaxBytesPer", "MaxBytesPerUser" },
		{ "Scoket", "Socket" },
		{ "Ring", "RingSizes" },
		{ "Rin", NULL },
		{ "", NULL },
		{ "Build", NULL },
		{ "AnotherNameThatIsLongerThanAllOfThoseThatThereAreByFar", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *meant = wire_name_meant(cases[i].name, nth_name);

		CHECK_STR(meant ? meant : "none", cases[i].meant ? cases[i].meant : "none");
	}
}

/* The list of variables has each. */
static void variables_of_settings_are_known(void)
{
	char name[64];

	for (size_t i = 0; i < psid_n_settings; i++) {
		psid_setting_variable(&psid_settings[i], name, sizeof(name));
		(void)setenv(name, "", 0);
	}
	wire_variables_check(count_unknown, NULL);
	CHECK_INT(n_unknown, ==, 0);
	(void)setenv("PULC_NO_SUCH", "", 1);
	wire_variables_check(count_unknown, NULL);
	CHECK_INT(n_unknown, ==, 1);
	(void)unsetenv("PULC_NO_SUCH");
}

/* Every setting has its variable. */
static void environment_wins(void)
{
	char name[64];

	for (size_t i = 0; i < psid_n_settings; i++) {
		psid_setting_variable(&psid_settings[i], name, sizeof(name));
		CHECK(strncmp(name, "PULC_", 5) == 0);
		(void)unsetenv(name);
	}
	psid_setting_variable(&psid_settings[0], name, sizeof(name));
	CHECK_STR(name, "PULC_RUNTIME_DIR");
	(void)setenv("PULC_HINT_AFTER", "9", 1);
	CHECK_INT(parse("HintAfter=7"), ==, 0);
	CHECK_INT(psid_config_environment(&config, &error), ==, 0);
	CHECK_INT(config.hint_after, ==, 9);
	(void)setenv("PULC_HINT_AFTER", "nine", 1);
	CHECK_INT(psid_config_environment(&config, &error), ==, -EINVAL);
	CHECK(strstr(error.text, "PULC_HINT_AFTER=nine") != NULL);
	(void)unsetenv("PULC_HINT_AFTER");
}

/* From build/, or from a sanitizer's folder in it. */
static FILE *open_example(void)
{
	static const char *const ways[] = { "..", "../.." };
	const char *build = getenv("PULC_BUILD");
	FILE *f = NULL;

	for (size_t i = 0; !f && i < ARRAY_SIZE(ways); i++) {
		char path[512];

		(void)snprintf(path, sizeof(path), "%s/%s/psid/psid.conf", build ? build : "build",
			       ways[i]);
		f = fopen(path, "re");
	}
	return f;
}

static bool is_about(uint64_t a, uint64_t b)
{
	return MAX(a, b) - MIN(a, b) < 100;
}

static void the_example_is_right(void)
{
	static char text[65536];
	FILE *f = open_example();
	size_t len = 0;

	REQUIRE(f != NULL);
	/* The defaults are commented out: without the # they must be what psid has anyway. */
	while (fgets(text + len, (int)(sizeof(text) - len), f)) {
		char *line = text + len;

		if (line[0] == '#' && line[1] != ' ' && line[1] != '\n')
			memmove(line, line + 1, strlen(line));
		len += strlen(line);
	}
	(void)fclose(f);
	if (parse(text) < 0)
		CHECK_STR(error.text, "");
	for (size_t i = 0; i < psid_n_settings; i++)
		if (!strstr(text, psid_settings[i].name))
			CHECK_STR(psid_settings[i].name, "a setting of psid.conf");
	{
		struct psid_config defaults;

		psid_config_init(&defaults, false);
		CHECK_INT(config.max_processes, ==, defaults.max_processes);
		CHECK_INT(config.max_clients_user, ==, defaults.max_clients_user);
		CHECK_INT(config.max_areas_user, ==, defaults.max_areas_user);
		CHECK_INT(config.max_hints_client, ==, defaults.max_hints_client);
		CHECK_INT(config.hint_after, ==, defaults.hint_after);
		CHECK_INT(config.size_credit, ==, defaults.size_credit);
		CHECK_INT(config.n_slots, ==, defaults.n_slots);
		CHECK_INT(config.msec_hand_over, ==, defaults.msec_hand_over);
		CHECK_INT(config.sec_idle_exit, ==, defaults.sec_idle_exit);
		CHECK_MEM(config.size_ring, defaults.size_ring, sizeof(config.size_ring));
		/* Shares of the machine's memory, up to rounding. */
		CHECK(is_about(config.max_bytes_user, defaults.max_bytes_user));
		CHECK(is_about(config.max_bytes, defaults.max_bytes));
	}
}

static void users_are_allowed(void)
{
	uid_t self = geteuid();

	psid_config_init(&config, false);
	CHECK(psid_config_allows(&config, self));
	CHECK(psid_config_allows(&config, 0));
	CHECK(!psid_config_allows(&config, self + 12345));
	psid_config_init(&config, true);
	CHECK(psid_config_allows(&config, self + 12345));
	CHECK_INT(parse("AllowUsers=1000-1002 5"), ==, 0);
	CHECK(psid_config_allows(&config, 1002));
	CHECK(psid_config_allows(&config, 5));
	CHECK(!psid_config_allows(&config, 1003));
	CHECK_INT(parse("AllowUsers=*"), ==, 0);
	CHECK(psid_config_allows(&config, 4000000000u));
}

static void operators_are_a_group(void)
{
	psid_config_init(&config, false);
	psid_operators_default(&config);
	CHECK_INT(config.gid_operators, ==, PSID_GID_NONE); /* a private psid has its owner */
	CHECK_INT(parse("OperatorGroup=1234"), ==, 0);
	psid_operators_default(&config);
	CHECK_INT(config.gid_operators, ==, 1234);
	CHECK_INT(parse("OperatorGroup=root"), ==, 0);
	CHECK_INT(config.gid_operators, ==, 0);
	config.system = true;
	CHECK_INT(parse("OperatorGroup=none"), ==, 0);
	psid_operators_default(&config);
	CHECK_INT(config.gid_operators, ==, PSID_GID_NONE);
}

static const struct test tests[] = {
	TEST(values_are_read),
	TEST(errors_name_their_line),
	TEST(what_does_not_fit_names_its_line),
	TEST(nothing_odd_is_swallowed),
	TEST(files_are_read),
	TEST(what_is_meant_is_found),
	TEST(variables_of_settings_are_known),
	TEST(environment_wins),
	TEST(the_example_is_right),
	TEST(users_are_allowed),
	TEST(operators_are_a_group),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
