/*
 * A keeper: parent and subreaper of the tasks that one job has on one node. Each part belongs to
 * the file named beside it.
 */
#ifndef PULC_KEEPER_H
#define PULC_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "frame_channel.h"
#include "keeper_fds.h"

struct keeper;
struct task;
struct children;
struct kept_signal;
struct fences;
struct kvs;
struct names;
struct places;
struct pmix;

/* One of the two streams that a task says something on. output.c */
struct output {
	struct task *task;
	enum frame_stream stream;
	int fd; /* -EBADF: has ended, or was never there */
	uint32_t credit;
	bool polled, reading;
	uv_poll_t poll; /* if polled */
};

/* Where a task's standard input stands in the job's. input.c */
struct sink {
	int fd; /* -EBADF: reads nothing (any more) */
	uint64_t at;
	bool writing;
	unsigned n_ends; /* of a terminal: end-of-file characters given to it */
	uv_poll_t poll;
};

/* What the owner sends as standard input, as far as some task has not read it. input.c */
struct input {
	uint8_t *bytes;
	uint64_t begin, end; /* positions in the stream */
	bool eof;
};

/* A task's side of the PMI-1 dialogue. pmi1.c */
struct pmi1 {
	int fd;
	bool initialised, finalised, waiting;
	bool reading;
	uv_poll_t poll; /* if reading */
	size_t used;
	char *line; /* NULL: it has said nothing yet */
};

enum task_state { TASK_WAITS, TASK_RUNS, TASK_ENDED };

/* task.c, reap.c */
struct task {
	struct keeper *keeper;
	uint32_t rank, local; /* in the job, on this node */
	enum task_state state;
	pid_t pid;	   /* not reaped before its end is recorded: nobody else's until then */
	int error;	   /* errno: could not be started; the child sets it, too */
	bool no_directory; /* error is that of the directory */
	int status;
	bool aborted;
	uint32_t abort_code;
	uint64_t nsec_started;
	struct output out[2];
	struct sink in;
	struct pmi1 pmi;
};

struct keeper {
	uv_loop_t loop;
	struct channels channels;
	Pulc__Job__Start *start;
	const Pulc__Job__Place *place; /* ours; NULL: no task here */
	uint32_t n_ranks;	       /* of the whole job */
	struct channel owner;	       /* towards the owner, or the head keeper */
	bool is_head;

	Pulc__Job__Message *spec_message;
	const Pulc__Job__Spec *spec;
	struct task *tasks;
	uint32_t n_tasks, n_running;
	uint32_t n_outputs; /* streams not at their end */
	bool launched;
	struct children *children; /* child.c */
	int null_fd; /* the input of tasks that have none; -EBADF: nobody has needed it yet */
	struct input input;

	/* kill.c */
	int cgroup_fd, kill_fd;
	bool killing;
	bool ending; /* no task is to begin any more */
	unsigned n_kills;
	uv_timer_t kill_timer;

	/* signals.c: that came before all tasks were there */
	struct kept_signal *signals;
	size_t n_signals;

	/* reap.c */
	uv_signal_t sigchld, sigterm;
	bool childless; /* every task and all that it left behind is gone */
	bool finished;

	/* head.c */
	struct places *places;
	struct fences *fences; /* fence.c */
	struct names *names;   /* names.c */
	uv_timer_t too_late, silence;
	bool said_done;
	/* pmi1.c, kvs.c */
	struct kvs *kvs;
	struct pmix *pmix; /* pmix.c */
	bool any_mpi;	   /* some task has spoken PMI */
	bool said_unserved;

	/* psid.c */
	struct psid_link *psid;
};

/* main.c: no way to go on. Everything dies with us. */
_Noreturn void keeper_fail(const char *what, int error);

#endif
