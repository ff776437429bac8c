/* A psid for a test, in a folder of its own. READY comes by NOTIFY_SOCKET: nobody sleeps. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "macros.h"

#include "psid/fake_client.h"

#define MSEC_PATIENCE 10000

static int notify_socket(const char *dir, struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(address->sun_path, sizeof(address->sun_path), "%s/notify", dir);
	(void)unlink(address->sun_path);
	REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)address, sizeof(*address)) == 0);
	return fd;
}

static void run_psid(const struct daemon *d, bool system, const char *const settings[],
		     const char *notify)
{
	const char *build = getenv("PULC_BUILD");
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/bin/psid", build ? build : "build");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)unsetenv("PULC_SOCKET");
	(void)unsetenv("LD_PRELOAD");
	(void)setenv("PULC_RUNTIME_DIR", d->dir, 1);
	(void)setenv("XDG_CONFIG_HOME", d->dir, 1); /* nobody's own settings */
	(void)setenv("NOTIFY_SOCKET", notify, 1);
	(void)setenv("PULC_LOG_LEVEL", "error", 0);
	for (; settings && *settings; settings++)
		(void)putenv((char *)*settings);
	(void)execl(path, path, system ? "--system" : "--foreground", (char *)NULL);
	_exit(127);
}

void daemon_run(struct daemon *d, bool system, const char *const settings[])
{
	struct sockaddr_un address;
	struct pollfd ready = { .events = POLLIN };
	char text[256] = "";

	ready.fd = notify_socket(d->dir, &address);
	d->pid = fork();
	REQUIRE(d->pid >= 0);
	if (d->pid == 0)
		run_psid(d, system, settings, address.sun_path);
	REQUIRE_INT(poll(&ready, 1, MSEC_PATIENCE), ==, 1);
	REQUIRE(recv(ready.fd, text, sizeof(text) - 1, 0) > 0);
	REQUIRE(strncmp(text, "READY=1", 7) == 0);
	(void)close(ready.fd);
}

void daemon_start(struct daemon *d, bool system, const char *const settings[])
{
	(void)snprintf(d->dir, sizeof(d->dir), "/tmp/pulc-psid-test.XXXXXX");
	REQUIRE(mkdtemp(d->dir) != NULL);
	REQUIRE(chmod(d->dir, system ? 0755 : 0700) == 0);
	(void)snprintf(d->socket, sizeof(d->socket), "%s/psid.sock", d->dir);
	daemon_run(d, system, settings);
}

void daemon_kill(struct daemon *d)
{
	(void)kill(d->pid, SIGKILL);
	(void)waitpid(d->pid, NULL, 0);
}

char daemon_state(const struct daemon *d)
{
	char path[64], state = '?';
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", d->pid);
	f = fopen(path, "re");
	REQUIRE(f);
	REQUIRE_INT(fscanf(f, "%*d (%*[^)]) %c", &state), ==, 1);
	(void)fclose(f);
	return state;
}

int daemon_wait(struct daemon *d)
{
	/* Ours, and what the next one is to find. */
	static const char *const kept[] = { "notify", "last-job", "partitions" };
	char path[96];
	int status = -1;

	(void)waitpid(d->pid, &status, 0);
	CHECK_INT(access(d->socket, F_OK), ==, -1);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", d->dir, kept[i]);
		(void)unlink(path);
	}
	CHECK_INT(rmdir(d->dir), ==, 0); /* nothing else is left in it */
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int daemon_stop(struct daemon *d)
{
	(void)kill(d->pid, SIGTERM);
	return daemon_wait(d);
}

unsigned daemon_n_open(const struct daemon *d)
{
	unsigned n = 0;
	char path[64];
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", d->pid);
	dir = opendir(path);
	REQUIRE(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}
