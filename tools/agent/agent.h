/* The parts of the agent. Each belongs to the file named beside it. */
#ifndef PULC_TOOLS_AGENT_H
#define PULC_TOOLS_AGENT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AGENT_SIZE_DIR 64

/* A folder that nobody else has, and which is gone afterwards. folder.c */
struct folder {
	char path[AGENT_SIZE_DIR];
	int fd; /* holds its lock */
};

/*
 * Makes the run folder, and removes those of this user that agents before us have left because they
 * were killed. Returns 0, negative errno.
 */
int folder_make(struct folder *folder);
/* Removes it with all that is in it; does nothing if that was done. */
void folder_remove(struct folder *folder);

/* The settings of the psid, from standard input into the environment. settings.c: returns 0; 1:
 * there are none; -EBADMSG. */
int settings_read(const struct folder *folder);

/* The psid, and what it has started. daemon.c */
struct daemon {
	pid_t pid; /* 0: none runs */
	bool unwanted;
	unsigned n_starts;
	uint64_t nsec_started;
};

int daemon_start(struct daemon *daemon);
/* Waits until it can be spoken to. Returns 0; -ECHILD: it has ended; -ETIMEDOUT. */
int daemon_await(struct daemon *daemon);
/* Buries what has died; a psid that has ended unasked is started again. Returns 0, negative errno:
 * that can't be done. */
int daemon_reap(struct daemon *daemon);
/* Waits until it has ended, made to if need be; jobs go on. */
void daemon_stop(struct daemon *daemon);
/* Waits for the ends of the jobs, which have lost their owner, for a while. */
void daemon_await_jobs(const struct daemon *daemon);
/* Nothing is left of what has been started here, however it has hidden. */
void daemon_kill_all(void);

#endif
