/*
 * agent: a private psid on one node, for as long as a pulcrun wants it (docs/allocations.md).
 *
 * 	agent [NODE-VARIABLE LAUNCHER-VARIABLE]
 *
 * pulcrun has it started, on the nodes by the scheduler that the nodes come from, and speaks to it
 * through its standard input: what the psid is to be like, and by its end that all is over. So
 * nothing is left running however pulcrun ends. The agent speaks through its standard output: "at
 * ADDRESS" before it is told anything, the address of the machine it was started from as seen from
 * here, and "ready SOCKET" once its psid can be spoken to. Both come from variables of the
 * environment whose names pulcrun knows; without them it says nothing of where.
 *
 * SIGTERM is what a scheduler sends when the time is up: the psid ends, and the run folder is gone
 * before SIGKILL comes; jobs, which need neither, have what time there is. Signals that a scheduler
 * sends to all processes of a job are not for us.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent.h"
#include "cleanup.h"
#include "macros.h"

/* The first word of a variable; NULL: there is none. */
static const char *word_of(const char *name)
{
	static char word[128];
	const char *value = getenv(name);

	if (!value || !*value)
		return NULL;
	(void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(value, " "), value);
	return word;
}

static int say(const char *what, const char *value)
{
	(void)printf("%s %s\n", what, value);
	return fflush(stdout) == 0 ? 0 : -EPIPE;
}

static int fail(const char *what, int r)
{
	(void)fprintf(stderr, "pulc agent: %s: %s\n", what, strerror(-r));
	return r;
}

static int catch_signals(void)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE };
	sigset_t set;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static void take_signals(int fd, struct daemon *daemon, struct folder *folder)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGTERM)
			continue;
		daemon_stop(daemon);
		folder_remove(folder);
	}
	if (daemon_reap(daemon) < 0)
		(void)fail("psid", -ECHILD);
}

/* Until standard input ends. */
static void serve(int signals, struct daemon *daemon, struct folder *folder)
{
	struct pollfd fds[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				 { .fd = signals, .events = POLLIN } };
	char byte;

	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return;
		if (fds[1].revents)
			take_signals(signals, daemon, folder);
		if (fds[0].revents && read(STDIN_FILENO, &byte, 1) <= 0)
			return;
	}
}

static int lodge(int signals, struct folder *folder)
{
	struct daemon daemon = { 0 };
	int r = daemon_start(&daemon);

	if (r == 0)
		r = daemon_await(&daemon);
	if (r < 0) {
		daemon_stop(&daemon);
		return fail("psid can't be started", r);
	}
	(void)say("ready", getenv("PULC_SOCKET"));
	serve(signals, &daemon, folder);
	daemon_await_jobs(&daemon);
	daemon_stop(&daemon);
	daemon_kill_all();
	return 0;
}

/* Who we are, and what pulcrun must know before it can say anything. */
static int introduce(int argc, char **argv, char *node, size_t size)
{
	const char *name = argc > 2 ? word_of(argv[1]) : NULL, *launcher;

	(void)snprintf(node, size, "%s", name ? name : "");
	launcher = argc > 2 ? word_of(argv[2]) : NULL;
	if (argc > 2 && (!name || !launcher))
		return fail("the scheduler does not say where we are", -ENOENT);
	return launcher ? say("at", launcher) : 0;
}

int main(int argc, char **argv)
{
	CLEANUP_FD int signals = catch_signals();
	struct folder folder = { .fd = -EBADF };
	char node[128];
	int r;

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (signals < 0 || introduce(argc, argv, node, sizeof(node)) < 0)
		return EXIT_FAILURE;
	r = folder_make(&folder);
	if (r < 0) {
		(void)fail("a folder in /tmp", r);
		return EXIT_FAILURE;
	}
	r = settings_read(&folder);
	if (r == 0 && *node && setenv("PULC_NODE_NAME", node, 1) < 0)
		r = -errno;
	if (r < 0)
		(void)fail("standard input", r);
	if (r == 0)
		r = lodge(signals, &folder);
	folder_remove(&folder);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
