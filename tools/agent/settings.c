/*
 * What pulcrun says: settings of psid.conf(5) as PULC_NAME=value, a line each, the cluster's key as
 * key=HEXADECIMAL, and an empty line at the end. The settings that the user has for his own psid
 * must not count here: his variables are left out, and his file is not read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "cleanup.h"
#include "key.h"

#define SIZE_LINE 512
#define SIZE_PATH (AGENT_SIZE_DIR + 16)

extern char **environ;

static void forget_settings(void)
{
	char name[64];
	char **variable = environ;

	while (*variable) {
		size_t len = strcspn(*variable, "=");

		if (strncmp(*variable, "PULC_", 5) != 0 || len >= sizeof(name)) {
			variable++;
			continue;
		}
		memcpy(name, *variable, len);
		name[len] = '\0';
		(void)unsetenv(name);
	}
	(void)unsetenv("LD_PRELOAD");
	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("LISTEN_FDS");
}

/* Byte by byte: what comes behind the empty line is not ours to take. Returns 1; 0: the end. */
static int read_line(char line[SIZE_LINE])
{
	size_t n = 0;
	ssize_t got;

	while (n < SIZE_LINE - 1) {
		do
			got = read(STDIN_FILENO, &line[n], 1);
		while (got < 0 && errno == EINTR);
		if (got <= 0)
			return 0;
		if (line[n] == '\n') {
			line[n] = '\0';
			return 1;
		}
		n++;
	}
	return -EBADMSG;
}

static int parse_key(const char *text, uint8_t key[WIRE_SIZE_KEY])
{
	if (strlen(text) != (size_t)WIRE_SIZE_KEY * 2)
		return -EBADMSG;
	for (size_t i = 0; i < WIRE_SIZE_KEY; i++)
		if (sscanf(text + 2 * i, "%2hhx", &key[i]) != 1)
			return -EBADMSG;
	return 0;
}

static int write_key(const struct folder *folder, const char *text)
{
	CLEANUP_FD int fd = -EBADF;
	struct wire_keys keys = { .n = 1 };
	char path[SIZE_PATH];
	int r = parse_key(text, keys.keys[0]);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%s/key", folder->path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : wire_keys_write(path, &keys);
	explicit_bzero(&keys, sizeof(keys));
	if (r == 0 && setenv("PULC_CLUSTER_KEY_FILE", path, 1) < 0)
		r = -errno;
	return r;
}

static int take(const struct folder *folder, char *line)
{
	char *equals = strchr(line, '=');

	if (!equals)
		return -EBADMSG;
	*equals = '\0';
	if (strcmp(line, "key") == 0)
		return write_key(folder, equals + 1);
	if (strncmp(line, "PULC_", 5) != 0)
		return -EBADMSG;
	return setenv(line, equals + 1, 1) < 0 ? -errno : 0;
}

int settings_read(const struct folder *folder)
{
	char line[SIZE_LINE], socket[SIZE_PATH];
	int r, taken = 0;

	forget_settings();
	while ((r = read_line(line)) > 0 && *line && taken == 0)
		taken = take(folder, line);
	explicit_bzero(line, sizeof(line));
	(void)snprintf(socket, sizeof(socket), "%s/psid.sock", folder->path);
	if (setenv("PULC_RUNTIME_DIR", folder->path, 1) < 0 || setenv("PULC_SOCKET", socket, 1) < 0)
		return -errno;
	return taken < 0 ? taken : r > 0 ? 0 : r == 0 ? 1 : r;
}
