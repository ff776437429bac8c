/*
 * Errors of a conversation with psid, each in one line that names the socket and says what to do.
 */
#include "say.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "paths.h"
#include "reply.h"
#include "text.h"

#define SIZE_SOCKET_PATH sizeof(((struct sockaddr_un *)0)->sun_path)

/* What is wrong with a socket that no psid of ours answers at; "": it is not there. */
static const char *fault_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? "" : strerror(errno);
	if (!S_ISSOCK(st.st_mode))
		return "no socket";
	return st.st_uid != 0 && st.st_uid != geteuid() ? "another user's" : "nobody answers";
}

static bool is_among(const char *path, char list[][SIZE_SOCKET_PATH], unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(list[i], path) == 0)
			return true;
	return false;
}

static void say_where_looked(void)
{
	char paths[WIRE_N_CANDIDATES][SIZE_SOCKET_PATH];
	unsigned n = 0;

	for (unsigned i = 0; i < WIRE_N_CANDIDATES; i++) {
		const char *fault;
		int r = wire_candidate(i, paths[n], SIZE_SOCKET_PATH);

		if (r == -ENAMETOOLONG)
			fprintf(stderr,
				"  not looked where XDG_RUNTIME_DIR says: a socket's path has at "
				"most %zu bytes\n",
				SIZE_SOCKET_PATH - 1);
		if (r < 0 || is_among(paths[n], paths, n))
			continue;
		fault = fault_of(paths[n]);
		fprintf(stderr, "  looked for %s%s%s\n", paths[n], *fault ? ": " : "", fault);
		n++;
	}
}

static int say_refused(const struct ctl_psid *psid)
{
	const Pulc__Wire__Refuse *refusal = ctl_refusal(psid);
	char reason[64] = "", text[512] = "no reason given";

	if (refusal) {
		(void)ctl_text_enum(&pulc__wire__reason__descriptor, (int)refusal->reason, reason,
				    sizeof(reason));
		(void)ctl_text_plain(refusal->text, text, sizeof(text));
	}
	fprintf(stderr, "pulcctl: psid at %s refused%s: %s (%s)\n", psid->path,
		refusal && refusal->reason == PULC__WIRE__REASON__REASON_VERSION
			? " pulcctl " PULC_VERSION
			: "",
		text, reason);
	/* Ending: it is as good as gone. */
	return refusal && refusal->reason == PULC__WIRE__REASON__REASON_SHUTDOWN ? EXIT_NO_PSID
										 : EXIT_REFUSED;
}

int ctl_say_error(const struct ctl_psid *psid, int r)
{
	switch (r) {
	case -ENOENT:
		fputs("pulcctl: no psid runs here. Start one with `psid --daemonize`, or run a "
		      "program with `pulc PROGRAM`.\n",
		      stderr);
		say_where_looked();
		return EXIT_NO_PSID;
	case -EPERM:
		fputs("pulcctl: only psids of other users run here. Start your own with `psid "
		      "--daemonize`.\n",
		      stderr);
		say_where_looked();
		return EXIT_NO_PSID;
	case -ETIMEDOUT:
		fprintf(stderr, "pulcctl: psid at %s does not answer\n", psid->path);
		return EXIT_NO_PSID;
	case -EPIPE:
		fprintf(stderr, "pulcctl: psid at %s ended the conversation\n", psid->path);
		return EXIT_NO_PSID;
	case -ECONNREFUSED:
		return say_refused(psid);
	case -EBADMSG:
		fprintf(stderr,
			"pulcctl: psid at %s sent a message that makes no sense; are psid and "
			"pulcctl of one version?\n",
			psid->path);
		return EXIT_REFUSED;
	default:
		fprintf(stderr, "pulcctl: %s\n", strerror(-r));
		return EXIT_REFUSED;
	}
}

void ctl_say_silent(const struct ctl_replies *replies)
{
	for (size_t i = 0; i < replies->n; i++) {
		char text[80];
		size_t n;
		char *const *names = ctl_reply_silent(replies->items[i], &n);

		for (size_t k = 0; k < n; k++)
			fprintf(stderr, "pulcctl: node %s does not answer\n",
				ctl_text_plain(names[k], text, sizeof(text)));
	}
}
