/*
 * Errors of a conversation with psid, each in one line that names the socket and says what to do.
 */
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "paths.h"
#include "reply.h"
#include "text.h"

static void say_where_looked(void)
{
	char path[128];

	for (unsigned i = 0; i < WIRE_N_CANDIDATES; i++)
		if (wire_candidate(i, path, sizeof(path)) == 0)
			fprintf(stderr, "  looked for %s\n", path);
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
	fprintf(stderr, "pulcctl: psid at %s refused: %s (%s)\n", psid->path, text, reason);
	/* Ending: it is as good as gone. */
	return refusal && refusal->reason == PULC__WIRE__REASON__REASON_SHUTDOWN ? EXIT_NO_PSID
										 : EXIT_REFUSED;
}

int ctl_say_error(const struct ctl_psid *psid, int r)
{
	switch (r) {
	case -ENOENT:
		fputs("pulcctl: no psid runs here. Start one with `psid --daemonize`, or run a "
		      "program "
		      "with `pulc PROGRAM`.\n",
		      stderr);
		say_where_looked();
		return EXIT_NO_PSID;
	case -EPERM:
		fputs("pulcctl: only psids of other users run here. Start your own with `psid "
		      "--daemonize`.\n",
		      stderr);
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
