/* One question to the psid of this user or system, and all that it answers. */
#ifndef PULCCTL_QUERY_H
#define PULCCTL_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "client.pb-c.h"

struct ctl_psid {
	int fd;
	char path[128];		     /* its socket */
	Pulc__Wire__ToClient *hello; /* Welcome, or the Refuse that ended the conversation */
};

/* The messages that answer one question, decoded; the last one has no `more` set. */
struct ctl_replies {
	Pulc__Wire__ToClient **items;
	size_t n;
};

#define CTL_PSID_NONE ((struct ctl_psid){ .fd = -EBADF })

/*
 * Finds a psid and introduces us. Returns 0; -ENOENT: there is none; -EPERM: only those of other
 * users; -ECONNREFUSED: it said no (see ctl_refusal); -ETIMEDOUT, -EPIPE, -EBADMSG: it was silent,
 * ended, made no sense. Blocks for a few seconds at most.
 */
int ctl_psid_open(struct ctl_psid *psid);
void ctl_psid_close(struct ctl_psid *psid);

/* What a psid that said no has said. Valid until ctl_psid_close. */
const Pulc__Wire__Refuse *ctl_refusal(const struct ctl_psid *psid);

/* Asks `body` (one of the requests without fields) and collects every reply. Returns as
 * ctl_psid_open. */
int ctl_ask(struct ctl_psid *psid, Pulc__Wire__FromClient__BodyCase body, struct ctl_replies *ret);
/*
 * The same about one job (NULL: all of them), number being a signal for it or whether only its
 * tasks on this node count, or about one node (NULL: this one), number being whether it is to be
 * drained.
 */
int ctl_ask_about(struct ctl_psid *psid, Pulc__Wire__FromClient__BodyCase body, const char *name,
		  unsigned number, struct ctl_replies *ret);
/* Which jobs wait, or only of those asked for on this node? */
int ctl_ask_queue(struct ctl_psid *psid, bool here, struct ctl_replies *ret);
/* The same with a question of the caller's own; -EMSGSIZE: it is too large. */
int ctl_ask_message(struct ctl_psid *psid, const Pulc__Wire__FromClient *msg,
		    struct ctl_replies *ret);
void ctl_replies_deinit(struct ctl_replies *replies);

/*
 * A pidfd of the psid we talk to, if its process (which it says is `pid`) can be seen from here.
 * Returns 0; -ESRCH: it cannot; other negative errno.
 */
int ctl_pidfd(const struct ctl_psid *psid, unsigned pid, int *ret_fd);

/* Waits until psid has closed the conversation, and until its process has ended if pidfd is one.
 * Returns 0, -ETIMEDOUT. */
int ctl_await_end(struct ctl_psid *psid, int pidfd);

#endif
