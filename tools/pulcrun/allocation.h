/* Nodes that a scheduler of the site has given to us for a while, and how it is asked to start
 * something there. */
#ifndef PULCRUN_ALLOCATION_H
#define PULCRUN_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hosts.h"
#include "options.h"

#define ALLOCATION_SIZE_NAME 33 /* as of a cluster */
#define ALLOCATION_N_WORDS 32

struct allocation {
	char name[ALLOCATION_SIZE_NAME]; /* "slurm.4711" */
	struct hosts nodes;		 /* their slots: the processors that are ours there */
	uint32_t *n_tasks;		 /* for each node: how many tasks were asked for */
	uint32_t cpus_per_task;		 /* 0: nothing was said */
};

/* Words of a command, NULL behind the last; numbers are kept in text. */
struct command {
	char *words[ALLOCATION_N_WORDS];
	char text[8][32];
	size_t n_words, n_text;
};

/* A scheduler: one file for each, and a line in allocation.c. */
struct scheduler {
	const char *name; /* for --scheduler */
	/* Whether this process runs in one of its allocations: looks at the environment only. */
	bool (*is_here)(void);
	/* What the allocation is. *ret is all zero before. Returns 0; -EBADMSG: that can't be read;
	 * -ENOMEM. */
	int (*read)(struct allocation *ret);
	/*
	 * The command that starts a program once on each node, in all processors that are ours
	 * there, with the whole environment. What the command reads from its standard input each of
	 * these gets, the end too; what they write to theirs it writes to its own, line by line.
	 * Ended by a signal or otherwise it ends them. The program and its arguments are put
	 * behind.
	 */
	void (*command)(const struct allocation *allocation, struct command *ret);
	/* Variables of what has been started there: this node's name, and the address of the
	 * command's machine. */
	const char *node_variable, *launcher_variable;
};

/*
 * The scheduler whose allocation this is; NULL: none is asked for by the options, or we are in
 * none. A task of a job is in none, nor what runs in a reservation: they have their psid. Returns
 * 0; -EINVAL, after saying so: it is not the one that was asked for.
 */
int allocation_find(const struct run_options *options, const struct scheduler **ret_scheduler);
int allocation_read(const struct scheduler *scheduler, struct allocation *ret);
void allocation_deinit(struct allocation *allocation);
/* Fills in what the options leave open. Returns 0; -EINVAL, after saying so: they want more than
 * there is; -ENOMEM. */
int allocation_apply(const struct allocation *allocation, struct run_options *options);

/* "2(x3),1" for n nodes: 2, 2, 2, 1. Returns 0; -EBADMSG: it is no such list, or of another
 * length. */
int allocation_counts(const char *text, uint32_t *ret_counts, size_t n);
/* Words for a command; at most ALLOCATION_N_WORDS in all. */
void command_add(struct command *command, const char *word);
/* name followed by a number, as one word. */
void command_add_number(struct command *command, const char *name, uint64_t number);

extern const struct scheduler scheduler_slurm;

#endif
