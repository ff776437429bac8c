/*
 * The table of settings, and the few kinds of values they have: numbers, sizes (512K, 64M, 2G, or
 * 50% of this machine's memory), paths, levels, ring sizes, groups and lists of users.
 *
 * Names of users and groups are looked up here, never in the loop: a name service may block.
 */
#include "setting.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "macros.h"
#include "metrics.h"

static void *field(const struct psid_setting *s, struct psid_config *config)
{
	return (char *)config + s->offset;
}

/* Digits up to the end or to *ret_rest. */
static int parse_number(const char *text, uint64_t *ret_value, const char **ret_rest)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	*ret_value = strtoull(text, &end, 10);
	*ret_rest = end;
	return errno ? -EINVAL : 0;
}

static uint64_t size_memory(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int parse_size(const char *text, uint64_t *ret_size)
{
	static const char units[] = "KMGT";
	const char *rest, *unit;
	uint64_t value;

	if (parse_number(text, &value, &rest) < 0)
		return -EINVAL;
	if (strcmp(rest, "%") == 0) {
		if (value > 100)
			return -EINVAL;
		*ret_size = size_memory() / 100 * value;
		return 0;
	}
	if (*rest && (unit = strchr(units, toupper((unsigned char)*rest)))) {
		unsigned shift = 10 * (unsigned)(unit - units + 1);

		if (value > UINT64_MAX >> shift)
			return -EINVAL;
		value <<= shift;
		rest++;
	}
	*ret_size = value;
	return *rest ? -EINVAL : 0;
}

static int number(const struct psid_setting *s, struct psid_config *config, const char *text,
		  const char **ret_why)
{
	const char *rest;
	uint64_t value;

	*ret_why = "expected a whole number, with nothing before or behind it";
	if (parse_number(text, &value, &rest) < 0 || *rest)
		return -EINVAL;
	*ret_why = value < s->min ? "too small" : "too large";
	if (value < s->min || value > s->max)
		return -EINVAL;
	*(uint32_t *)field(s, config) = (uint32_t)value;
	return 0;
}

static int size(const struct psid_setting *s, struct psid_config *config, const char *text,
		const char **ret_why)
{
	uint64_t value;

	*ret_why = "expected a size such as 64M, 2G or 50%";
	if (parse_size(text, &value) < 0)
		return -EINVAL;
	*ret_why = value < s->min ? "too small" : "too large";
	if (value < s->min || value > s->max)
		return -EINVAL;
	*(uint64_t *)field(s, config) = value;
	return 0;
}

static int path(const struct psid_setting *s, struct psid_config *config, const char *text,
		const char **ret_why)
{
	*ret_why = text[0] == '/' ? "path too long" : "expected an absolute path";
	if (text[0] != '/' || strlen(text) >= PSID_SIZE_PATH)
		return -EINVAL;
	(void)strcpy(field(s, config), text);
	return 0;
}

static int level(const struct psid_setting *s, struct psid_config *config, const char *text,
		 const char **ret_why)
{
	static const enum psid_level levels[] = { PSID_ERROR, PSID_WARNING, PSID_INFO, PSID_DEBUG };

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		if (strcmp(text, psid_level_name(levels[i])) == 0) {
			*(uint32_t *)field(s, config) = levels[i];
			return 0;
		}
	*ret_why = "expected error, warning, info or debug";
	return -EINVAL;
}

static int scope(const struct psid_setting *s, struct psid_config *config, const char *text,
		 const char **ret_why)
{
	static const char *const words[] = {
		[PSID_SCOPE_AUTO] = "auto",
		[PSID_SCOPE_YES] = "yes",
		[PSID_SCOPE_NO] = "no",
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(text, words[i]) == 0) {
			*(uint32_t *)field(s, config) = i;
			return 0;
		}
	*ret_why = "expected auto, yes or no";
	return -EINVAL;
}

/* Cuts the next word off *text, or NULL. */
static char *next_word(char **text)
{
	return strtok_r(NULL, " \t,", text);
}

static int rings(const struct psid_setting *s, struct psid_config *config, const char *text,
		 const char **ret_why)
{
	uint32_t sizes[SHM_N_RINGS];
	char copy[128], *rest = copy, *word;
	uint64_t value;
	size_t n = 0;

	*ret_why = "expected five powers of two from 64 to 64M, each larger than the one before";
	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return -EINVAL;
	while ((word = next_word(&rest))) {
		if (n == SHM_N_RINGS || parse_size(word, &value) < 0 || !is_power_of_two(value) ||
		    value < s->min || value > s->max || (n > 0 && value <= sizes[n - 1]))
			return -EINVAL;
		sizes[n++] = (uint32_t)value;
	}
	if (n < SHM_N_RINGS)
		return -EINVAL;
	memcpy(field(s, config), sizes, sizeof(sizes));
	return 0;
}

/* "*", "1000", "1000-1999" or a name. */
static int parse_user(const char *word, struct psid_uid_range *ret_range)
{
	struct passwd entry, *found = NULL;
	char buf[4096];
	uint64_t first, last;
	const char *rest;

	if (strcmp(word, "*") == 0) {
		*ret_range = (struct psid_uid_range){ 0, UINT32_MAX };
		return 0;
	}
	if (parse_number(word, &first, &rest) == 0) {
		last = first;
		if (*rest == '-' && parse_number(rest + 1, &last, &rest) < 0)
			return -EINVAL;
		if (*rest || first > last || last > UINT32_MAX)
			return -EINVAL;
		*ret_range = (struct psid_uid_range){ (uid_t)first, (uid_t)last };
		return 0;
	}
	(void)getpwnam_r(word, &entry, buf, sizeof(buf), &found);
	if (!found)
		return -EINVAL;
	*ret_range = (struct psid_uid_range){ entry.pw_uid, entry.pw_uid };
	return 0;
}

static int users(const struct psid_setting *s, struct psid_config *config, const char *text,
		 const char **ret_why)
{
	char copy[1024], *rest = copy, *word;
	uint32_t n = 0;

	(void)s;
	*ret_why = "too many users";
	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return -EINVAL;
	while ((word = next_word(&rest))) {
		if (n == PSID_N_USERS_MAX)
			return -EINVAL;
		*ret_why = "expected users of this machine: names, numbers, ranges such as "
			   "1000-1999, or *";
		if (parse_user(word, &config->users[n++]) < 0)
			return -EINVAL;
	}
	config->n_users = n;
	return 0;
}

static int group(const struct psid_setting *s, struct psid_config *config, const char *text,
		 const char **ret_why)
{
	struct group entry, *found = NULL;
	char buf[16384];
	const char *rest;
	uint64_t gid;

	*ret_why = "expected the name or the number of a group of this machine, or none";
	if (strcmp(text, "none") == 0) {
		gid = PSID_GID_NONE;
	} else if (parse_number(text, &gid, &rest) == 0) {
		if (*rest || gid > s->max)
			return -EINVAL;
	} else {
		(void)getgrnam_r(text, &entry, buf, sizeof(buf), &found);
		if (!found)
			return -EINVAL;
		gid = entry.gr_gid;
	}
	*(uint32_t *)field(s, config) = (uint32_t)gid;
	return 0;
}

/* "9547" is of this machine only, "10.0.0.1:9547" and "[::]:9547" are not. */
static int metrics(const struct psid_setting *s, struct psid_config *config, const char *text,
		   const char **ret_why)
{
	struct psid_address address = { 0 };
	char local[32];

	(void)s;
	*ret_why =
		"expected a port, an address with a port, or off: 9547, 10.0.0.1:9547, [::1]:9547";
	if (text[0] && strspn(text, "0123456789") == strlen(text)) {
		(void)snprintf(local, sizeof(local), "127.0.0.1:%s", text);
		text = local;
	}
	if (strcmp(text, "off") != 0 && psid_address_parse(text, PSID_METRICS_PORT, &address) < 0)
		return -EINVAL;
	config->metrics = address;
	return 0;
}

#define SETTING(n, kind, member, lo, hi)                                                           \
	{                                                                                          \
		.name = n, .parse = kind, .offset = offsetof(struct psid_config, member),          \
		.min = lo, .max = hi                                                               \
	}

const struct psid_setting psid_settings[] = {
	SETTING("RuntimeDir", path, runtime_dir, 0, 0),
	SETTING("Socket", path, socket, 0, 0),
	SETTING("StateDir", path, state_dir, 0, 0),
	SETTING("Starter", path, starter, 0, 0),
	SETTING("JobScope", scope, job_scope, 0, 0),
	SETTING("LogLevel", level, log_level, 0, 0),
	SETTING("IdleExitSec", number, sec_idle_exit, 0, 1000000),
	SETTING("HandOverMsec", number, msec_hand_over, 10, 60000),
	SETTING("AllowUsers", users, users, 0, 0),
	SETTING("OperatorGroup", group, gid_operators, 0, PSID_GID_DEFAULT - 1),
	SETTING("MaxProcesses", number, max_processes, 0, 1000000),
	SETTING("MaxClientsPerUser", number, max_clients_user, 0, 1000000),
	SETTING("MaxAreasPerUser", number, max_areas_user, 0, 10000000),
	SETTING("MaxDescriptorsPerUser", number, max_descriptors_user, 0, PSID_N_DESCRIPTORS_MAX),
	SETTING("MaxBytesPerUser", size, max_bytes_user, 0, UINT64_MAX),
	SETTING("MaxBytes", size, max_bytes, 0, UINT64_MAX),
	SETTING("MaxHintsPerClient", number, max_hints_client, 1, 1000000),
	SETTING("HintAfter", number, hint_after, 0, 1000000),
	SETTING("CreditInitial", size, size_credit, 0, 1ull << 40),
	SETTING("RingSizes", rings, size_ring, SHM_RING_SIZE_MIN, SHM_RING_SIZE_MAX),
	SETTING("SlotsPerSlab", number, n_slots, 1, SHM_SLOTS_MAX),
	SETTING("Metrics", metrics, metrics, 0, 0),
	SETTING("ClusterName", psid_setting_cluster_name, cluster, 0, 0),
	SETTING("ClusterKeyFile", path, cluster.key_file, 0, 0),
	SETTING("ClusterSeeds", psid_setting_seeds, cluster, 0, 0),
	SETTING("ClusterNodes", psid_setting_nodes, cluster, 0, 0),
	SETTING("ClusterAddress", psid_setting_address, cluster, 0, 0),
	SETTING("ClusterProbeMsec", number, cluster.msec_probe, 20, 60000),
	SETTING("ClusterCertificate", path, cluster.certificate, 0, 0),
	SETTING("ClusterCertificateKey", path, cluster.certificate_key, 0, 0),
	SETTING("ClusterAuthority", path, cluster.authority, 0, 0),
	SETTING("NodeName", psid_setting_node_name, cluster, 0, 0),
	SETTING("LoadFrom", path, cluster.load_from, 0, 0),
};
const size_t psid_n_settings = ARRAY_SIZE(psid_settings);
static_assert(ARRAY_SIZE(psid_settings) <= PSID_N_SETTINGS_MAX, "psid_config has a line for each");

void psid_setting_variable(const struct psid_setting *s, char *buf, size_t size_buf)
{
	size_t n = (size_t)snprintf(buf, size_buf, "PULC");

	for (const char *p = s->name; *p && n + 2 < size_buf; p++) {
		if (isupper((unsigned char)*p))
			buf[n++] = '_';
		buf[n++] = (char)toupper((unsigned char)*p);
	}
	buf[n] = '\0';
}
