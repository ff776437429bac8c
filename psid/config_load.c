/*
 * Where settings come from: defaults, then the file that was named or the usual one, then the
 * environment. At the start and at each reload alike.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "log.h"
#include "operator.h"
#include "variables.h"

void psid_config_usual(bool system, char *buf, size_t size)
{
	const char *dir = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (system)
		(void)snprintf(buf, size, "/etc/pulc/psid.conf");
	else if (dir && dir[0] == '/')
		(void)snprintf(buf, size, "%s/pulc/psid.conf", dir);
	else
		(void)snprintf(buf, size, "%s/.config/pulc/psid.conf", home ? home : "");
}

/* The file that was named must be there; the usual one need not, or be for us to read. */
static int load_file(struct psid_config *config, struct psid_config_error *ret_error)
{
	char path[512];
	int r;

	if (config->file) {
		r = psid_config_read(config, config->file, ret_error);
		if (r == -ENOENT)
			(void)snprintf(ret_error->text, sizeof(ret_error->text),
				       "%.120s: no such file", config->file);
		return r;
	}
	psid_config_usual(config->system, path, sizeof(path));
	r = psid_config_read(config, path, ret_error);
	if (r == -EACCES)
		psid_log(PSID_WARNING, "%s", ret_error->text);
	return r == -EACCES || r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

/* What is near to none may be meant for somebody else. */
static void say_misspelt(void *context, const char *name, const char *meant)
{
	struct psid_config *config = context;

	if (!meant)
		return;
	psid_log(PSID_WARNING, "%s: unknown variable (%s?): passed over", name, meant);
	config->n_misspelt++;
}

int psid_config_load(bool system, const char *file, struct psid_config *ret_config,
		     struct psid_config_error *ret_error)
{
	int r;

	psid_config_init(ret_config, system);
	ret_config->file = file;
	wire_variables_check(say_misspelt, ret_config);
	r = load_file(ret_config, ret_error);
	if (r == 0)
		r = psid_config_environment(ret_config, ret_error);
	if (r == 0)
		r = psid_config_finish(ret_config, ret_error);
	if (r == 0)
		psid_operators_default(ret_config);
	return r;
}
