/*
 * pulc/job.h: jobs: programs started on the least loaded nodes of the cluster, as pulcrun(1) does.
 *
 * A job is as many tasks of one program as were asked for. Whoever has spawned it is its owner: it
 * gets the tasks' output and their ends, and when it dies, or frees the job, everything that the
 * job has started is killed, on every node. A job has a name in the cluster, "17@n1", and each task
 * one of its own, "17.3@n1" for rank 3; by these any process of the same user, on any node, can
 * look jobs and tasks up, send them signals and end them. A task finds the name of its job, its
 * rank and the number of tasks in its environment: PULC_JOB, PULC_RANK, PULC_SIZE; and if its owner
 * is a task, that task's name: PULC_PARENT. Parent and child find each other's ports, see below.
 *
 * Functions return 0 or a negative errno; errno itself says nothing. No thread is made, no signal
 * used, no child process: tasks are children of PULC's own processes. Nothing happens between
 * calls: output waits, in the end for the tasks to stop.
 */
#ifndef PULC_JOB_H
#define PULC_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include <pulc/pulc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pulc_job pulc_job;

#define PULC_SIZE_JOB_NAME 112 /* of the name of a job or task, its end included */
#define PULC_SIZE_NODE_NAME 64
#define PULC_SIZE_WHY 256

enum pulc_strategy {
	PULC_LEAST_LOADED = 0, /* each task where there is most room */
	PULC_NEXT = 1,	       /* round robin */
	PULC_NODE = 2,	       /* the nodes named, in their order, each filled before the next */
};

struct pulc_place {
	const char *node;
	unsigned slots; /* at most so many tasks there; 0: as many as it has cores */
};

/* All zero is one task where there is most room, its output thrown away. */
struct pulc_spawn {
	unsigned n_tasks; /* 0: one */
	enum pulc_strategy strategy;
	const struct pulc_place *places; /* where at all; none: anywhere in the cluster */
	size_t n_places;
	unsigned per_node;	  /* at most so many tasks on a node; 0: no limit */
	unsigned cpus_per_task;	  /* to be bound to; 0: one, and not bound */
	bool oversubscribe;	  /* more tasks than cores are fine */
	bool keep_going;	  /* a task that fails does not end the others */
	const char *directory;	  /* NULL: this process's */
	char *const *environment; /* ends with NULL; NULL: this process's */
	/*
	 * What a task has written to stream 1 or 2, in its order, cut anywhere; called from
	 * pulc_job_turn and pulc_wait only. NULL: thrown away.
	 */
	void (*output)(void *data, unsigned rank, int stream, const void *bytes, size_t len);
	void *data;
	const pulc_port *port; /* of this process, that the tasks find by pulc_parent; NULL: none */
	char *why; /* PULC_SIZE_WHY bytes for one line of why psid has refused; NULL: not wanted */
};

/* How a task has ended. */
struct pulc_end {
	bool has_ended;
	bool is_lost; /* its node is gone */
	/* exit status; 128 and the signal that ended it; 126, 127: not executable, not found */
	int code;
};

/*
 * Starts a job.
 *
 * In a process that runs in a reservation (pulcrun --reserve: PULC_RESERVATION is in its
 * environment) the job runs in it, too.
 *
 * arguments: the program and its arguments, ended by NULL; it is looked for along PATH, on the
 * nodes where it runs. how: NULL allowed, as all zero. Return: 0 with the job, placed and named;
 * its tasks are about to start. Errors: -EINVAL: no arguments; -ENOENT: no psid; -EPERM: only psids
 * of others; -ECONNREFUSED: psid says no, and how->why says why; -ETIMEDOUT: psid does not answer;
 * -ENOMEM, -EMFILE. Ownership: the job is the caller's, to pulc_job_free. What how points to is not
 * needed afterwards, but output and data. Threads and fork: any thread; a job is used by one thread
 * at a time. A child made by fork must leave it alone. Blocking: until psid has answered, some
 * milliseconds, 10 s at most. Source: docs/jobs.md.
 */
int pulc_spawn(char *const *arguments, const struct pulc_spawn *how, pulc_job **ret_job);

/* Ends what still runs of it, everywhere, and forgets it. NULL is fine. Does not wait. */
void pulc_job_free(pulc_job *job);

/* Its name in the cluster, "17@n1". Ownership: the job's. */
const char *pulc_job_name(const pulc_job *job);
/* What was said of it last that is for people: a lost node, a program that is not there; "":
 * nothing. Ownership: the job's. */
const char *pulc_job_note(const pulc_job *job);

/* A descriptor to poll for POLLIN: then pulc_job_turn has something to do. Ownership: the job's. */
int pulc_job_fd(const pulc_job *job);

/*
 * Takes what has come: output, ends. Never blocks.
 *
 * Return: 0: it goes on; 1: every task has ended and all output has come.
 * Errors: -EPIPE: the job has been cut off from us, and so killed; -EBADMSG, -ENOMEM.
 */
int pulc_job_turn(pulc_job *job);

/*
 * The same until every task has ended, or time is over.
 *
 * msec: at most so long; -1: for ever. Return: 1: all have ended; 0: time is over. Errors: as
 * pulc_job_turn; -EINTR: a signal handler has run.
 */
int pulc_wait(pulc_job *job, int msec);

/* How the task of a rank has ended, as far as is known after the last turn. Errors: -EINVAL: no
 * such rank. */
int pulc_job_end_of(const pulc_job *job, unsigned rank, struct pulc_end *ret_end);

/* ---- by name, from any node ------------------------------------------------------------------ */

/*
 * Sends a signal to all tasks of a job, or to one task.
 *
 * name: "17@n1" or "17.3@n1". Errors: -EINVAL: no such signal or name; -ESRCH: no such job, or it
 * is another user's; -ENOENT, -EPERM, -ETIMEDOUT: no psid. Threads: any. Blocking: until the node
 * that the job was started from has answered, 10 s at most.
 */
int pulc_signal(const char *name, int signal);
/* Ends a job and all that it has started, on every node; or one task, by SIGKILL. As
 * pulc_signal. */
int pulc_kill(const char *name);

struct pulc_task {
	char name[PULC_SIZE_JOB_NAME]; /* "17.3@n1" */
	char node[PULC_SIZE_NODE_NAME];
	unsigned rank;
	int pid; /* there; 0: not known yet */
	struct pulc_end end;
	/* that it has announced, here (node 0) or there; port 0: none so far, or it is closed */
	struct pulc_address port;
};

/*
 * The tasks of a job, or one task, wherever they are.
 *
 * name: as for pulc_signal; NULL: all that this user has in the cluster. Return: 0 with an array of
 * *ret_n tasks, by job and rank. Tasks of jobs that are over are not among them. Errors: -EINVAL,
 * -ENOENT, -EPERM, -ETIMEDOUT, -ENOMEM. Ownership: the array is the caller's, to free(3). Threads:
 * any. Blocking: until all nodes have answered, 10 s at most.
 */
int pulc_lookup(const char *name, struct pulc_task **ret_tasks, size_t *ret_n);

/* ---- ports of parent and child --------------------------------------------------------------- */

/*
 * Tells which port of this process its task is found by: pulc_lookup shows it to every process of
 * the same user, on every node, until the port is closed. A task has one such port, the one
 * announced last by any of its processes.
 *
 * Return: 0. Errors: -ESRCH: this process is no part of a task that this node's psid knows;
 * -ECHILD: the port is the parent process's; -ENOTCONN: its psid has ended; -ETIMEDOUT, -ENOMEM,
 * -EDEADLK. Threads and fork: any thread. Blocking: until psid has answered, 5 s at most. Source:
 * pulc-1998, 4.6.2 (ports), 4.3 (spawned tasks).
 */
int pulc_port_announce(pulc_port *port);

/*
 * The port of who has spawned this task: the one that was given to pulc_spawn, else the one that
 * the spawning task has announced.
 *
 * Return: 0 with the address. Errors: -ENOENT: nobody has spawned this process, or whoever has
 * shows no port, yet; and those of pulc_lookup. Threads and fork: any thread; a child process has
 * the same parent. Blocking: as pulc_lookup, or not at all if the port was given to pulc_spawn.
 * Source: as pulc_port_announce.
 */
int pulc_parent(struct pulc_address *ret_address);

#ifdef __cplusplus
}
#endif

#endif
