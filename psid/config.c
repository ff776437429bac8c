/*
 * Reading settings: lines of Name=value, # for comments, as in psid.conf(5). Each wrong line is
 * named by file and number; the first one ends psid's start. A setting's environment variable
 * wins over the file, so that tests and single users need no file.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cleanup.h"
#include "log.h"
#include "macros.h"
#include "paths.h"
#include "setting.h"
#include "variables.h"

#define SIZE_FILE_MAX 65536
#define STATE_DIR_SYSTEM "/var/lib/pulc"

/* A quarter of what psid may have of each user of the system's; a private one is for one user. */
static uint32_t n_descriptors_user(bool system)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return PSID_N_DESCRIPTORS_MAX;
	return (uint32_t)MIN(system ? l.rlim_max / 4 : l.rlim_max, PSID_N_DESCRIPTORS_MAX);
}

void psid_config_init(struct psid_config *config, bool system)
{
	uint64_t size_memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	*config = (struct psid_config){
		.system = system,
		.log_level = PSID_INFO,
		.sec_idle_exit = system ? 0 : 60,
		.msec_hand_over = 1000,
		.gid_operators = PSID_GID_DEFAULT,
		.max_processes = 16384,
		.max_clients_user = 4096,
		.max_areas_user = 65536,
		.max_descriptors_user = n_descriptors_user(system),
		.max_bytes_user = size_memory / 2,
		.max_bytes = size_memory / 4 * 3,
		.max_hints_client = 16384, /* ten thousand connections between two processes fit */
		.hint_after = 4,
		.size_credit = 32 << 20,
		.size_ring = { 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20 },
		.n_slots = 64,
	};
	psid_cluster_config_init(&config->cluster);
}

static const struct psid_setting *find_setting(const char *name)
{
	for (size_t i = 0; i < psid_n_settings; i++)
		if (strcmp(psid_settings[i].name, name) == 0)
			return &psid_settings[i];
	return NULL;
}

static const char *nth_name(size_t i)
{
	return i < psid_n_settings ? psid_settings[i].name : NULL;
}

static int fail_unknown(const char *name, char *why, size_t size_why)
{
	const char *meant = wire_name_meant(name, nth_name);

	(void)snprintf(why, size_why, "unknown setting \"%.40s\"%s%s%s", name, meant ? " (" : "",
		       meant ? meant : "", meant ? "?)" : "");
	return -EINVAL;
}

static char *strip(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

/* One line, which it may scribble on. */
static int parse_line(struct psid_config *config, char *line, unsigned number, char *why,
		      size_t size_why)
{
	const struct psid_setting *s;
	const char *reason;
	char *name, *value;

	line = strip(line);
	if (*line == '\0' || *line == '#')
		return 0;
	value = strchr(line, '=');
	if (!value) {
		(void)snprintf(why, size_why, "expected Name=value");
		return -EINVAL;
	}
	*value++ = '\0';
	name = strip(line);
	value = strip(value);
	s = find_setting(name);
	if (!s)
		return fail_unknown(name, why, size_why);
	config->lines[s - psid_settings] = (uint16_t)MIN(number, PSID_LINE_ENVIRONMENT - 1u);
	if (s->parse(s, config, value, &reason) == 0)
		return 0;
	(void)snprintf(why, size_why, "%s=%.60s: %s", name, value, reason);
	return -EINVAL;
}

int psid_config_parse(struct psid_config *config, const char *name, const char *text, size_t len,
		      struct psid_config_error *ret_error)
{
	const char *end = text + len;
	char line[1024], why[160];

	(void)snprintf(config->read_from, sizeof(config->read_from), "%.80s", name);
	for (unsigned number = 1; text < end; number++) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t len_line = (size_t)((newline ? newline : end) - text);
		int r = -EINVAL;

		(void)snprintf(why, sizeof(why), "line too long, or not text");
		if (len_line < sizeof(line) && !memchr(text, '\0', len_line)) {
			memcpy(line, text, len_line);
			line[len_line] = '\0';
			r = parse_line(config, line, number, why, sizeof(why));
		}
		if (r < 0) {
			(void)snprintf(ret_error->text, sizeof(ret_error->text), "%.80s:%u: %s",
				       name, number, why);
			return r;
		}
		text += len_line + 1;
	}
	return 0;
}

int psid_config_read(struct psid_config *config, const char *path,
		     struct psid_config_error *ret_error)
{
	CLEANUP_FREE char *text = malloc(SIZE_FILE_MAX);
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t len = 0;
	ssize_t n = -1;

	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	while (text && fd >= 0 && (n = read(fd, text + len, SIZE_FILE_MAX - len)) > 0)
		len += (size_t)n;
	if (n == 0 && len < SIZE_FILE_MAX)
		return psid_config_parse(config, path, text, len, ret_error);
	(void)snprintf(ret_error->text, sizeof(ret_error->text), "%.120s: %s", path,
		       n == 0 ? "too large" : strerror(errno));
	return n == 0 ? -EINVAL : -errno;
}

int psid_config_environment(struct psid_config *config, struct psid_config_error *ret_error)
{
	for (size_t i = 0; i < psid_n_settings; i++) {
		const struct psid_setting *s = &psid_settings[i];
		const char *value, *why;
		char name[64];

		psid_setting_variable(s, name, sizeof(name));
		value = secure_getenv(name);
		if (!value || !*value)
			continue;
		config->lines[i] = PSID_LINE_ENVIRONMENT;
		if (s->parse(s, config, value, &why) == 0)
			continue;
		(void)snprintf(ret_error->text, sizeof(ret_error->text), "%s=%.60s: %s", name,
			       value, why);
		return -EINVAL;
	}
	return 0;
}

/* "psid.conf:12: " or "PULC_FOO_BAR: ": where the setting of that name was given. */
static const char *where(const struct psid_config *config, const char *name, char *buf, size_t size)
{
	const struct psid_setting *s = find_setting(name);
	unsigned line = s ? config->lines[s - psid_settings] : 0;

	buf[0] = '\0';
	if (line == PSID_LINE_ENVIRONMENT) {
		psid_setting_variable(s, buf, size);
		(void)strncat(buf, ": ", size - strlen(buf) - 1);
	} else if (line > 0) {
		(void)snprintf(buf, size, "%s:%u: ", config->read_from, line);
	}
	return buf;
}

static int check_together(const struct psid_config *config, struct psid_config_error *ret_error)
{
	const char *setting;
	const char *wrong = psid_cluster_config_check(&config->cluster, &setting);
	char at[PSID_SIZE_PATH + 16];

	if (!wrong)
		return 0;
	(void)snprintf(ret_error->text, sizeof(ret_error->text), "%s%s",
		       where(config, setting, at, sizeof(at)), wrong);
	return -EINVAL;
}

int psid_config_finish(struct psid_config *config, struct psid_config_error *ret_error)
{
	size_t size = sizeof(config->socket);
	int n, r = check_together(config, ret_error);

	if (r < 0)
		return r;
	if (!config->state_dir[0] && config->system && !config->runtime_dir[0])
		(void)strcpy(config->state_dir, STATE_DIR_SYSTEM);
	if (!config->runtime_dir[0])
		r = wire_runtime_dir(config->system, config->runtime_dir, size);
	if (r == 0 && !config->socket[0]) {
		n = snprintf(config->socket, size, "%s/%s", config->runtime_dir, WIRE_SOCKET_NAME);
		r = (size_t)n >= size ? -ENAMETOOLONG : 0;
	}
	if (!config->state_dir[0])
		(void)strcpy(config->state_dir, config->runtime_dir);
	if (r < 0)
		(void)snprintf(ret_error->text, sizeof(ret_error->text),
			       "the path of the socket is too long: %s/%s", config->runtime_dir,
			       WIRE_SOCKET_NAME);
	return r;
}

bool psid_config_allows(const struct psid_config *config, uid_t uid)
{
	if (config->n_users == 0)
		return config->system || uid == geteuid() || uid == 0;
	for (uint32_t i = 0; i < config->n_users; i++)
		if (uid >= config->users[i].first && uid <= config->users[i].last)
			return true;
	return false;
}
